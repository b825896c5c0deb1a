"""Images of the state: cut into chunks, received, staged, and made the state.

    leader                       member that lacks the log
    number_chunks ──chunk 0──▶   ImageInbox.take        a temporary file, each chunk checked
                  ◀──taken────
                  ──last────▶    ImageInbox.take        complete
                                 ImageInbox.publish     synced, renamed, directory synced (slow)
                  ◀──taken────   ImageArrived           the core decides whether it is needed
                                 the log begins anew    the commit point: durable
                                 Installation           the image beside the state (slow)
                                 Installation.adopt     the image becomes the state
                                 Installation.retire    what was before goes (slow)

At every moment there is one answer to the question what this member knows: before the log begins
anew the staged image is a leftover, afterwards it is the state, whether or not the state machine
already holds it. So a start compares the two and installs what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec
from crc32c import crc32c

from stele.env.failpoints import declare, failpoint
from stele.env.paths import join
from stele.env.ports import TEMPORARY_SUFFIX, FileSystem, RandomFile, WritableFile
from stele.errors import Corruption
from stele.metastore.raft_log_format import HOW_TO_REJOIN
from stele.raft import Snapshot, StoredState

INCOMING: Final = "incoming" + TEMPORARY_SUFFIX
CHUNK_HEADER_BYTES: Final = 8
"""Length and CRC-32C of the chunk that follows, 4 bytes each, little-endian."""

AFTER_CHUNK = declare("metastore.snapshots.after_chunk")
AFTER_SYNC = declare("metastore.snapshots.after_sync")
AFTER_RENAME = declare("metastore.snapshots.after_rename")
AFTER_STAGE = declare("metastore.snapshots.after_stage")
AFTER_INSTALL = declare("metastore.snapshots.after_install")


class Staged(Protocol):
    """What an image holds, beside the state."""

    def adopt(self) -> None:
        """Become the state. Quick, in the state machine's thread."""

    def retire(self) -> None:
        """Let go of what was the state. Slow, for any thread."""


class ImageTarget(Protocol):
    """The state machine, as far as images go."""

    @property
    def applied_index(self) -> int:
        """The entry whose effects the state holds, with all before it."""

    def stage(self, chunks: Iterable[bytes]) -> Staged:
        """Build what the image holds beside the state. Durable on return; before that, a restart
        finds all the old."""


@dataclass(frozen=True, slots=True)
class NumberedChunk:
    """A piece of an image on its way."""

    number: int
    data: bytes
    checksum: int
    is_last: bool


def number_chunks(chunks: Iterable[bytes]) -> Iterator[NumberedChunk]:
    """The pieces in their order, the last one marked; at least one."""
    number = 0
    held = b""
    for number, data in enumerate(chunks):
        if number > 0:
            yield NumberedChunk(number - 1, held, crc32c(held), is_last=False)
        held = data
    yield NumberedChunk(number, held, crc32c(held), is_last=True)


