"""What goes of rows, as lines of mutations: the same for loads, writes and deletes."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stele.model.arrays import flatten
from stele.model.cells import ROW_ERASURE_FAMILY, TIMESTAMP_MAX, Op

LINES = pa.schema(
    [
        ("row", pa.binary()),
        ("family", pa.string()),
        ("qualifier", pa.binary()),
        ("timestamp", pa.int64()),
        ("op", pa.int8()),
        ("value", pa.binary()),
    ]
)
"""``MUTATIONS`` with families as text: pieces of it can be put together and sorted by row."""


class ErasedPart(msgspec.Struct, frozen=True):
    """What goes of a row: all of it, a family or a column, by the op that erases it."""

    family: str
    qualifier: bytes
    op: int


WHOLE_ROW = (ErasedPart(ROW_ERASURE_FAMILY, b"", int(Op.ERASE_ROW)),)


def erasures(
    rows: pa.Array, times: pa.Array | pa.ChunkedArray | None, parts: Iterable[ErasedPart]
) -> pa.Table:
    """An erasure of each part of each row, up to its timestamp if it has one."""
    bounds = pa.array(np.full(len(rows), TIMESTAMP_MAX, np.int64))
    if times is not None:
        bounds = pc.fill_null(flatten(times).cast(pa.int64()), TIMESTAMP_MAX)
    tables = [LINES.empty_table()]
    for part in parts:
        values = [part.family, part.qualifier, part.op, b""]
        kinds = [pa.string(), pa.binary(), pa.int8(), pa.binary()]
        family, qualifier, op, value = (
            pa.repeat(pa.scalar(value, kind), len(rows))
            for value, kind in zip(values, kinds, strict=True)
        )
        arrays = [rows, family, qualifier, bounds, op, value]
        tables.append(pa.Table.from_arrays(arrays, schema=LINES))
    return pa.concat_tables(tables)


def each_once(lines: pa.Table) -> pa.Table:
    """The same erasures without repetition: asking twice for one is asking once."""
    names = lines.schema.names
    return lines.group_by(names).aggregate([]).select(names).cast(lines.schema)
