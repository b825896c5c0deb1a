"""What may be left of a file's unsynced writes after a power failure.

The page cache writes dirty data back whenever it likes, and the disk persists whole sectors. So
between two syncs each 512-byte sector may hold any content it has had since the last sync,
*independently of every other sector*; and the file's length, which is metadata, may be any length
it has had. Bytes inside the length that never arrived read as zeros.

Two writes that share a sector are therefore ordered there (the later content includes the earlier
bytes), while everything else can be reordered, torn and lost at will::

    writes    1111111122222222333333          three appends, never synced
    sectors  |11112222|22223333|33      |
    on disk  |1111    |22223333|0000    |     sector 0 early, 1 late, 2 never, full length

Left out, as no file system we support does it: a sector torn inside, stale contents of other
files appearing behind the length, and synced bytes being damaged (bit rot is tested apart).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

SECTOR_BYTES = 512


@dataclass(frozen=True, slots=True)
class Change:
    """One unsynced change of a file: ``data`` put at ``offset``, after which it ends at ``end``.

    A write carries its data; a cut carries none and lowers the end, growing by zeros raises it.
    """

    offset: int
    data: bytes
    end: int


@dataclass(frozen=True, slots=True)
class Sector:
    """The contents a sector has had: ``contents[i]`` came with change number ``changes[i]``.

    Entry 0 is what was synced, padded with zeros, under change number 0.
    """

    changes: list[int]
    contents: list[bytes]

    def version_at(self, change: int) -> int:
        """Which content it had once that many changes had been made."""
        return bisect_right(self.changes, change) - 1


class UnsyncedFile:
    """The synced bytes of a file and every version of the sectors written since.

    ``zeros`` were synced behind the bytes, and may have been overwritten since.
    """

    def __init__(self, synced: bytes, changes: Sequence[Change], zeros: int = 0) -> None:
        self.changes = changes
        self.lengths = [len(synced) + zeros, *(change.end for change in changes)]
        written = [change.offset for change in changes if change.data]
        first = min(written, default=len(synced)) // SECTOR_BYTES
        self._head = synced[: first * SECTOR_BYTES]
        self._first = first
        self.sectors = self._histories(synced)

    def _histories(self, synced: bytes) -> list[Sector]:
        end = max((change.offset + len(change.data) for change in self.changes), default=0)
        content = bytearray(synced[len(self._head) :])
        content.extend(bytes(max(0, -(-end // SECTOR_BYTES) * SECTOR_BYTES - len(synced))))
        content.extend(bytes(-len(content) % SECTOR_BYTES))
        sectors = [
            Sector([0], [bytes(content[at : at + SECTOR_BYTES])])
            for at in range(0, len(content), SECTOR_BYTES)
        ]
        for number, change in enumerate(self.changes, start=1):
            if change.data:
                at = change.offset - len(self._head)
                content[at : at + len(change.data)] = change.data
                self._remember(sectors, content, number, change)
        return sectors

    def _remember(
        self, sectors: list[Sector], content: bytearray, number: int, change: Change
    ) -> None:
        start, stop = self.sector_span(change)
        for index in range(start, stop):
            at = index * SECTOR_BYTES
            sectors[index].changes.append(number)
            sectors[index].contents.append(bytes(content[at : at + SECTOR_BYTES]))

    def sector_span(self, change: Change) -> tuple[int, int]:
        """The sectors a write touches, as a range of indexes into ``sectors``."""
        start = change.offset // SECTOR_BYTES - self._first
        stop = -(-(change.offset + len(change.data)) // SECTOR_BYTES) - self._first
        return start, stop

    def assemble(self, length: int, versions: Sequence[int]) -> bytes:
        """The file with the given length and one chosen version for each unsynced sector."""
        parts = [self._head]
        parts.extend(
            sector.contents[version] for sector, version in zip(self.sectors, versions, strict=True)
        )
        content = b"".join(parts)
        return content[:length] + bytes(max(0, length - len(content)))

    def after(self, changes: int) -> bytes:
        """The file as it was once that many changes had been made: 0 loses all, -1 keeps all."""
        count = range(len(self.lengths))[changes]
        return self.assemble(self.lengths[count], self.versions_at(count))

    def versions_at(self, change: int) -> list[int]:
        """The version of every sector once that many changes had been made."""
        return [sector.version_at(change) for sector in self.sectors]

    def torn(self, change: int, sectors_kept: int, *, extended: bool = False) -> bytes:
        """Change number ``change`` (from 1 on) is torn: only its first sectors reached the disk.

        The file ends with the last sector that did, or, ``extended``, where the change ended.
        """
        write = self.changes[change - 1]
        start, _stop = self.sector_span(write)
        versions = self.versions_at(change - 1)
        for index in range(start, start + sectors_kept):
            versions[index] = self.sectors[index].version_at(change)
        reached = (self._first + start + sectors_kept) * SECTOR_BYTES
        length = write.end if extended else max(min(reached, write.end), self.lengths[change - 1])
        return self.assemble(length, versions)

    def state_count(self) -> int:
        """How many ways there are to choose a length and a version of each sector."""
        return prod(len(sector.contents) for sector in self.sectors) * len(set(self.lengths))

    def state(self, number: int) -> bytes:
        """The state of that number, from 0 to ``state_count() - 1``; some may be equal."""
        versions = []
        for sector in self.sectors:
            number, version = divmod(number, len(sector.contents))
            versions.append(version)
        return self.assemble(sorted(set(self.lengths))[number], versions)
