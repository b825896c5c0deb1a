"""Building requests: single mutations into batches, and batches into committed cells.

:class:`MutationBatch` collects puts and erasures in any order and gives one sorted ``MUTATIONS``
batch. It is the path of point writes, so a mutation is one tuple in a list, shaped such that
Python's own sort is the order of cells; Arrow is made once, at the end.

:func:`stamp` is what a commit does to a batch: every cell gets the txn, and puts without a
timestamp get it as their timestamp.

Within a batch erasures never hide its puts, whatever order they were added in: all cells of a
batch share a txn, and an erasure hides lower ones only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stele.errors import InvalidArgument, InvalidCells, LimitExceeded
from stele.model.arrays import binary_array, integer_array, numbers
from stele.model.cell_order import sort_cells
from stele.model.cells import (
    CELLS,
    MUTATIONS,
    ROW_ERASURE_FAMILY,
    TIMESTAMP_MAX,
    TIMESTAMP_MIN,
    Cell,
    Op,
    no_mutations,
)
from stele.model.columns import check_family, check_qualifier
from stele.model.limits import BATCH_BYTES_MAX, BATCH_CELLS_MAX, VALUE_BYTES_MAX
from stele.model.ranges import check_row

Record = tuple[bytes, str, int, bytes, int, int, bytes]
"""Row, family, class, qualifier, minus the timestamp, op, value: in the order they sort by."""

_IDENTITY = 6
"""Parts of a record that tell it apart: all but the value."""

_CLASS_ROW, _CLASS_FAMILY, _CLASS_COLUMN = 0, 1, 2
_ERASE_ROW, _ERASE_FAMILY, _ERASE_COLUMN = (
    int(Op.ERASE_ROW),
    int(Op.ERASE_FAMILY),
    int(Op.ERASE_COLUMN),
)
_ERASE_CELL, _PUT = int(Op.ERASE_CELL), int(Op.PUT)


_checked_family = lru_cache(1_024)(check_family)
"""Programs name the same few families all the time; what is refused is not remembered."""


class MutationBatch:
    """Collects mutations. Not safe for threads.

    Every method checks its arguments at once, so an error points at the call that caused it; only
    duplicates are found at the end.
    """

    __slots__ = ("_bytes", "_families", "_records")

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._families: set[str] = set()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._records)

    @property
    def size_bytes(self) -> int:
        """Bytes of all rows, qualifiers and values."""
        return self._bytes

    def put(
        self, row: bytes, family: str, qualifier: bytes, value: bytes, timestamp: int | None = None
    ) -> None:
        """Write one cell; without a ``timestamp`` it takes the commit's txn."""
        if not isinstance(value, bytes):
            raise InvalidArgument(f"a value is bytes, not {type(value).__name__}: {value!r:.80}")
        if len(value) > VALUE_BYTES_MAX:
            raise LimitExceeded(
                f"value of {len(value)} bytes at row {row[:64]!r}, column "
                f"{family}:{qualifier[:64]!r} is over the limit of {VALUE_BYTES_MAX} bytes"
            )
        at = TIMESTAMP_MAX if timestamp is None else _check_timestamp(timestamp)
        self._add(row, family, _CLASS_COLUMN, qualifier, at, _PUT, value)

    def erase_row(self, row: bytes, until: int | None = None) -> None:
        """Erase all cells of a row whose timestamp is at most ``until``; all, if it is ``None``."""
        self._add(row, ROW_ERASURE_FAMILY, _CLASS_ROW, b"", _bound(until), _ERASE_ROW)

    def erase_family(self, row: bytes, family: str, until: int | None = None) -> None:
        """Erase the cells of one family of a row."""
        self._add(row, family, _CLASS_FAMILY, b"", _bound(until), _ERASE_FAMILY)

    def erase_column(
        self, row: bytes, family: str, qualifier: bytes, until: int | None = None
    ) -> None:
        """Erase the versions of one column of a row."""
        self._add(row, family, _CLASS_COLUMN, qualifier, _bound(until), _ERASE_COLUMN)

    def erase_cell(self, row: bytes, family: str, qualifier: bytes, timestamp: int) -> None:
        """Erase the one version of a column that has exactly this timestamp."""
        at = _check_timestamp(timestamp)
        self._add(row, family, _CLASS_COLUMN, qualifier, at, _ERASE_CELL)

    def _add(
        self,
        row: bytes,
        family: str,
        class_: int,
        qualifier: bytes,
        timestamp: int,
        op: int,
        value: bytes = b"",
    ) -> None:
        check_row(row)
        if family not in self._families:
            if class_ != _CLASS_ROW:
                family = _checked_family(family)
            self._families.add(family)
        check_qualifier(qualifier)
        size = len(row) + len(qualifier) + len(value)
        if self._bytes + size > BATCH_BYTES_MAX or len(self._records) >= BATCH_CELLS_MAX:
            raise LimitExceeded(
                f"batch of {len(self._records)} cells and {self._bytes} bytes cannot take {size} "
                f"bytes more; the limits are {BATCH_CELLS_MAX} cells and {BATCH_BYTES_MAX} bytes"
            )
        self._bytes += size
        self._records.append((row, family, class_, qualifier, -timestamp, op, value))

    def extend(self, other: MutationBatch) -> None:
        """Take over all mutations of another batch, or none if they are too many."""
        size = self._bytes + other._bytes
        _check_size(len(self._records) + len(other._records), size)
        self._records += other._records
        self._families |= other._families
        self._bytes = size

    @staticmethod
    def in_turn(parts: Iterable[MutationBatch]) -> MutationBatch:
        """One batch that does what ``parts`` do one after the other.

        A put replaces the one before it of the same cell, and an erasure takes away the puts
        before it that it would hide. A put without a timestamp is later than any bound.
        """
        kept: dict[tuple[object, ...], Record] = {}
        for part in parts:
            for record in part.records():
                if record[5] != _PUT:
                    hidden = [place for place, put in kept.items() if _hides(record, put)]
                    for place in hidden:
                        del kept[place]
                kept[record[:_IDENTITY]] = record
        whole = MutationBatch()
        whole._records = list(kept.values())
        whole._families = {record[1] for record in whole._records}
        whole._bytes = sum(len(r[0]) + len(r[3]) + len(r[6]) for r in whole._records)
        _check_size(len(whole), whole._bytes)
        return whole

    def records(self) -> list[Record]:
        """The mutations in cell order; :class:`InvalidCells` if one is there twice.

        Two are the same when they differ in their value only.
        """
        records = self._records
        records.sort()
        for before, after in pairwise(records):
            if before[0] == after[0] and before[:_IDENTITY] == after[:_IDENTITY]:
                raise InvalidCells(f"{_shown(after)} is twice in one batch")
        return records

    def cells(self) -> Iterator[Cell]:
        """The mutations in cell order, as plain values."""
        for row, family, _, qualifier, negated, op, value in self.records():
            yield Cell(row, family, qualifier, -negated, value, Op(op))

    def to_arrow(self) -> pa.RecordBatch:
        """One sorted ``MUTATIONS`` batch."""
        records = self.records()
        if not records:
            return no_mutations()
        rows, families, _, qualifiers, negated, ops, values = zip(*records, strict=True)
        names = sorted(set(families))
        codes = {name: code for code, name in enumerate(names)}
        family = pa.DictionaryArray.from_arrays(
            integer_array([codes[name] for name in families], pa.int16(), "h"),
            pa.array(names, pa.utf8()),
        )
        return pa.RecordBatch.from_arrays(
            [
                binary_array(rows),
                family,
                binary_array(qualifiers),
                integer_array([-number for number in negated], pa.int64(), "q"),
                integer_array(ops, pa.int8(), "b"),
                binary_array(values),
            ],
            schema=MUTATIONS,
        )


