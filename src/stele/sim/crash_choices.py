"""What a power failure at one moment may leave: the ways to choose, from likely to exotic.

A disk with unsynced changes has more crash states than can be tried. They come in three groups:

``basic``     everything lost; everything kept; data lost but names kept; data kept but names lost
``classic``   one thing at a time: the newest write of a file torn at each sector boundary, with
              and without its full length; a file cut back to each earlier moment, the others kept
              or lost; each change of a name alone lost, alone kept
``further``   *all* combinations of sector versions, lengths and name changes where they are few
              enough; else, by seed, an even sample of them; else random ones without end, in which
              few, half or most of the sectors have arrived

Older torn writes need no choice of their own: they were the newest at an earlier moment of the
trace. Choices may repeat a state; the explorer removes duplicates by the hash of what is left.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from stele.env.disk import Choice, Directory, Disk, File, KeepUnsynced, LoseUnsynced
from stele.env.unsynced import UnsyncedFile

NUMBERED_COMBINATIONS_MAX = 1 << 20
"""Up to this many, random combinations are drawn by number, so that none is drawn twice."""

DRAWN_PER_WANTED = 4
"""Different combinations may be equal states: draw so many for each one wanted."""

_DENSITIES = (0.06, 0.5, 0.94)
_ALL_NAMES_KEPT = 0.75

Remains = Callable[[UnsyncedFile], bytes]


class Kind(Enum):
    """What is special about a choice; reports count by it."""

    LOST = "lost"
    KEPT = "kept"
    SPLIT = "split"
    TORN = "torn"
    CUT = "cut"
    NAMES = "names"
    COMBINED = "combined"
    SCATTERED = "scattered"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A ``Choice``: some inodes decided one by one, the rest by a default."""

    kind: Kind
    label: str
    data: Choice
    names: Choice
    files: Mapping[int, Remains] = field(default_factory=dict)
    directories: Mapping[int, int] = field(default_factory=dict)

    def contents(self, inode: int, file: UnsyncedFile) -> bytes:
        remains = self.files.get(inode)
        return self.data.contents(inode, file) if remains is None else remains(file)

    def entries(self, inode: int, changes: int) -> int:
        kept = self.directories.get(inode)
        return self.names.entries(inode, changes) if kept is None else kept


_LOSE = LoseUnsynced()
_KEEP = KeepUnsynced()


class Moment:
    """A disk at one step of a trace, and the ways in which a power failure may strike it."""

    def __init__(self, disk: Disk) -> None:
        entries = {inode: disk.inodes[inode] for inode in disk.dirty()}
        self.files = {i: entry.pending() for i, entry in entries.items() if isinstance(entry, File)}
        self.name_changes = {
            i: len(entry.changes) for i, entry in entries.items() if isinstance(entry, Directory)
        }

    def basic(self) -> Iterator[Chosen]:
        yield Chosen(Kind.KEPT, "all unsynced kept", _KEEP, _KEEP)
        if self.files or self.name_changes:
            yield Chosen(Kind.LOST, "all unsynced lost", _LOSE, _LOSE)
        if self.files and self.name_changes:
            yield Chosen(Kind.SPLIT, "unsynced data lost, names kept", _LOSE, _KEEP)
            yield Chosen(Kind.SPLIT, "unsynced data kept, names lost", _KEEP, _LOSE)

    def classic(self) -> Iterator[Chosen]:
        for inode, file in self.files.items():
            yield from _torn_states(inode, file)
            yield from _cut_states(inode, file)
        for inode, count in self.name_changes.items():
            yield from _name_states(inode, count)

    def further(self, seed: int, combinations_max: int) -> Iterator[Chosen]:
        """All combinations if there are at most ``combinations_max``, else random ones."""
        dice = random.Random(seed)  # noqa: S311 - repeatable is the point
        count = self.combination_count()
        if count <= combinations_max:
            return map(self._combination, range(count))
        if count <= NUMBERED_COMBINATIONS_MAX:
            drawn = min(count, DRAWN_PER_WANTED * combinations_max)
            return map(self._combination, dice.sample(range(count), drawn))
        return self._scattered(dice)

    def combination_count(self) -> int:
        """How many combinations there are, counting equal ones apart."""
        count = 1 << sum(self.name_changes.values())
        for file in self.files.values():
            count *= file.state_count()
        return count

    def _combination(self, number: int) -> Chosen:
        data, kept, rest = [], [], number
        for file in self.files.values():
            rest, part = divmod(rest, file.state_count())
            data.append(file.state(part))
        for count in self.name_changes.values():
            rest, part = divmod(rest, 1 << count)
            kept.append(part)
        return self._exact(Kind.COMBINED, f"combination {number}", data, kept)

    def _scattered(self, dice: random.Random) -> Iterator[Chosen]:
        for number in itertools.count():
            data = [_scatter(file, dice) for file in self.files.values()]
            kept = [_scatter_names(count, dice) for count in self.name_changes.values()]
            yield self._exact(Kind.SCATTERED, f"scattered {number}", data, kept)

    def _exact(self, kind: Kind, label: str, data: Sequence[bytes], kept: Sequence[int]) -> Chosen:
        files = dict(zip(self.files, map(_exactly, data), strict=True))
        directories = dict(zip(self.name_changes, kept, strict=True))
        return Chosen(kind, label, _KEEP, _KEEP, files, directories)


