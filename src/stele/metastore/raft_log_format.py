"""The bytes of the Raft log: frames, what is in them, and what a torn tail may look like.

A frame is written by one call and synced before the next one is written. Two things follow, and the
reader uses both:

- frames are atomic: one checksum covers everything that a sync was to make durable, so a group is
  there as a whole or not at all;
- only the last frame of a log can be torn. A sound frame *behind* a bad one proves that the bad one
  was durable once: that is damage, and no reason to forget it silently.

``docs/formats/raft-log.md`` has the grammar.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from crc32c import crc32c

from stele.errors import Corruption, InvalidArgument, UnsupportedFormat
from stele.raft import Entry, HardState, Snapshot

MAGIC: Final = b"STRL"
VERSION: Final = 1
FRAME_HEADER: Final = struct.Struct("<4sHHIIQQ")
"""Magic, version, zero, payload length, payload checksum, mark, sequence."""

CHECKSUM: Final = struct.Struct("<I")
HEADER_BYTES: Final = FRAME_HEADER.size + CHECKSUM.size
PAYLOAD_BYTES_MAX: Final = (1 << 32) - 1

_NAME: Final = re.compile(r"^raft-(\d{8,})\.log$")

HOW_TO_REJOIN: Final = (
    "this member cannot vouch for its log and must not vote: "
    "remove it from the group, empty its directory, and join again under a new id"
)


class LogIdentity(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Whose log this is. Directories get mixed up; votes must not."""

    cluster: str
    node: int


class SegmentHead(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """In the first frame of a segment: all that the segments before it would have to tell."""

    identity: LogIdentity
    segment: int
    previous_end: int
    """How many bytes of the segment before count; what lies behind them never did."""

    base: Snapshot
    hard_state: HardState


class LogWrite(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One change of the log, in this order."""

    reset: Snapshot | None = None
    """The log is empty and begins behind this snapshot, whatever was before."""

    entries: tuple[Entry, ...] = ()
    """They replace what stood at their indices and beyond."""

    hard_state: HardState | None = None
    base: Snapshot | None = None
    """The entries up to this one are not needed any more. It never takes the beginning back: a cut
    may have waited for the disk while an image overtook it."""


class Payload(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a frame holds."""

    writes: tuple[LogWrite, ...]
    head: SegmentHead | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as read back."""

    sequence: int
    mark: int
    payload: Payload
    end: int


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Payload)


def segment_name(number: int) -> str:
    """The file of a segment."""
    return f"raft-{number:08d}.log"


def segment_number(name: str) -> int | None:
    """The number in a file's name, if it is one of ours."""
    match = _NAME.match(name)
    if match is None or segment_name(int(match[1])) != name:
        return None
    return int(match[1])


def encode_frame(payload: Payload, mark: int, sequence: int) -> tuple[bytes, bytes]:
    """Header and body, to be written by one call."""
    body = _encoder.encode(payload)
    assert len(body) <= PAYLOAD_BYTES_MAX, len(body)
    header = FRAME_HEADER.pack(MAGIC, VERSION, 0, len(body), crc32c(body), mark, sequence)
    return header + CHECKSUM.pack(crc32c(header)), body


def decode_frame(data: memoryview, offset: int, file: str) -> Frame | None:
    """The frame at ``offset``; None when there is no sound one."""
    header = data[offset : offset + FRAME_HEADER.size]
    checksum = data[offset + FRAME_HEADER.size : offset + HEADER_BYTES]
    if len(checksum) < CHECKSUM.size or crc32c(header) != CHECKSUM.unpack(checksum)[0]:
        return None
    magic, version, _, length, body_checksum, mark, sequence = FRAME_HEADER.unpack(header)
    if magic != MAGIC:
        return None
    if version != VERSION:
        raise UnsupportedFormat(
            f"{file}: raft log of version {version} at offset {offset}, this program knows "
            f"{VERSION}: run a newer release"
        )
    end = offset + HEADER_BYTES + length
    body = data[offset + HEADER_BYTES : end]
    if len(body) < length or crc32c(body) != body_checksum:
        return None
    try:
        payload = _decoder.decode(body)
    except (ValueError, msgspec.MsgspecError, InvalidArgument) as error:
        raise damaged(f"a sound frame that cannot be read ({error})", file, offset) from error
    return Frame(sequence, mark, payload, end)


def read_segment(data: bytes, file: str, end: int | None) -> tuple[list[Frame], int]:
    """The frames of a segment, and where the last one ends.

    ``end`` is what the next segment says of this one; None for the last segment, whose tail may be
    torn.
    """
    view = memoryview(data)
    frames: list[Frame] = []
    at = 0
    while at < (len(data) if end is None else end):
        frame = decode_frame(view, at, file)
        if frame is None:
            if end is not None:
                raise damaged("a frame is damaged", file, at)
            refuse_damage(view, at, frames, file)
            break
        _check_order(frames, frame, file, at)
        frames.append(frame)
        at = frame.end
    if end is not None and at != end:
        raise damaged(f"a frame crosses the segment's end at {end}", file, at)
    return frames, at


def _check_order(before: Sequence[Frame], frame: Frame, file: str, offset: int) -> None:
    if not before:
        if frame.payload.head is None:
            raise damaged("the first frame has no head", file, offset)
        return
    last = before[-1]
    if frame.sequence != last.sequence + 1 or frame.mark != last.mark:
        raise damaged(f"frame {frame.sequence} follows {last.sequence}", file, offset)


def refuse_damage(data: memoryview, offset: int, before: Sequence[Frame], file: str) -> None:
    """A bad frame is a torn tail only if nothing sound follows it."""
    expected = before[-1].sequence if before else 0
    contents = bytes(data)
    at = contents.find(MAGIC, offset + 1)
    while at >= 0:
        frame = decode_frame(data, at, file)
        ours = frame is not None and (not before or frame.mark == before[-1].mark)
        if frame is not None and ours and frame.sequence > expected:
            raise damaged(
                f"a damaged frame, with the sound frame {frame.sequence} behind it", file, offset
            )
        at = contents.find(MAGIC, at + 1)


def damaged(reason: str, file: str, offset: int) -> Corruption:
    """The error of a log that must not be used, with the way out."""
    return Corruption(f"{reason}; {HOW_TO_REJOIN}", file=file, offset=offset)
