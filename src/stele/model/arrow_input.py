"""Arrow tables as requests: tables of cells, and wide tables with a column for each column.

Both give one sorted ``MUTATIONS`` batch. Everything is vectorised; input that is sorted already
is not sorted again. Users' tables come in many Arrow types for the same thing, so near types are
accepted and cast without loss: text for bytes, large and dictionary-encoded arrays, timestamps in
any unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stele.errors import InvalidArgument, InvalidCells, LimitExceeded
from stele.model.arrays import Ints, flatten, numbers, offsets, valid_mask
from stele.model.cell_order import first_disorder, sort_cells
from stele.model.cells import MUTATIONS, ROW_ERASURE_FAMILY, TIMESTAMP_MAX, Op, no_mutations
from stele.model.columns import Column, check_family
from stele.model.key_codec import RAW_KEYS
from stele.model.limits import BATCH_BYTES_MAX, BATCH_CELLS_MAX, FAMILIES_MAX
from stele.model.schema import Schema
from stele.model.typed_columns import TypedColumn
from stele.model.types import is_bytes, is_text, value_type

CELL_COLUMNS = ("row", "family", "qualifier", "value")
"""What a table of cells must have. It may also have ``timestamp`` and ``op``, and a ``txn``, which
is ignored: the cells get a new one."""

TIMESTAMP_COLUMN = "_timestamp"
"""In a wide table: the timestamp of all cells of a row, null for the commit's txn."""

ROW_COLUMN = "row"

NullRule = Literal["skip", "delete"]
"""What a null in a wide table means: nothing, or that the column is erased."""

_BINARY = value_type("binary")
_STRING = value_type("string")


def from_cells_table(table: pa.Table | pa.RecordBatch) -> pa.RecordBatch:
    """Mutations of a table of cells. Without ``op`` all are puts.

    A null timestamp is the commit's txn on a put, and no bound on an erasure.
    """
    names = table.schema.names
    missing = [name for name in CELL_COLUMNS if name not in names]
    unknown = set(names) - {*CELL_COLUMNS, "timestamp", "op", "txn"}
    if missing or unknown or len(set(names)) != len(names):
        raise InvalidCells(
            f"a table of cells has the columns {', '.join(CELL_COLUMNS)}, and may have timestamp, "
            f"op and txn; this one has {', '.join(names)}"
        )
    count = table.num_rows
    _check_cell_count(count)
    ops = _ops(table) if "op" in names else np.full(count, Op.PUT)
    batch = pa.RecordBatch.from_arrays(
        [
            _as_bytes(table, "row"),
            _as_family(table),
            _as_bytes(table, "qualifier"),
            _as_timestamps(table.column("timestamp") if "timestamp" in names else None, count),
            pa.array(ops.astype(np.int8)),
            _as_bytes(table, "value"),
        ],
        schema=MUTATIONS,
    )
    return _in_order(batch)


def from_wide_table(
    schema: Schema,
    table: pa.Table | pa.RecordBatch,
    *,
    row: str | Sequence[str] | None = None,
    nulls: NullRule = "skip",
) -> pa.RecordBatch:
    """Mutations of a wide table: one row for each key, one column for each column.

    ``row`` names the column or columns of the key; by default the parts of a composite key, or
    ``row``. Other columns are named ``family:qualifier`` or by the label of a declared column. A
    declaration also gives the type; undeclared columns hold bytes or text.
    """
    if nulls not in ("skip", "delete"):
        raise InvalidArgument(f"nulls is 'skip' or 'delete', not {nulls!r}")
    names = table.schema.names
    if len(set(names)) != len(names):
        raise InvalidCells(f"two columns of the table have the same name: {', '.join(names)}")
    key_names = key_columns(schema, row)
    rows = encoded_rows(schema, table, key_names)
    columns = _wide_columns(schema, table, {*key_names, TIMESTAMP_COLUMN})
    _check_cell_count(len(rows) * len(columns))
    stamps = table.column(TIMESTAMP_COLUMN) if TIMESTAMP_COLUMN in names else None
    timestamps = _as_timestamps(stamps, table.num_rows)
    return _interleave(rows, columns, timestamps, nulls)


def key_columns(schema: Schema, row: object) -> list[str]:
    """The columns of a wide table that make up the key."""
    if row is None:
        return list(schema.key.names) if schema.key.composite else [ROW_COLUMN]
    if isinstance(row, str):
        return [row]
    if not isinstance(row, Sequence) or not all(isinstance(name, str) for name in row):
        raise InvalidArgument(f"row is the name of the key column, or a list, not {row!r:.80}")
    return list(row)