def _hides(erasure: Record, put: Record) -> bool:
    """Whether an erasure hides a put that was made before it."""
    row, family, _, qualifier, negated, op, _ = erasure
    if put[5] != _PUT or put[0] != row or (op != _ERASE_ROW and put[1] != family):
        return False
    if op == _ERASE_CELL:
        return put[3] == qualifier and put[4] == negated
    return (op != _ERASE_COLUMN or put[3] == qualifier) and put[4] >= negated


def _check_size(count: int, size: int) -> None:
    if size > BATCH_BYTES_MAX or count > BATCH_CELLS_MAX:
        raise LimitExceeded(
            f"{count} cells and {size} bytes are too many for one batch; the limits are "
            f"{BATCH_CELLS_MAX} cells and {BATCH_BYTES_MAX} bytes"
        )


def _check_timestamp(timestamp: object) -> int:
    """A timestamp that a cell can have: ``TIMESTAMP_MAX`` stands for "none"."""
    if not isinstance(timestamp, int) or isinstance(timestamp, bool):
        raise InvalidArgument(f"a timestamp is a whole number of µs, not {timestamp!r:.80}")
    if not TIMESTAMP_MIN <= timestamp < TIMESTAMP_MAX:
        raise InvalidArgument(
            f"timestamp {timestamp} is not within {TIMESTAMP_MIN} and {TIMESTAMP_MAX - 1}"
        )
    return timestamp


