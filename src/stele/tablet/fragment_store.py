"""The fragment files of an engine: naming new ones, opening old ones, knowing what is on its way.

A file that is being written is *pending* until the config that refers to it is saved or the attempt
is given up. The lowest pending sequence number is the engine's low-water: the collector of garbage
leaves alone what this session wrote at or above it (T107–T110, without clocks).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from stele.env.ports import FileSystem
from stele.kernels.block import Block
from stele.storage.fragment_format import FragmentInfo
from stele.storage.fragment_name import NameSequence, parse_fragment_name
from stele.storage.fragment_options import FragmentOptions
from stele.storage.fragment_reader import FragmentReader
from stele.storage.fragment_writer import write_fragment

FRAGMENT_DIRECTORY = "fragments"

OPEN_READERS_MAX = 512
"""Open files kept; one costs a descriptor and its parsed index."""


class FragmentStore:
    """All fragments live in one directory. Threads share a store."""

    def __init__(self, files: FileSystem, session: str, directory: str = FRAGMENT_DIRECTORY):
        self._files = files
        self._directory = directory
        self._names = NameSequence(session)
        self._lock = threading.Lock()
        self._pending: set[int] = set()
        self._next = 0
        self._readers: OrderedDict[str, FragmentReader] = OrderedDict()
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

    def open(self, info: FragmentInfo) -> FragmentReader:
        """An open reader of a file, verified to be the one that ``info`` describes."""
        with self._lock:
            reader = self._readers.get(info.name)
            if reader is not None:
                self._readers.move_to_end(info.name)
                return reader
        opened = FragmentReader.open(self._files, self.path(info.name), info)
        with self._lock:
            reader = self._readers.setdefault(info.name, opened)
            while len(self._readers) > OPEN_READERS_MAX:
                # Whoever still reads from it holds it; its file closes with the last of them.
                self._readers.popitem(last=False)
        return reader

    def forget(self, names: Iterable[str]) -> None:
        """Let go of readers of files that nobody refers to any more."""
        with self._lock:
            for name in names:
                self._readers.pop(name, None)

    def close(self) -> None:
        with self._lock:
            readers, self._readers = self._readers, OrderedDict()
        for reader in readers.values():
            reader.close()

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
        mine: set[int],
    ) -> tuple[FragmentInfo, ...]:
        return write_fragment(
            self._files,
            self._directory,
            lambda: self._new_name(mine),
            blocks,
            table=table,
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
    ) -> tuple[FragmentInfo, ...]:
        """Write blocks as one durable fragment; none for no cells."""
        return self._store._write(blocks, table, options, borders, self._mine)  # noqa: SLF001

    def settle(self) -> None:
        """Their config is saved, or nobody will ever refer to them. Idempotent."""
        self._store._settle(self._mine)  # noqa: SLF001
        self._mine.clear()
