"""Changes as lines: what a feed hands to people and programs.

Every line says what happened (``_change_type``), in which commit (``_commit_version``, a txn) and
when that was (``_commit_timestamp``, the same as a time): the columns that Spark gives changelogs.

*all*: a line for each mutation, of type ``put``, ``erase_cell``, ``erase_column``, ``erase_family``
or ``erase_row``. What an erasure does not have is null: a value, a qualifier, a family, and the
timestamp where it reaches all versions.

*net*: the difference between two moments. What is there only at the end is an ``insert``, only at
the start a ``delete``; what is there at both and differs is two lines, ``update_preimage`` and
``update_postimage``. What looks the same at both is no change, whatever was committed in between.
Its commit is the last one in the range that touched the row.

A row is known by its key, a cell by its column; where several versions are asked for, by its
column and timestamp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stele.model.arrays import Bools, Ints, numbers
from stele.model.cells import CELLS, TIMESTAMP_MAX, Op
from stele.model.predicates import CellSpec
from stele.model.ranges import RowRange
from stele.storage.change_reader import ChangeReader, NetRows
from stele.storage.references import Reference

ChangeMode = Literal["net", "all"]
CHANGE_MODES: tuple[ChangeMode, ...] = get_args(ChangeMode)

CHANGE_TYPE = "_change_type"
COMMIT_VERSION = "_commit_version"
COMMIT_TIMESTAMP = "_commit_timestamp"

CHANGE_FIELDS = pa.schema(
    [
        pa.field(CHANGE_TYPE, pa.string()),
        pa.field(COMMIT_VERSION, pa.int64()),
        pa.field(COMMIT_TIMESTAMP, pa.timestamp("us", "UTC")),
    ]
)
"""What every line ends with."""

CHANGED_CELLS = pa.schema(
    [
        pa.field("row", pa.binary()),
        pa.field("family", pa.string()),
        pa.field("qualifier", pa.binary()),
        pa.field("timestamp", pa.int64()),
        pa.field("value", pa.binary()),
        *CHANGE_FIELDS,
    ]
)
"""A line for each changed cell, or for each mutation."""

INSERT, DELETE = "insert", "delete"
PREIMAGE, POSTIMAGE = "update_preimage", "update_postimage"

MUTATION_TYPES = tuple(op.name.lower() for op in Op)
"""By the number of the op."""

COLUMN = ("row", "family", "qualifier")
VERSION = (*COLUMN, "timestamp")


def mutation_lines(cells: pa.RecordBatch) -> pa.RecordBatch:
    """A line for each mutation."""
    ops = numbers(cells.column("op"), np.int8)
    timestamps = numbers(cells.column("timestamp"), np.int64)
    erases = ops != Op.PUT
    kinds = pa.array(MUTATION_TYPES).take(cells.column("op"))
    columns = [
        cells.column("row"),
        _without(cells.column("family").cast(pa.string()), ops == Op.ERASE_ROW),
        _without(cells.column("qualifier"), ops <= Op.ERASE_FAMILY),
        _without(cells.column("timestamp"), erases & (timestamps == TIMESTAMP_MAX)),
        _without(cells.column("value"), erases),
        *_commits(kinds, numbers(cells.column("txn"), np.int64)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=CHANGED_CELLS)


def _without(array: pa.Array, missing: Bools) -> pa.Array:
    return pc.if_else(pa.array(missing), pa.scalar(None, array.type), array)


def _commits(kinds: pa.Array, txns: Ints) -> list[pa.Array]:
    version = pa.array(txns, pa.int64())
    return [kinds, version, version.cast(CHANGE_FIELDS.field(COMMIT_TIMESTAMP).type)]


def net_cell_lines(net: NetRows, *, by_version: bool) -> pa.RecordBatch:
    """A line for each cell that differs, two for one that has another value."""
    identity, compared = (VERSION, ("value",)) if by_version else (COLUMN, ("timestamp", "value"))
    old, new = _differences(net.before, net.after, identity, compared)
    sides = [
        (net.before.filter(pa.array(old.changed)), old, (DELETE, PREIMAGE)),
        (net.after.filter(pa.array(new.changed)), new, (INSERT, POSTIMAGE)),
    ]
    parts = [
        pa.RecordBatch.from_arrays(
            [
                *(_plain(cells.column(name)) for name in CHANGED_CELLS.names[:5]),
                *_commits(_choose(kinds, side.paired[side.changed]), net.txns[_places(net, cells)]),
            ],
            schema=CHANGED_CELLS,
        )
        for cells, side, kinds in sides
    ]
    return _ordered_cells(parts, by_version=by_version)


def _plain(array: pa.Array) -> pa.Array:
    return array.cast(pa.string()) if pa.types.is_dictionary(array.type) else array


def _ordered_cells(parts: Sequence[pa.RecordBatch], *, by_version: bool) -> pa.RecordBatch:
    """Both sides in cell order; where they have the same cell, the older side first."""
    lines = pa.Table.from_batches(parts).combine_chunks()
    sides = np.repeat(np.arange(len(parts)), [part.num_rows for part in parts])
    keyed = lines.append_column("side", pa.array(sides))
    by = [(name, "ascending") for name in COLUMN]
    if by_version:
        by.append(("timestamp", "descending"))
    return one_batch(lines.take(pc.sort_indices(keyed, [*by, ("side", "ascending")])))


def net_row_lines(
    net: NetRows, convert: Callable[[pa.RecordBatch], pa.RecordBatch], schema: pa.Schema
) -> pa.RecordBatch:
    """A line for each row that is new or gone, two for one that differs.

    ``convert`` makes lines of the cells of whole rows, ``schema`` is that of its lines; they are
    given the fields of a change. Only values count: a row that was written again as it was is none.
    """
    old, new = _differences(net.before, net.after, COLUMN, ("value",))
    before, after = _places(net, net.before), _places(net, net.after)
    touched = np.zeros(len(net.rows), np.bool_)
    touched[before[old.changed]] = True
    touched[after[new.changed]] = True
    there = [_present(places, len(net.rows)) for places in (before, after)]
    both = there[0] & there[1]
    parts, rows, kinds = [], [], []
    sides = ((net.before, before, (DELETE, PREIMAGE)), (net.after, after, (INSERT, POSTIMAGE)))
    for (cells, places, names), present in zip(sides, there, strict=True):
        chosen = touched[places]
        if chosen.any():
            mine = np.flatnonzero(touched & present)
            parts.append(convert(cells.filter(pa.array(chosen))))
            rows.append(mine)
            kinds.append(_choose(names, both[mine]))
    if not parts:
        return one_batch(with_changes(schema).empty_table())
    places = np.concatenate(rows)
    lines = pa.Table.from_batches(parts)
    for field, column in zip(
        CHANGE_FIELDS, _commits(pa.concat_arrays(kinds), net.txns[places]), strict=True
    ):
        lines = lines.append_column(field, column)
    return one_batch(lines.take(pa.array(np.argsort(places, kind="stable"))))


def with_changes(schema: pa.Schema) -> pa.Schema:
    """The schema of lines, with the fields of a change."""
    return pa.schema([*schema, *CHANGE_FIELDS])


def one_batch(lines: pa.Table) -> pa.RecordBatch:
    """A table of few lines as one batch, also one without any."""
    batches = lines.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], lines.schema)


def _choose(names: tuple[str, str], second: Bools) -> pa.Array:
    return pa.array(names, pa.string()).take(pa.array(second.astype(np.int8)))


def _places(net: NetRows, cells: pa.RecordBatch) -> Ints:
    """For each cell the place of its row among the rows that were touched."""
    found = pc.index_in(cells.column("row"), value_set=net.rows)
    return numbers(found, np.int32)


def _present(places: Ints, count: int) -> Bools:
    present = np.zeros(count, np.bool_)
    present[places] = True
    return present


class _Side:
    """Of the cells at one moment: those that differ, and those that the other moment has too."""

    __slots__ = ("changed", "paired")

    def __init__(self, count: int):
        self.changed: Bools = np.ones(count, np.bool_)
        self.paired: Bools = np.zeros(count, np.bool_)


def _differences(
    before: pa.RecordBatch,
    after: pa.RecordBatch,
    identity: Sequence[str],
    compared: Sequence[str],
) -> tuple[_Side, _Side]:
    """Match the cells of both moments by ``identity`` and compare those that match."""
    assert before.schema.equals(CELLS)
    old, new = _Side(before.num_rows), _Side(after.num_rows)
    if not before.num_rows or not after.num_rows:
        return old, new
    keys = [pa.concat_arrays([_plain(before[name]), _plain(after[name])]) for name in identity]
    places = pa.array(np.arange(before.num_rows + after.num_rows))
    table = pa.table([*keys, places], [*identity, "place"])
    ends = [("place", "min"), ("place", "max")]
    groups = table.group_by(list(identity), use_threads=False).aggregate(ends)
    first, last = (groups.column(f"place_{end}").to_numpy() for end in ("min", "max"))
    first, last = first[first != last], last[first != last] - before.num_rows
    old.paired[first] = new.paired[last] = True
    same = np.ones(len(first), np.bool_)
    for name in compared:
        equal = pc.equal(before[name].take(pa.array(first)), after[name].take(pa.array(last)))
        same &= equal.to_numpy(zero_copy_only=False)
    old.changed[first[same]] = new.changed[last[same]] = False
    return old, new


@dataclass(frozen=True, slots=True)
class ChangeTelling:
    """How a feed is told: ``all`` or ``net``, and in which lines."""

    mode: ChangeMode
    spec: CellSpec
    convert: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None
    """Makes wide lines of the cells of whole rows; without it, lines are cells."""
    wide: pa.Schema | None = None
    """The schema of wide lines."""

    @property
    def schema(self) -> pa.Schema:
        """That of all lines."""
        return CHANGED_CELLS if self.wide is None else with_changes(self.wide)

    def lines(
        self, reader: ChangeReader, references: Iterable[Reference], rows: RowRange
    ) -> Iterator[pa.RecordBatch]:
        """The changes that references hold in a range of rows; no batch is empty."""
        if self.mode == "all":
            yield from map(mutation_lines, reader.mutations(references, rows, self.spec.columns))
            return
        for part in reader.net(references, rows, self.spec):
            lines = self._net(part)
            if lines.num_rows:
                yield lines

    def _net(self, part: NetRows) -> pa.RecordBatch:
        if self.convert is not None and self.wide is not None:
            return net_row_lines(part, self.convert, self.wide)
        return net_cell_lines(part, by_version=self.spec.versions != 1)
