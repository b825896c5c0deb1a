"""Frames from bytes and bytes from frames, without I/O.

`FrameDecoder.feed` takes whatever the socket gave and returns the frames that are complete. It
never raises: bytes that cannot be a frame set `error`, once and for good, after the frames before
them were returned. So the result depends on the bytes alone and never on how they were cut.

Memory: the length in a header is compared with the limit before anything is kept, and what is
kept follows what has arrived, so a header that promises 16 MiB costs 32 bytes until they come.

Copies: a small body is cut out of the received chunk. A large frame is gathered in a buffer of its
own, and its attachments are views of that buffer; `reserve` lends the rest of it to the socket, so
that the kernel's copy is the only one. The encoder never copies an attachment: it returns a list
of buffers for one gathering write.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import msgspec

from stele.errors import Corruption, LimitExceeded, SteleError
from stele.rpc.wire_format import (
    ATTACHMENT_ALIGNMENT_BYTES,
    ATTACHMENT_COUNT,
    ATTACHMENTS_PER_FRAME_MAX,
    FLAG_ATTACHED,
    FLAG_FORWARDED,
    FLAGS_KNOWN,
    HEADER,
    HEADER_BYTES,
    HELLO_BYTES_MAX,
    KIND_MAX,
    KIND_NAMES,
    ORIGIN_BYTES_MAX,
    ORIGIN_LENGTH,
    PREFACE,
    Origin,
)

Buffer = bytes | bytearray | memoryview

BODY_VIEW_BYTES_MIN: Final = 64 * 1024
"""A larger body is handed out as a view: below it, cutting bytes is cheaper than making views."""

GATHER_BYTES_MIN: Final = 128 * 1024
"""An unfinished frame of at least this size gets a buffer of its own."""

GATHER_BEGIN_BYTES: Final = 16 * 1024
"""So much of it must have arrived first: a header alone does not make us hold anything."""

GATHER_STEP_BYTES: Final = (1 << 20) + (1 << 16)
"""First size of that buffer: a batch of 1 MiB with its header never has to move."""

GATHER_GROWTH: Final = 4
"""Larger frames grow their buffer by this factor of what has arrived."""

_PADDING: Final = tuple(bytes(n) for n in range(ATTACHMENT_ALIGNMENT_BYTES))

_origin_encoder: Final = msgspec.msgpack.Encoder()
_origin_decoder: Final = msgspec.msgpack.Decoder(Origin)


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One frame off the wire. `argument` means what the kind says it means."""

    kind: int
    method: int
    request_id: int
    clock: int
    argument: int
    body: Buffer
    attachments: tuple[memoryview, ...]
    origin: Origin | None
    payload_bytes: int