class ImageInbox:
    """Receives one image at a time. Only ``publish`` may run in another thread."""

    def __init__(self, files: FileSystem, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._coming: Snapshot | None = None
        self._file: WritableFile | None = None
        self._next = 0
        files.mkdir(directory)

    def take(self, snapshot: Snapshot, chunk: NumberedChunk) -> bool:
        """Write a chunk down; whether the image is complete and may be published.

        Chunk 0 begins anew, whatever was coming. A chunk that came before is passed over, one that
        does not fit is ``Corruption``: the sender has to begin again.
        """
        if crc32c(chunk.data) != chunk.checksum:
            raise Corruption(f"chunk {chunk.number} of the image at {snapshot.index} is damaged")
        if chunk.number == 0:
            self._begin(snapshot)
        if snapshot != self._coming or self._file is None or chunk.number > self._next:
            raise Corruption(f"chunk {chunk.number} of the image at {snapshot.index} has no place")
        if chunk.number < self._next:
            return False
        header = len(chunk.data).to_bytes(4, "little") + chunk.checksum.to_bytes(4, "little")
        self._file.write(header, chunk.data)
        self._next += 1
        failpoint(AFTER_CHUNK)
        return chunk.is_last

    def _begin(self, snapshot: Snapshot) -> None:
        self.abandon()
        self._coming = snapshot
        self._file = self._files.create(self._path(INCOMING))
        self._next = 0

    def abandon(self) -> None:
        """Forget what was coming."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._files.delete(self._path(INCOMING))
        self._coming = None

    def publish(self) -> None:
        """Make the complete image durable under its name."""
        file, snapshot = self._file, self._coming
        assert file is not None
        assert snapshot is not None
        file.sync()
        failpoint(AFTER_SYNC)
        file.close()
        self._file = self._coming = None
        self._files.rename(self._path(INCOMING), self._path(_name(snapshot)))
        self._files.sync_dir(self._directory)
        failpoint(AFTER_RENAME)

    def holds(self, snapshot: Snapshot) -> bool:
        """Whether this image was published and not discarded."""
        return self._files.exists(self._path(_name(snapshot)))

    def read(self, snapshot: Snapshot) -> Iterator[bytes]:
        """The chunks of a published image, each checked again."""
        path = self._path(_name(snapshot))
        with self._files.open_read(path) as file:
            at, size = 0, file.size()
            while at < size:
                data = _read_chunk(file, at, path)
                at += CHUNK_HEADER_BYTES + len(data)
                yield data

    def discard(self, upto: int) -> None:
        """Delete the published images up to an index. A later one may be on its way to be the
        state, while an earlier one has just become it."""
        for name in self._files.list(self._directory):
            index = _index_in(name)
            if index is not None and index <= upto:
                self._files.delete(self._path(name))

    def clear(self) -> None:
        """Delete everything, as only a start may: nothing is on its way then."""
        self.abandon()
        for name in self._files.list(self._directory):
            self._files.delete(self._path(name))

    def _path(self, name: str) -> str:
        return join(self._directory, name)


def _name(snapshot: Snapshot) -> str:
    return f"image-{snapshot.index:016d}-{snapshot.term}"


def _index_in(name: str) -> int | None:
    kind, _, rest = name.partition("-")
    return int(rest.partition("-")[0]) if kind == "image" else None


def _read_chunk(file: RandomFile, at: int, path: str) -> bytes:
    header = file.pread(at, CHUNK_HEADER_BYTES)
    length, checksum = (int.from_bytes(header[i : i + 4], "little") for i in (0, 4))
    data = file.pread(at + CHUNK_HEADER_BYTES, length)
    if len(data) < length or crc32c(data) != checksum:
        raise Corruption("a staged image is damaged", file=path, offset=at)
    return data


class Installation:
    """The log begins behind ``snapshot``: its image lies beside the state, and becomes it.

    To make one and to ``retire`` it are slow and for any thread; ``adopt`` is quick and for that of
    the state machine, which is not held up for longer.
    """

    def __init__(self, inbox: ImageInbox, target: ImageTarget, snapshot: Snapshot) -> None:
        self._inbox = inbox
        self._snapshot = snapshot
        self._staged = target.stage(inbox.read(snapshot))
        failpoint(AFTER_STAGE)

    def adopt(self) -> None:
        """The image becomes the state."""
        self._staged.adopt()

    def retire(self) -> None:
        """What was before goes, and the file that the image came in."""
        self._staged.retire()
        failpoint(AFTER_INSTALL)
        self._inbox.discard(self._snapshot.index)


def recover_state(stored: StoredState, target: ImageTarget, inbox: ImageInbox) -> StoredState:
    """Bring the state to where the log begins, if a crash came between; what the core starts from.

    ``Corruption`` when the log begins behind the state and there is no image to fill the gap.
    """
    base = stored.snapshot
    if target.applied_index < base.index:
        if not inbox.holds(base):
            raise Corruption(
                f"the log begins after entry {base.index}, the state is at {target.applied_index} "
                f"and no image lies between; {HOW_TO_REJOIN}"
            )
        installation = Installation(inbox, target, base)
        installation.adopt()
        installation.retire()
    inbox.clear()
    return msgspec.structs.replace(stored, applied=target.applied_index)