def _torn_states(inode: int, file: UnsyncedFile) -> Iterator[Chosen]:
    number = len(file.changes)
    if file.changes[-1].data:
        start, stop = file.sector_span(file.changes[-1])
        for kept, extended in itertools.product(range(stop - start), (False, True)):
            length = "the full" if extended else "a cut"
            where = f"newest write torn after {kept} of {stop - start} sectors, {length} length"
            yield _one_file(Kind.TORN, inode, where, _torn(number, kept, extended=extended))


def _cut_states(inode: int, file: UnsyncedFile) -> Iterator[Chosen]:
    count = len(file.changes)
    for number in range(count):
        where = f"as after {number} of {count} changes"
        yield _one_file(Kind.CUT, inode, where, _after(number))
    yield Chosen(Kind.CUT, f"inode {inode} alone kept", _LOSE, _KEEP, {inode: _after(count)})


def _name_states(inode: int, count: int) -> Iterator[Chosen]:
    everything = (1 << count) - 1
    for number in range(count):
        for kept, what in ((everything & ~(1 << number), "lost"), (1 << number, "kept")):
            label = f"directory {inode}: change {number + 1} of {count} alone {what}"
            yield Chosen(Kind.NAMES, label, _KEEP, _KEEP, directories={inode: kept})


def _one_file(kind: Kind, inode: int, where: str, remains: Remains) -> Chosen:
    return Chosen(kind, f"inode {inode}: {where}", _KEEP, _KEEP, {inode: remains})


def _after(changes: int) -> Remains:
    return lambda file: file.after(changes)


def _torn(change: int, kept: int, *, extended: bool) -> Remains:
    return lambda file: file.torn(change, kept, extended=extended)


def _exactly(content: bytes) -> Remains:
    return lambda _file: content


def _scatter(file: UnsyncedFile, dice: random.Random) -> bytes:
    """Each sector as of a later or an earlier moment, one of them the rule or both as often."""
    late = dice.randrange(1, len(file.lengths))
    early = dice.randrange(late)
    density = dice.choice(_DENSITIES)
    versions = [
        sector.version_at(late if dice.random() < density else early) for sector in file.sectors
    ]
    return file.assemble(file.lengths[dice.choice((late, -1))], versions)


def _scatter_names(count: int, dice: random.Random) -> int:
    """All names more often than not: what a lost name hides, nothing can be learnt about."""
    everything = (1 << count) - 1
    return everything if dice.random() < _ALL_NAMES_KEPT else dice.getrandbits(count)
