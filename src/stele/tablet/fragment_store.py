"""The fragment files of an engine: naming new ones, opening old ones, knowing what is on its way.

A file that is being written is *pending* until the config that refers to it is saved or the attempt
is given up. The lowest pending sequence number is the engine's low-water: the collector of garbage
leaves alone what this session wrote at or above it (T107–T110, without clocks).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from stele.env.ports import FileSystem
from stele.kernels.block import Block
from stele.model.ranges import RowRange
from stele.model.typed_columns import TypedColumn
from stele.storage.block_cache import BlockCache, FragmentBlocks
from stele.storage.cache_priority import Priority
from stele.storage.fragment_columns_writer import write_typed_fragment
from stele.storage.fragment_format import FragmentInfo
from stele.storage.fragment_name import NameSequence, parse_fragment_name
from stele.storage.fragment_options import FragmentOptions
from stele.storage.fragment_reader import FragmentReader

FRAGMENT_DIRECTORY = "fragments"

OPEN_FRAGMENTS_MAX = 512
"""Open files kept; one costs a descriptor and its parsed index."""


class OpenFragment:
    """An open file and its blocks in the cache. Immutable; whoever holds it may read on."""

    __slots__ = ("blocks", "reader")

    def __init__(self, reader: FragmentReader, blocks: FragmentBlocks):
        self.reader = reader
        self.blocks = blocks

    def groups(self, rows: RowRange) -> range:
        """The row groups that may hold something of a range."""
        return self.reader.index.groups_of_range(rows)


class FragmentStore:
    """All fragments live in one directory. Threads share a store."""

    def __init__(
        self,
        files: FileSystem,
        session: str,
        cache: BlockCache,
        directory: str = FRAGMENT_DIRECTORY,
    ):
        self.cache = cache
        self._files = files
        self._directory = directory
        self._names = NameSequence(session)
        self._lock = threading.Lock()
        self._pending: set[int] = set()
        self._next = 0
        self._open: OrderedDict[str, OpenFragment] = OrderedDict()
        self._preferred: dict[str, Mapping[str, Priority]] = {}
        """Files of in-memory groups, by table."""
        files.mkdir(directory)

    @property
    def directory(self) -> str:
        return self._directory

    def path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    @contextmanager
    def writing(self) -> Iterator[PendingFiles]:
        """Write files that a config will refer to; they stop being pending when this ends."""
        pending = PendingFiles(self)
        try:
            yield pending
        finally:
            pending.settle()

    def begin(self) -> PendingFiles:
        """Like :meth:`writing`, for work that ends in a callback: call ``settle`` there."""
        return PendingFiles(self)

    def low_water(self) -> int:
        """Every file of this session below it has been referred to, or never will be."""
        with self._lock:
            return min(self._pending, default=self._next)

    def open(self, info: FragmentInfo) -> OpenFragment:
        """An open file, verified to be the one that ``info`` describes."""
        with self._lock:
            known = self._open.get(info.name)
            if known is not None:
                self._open.move_to_end(info.name)
                return known
        return self._open_file(info)

    def _open_file(self, info: FragmentInfo) -> OpenFragment:
        reader = FragmentReader.open(self._files, self.path(info.name), info)
        index = reader.index
        sizes = [index.block_bytes(group) for group in range(len(index))]
        blocks = self.cache.attach(info.name, sizes, reader.read_block, Priority.ON_DEMAND)
        opened = OpenFragment(reader, blocks)
        with self._lock:
            known = self._open.setdefault(info.name, opened)
            self.cache.set_priority(known.blocks, self._priority(info.name))
            surplus = [opened] if known is not opened else []
            surplus += self._over_limit()
        self._let_go(surplus)
        return known

    def _over_limit(self) -> list[OpenFragment]:
        """Take out what has not been opened for longest, of in-memory groups last. Lock held."""
        gone = []
        while len(self._open) > OPEN_FRAGMENTS_MAX:
            names = (n for n, f in self._open.items() if f.blocks.priority is Priority.ON_DEMAND)
            gone.append(self._open.pop(next(names, next(iter(self._open)))))
        return gone

    def prefer(self, table: str, priorities: Mapping[str, Priority]) -> None:
        """Say which files a table wants to have in memory (T76), instead of what it said before."""
        with self._lock:
            before = self._preferred.pop(table, {})
            if priorities:
                self._preferred[table] = priorities
            for name in {*before, *priorities} & self._open.keys():
                self.cache.set_priority(self._open[name].blocks, self._priority(name))

    def _priority(self, name: str) -> Priority:
        """The highest that any table asks for: clones share files."""
        asked = (files[name] for files in self._preferred.values() if name in files)
        return min(asked, default=Priority.ON_DEMAND)

    def forget(self, names: Iterable[str]) -> None:
        """Let go of files that nobody refers to any more."""
        with self._lock:
            gone = [self._open.pop(name) for name in names if name in self._open]
        self._let_go(gone)

    def close(self) -> None:
        with self._lock:
            opened, self._open = list(self._open.values()), OrderedDict()
        self._let_go(opened)

    def _let_go(self, fragments: Iterable[OpenFragment]) -> None:
        """Their blocks leave the cache. Whoever still reads holds the file open by holding them."""
        for fragment in fragments:
            self.cache.detach(fragment.blocks)

    def _new_name(self, mine: set[int]) -> str:
        with self._lock:
            name = self._names()
            sequence = parse_fragment_name(name).sequence
            self._pending.add(sequence)
            self._next = sequence + 1
            mine.add(sequence)
            return name

    def _settle(self, mine: set[int]) -> None:
        with self._lock:
            self._pending -= mine

    def _write(
        self,
        blocks: Iterable[Block],
        table: str,
        options: FragmentOptions,
        borders: Sequence[bytes],
        typed: Sequence[TypedColumn],
        mine: set[int],
    ) -> tuple[FragmentInfo, ...]:
        return write_typed_fragment(
            self._files,
            self._directory,
            lambda: self._new_name(mine),
            blocks,
            table=table,
            columns=typed,
            options=options,
            borders=borders,
        )


class PendingFiles:
    """Files written for one change of configs."""

    def __init__(self, store: FragmentStore):
        self._store = store
        self._mine: set[int] = set()

    def write(
        self,
        blocks: Iterable[Block],
        *,
        table: str,
        options: FragmentOptions,
        borders: Sequence[bytes] = (),
        typed: Sequence[TypedColumn] = (),
    ) -> tuple[FragmentInfo, ...]:
        """Write blocks as one durable fragment; none for no cells.

        ``typed`` are declared columns of its group: with some, it may get the columns layout.
        """
        return self._store._write(blocks, table, options, borders, typed, self._mine)  # noqa: SLF001

    def settle(self) -> None:
        """Their config is saved, or nobody will ever refer to them. Idempotent."""
        self._store._settle(self._mine)  # noqa: SLF001
        self._mine.clear()
