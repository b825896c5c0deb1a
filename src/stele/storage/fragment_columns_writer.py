"""Writes fragments of the columns layout: from cells, or straight from wide rows.

A run of such a fragment consists of pairs: a columns file, and a companion of cells if there are
cells that are not native. The companion is finished first, because the columns file names it. A
pair without native cells is just a file of cells, and one without others has no companion.

**Which layout.** The first cells decide. If half of them or more can be stored natively without a
timestamp or txn of their own, the group is written as columns, else as cells.

**Which type.** A column that was widened may hold encodings of any type that it had. A file stores
one of them natively, the one that most of the first cells have; the rest are companions.

**Own timestamps and txns** cost two Parquet columns for each native one, so that a file has them
only for columns that need some in the first row group. If more are needed later, that file ends and
all files after it have them for every column.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from stele.env import paths
from stele.env.failpoints import declare, failpoint
from stele.env.ports import FileSystem
from stele.kernels.block import Block, unify_families
from stele.kernels.selection import select_masked
from stele.model.typed_columns import TypedColumn
from stele.storage.fragment_columns_file import ColumnsFileWriter
from stele.storage.fragment_columns_format import NativeColumn, native_candidates
from stele.storage.fragment_columns_pivot import CutRows, Piece, Placed
from stele.storage.fragment_cutter import RowGroup, RowGroupCutter
from stele.storage.fragment_file import FragmentFileWriter
from stele.storage.fragment_format import FragmentInfo, FragmentSummary
from stele.storage.fragment_options import FragmentOptions
from stele.storage.fragment_summary import SummaryBuilder
from stele.storage.fragment_writer import GroupSize, write_fragment

AFTER_COMPANION = declare("storage.columns.after_companion")

GROUP_FACTOR = 8
"""Cells and bytes of a row group against one of the cells layout: columns want many rows."""

SAMPLE_CELLS = 65_536
SAMPLE_BYTES = 32 * 1024 * 1024
"""Cells that are looked at before the layout of a fragment is chosen; fewer, if they are large."""

NATIVE_SHARE_MIN = 0.5
"""Of the cells, those that must be native and like their rows for the columns layout."""

Names = Callable[[], str]


@dataclass(frozen=True, slots=True)
class Place:
    """Where and how the files of a fragment are written."""

    fs: FileSystem
    directory: str
    names: Names
    table: str
    options: FragmentOptions

    def path(self, name: str) -> str:
        return paths.join(self.directory, name)

    @property
    def group_size(self) -> GroupSize:
        options = self.options
        return GroupSize(GROUP_FACTOR * options.block_cells, GROUP_FACTOR * options.block_bytes)


class ColumnsPair:
    """A columns file and its companion, both being written; either is made when it is needed."""

    def __init__(self, place: Place, name: str, columns: Sequence[NativeColumn]):
        self.columns = tuple(columns)
        self._place = place
        self._unused_name: str | None = name
        self._file: ColumnsFileWriter | None = None
        self._companion: FragmentFileWriter | None = None
        options = place.options
        self._cutter = RowGroupCutter(options.block_cells, options.block_bytes)
        self._complete = True

    @property
    def names(self) -> list[str]:
        """The names of its files so far."""
        return [file.name for file in (self._file, self._companion) if file is not None]

    @property
    def is_full(self) -> bool:
        return any(file is not None and file.is_full for file in (self._file, self._companion))

    def write(self, piece: Piece) -> None:
        """Add the cells of more rows."""
        if piece.native.num_rows:
            if self._file is None:
                self._file = self._new_file(piece)
            self._file.write_group(piece.native, piece.cells)
        for block in piece.companion:
            self._write_cells(self._cutter.add(block))
        self._complete = self._complete and piece.complete

    def _new_file(self, piece: Piece) -> ColumnsFileWriter:
        place = self._place
        path = place.path(self._take_name())
        return ColumnsFileWriter(
            place.fs, path, place.table, self.columns, place.options, piece.native
        )

    def _take_name(self) -> str:
        """The name it was given, for whichever file comes first, and another for the other."""
        name, self._unused_name = self._unused_name, None
        return self._place.names() if name is None else name

    def _write_cells(self, groups: Iterable[RowGroup]) -> None:
        place = self._place
        for group in groups:
            if self._companion is None:
                self._companion = FragmentFileWriter(
                    place.fs, place.directory, self._take_name(), place.table, place.options
                )
            self._companion.write_group(group)

    def finish(self, summary: FragmentSummary) -> FragmentInfo:
        """Finish both files; ``summary`` is that of all cells."""
        self._write_cells(self._cutter.finish())
        companion = None
        if self._companion is not None:
            companion = self._companion.finish()
            failpoint(AFTER_COMPANION)
        if self._file is None:
            assert companion is not None, "a pair of files without a cell"
            return companion
        return self._file.finish(summary, companion, complete=self._complete)

    def close(self) -> None:
        """Close without finishing. Idempotent."""
        for file in (self._file, self._companion):
            if file is not None:
                file.close()


class PairOfCells:
    """A pair that is written from row groups of cells."""

    def __init__(self, pair: ColumnsPair, first: Placed, group: RowGroup):
        self._pair = pair
        self._placed: tuple[RowGroup, Placed] | None = (group, first)
        self._summary = SummaryBuilder()

    @property
    def names(self) -> list[str]:
        return self._pair.names

    def takes(self, group: RowGroup) -> bool:
        """Whether a group may follow: the file has room, and the columns that the group needs."""
        if group.continues:
            return True
        if self._pair.is_full:
            return False
        placed = self._place(group)
        return all(
            column.own_stamps or not needed
            for column, needed in zip(self._pair.columns, placed.needs_stamps(), strict=True)
        )

    def write_group(self, group: RowGroup) -> None:
        placed = self._place(group)
        self._placed = None
        self._summary.add(placed.block)
        self._pair.write(placed.piece(self._pair.columns))

    def finish(self) -> FragmentInfo:
        return self._pair.finish(self._summary.build())

    def close(self) -> None:
        self._pair.close()

    def _place(self, group: RowGroup) -> Placed:
        if self._placed is None or self._placed[0] is not group:
            self._placed = (group, place_group(group, self._pair.columns))
        return self._placed[1]


class PairMaker:
    """Makes the pairs of one run, each with the columns that the cells so far have shown."""

    def __init__(self, place: Place, columns: Sequence[NativeColumn]):
        self._place = place
        self._columns = tuple(columns)
        self._begun = False

    def __call__(self, name: str, group: RowGroup) -> PairOfCells:
        placed = place_group(group, self._columns)
        new = [
            needed and not column.own_stamps
            for needed, column in zip(placed.needs_stamps(), self._columns, strict=True)
        ]
        if self._begun and any(new):
            new = [True] * len(new)
        self._begun = True
        self._columns = tuple(
            msgspec.structs.replace(column, own_stamps=column.own_stamps or own)
            for column, own in zip(self._columns, new, strict=True)
        )
        return PairOfCells(ColumnsPair(self._place, name, self._columns), placed, group)


def place_group(group: RowGroup, columns: Sequence[NativeColumn]) -> Placed:
    """Find the native cells of a row group."""
    return Placed(_joined(group.parts), columns, CutRows(group.continues, group.continued))


def _joined(parts: Sequence[Block]) -> Block:
    """Blocks one after the other as one."""
    if len(parts) == 1:
        return parts[0]
    _, unified = unify_families(parts)
    masks = [np.ones(part.count, np.bool_) for part in unified]
    return select_masked(unified, masks).block()


def choose_columns(
    sample: Sequence[Block], candidates: Sequence[TypedColumn]
) -> tuple[NativeColumn, ...]:
    """The native columns of a fragment that begins with these cells; none for the cells layout."""
    if not candidates or not sample:
        return ()
    block = _joined(sample)
    columns = tuple(_choose_type(block, typed) for typed in candidates)
    placed = Placed(block, columns)
    alike = placed.cells - placed.differing
    return columns if alike and alike >= NATIVE_SHARE_MIN * block.count else ()


def _choose_type(block: Block, typed: TypedColumn) -> NativeColumn:
    """The type that most of a column's cells have; the newest if it does not matter."""
    kinds = (typed.type, *reversed(typed.former))
    choices = [NativeColumn.of(typed, kind, own_stamps=False) for kind in kinds]
    if len(choices) == 1:
        return choices[0]
    return max(choices, key=lambda choice: Placed(block, [choice]).cells)


def write_typed_fragment(
    fs: FileSystem,
    directory: str,
    names: Names,
    blocks: Iterable[Block],
    *,
    table: str,
    columns: Iterable[TypedColumn],
    options: FragmentOptions | None = None,
    borders: Sequence[bytes] = (),
) -> tuple[FragmentInfo, ...]:
    """Write all blocks as one fragment, in the layout that suits them; ``columns`` are declared."""
    options = options or FragmentOptions()
    candidates = native_candidates(columns)
    stream = iter(blocks)
    sample = _take_sample(stream) if candidates else []
    native = choose_columns(sample, candidates)
    place = Place(fs, directory, names, table, options)
    return write_fragment(
        fs,
        directory,
        names,
        itertools.chain(sample, stream),
        table=table,
        options=options,
        borders=borders,
        maker=PairMaker(place, native) if native else None,
        groups=place.group_size if native else None,
    )


def _take_sample(stream: Iterator[Block]) -> list[Block]:
    sample: list[Block] = []
    cells, size = 0, 0
    for block in stream:
        if block.count:
            sample.append(block)
            cells, size = cells + block.count, size + block.nbytes
        if cells >= SAMPLE_CELLS or size >= SAMPLE_BYTES:
            break
    return sample