def hidden_put(
    row: bytes, family: str, qualifier: bytes, value: bytes, timestamp: int = TIMESTAMP_MAX
) -> Record:
    """A put of ours, into a family that no request can name."""
    return row, family, _CLASS_COLUMN, qualifier, -timestamp, _PUT, value


def insert_record(batch: pa.RecordBatch, record: Record) -> pa.RecordBatch:
    """A sorted ``MUTATIONS`` batch with one more put, in a family that it has no cells of."""
    row, family, _, qualifier, negated, op, value = record
    names: list[str] = batch.column(1).dictionary.to_pylist()
    code = names.index(family) if family in names else len(names)
    codes = batch.column(1).indices

    def key(place: int) -> tuple[bytes, str]:
        return batch.column(0)[place].as_py(), names[codes[place].as_py()]

    place = bisect_left(range(batch.num_rows), (row, family), key=key)
    one = [[row], [code], [qualifier], [-negated], [op], [value]]
    columns = [*batch.columns[:1], codes, *batch.columns[2:]]
    parts = [
        pa.concat_arrays([column[:place], pa.array(new, column.type), column[place:]])
        for column, new in zip(columns, one, strict=True)
    ]
    parts[1] = pa.DictionaryArray.from_arrays(
        parts[1], pa.array([*names[:code], family, *names[code + 1 :]], pa.utf8())
    )
    return pa.RecordBatch.from_arrays(parts, schema=MUTATIONS)


def _bound(until: int | None) -> int:
    return TIMESTAMP_MAX if until is None or until == TIMESTAMP_MAX else _check_timestamp(until)


def _shown(record: Record) -> str:
    row, family, _, qualifier, negated, op, _ = record
    name = Cell(row, family, qualifier[:64], 0).column
    at = "" if -negated == TIMESTAMP_MAX else f" at {-negated}"
    return f"{Op(op).name.lower()} of row {row[:64]!r}, column {name!r}{at}"


def stamp(batch: pa.RecordBatch, txn: int) -> pa.RecordBatch:
    """The ``CELLS`` that a ``MUTATIONS`` batch becomes when it commits as ``txn``.

    Puts without a timestamp move from the front of their column to ``txn``. The order suffers only
    if something else of the batch has a timestamp at or above it, which is rare: then it is sorted
    again. A put given that very timestamp is the same version as one without, which wins.
    """
    timestamps = numbers(batch.column("timestamp"), np.int64)
    unset = (timestamps == TIMESTAMP_MAX) & (numbers(batch.column("op"), np.int8) == _PUT)
    disturbed = False
    if unset.any():
        disturbed = bool(((timestamps >= txn) & (timestamps < TIMESTAMP_MAX)).any())
        timestamps = np.where(unset, np.int64(txn), timestamps)
    row, family, qualifier, _, op, value = batch.columns
    cells = pa.RecordBatch.from_arrays(
        [
            row,
            family,
            qualifier,
            pa.array(timestamps, pa.int64()),
            pa.array(np.full(batch.num_rows, txn, np.int64)),
            op,
            value,
        ],
        schema=CELLS,
    )
    return settle(cells) if disturbed else cells


def settle(cells: pa.RecordBatch) -> pa.RecordBatch:
    """Sort again; of cells that have become the same version, keep the first, once without one.

    The sort is stable and puts without a timestamp came first in their column.
    """
    ordered = sort_cells(cells)
    same = np.ones(ordered.num_rows - 1, np.bool_)
    for name in ("row", "family", "qualifier", "timestamp", "op"):
        column = ordered.column(name)
        if name == "family":
            column = column.indices
        equal = pc.equal(column.slice(0, ordered.num_rows - 1), column.slice(1))
        same &= equal.to_numpy(zero_copy_only=False)
    if not same.any():
        return ordered
    return ordered.filter(pa.array(np.concatenate(([True], ~same))))