def encoded_rows(
    schema: Schema, table: pa.Table | pa.RecordBatch, key_names: list[str]
) -> pa.Array:
    """Encoded keys. One column of bytes holds encoded keys already, as everywhere."""
    missing = [name for name in key_names if name not in table.schema.names]
    if missing:
        raise InvalidCells(
            f"the table has no key column {missing[0]!r}; it has {', '.join(table.schema.names)}"
        )
    parts = [flatten(table.column(name)) for name in key_names]
    for name, part in zip(key_names, parts, strict=True):
        if part.null_count:
            raise InvalidCells(
                f"key column {name!r} has {part.null_count} nulls in {len(part)} lines, and every "
                f"row needs a key: leave these lines out, or fill them in"
            )
    if schema.key == RAW_KEYS and len(parts) == 1 and is_text(parts[0].type):
        parts = [parts[0].cast(pa.binary())]
    encoded = len(parts) == 1 and pa.types.is_binary(parts[0].type)
    if not encoded:
        return schema.key.encode_arrays(parts)
    _, undecodable = schema.key.decode_arrays(parts[0])
    empty = np.diff(offsets(parts[0])) == 0
    for wrong in np.flatnonzero(undecodable | empty)[:1]:
        schema.key.to_bytes(parts[0][int(wrong)].as_py())
    return parts[0]


def _wide_columns(
    schema: Schema, table: pa.Table | pa.RecordBatch, not_data: set[str]
) -> list[tuple[Column, pa.Array]]:
    """The encoded values of each data column, sorted by column."""
    by_label = {typed.label: typed for typed in schema.columns}
    columns: dict[Column, pa.Array] = {}
    for name in table.schema.names:
        if name in not_data:
            continue
        typed = by_label.get(name)
        try:
            column = typed.column if typed is not None else Column.parse(name)
            values = _wide_values(typed or schema.typed_column(column), table.column(name))
        except InvalidArgument as error:
            raise InvalidCells(f"column {name!r:.80} of the table: {error}") from error
        if column in columns:
            raise InvalidCells(f"two columns of the table are column {str(column)!r}")
        columns[column] = values
    return sorted(columns.items())


def _wide_values(typed: TypedColumn | None, values: pa.ChunkedArray) -> pa.Array:
    if typed is not None:
        return typed.type.encode_array(values)
    plain = flatten(values)
    if not (is_text(plain.type) or is_bytes(plain.type) or pa.types.is_null(plain.type)):
        raise InvalidCells(f"its type {plain.type} is not declared in the table's schema")
    return (_STRING if is_text(plain.type) else _BINARY).encode_array(plain)


def _interleave(
    rows: pa.Array,
    columns: list[tuple[Column, pa.Array]],
    timestamps: pa.Array,
    nulls: NullRule,
) -> pa.RecordBatch:
    """Cell ``(i, c)`` of the result is row ``order[i]`` of column ``c``: one index, many takes."""
    if not columns or not len(rows):
        return no_mutations()
    order = pc.sort_indices(rows).to_numpy().astype(np.int64)
    count = len(rows)
    source = (order[:, None] + count * np.arange(len(columns))[None, :]).reshape(-1)
    present = np.concatenate([valid_mask(values) for _, values in columns])
    if nulls == "skip":
        source = source[present[source]]
    line, place = source % count, source // count
    sizes = np.concatenate([np.diff(offsets(_no_nulls(values))) for _, values in columns])
    _check_bytes(int(sizes[source].sum()) + int(np.diff(offsets(rows))[line].sum()))
    values = pa.concat_arrays([_no_nulls(values) for _, values in columns])
    families = sorted({column.family for column, _ in columns})
    codes = np.array([families.index(column.family) for column, _ in columns], np.int16)
    batch = pa.RecordBatch.from_arrays(
        [
            rows.take(pa.array(line)),
            pa.DictionaryArray.from_arrays(pa.array(codes[place]), pa.array(families)),
            pa.array([column.qualifier for column, _ in columns]).take(pa.array(place)),
            timestamps.take(pa.array(line)),
            pa.array(np.where(present[source], Op.PUT, Op.ERASE_COLUMN).astype(np.int8)),
            values.take(pa.array(source)),
        ],
        schema=MUTATIONS,
    )
    return _in_order(batch)