class FrameDecoder:
    """Cuts one direction of one connection into frames.

    Invariant: either `_gather` holds the first `_filled` bytes of a frame of `_total`, and
    `_pending` is empty; or `_pending` holds less than one whole frame, and looking at it again is
    not worth while before there are `_need` bytes.
    """

    __slots__ = (
        "_consumed",
        "_filled",
        "_gather",
        "_need",
        "_pending",
        "_total",
        "error",
        "payload_bytes_max",
        "preface_seen",
    )

    def __init__(self, payload_bytes_max: int = HELLO_BYTES_MAX, *, preface: bool = True):
        self.payload_bytes_max = payload_bytes_max
        self.error: SteleError | None = None
        self.preface_seen = not preface
        """Whether the peer has proved that it means to speak this protocol."""
        self._pending = bytearray()
        self._need = len(PREFACE) if preface else HEADER_BYTES
        self._gather: bytearray | None = None
        self._filled = 0
        self._total = 0
        self._consumed = 0  # bytes of the stream before the unfinished frame

    @property
    def buffered_bytes(self) -> int:
        """Bytes held for an unfinished frame."""
        return len(self._pending) if self._gather is None else len(self._gather)

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that `data` completes. After a defect: nothing, and `error` says why."""
        frames: list[Frame] = []
        if self.error is not None:
            return frames
        if self._gather is not None:
            data = self._feed_gather(data, frames)
            if not data or self.error is not None:
                return frames
        pending = self._pending
        source: bytes | bytearray = data
        if pending:
            pending += data
            source = pending
        end = 0
        if len(source) >= self._need:
            try:
                end = self._parse(source, frames)
            except SteleError as error:
                self._stop(error)
                return frames
            self._consumed += end
        if end < len(source):
            self._keep(source, end)
        elif pending:
            self._pending = bytearray()
        return frames

    def reserve(self) -> memoryview | None:
        """Where the next bytes of a large frame may be written, then told by `advance`."""
        if self._gather is None:
            return None
        if self._filled == len(self._gather):
            self._grow(self._filled + 1)
        return memoryview(self._gather)[self._filled :]

    def advance(self, size: int) -> list[Frame]:
        """So many bytes were written to what `reserve` gave."""
        frames: list[Frame] = []
        self._filled += size
        assert self._gather is not None, "nothing was reserved"
        assert self._filled <= len(self._gather), "more than was reserved"
        self._finish_gather(frames)
        return frames

    def _feed_gather(self, data: bytes, frames: list[Frame]) -> bytes:
        """Copy into the gathered frame; return what is left."""
        assert self._gather is not None
        end = min(self._filled + len(data), self._total)
        if end > len(self._gather):
            self._grow(end)
        taken = end - self._filled
        self._gather[self._filled : end] = memoryview(data)[:taken]
        self._filled = end
        self._finish_gather(frames)
        return data[taken:]

    def _finish_gather(self, frames: list[Frame]) -> None:
        if self._filled < self._total:
            return
        gather = self._gather
        assert gather is not None
        self._gather = None
        try:
            frames.append(_cut_sections(memoryview(gather).toreadonly(), self._consumed))
        except SteleError as error:
            self._stop(error)
        self._consumed += self._total

    def _grow(self, needed: int) -> None:
        """A new buffer, of a size that follows what has arrived and not what was promised."""
        assert self._gather is not None
        grown = bytearray(min(self._total, needed * GATHER_GROWTH))
        grown[: self._filled] = memoryview(self._gather)[: self._filled]
        self._gather = grown

    def _keep(self, source: bytes | bytearray, begin: int) -> None:
        """Keep the beginning of a frame until more of it comes."""
        size = len(source) - begin
        if self._need >= GATHER_BYTES_MIN and size >= GATHER_BEGIN_BYTES:
            self._total = self._need
            self._filled = size
            capacity = max(GATHER_STEP_BYTES, size * GATHER_GROWTH)
            self._gather = bytearray(min(self._total, capacity))
            self._gather[:size] = memoryview(source)[begin:]
            self._need = HEADER_BYTES
            self._pending = bytearray()
        elif begin or source is not self._pending:
            self._pending = bytearray(memoryview(source)[begin:])

    def _stop(self, error: SteleError) -> None:
        self.error = error
        self._pending = bytearray()
        self._gather = None

    def _parse(self, source: bytes | bytearray, frames: list[Frame]) -> int:
        """Append the frames of `source`; return how many of its bytes they took."""
        size = len(source)
        offset = 0 if self.preface_seen else self._take_preface(source)
        unpack = HEADER.unpack_from
        while size - offset >= HEADER_BYTES:
            header = unpack(source, offset)
            length, kind, flags, method, request_id, clock, argument = header
            if (
                length > self.payload_bytes_max
                or not 1 <= kind <= KIND_MAX
                or flags > FLAGS_KNOWN
                or (request_id | clock | argument) < 0
            ):
                raise self._defect(header, offset)
            body_at = offset + HEADER_BYTES
            end = body_at + length
            if end > size:
                self._need = HEADER_BYTES + length
                return offset
            if flags == 0 and length < BODY_VIEW_BYTES_MIN:
                body = source[body_at:end]
                frames.append(
                    Frame(kind, method, request_id, clock, argument, body, (), None, length)
                )
            else:
                # A copy gives attachments an aligned start and frees the chunk they came in.
                whole = memoryview(bytes(memoryview(source)[offset:end]))
                frames.append(_cut_sections(whole, self._consumed + offset))
            offset = end
        self._need = HEADER_BYTES
        return offset

    def _take_preface(self, source: bytes | bytearray) -> int:
        if not source.startswith(PREFACE):
            begin = bytes(source[: len(PREFACE)])
            raise Corruption(f"the peer does not speak this protocol: it began with {begin!r}")
        self.preface_seen = True
        return len(PREFACE)

    def _defect(self, header: tuple[int, ...], offset: int) -> SteleError:
        length, kind, flags, _method, request_id, clock, argument = header
        at = self._consumed + offset
        if kind not in KIND_NAMES:
            return Corruption(f"unknown frame kind {kind}", offset=at)
        if length > self.payload_bytes_max:
            return LimitExceeded(
                f"a {KIND_NAMES[kind]} frame of {length} bytes is larger than the limit of "
                f"{self.payload_bytes_max} bytes"
            )
        return Corruption(
            f"a {KIND_NAMES[kind]} frame with impossible fields: flags {flags:#x}, "
            f"request {request_id}, clock {clock}, argument {argument}",
            offset=at,
        )


def _cut_sections(whole: memoryview, at: int) -> Frame:
    """A frame that has sections, or is large enough that its body is handed out as a view."""
    length, kind, flags, method, request_id, clock, argument = HEADER.unpack_from(whole)
    payload = whole[HEADER_BYTES:]
    origin, position = _cut_origin(payload, at) if flags & FLAG_FORWARDED else (None, 0)
    if flags & FLAG_ATTACHED:
        body, attachments = _cut_attachments(payload, position, at)
    else:
        body, attachments = payload[position:], ()
    return Frame(kind, method, request_id, clock, argument, body, attachments, origin, length)


def _cut_origin(payload: memoryview, at: int) -> tuple[Origin, int]:
    """The origin section and where it ends."""
    if len(payload) < ORIGIN_LENGTH.size:
        raise Corruption("a forwarded frame without an origin", offset=at)
    (length,) = ORIGIN_LENGTH.unpack_from(payload)
    end = ORIGIN_LENGTH.size + length
    if length > ORIGIN_BYTES_MAX or end > len(payload):
        raise Corruption(f"an origin of {length} bytes does not fit its frame", offset=at)
    try:
        return _origin_decoder.decode(payload[ORIGIN_LENGTH.size : end]), end
    except (ValueError, RecursionError) as error:
        raise Corruption(f"the origin of a forwarded frame: {error}", offset=at) from error


def _cut_attachments(
    payload: memoryview, position: int, at: int
) -> tuple[memoryview, tuple[memoryview, ...]]:
    """The body and the attachments after it, each on an aligned offset of the payload."""
    table = position + ATTACHMENT_COUNT.size
    if len(payload) < table:
        raise Corruption("an attachment table that is cut short", offset=at)
    (count,) = ATTACHMENT_COUNT.unpack_from(payload, position)
    if count > ATTACHMENTS_PER_FRAME_MAX:
        raise LimitExceeded(
            f"{count} attachments in one frame, the limit is {ATTACHMENTS_PER_FRAME_MAX}"
        )
    body_at = table + 4 * (count + 1)
    if body_at > len(payload):
        raise Corruption("an attachment table that is cut short", offset=at)
    lengths = struct.unpack_from(f"<{count + 1}I", payload, table)
    end = body_at + lengths[0]
    body = payload[body_at:end]
    attachments = []
    for length in lengths[1:]:
        begin = _aligned(end)
        end = begin + length
        attachments.append(payload[begin:end])
    if end != len(payload):
        raise Corruption(
            f"the parts of a frame end at byte {end} of a payload of {len(payload)}", offset=at
        )
    return body, tuple(attachments)


def encode_frame(
    kind: int, method: int, request_id: int, clock: int, argument: int, body: bytes = b""
) -> bytes:
    """A frame without sections, in one piece."""
    return HEADER.pack(len(body), kind, 0, method, request_id, clock, argument) + body


def encode_parts(
    kind: int,
    method: int,
    request_id: int,
    clock: int,
    argument: int,
    body: bytes,
    attachments: Sequence[Buffer] = (),
    origin: Origin | None = None,
) -> list[Buffer]:
    """A frame with sections, as buffers to be written one after another."""
    sections = b""
    flags = 0
    if origin is not None:
        flags |= FLAG_FORWARDED
        sections += _encode_origin(origin)
    if not attachments:
        header = HEADER.pack(
            len(sections) + len(body), kind, flags, method, request_id, clock, argument
        )
        return [header + sections + body]
    flags |= FLAG_ATTACHED
    views = [memoryview(attachment).cast("B") for attachment in attachments]
    sections += _encode_table(body, views)
    parts: list[Buffer] = []
    end = len(sections) + len(body)
    for view in views:
        begin = _aligned(end)
        if begin != end:
            parts.append(_PADDING[begin - end])
        parts.append(view)
        end = begin + len(view)
    header = HEADER.pack(end, kind, flags, method, request_id, clock, argument)
    parts.insert(0, header + sections + body)
    return parts


def _encode_origin(origin: Origin) -> bytes:
    encoded = _origin_encoder.encode(origin)
    if len(encoded) > ORIGIN_BYTES_MAX:
        raise LimitExceeded(
            f"the origin {origin.name!r} takes {len(encoded)} bytes, "
            f"the limit is {ORIGIN_BYTES_MAX} bytes"
        )
    return ORIGIN_LENGTH.pack(len(encoded)) + encoded


def _encode_table(body: bytes, views: list[memoryview]) -> bytes:
    if len(views) > ATTACHMENTS_PER_FRAME_MAX:
        raise LimitExceeded(
            f"{len(views)} attachments in one frame, the limit is {ATTACHMENTS_PER_FRAME_MAX}"
        )
    lengths = [len(body), *(len(view) for view in views)]
    return struct.pack(f"<{len(lengths) + 1}I", len(views), *lengths)


def _aligned(position: int) -> int:
    return -(-position // ATTACHMENT_ALIGNMENT_BYTES) * ATTACHMENT_ALIGNMENT_BYTES
