"""Wide rows straight into files of the columns layout, without becoming cells on the way.

This is how bulk loads write. Rows come as Arrow batches, sorted by key: ``row``, and one column for
each ``family:qualifier``, null where a row has no cell. All cells of a row share a timestamp, and
all cells of a load share a txn. Values of declared columns are native; what is not declared is
bytes, and goes to the companion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stele.env.failpoints import declare, failpoint
from stele.env.ports import FileSystem
from stele.errors import InvalidArgument, InvalidCells, LimitExceeded, SteleError
from stele.kernels.block import Block
from stele.model.arrays import flatten
from stele.model.columns import Column
from stele.model.limits import ROW_BYTES_MAX, VALUE_BYTES_MAX
from stele.model.typed_columns import TypedColumn
from stele.model.types import value_type
from stele.storage.fragment_columns_explode import NativeRows, NativeValues
from stele.storage.fragment_columns_format import (
    ROW,
    TIMESTAMP,
    NativeColumn,
    native_candidates,
    parquet_schema,
)
from stele.storage.fragment_columns_pivot import Piece
from stele.storage.fragment_columns_writer import ColumnsPair, Names, Place
from stele.storage.fragment_format import Erasures, FragmentInfo, FragmentSummary
from stele.storage.fragment_options import FragmentOptions
from stele.storage.references import IMPORT_TXN

AFTER_SYNC_DIR = declare("storage.columns.after_sync_dir")

_BYTES = value_type("binary")


def write_columns_run(
    fs: FileSystem,
    directory: str,
    names: Names,
    batches: Iterable[pa.RecordBatch],
    *,
    table: str,
    columns: Iterable[TypedColumn],
    timestamp: int | None = None,
    txn: int = IMPORT_TXN,
    options: FragmentOptions | None = None,
    borders: Sequence[bytes] = (),
) -> tuple[FragmentInfo, ...]:
    """Write sorted wide rows as one durable fragment; none if there is no cell.

    ``columns`` are those that the schema declares. The timestamp of a row is in ``_timestamp``, or
    the same for all. ``borders`` are rows, ascending; no file has rows on both sides of one.
    """
    if any(a >= b for a, b in pairwise(borders)):
        raise InvalidArgument("the borders of a fragment's files must ascend")
    place = Place(fs, directory, names, table, options or FragmentOptions())
    shape = _Shape(tuple(columns), timestamp, txn)
    run = _Run(place, borders)
    try:
        for batch in batches:
            for wide in shape.check(batch).parts(place):
                run.write(wide)
        return run.finish()
    except Exception:
        run.abort()
        raise


@dataclass(frozen=True, slots=True)
class _Wide:
    """Checked rows: keys, times and txns, native columns, and the rest as bytes."""

    native_columns: tuple[NativeColumn, ...]
    native: pa.RecordBatch
    others: pa.RecordBatch
    """Named by their columns; as many rows as ``native``."""

    def parts(self, place: Place) -> Iterator[_Wide]:
        """Pieces of the size of a row group."""
        size = place.group_size
        width = max(1, len(self.native_columns) + self.others.num_columns)
        row_bytes = max(1, (self.native.nbytes + self.others.nbytes) // max(1, len(self.rows)))
        step = max(1, min(size.cells // width, size.size_bytes // row_bytes))
        for start in range(0, len(self.rows), step):
            yield self.slice(start, min(step, len(self.rows) - start))

    @property
    def rows(self) -> pa.Array:
        return self.native.column(0)

    def slice(self, start: int, length: int) -> _Wide:
        native, others = self.native.slice(start, length), self.others.slice(start, length)
        return _Wide(self.native_columns, native, others)

    def split(self, border: bytes) -> tuple[_Wide, _Wide]:
        """The rows below a border and those from it on."""
        below = pc.sum(pc.less(self.rows, pa.scalar(border, pa.binary()))).as_py() or 0
        return self.slice(0, below), self.slice(below, len(self.rows) - below)

    def piece(self) -> Piece:
        """What the files get."""
        filled = np.zeros(len(self.rows), np.bool_)
        cells = 0
        for column in self.native_columns:
            valid = self.native.column(column.name).is_valid()
            cells += pc.sum(valid).as_py() or 0
            filled |= valid.to_numpy(zero_copy_only=False)
        native = self.native if filled.all() else self.native.filter(pa.array(filled))
        return Piece(native, cells, self._companion(), 0, complete=True)

    def _companion(self) -> tuple[Block, ...]:
        columns = sorted(map(Column.parse, self.others.schema.names))
        families = tuple(sorted({column.family for column in columns}))
        values = [NativeValues(column, self.others.column(str(column))) for column in columns]
        block = NativeRows(self.native.columns[:3], values).block(families)
        return (block,) if block.count else ()


@dataclass(frozen=True, slots=True)
class _Shape:
    """What batches have to look like."""

    declared: tuple[TypedColumn, ...]
    timestamp: int | None
    txn: int

    def check(self, batch: pa.RecordBatch) -> _Wide:
        """The batch with its values in their types; an error names what does not fit."""
        rows = _check_rows(batch)
        native = {typed.column: typed for typed in native_candidates(self.declared)}
        declared = {typed.column: typed for typed in self.declared}
        chosen: dict[Column, pa.Array] = {}
        others: dict[str, pa.Array] = {}
        for name in batch.schema.names:
            if name in (ROW, TIMESTAMP):
                continue
            column, array = Column.parse(name), flatten(batch.column(name))
            try:
                if column in native:
                    chosen[column] = native[column].type.check_array(array)
                else:
                    kind = declared[column].type if column in declared else _BYTES
                    others[name] = kind.encode_array(array)
            except InvalidArgument as error:
                raise InvalidArgument(f"column {name!r}: {error}") from error
        self._check_values({**others, **{str(column): chosen[column] for column in chosen}})
        return self._wide(batch, rows, native, chosen, others)

    def _wide(
        self,
        batch: pa.RecordBatch,
        rows: pa.Array,
        native: dict[Column, TypedColumn],
        chosen: dict[Column, pa.Array],
        others: dict[str, pa.Array],
    ) -> _Wide:
        count = len(rows)
        columns = tuple(
            NativeColumn.of(typed, typed.type, own_stamps=False) for typed in native.values()
        )
        values = [
            chosen.get(column.column, pa.nulls(count, column.value_type.arrow))
            for column in columns
        ]
        txns = pa.repeat(pa.scalar(self.txn, pa.int64()), count)
        return _Wide(
            columns,
            pa.RecordBatch.from_arrays(
                [rows, self._times(batch), txns, *values], schema=parquet_schema(columns)
            ),
            pa.RecordBatch.from_arrays(
                [*others.values(), pa.nulls(count)], names=[*others, "_"]
            ).select(list(others)),
        )

    def _times(self, batch: pa.RecordBatch) -> pa.Array:
        if TIMESTAMP not in batch.schema.names:
            if self.timestamp is None:
                raise InvalidArgument(f"rows without a column {TIMESTAMP!r} need a timestamp")
            return pa.repeat(pa.scalar(self.timestamp, pa.int64()), batch.num_rows)
        times = flatten(batch.column(TIMESTAMP))
        if times.type != pa.int64() or times.null_count:
            raise InvalidArgument(f"column {TIMESTAMP!r} must be int64 without nulls")
        return times

    @staticmethod
    def _check_values(arrays: dict[str, pa.Array]) -> None:
        for name, array in arrays.items():
            if pa.types.is_binary(array.type) or pa.types.is_string(array.type):
                longest = pc.max(pc.binary_length(array)).as_py() or 0
                if longest > VALUE_BYTES_MAX:
                    raise LimitExceeded(
                        f"column {name!r} has a value of {longest} bytes, the limit is "
                        f"{VALUE_BYTES_MAX}"
                    )


def _check_rows(batch: pa.RecordBatch) -> pa.Array:
    if ROW not in batch.schema.names:
        raise InvalidArgument(f"wide rows need a column {ROW!r}")
    rows = flatten(batch.column(ROW))
    if rows.type != pa.binary() or rows.null_count:
        raise InvalidArgument(f"column {ROW!r} must be binary without nulls")
    sizes = pc.min_max(pc.binary_length(rows))
    if (sizes["max"].as_py() or 0) > ROW_BYTES_MAX:
        raise LimitExceeded(f"a row of {sizes['max']} bytes, the limit is {ROW_BYTES_MAX}")
    if sizes["min"].as_py() == 0:
        raise InvalidArgument("a row key has at least one byte")
    _check_order(rows)
    return rows


def _check_order(rows: pa.Array) -> None:
    ascends = pc.less(rows[:-1], rows[1:]).to_numpy(zero_copy_only=False)
    if not ascends.all():
        row = rows[int(np.argmin(ascends)) + 1].as_py()
        raise InvalidCells(f"row {row[:64]!r} is not above the row before it")


class _Run:
    """The files of one fragment."""

    def __init__(self, place: Place, borders: Sequence[bytes]):
        self._place = place
        self._borders = list(reversed(borders))
        self._pair: ColumnsPair | None = None
        self._summary = _WideSummary()
        self._done: list[FragmentInfo] = []
        self._last_row: bytes | None = None

    def write(self, wide: _Wide) -> None:
        """Add rows, all above those added so far."""
        while len(wide.rows):
            first: bytes = wide.rows[0].as_py()
            if self._last_row is not None and first <= self._last_row:
                raise InvalidCells(f"row {first[:64]!r} is not above the row before it")
            below, above = self._cut(wide)
            self._add(below)
            self._last_row = below.rows[len(below.rows) - 1].as_py()
            wide = above
            if len(above.rows):
                self._end_pair()

    def _cut(self, wide: _Wide) -> tuple[_Wide, _Wide]:
        """The rows up to the next border, and the others."""
        while self._borders and self._borders[-1] <= wide.rows[0].as_py():
            self._borders.pop()
            self._end_pair()
        if not self._borders:
            return wide, wide.slice(0, 0)
        return wide.split(self._borders[-1])

    def _add(self, wide: _Wide) -> None:
        piece = wide.piece()
        if not piece.cells and not piece.companion:
            return
        if self._pair is not None and self._pair.is_full:
            self._end_pair()
        if self._pair is None:
            self._pair = ColumnsPair(self._place, self._place.names(), wide.native_columns)
        self._pair.write(piece)
        self._summary.add(wide, piece)

    def _end_pair(self) -> None:
        if self._pair is not None:
            self._done.append(self._pair.finish(self._summary.build()))
            self._pair, self._summary = None, _WideSummary()

    def finish(self) -> tuple[FragmentInfo, ...]:
        """Make everything durable."""
        self._end_pair()
        if self._done:
            self._place.fs.sync_dir(self._place.directory)
            failpoint(AFTER_SYNC_DIR)
        return tuple(self._done)

    def abort(self) -> None:
        """Remove what was written, as far as that works. What remains is garbage."""
        names = [file.name for info in self._done for file in info.files]
        if self._pair is not None:
            self._pair.close()
            names += self._pair.names
        for name in names:
            try:
                self._place.fs.delete(self._place.path(name))
            except SteleError:
                continue  # it may not exist, or the disk may have failed; the collector knows it


class _WideSummary:
    """The summary of rows whose cells are all puts, one of each column."""

    def __init__(self) -> None:
        self._cells = 0
        self._rows = 0
        self._bounds: tuple[bytes, bytes] | None = None
        self._families: set[str] = set()
        self._times: tuple[int, int] | None = None
        self._txn = 0

    def add(self, wide: _Wide, piece: Piece) -> None:
        """Add rows that have at least one cell between them."""
        filled = np.zeros(len(wide.rows), np.bool_)
        arrays: dict[str, list[pa.Array]] = {}
        for batch in (wide.native, wide.others):
            for name in batch.schema.names:
                if ":" in name:
                    arrays.setdefault(Column.parse(name).family, []).append(batch.column(name))
        for family, own in arrays.items():
            valid = [array.is_valid().to_numpy(zero_copy_only=False) for array in own]
            here = np.logical_or.reduce(valid)
            if here.any():
                self._families.add(family)
            filled |= here
        self._cells += piece.cells + sum(block.count for block in piece.companion)
        places = np.flatnonzero(filled)
        self._rows += len(places)
        first, last = (wide.rows[int(at)].as_py() for at in (places[0], places[-1]))
        self._bounds = (first if self._bounds is None else self._bounds[0], last)
        times = wide.native.column(1).to_numpy()[filled]
        low, high = int(times.min()), int(times.max())
        known = self._times or (low, high)
        self._times = (min(known[0], low), max(known[1], high))
        self._txn = wide.native.column(2)[0].as_py()

    def build(self) -> FragmentSummary:
        """The summary of all rows added."""
        assert self._bounds is not None
        return FragmentSummary(
            cells=self._cells,
            rows=self._rows,
            first_row=self._bounds[0],
            last_row=self._bounds[1],
            families=tuple(sorted(self._families)),
            txn_min=self._txn,
            txn_max=self._txn,
            put_timestamps=self._times,
            erasures=Erasures(),
            versions_max=1,
        )
