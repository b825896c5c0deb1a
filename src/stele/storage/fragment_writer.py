"""Writes a fragment: a run of files, in row order, from a stream of sorted blocks.

A file ends where a row ends, once it has reached its size, and wherever the caller says that a
tablet does (``borders``), so that tablets need not share what is written for each of them.

Nothing is known of a fragment until ``finish`` returns: then every file and every name is durable.
Before that the files are garbage, whatever happens; ``abort`` removes them as far as it can.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from stele.env import paths
from stele.env.failpoints import declare, failpoint
from stele.env.ports import FileSystem
from stele.errors import InvalidArgument, SteleError
from stele.kernels.block import Block
from stele.kernels.search import row_lower_bound
from stele.storage.fragment_cutter import RowGroup, RowGroupCutter
from stele.storage.fragment_file import FragmentFileWriter
from stele.storage.fragment_format import FragmentInfo
from stele.storage.fragment_name import parse_fragment_name
from stele.storage.fragment_options import FragmentOptions

AFTER_CREATE = declare("storage.fragment.after_create")
AFTER_SYNC_DIR = declare("storage.fragment.after_sync_dir")


@dataclass(frozen=True, slots=True)
class GroupSize:
    """How large row groups are, about."""

    cells: int
    size_bytes: int


class RunFile(Protocol):
    """One file of a run while it is written, or the pair of files that stands for one."""

    @property
    def names(self) -> list[str]:
        """The names of the files made so far."""

    def takes(self, group: RowGroup) -> bool:
        """Whether a row group may follow; one that continues a row must be taken."""

    def write_group(self, group: RowGroup) -> None:
        """Add a row group."""

    def finish(self) -> FragmentInfo:
        """Write the end and sync it."""

    def close(self) -> None:
        """Close without finishing. Idempotent."""


FileMaker = Callable[[str, RowGroup], RunFile]
"""Makes a file of a name; the row group is the first that it will get."""


class FragmentWriter:
    """Not thread-safe. Use it as a context: leaving it without ``finish`` aborts.

    ``names`` gives a new name for each file, see ``NameSequence``. ``borders`` are rows, ascending;
    no file has rows on both sides of one. ``maker`` makes other files than those of cells, whose
    row groups then have the size ``groups``.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        names: Callable[[], str],
        *,
        table: str,
        options: FragmentOptions | None = None,
        borders: Sequence[bytes] = (),
        maker: FileMaker | None = None,
        groups: GroupSize | None = None,
    ):
        if any(a >= b for a, b in itertools.pairwise(borders)):
            raise InvalidArgument("the borders of a fragment's files must ascend")
        self._fs = fs
        self._directory = directory
        self._names = names
        self._table = table
        self._options = options or FragmentOptions()
        self._borders = list(reversed(borders))
        size = groups or GroupSize(self._options.block_cells, self._options.block_bytes)
        self._cutter = RowGroupCutter(size.cells, size.size_bytes)
        self._maker = maker or self._file_of_cells
        self._file: RunFile | None = None
        self._done: list[FragmentInfo] = []
        self._open = True

    def append(self, block: Block) -> None:
        """Add the next cells, all above those added so far."""
        assert self._open, "the fragment is finished, or a write of it failed"
        with self._or_abort():
            for piece, crosses in self._split_at_borders(block):
                if crosses:
                    self._write_all(self._cutter.finish())
                    self._finish_file()
                self._write_all(self._cutter.add(piece))

    def finish(self) -> tuple[FragmentInfo, ...]:
        """Make everything durable; what the files are, in row order. None for no cells."""
        assert self._open, "the fragment is finished, or a write of it failed"
        with self._or_abort():
            self._write_all(self._cutter.finish())
            self._finish_file()
            if self._done:
                self._fs.sync_dir(self._directory)
                failpoint(AFTER_SYNC_DIR)
        self._open = False
        return tuple(self._done)

    def abort(self) -> None:
        """Give up: remove the files, as far as that works. What remains is garbage."""
        if not self._open:
            return
        self._open = False
        names = [file.name for info in self._done for file in info.files]
        if self._file is not None:
            self._file.close()
            names += self._file.names
        for name in names:
            try:
                self._fs.delete(paths.join(self._directory, name))
            except SteleError:
                continue  # it may not exist, or the disk may have failed; the collector knows it

    def _split_at_borders(self, block: Block) -> Iterator[tuple[Block, bool]]:
        """The block in pieces, each with whether a border lies in front of it."""
        crosses = False
        while self._borders and block.count:
            border = self._borders[-1]
            if block.row(block.count - 1) < border:
                break
            cut = row_lower_bound(block, border)
            if cut:
                yield block.slice(0, cut), crosses
                block = block.slice(cut, block.count)
            crosses = True
            self._borders.pop()
        yield block, crosses

    def _write_all(self, groups: Iterable[RowGroup]) -> None:
        for group in groups:
            if self._file is not None and not self._file.takes(group):
                self._finish_file()
            if self._file is None:
                name = self._names()
                parse_fragment_name(name)
                self._file = self._maker(name, group)
                failpoint(AFTER_CREATE)
            self._file.write_group(group)

    def _file_of_cells(self, name: str, _: RowGroup) -> RunFile:
        return FragmentFileWriter(self._fs, self._directory, name, self._table, self._options)

    def _finish_file(self) -> None:
        if self._file is not None:
            self._done.append(self._file.finish())
            self._file = None

    @contextmanager
    def _or_abort(self) -> Iterator[None]:
        """No half-done step may be continued: an error ends the fragment."""
        try:
            yield
        except Exception:
            self.abort()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Not after what ends the process, real or simulated: a dead process cleans nothing up.
        if kind is None or issubclass(kind, Exception):
            self.abort()


def write_fragment(
    fs: FileSystem,
    directory: str,
    names: Callable[[], str],
    blocks: Iterable[Block],
    *,
    table: str,
    options: FragmentOptions | None = None,
    borders: Sequence[bytes] = (),
    maker: FileMaker | None = None,
    groups: GroupSize | None = None,
) -> tuple[FragmentInfo, ...]:
    """Write all blocks as one fragment."""
    with FragmentWriter(
        fs,
        directory,
        names,
        table=table,
        options=options,
        borders=borders,
        maker=maker,
        groups=groups,
    ) as writer:
        for block in blocks:
            writer.append(block)
        return writer.finish()