def _no_nulls(values: pa.Array) -> pa.Array:
    return pc.fill_null(values, b"") if values.null_count else values


def _in_order(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Sorted, if it is not; duplicates are refused."""
    if first_disorder(batch) < 0:
        return batch
    ordered = sort_cells(batch)
    index = first_disorder(ordered)
    if index >= 0:
        cell = ordered.slice(index, 1).to_pylist()[0]
        name = f"{cell['family']}:{cell['qualifier'].decode('utf-8', 'backslashreplace')}"
        raise InvalidCells(f"row {cell['row'][:64]!r}, column {name!r} is there twice")
    return ordered


def _check_cell_count(count: int) -> None:
    if count > BATCH_CELLS_MAX:
        raise LimitExceeded(f"{count} cells are over the limit of {BATCH_CELLS_MAX} for one batch")


def _check_bytes(size: int) -> None:
    if size > BATCH_BYTES_MAX:
        raise LimitExceeded(f"{size} bytes are over the limit of {BATCH_BYTES_MAX} for one batch")


def _as_bytes(table: pa.Table | pa.RecordBatch, name: str) -> pa.Array:
    plain = flatten(table.column(name))
    _check_no_nulls(table, name, plain)
    try:
        return (_STRING if is_text(plain.type) else _BINARY).encode_array(plain)
    except InvalidArgument as error:
        raise InvalidCells(f"column {name!r}: {error}") from error


def _as_family(table: pa.Table | pa.RecordBatch) -> pa.Array:
    plain = flatten(table.column("family"))
    if not (is_text(plain.type) or len(plain) == 0 or pa.types.is_null(plain.type)):
        raise InvalidCells(f"column 'family' is text, not {plain.type}")
    _check_no_nulls(table, "family", plain)
    encoded = pc.dictionary_encode(plain.cast(pa.utf8()))
    names = encoded.dictionary.to_pylist()
    if len(names) > FAMILIES_MAX:
        raise LimitExceeded(f"{len(names)} families are over the limit of {FAMILIES_MAX}")
    for name in names:
        if name != ROW_ERASURE_FAMILY:
            check_family(name)
    return pa.DictionaryArray.from_arrays(encoded.indices.cast(pa.int16()), encoded.dictionary)


def _ops(table: pa.Table | pa.RecordBatch) -> Ints:
    plain = flatten(table.column("op"))
    if not (pa.types.is_integer(plain.type) or pa.types.is_null(plain.type)):
        raise InvalidCells(f"column 'op' is whole numbers, not {plain.type}")
    _check_no_nulls(table, "op", plain)
    ops = plain.to_numpy(zero_copy_only=False)
    for wrong in np.flatnonzero((ops < min(Op)) | (ops > max(Op)))[:1]:
        raise InvalidCells(
            f"op is a number from {min(Op)} to {max(Op)}, not {ops[wrong]} as in row "
            f"{_row_shown(table, int(wrong))}"
        )
    return numbers(plain.cast(pa.int64()), np.int64)


def _check_no_nulls(table: pa.Table | pa.RecordBatch, name: str, plain: pa.Array) -> None:
    if plain.null_count:
        first = pc.index(plain.is_null(), True).as_py()
        raise InvalidCells(
            f"column {name!r} has {plain.null_count} nulls, the first in row "
            f"{_row_shown(table, first)}; cells have none"
        )


def _row_shown(table: pa.Table | pa.RecordBatch, place: int) -> str:
    """The row key beside something that is wrong."""
    return f"{table.column('row')[place].as_py()!r:.80}"


def _as_timestamps(column: pa.ChunkedArray | pa.Array | None, count: int) -> pa.Array:
    """Microseconds; ``TIMESTAMP_MAX`` where there are none."""
    if column is None:
        return pa.array(np.full(count, TIMESTAMP_MAX, np.int64))
    plain = flatten(column)
    try:
        if pa.types.is_timestamp(plain.type):
            plain = plain.cast(pa.timestamp("us", plain.type.tz)).cast(pa.int64())
        elif not (pa.types.is_integer(plain.type) or pa.types.is_null(plain.type)):
            raise InvalidCells(f"timestamps are µs or Arrow timestamps, not {plain.type}")
        return pc.fill_null(plain.cast(pa.int64()), TIMESTAMP_MAX)
    except pa.ArrowInvalid as error:
        raise InvalidCells(f"timestamps do not fit into 64 bits of µs: {error}") from error
