"""Writing whole Arrow tables: cut into parts, each checked and encoded at once, several in flight.

Anything that offers an Arrow stream is taken: pyarrow's tables, batches and readers, DataFrames of
pandas and Polars, results of DuckDB. It may be a table of cells (``row``, ``family``,
``qualifier``, ``value``, …) or a wide table; the names of its columns tell which.

What fits into one part is one commit, atomic within each tablet. More is sent in parts, cut between
rows where the input is sorted; with ``atomic`` it is one commit or refused.

Every batch is validated in full before anything looks into it: Arrow takes offsets and dictionary
codes as they come, and one that is wrong ends the process that reads it. The check needs to know
where a buffer ends, and Arrow's C interface does not tell: what comes through it is as long as its
last offset says. So pyarrow's own objects never pass it, and their damage is found wherever it is.
Other libraries have no other way; they own their memory, and are trusted with its ends. What
pyarrow itself has taken from them that way is trusted as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import pyarrow as pa

from stele.client.batch import Pipeline
from stele.client.table_core import TableCore
from stele.client.waiting import Timeout
from stele.errors import InvalidArgument, InvalidCells
from stele.model.arrow_input import (
    CELL_COLUMNS,
    NullRule,
    from_cells_table,
    from_wide_table,
)
from stele.model.schema import Schema

PART_CELLS = 65_536
PART_BYTES = 8 << 20
"""A part is about as large as either: encoding one costs less for each cell than encoding many
small ones, and eight in flight stay well within a memory budget."""

InputShape = Literal["cells", "rows"]


def write(
    core: TableCore,
    data: object,
    *,
    row: str | Sequence[str] | None = None,
    nulls: NullRule = "skip",
    shape: InputShape | None = None,
    atomic: bool = False,
    timeout: Timeout = None,
) -> int:
    """Write a table; the highest txn, once all of it is durable."""
    core.handle.check()
    reader = arrow_reader(data)
    cells = is_cells(reader.schema.names, shape)
    pipeline = Pipeline(core, timeout)
    try:
        for part in _whole(reader) if atomic else _parts(reader, cells):
            mutations = _mutations(core.backend.schema, part, cells, row, nulls)
            if mutations.num_rows:
                pipeline.send(mutations, mutations.column("row").unique().to_pylist)
        return pipeline.finish() or core.backend.durable_txn()
    except Exception:
        pipeline.settle()
        raise


def arrow_reader(data: Any) -> pa.RecordBatchReader:
    """A stream of record batches from anything that speaks Arrow."""
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.Table):
        return data.to_reader()
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if isinstance(data, pa.ChunkedArray) and pa.types.is_struct(data.type):
        return pa.Table.from_struct_array(data).to_reader()
    if hasattr(data, "__arrow_c_stream__"):
        try:
            return pa.RecordBatchReader.from_stream(data)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InvalidArgument(f"the data cannot be read as Arrow: {error}") from error
    raise InvalidArgument(
        f"write takes an Arrow table, a DataFrame or another object with an Arrow stream, not "
        f"{type(data).__name__}"
    )


def is_cells(names: Sequence[str], shape: InputShape | None) -> bool:
    """Whether columns of these names are those of a table of cells."""
    if shape not in (None, "cells", "rows"):
        raise InvalidArgument(f"shape is 'cells' or 'rows', not {shape!r}")
    return shape == "cells" if shape is not None else set(CELL_COLUMNS) <= set(names)


def _sound(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The batches of a stream that cannot be trusted."""
    while True:
        try:
            batch = next(reader, None)
            if batch is None:
                return
            batch.validate(full=True)
        except pa.ArrowException as error:
            raise InvalidCells(f"the data is damaged, or cannot be read: {error}") from error
        yield batch


def _whole(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """All of it as one part."""
    yield pa.Table.from_batches(_sound(reader), reader.schema)


def _parts(reader: pa.RecordBatchReader, cells: bool) -> Iterator[pa.Table]:
    """Stretches of about one part each, however the input is chunked.

    Cells of one row stay together where they are neighbours.
    """
    rest = reader.schema.empty_table()
    cells_per_line = 1 if cells else max(1, len(reader.schema) - 1)
    for batch in _sound(reader):
        rest = pa.concat_tables([rest, pa.Table.from_batches([batch])])
        bytes_per_line = max(1, rest.nbytes // max(1, rest.num_rows))
        step = max(1, min(PART_CELLS // cells_per_line, PART_BYTES // bytes_per_line))
        while rest.num_rows > step:
            end = _row_border(rest.column("row"), step) if cells else step
            yield rest.slice(0, end)
            rest = rest.slice(end)
    yield rest


def _row_border(rows: pa.ChunkedArray, end: int) -> int:
    """The last place at or before ``end`` where a row ends; ``end`` if there is none."""
    place = end
    while place > 0 and rows[place - 1] == rows[place]:
        place -= 1
    return place or end


def _mutations(
    schema: Schema,
    part: pa.Table,
    cells: bool,
    row: str | Sequence[str] | None,
    nulls: NullRule,
) -> pa.RecordBatch:
    if not cells:
        return from_wide_table(schema, part, row=row, nulls=nulls)
    if row is not None:
        raise InvalidArgument("row names the key column of wide rows; these are cells")
    return from_cells_table(part)
