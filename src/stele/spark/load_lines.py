"""Lines of a load that are cells: the mutations they ask for, of one group.

The same words and the same checks as for cells that are written. A row that goes does so in every
group, as there each has files of its own.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from stele.errors import InvalidCells
from stele.model.cells import ROW_ERASURE_FAMILY
from stele.model.groups import Group
from stele.model.schema import Schema
from stele.spark.load_cells import FAMILY, OP, QUALIFIER, TIMESTAMP, VALUE, imported_cells
from stele.spark.row_sorter import ROW
from stele.spark.write_form import WriteForm
from stele.spark.write_mutations import mutation_lines, sorted_mutations

_NAMES = {
    ROW: "row",
    FAMILY: "family",
    QUALIFIER: "qualifier",
    VALUE: "value",
    TIMESTAMP: "timestamp",
    OP: "op",
}
"""What columns of a load are called in a table of cells."""


def lines_as_cells(
    batch: pa.RecordBatch, schema: Schema, group: Group, timestamp: int
) -> pa.RecordBatch:
    """``CELLS`` with txn 0 of lines that are cells, of one group, in order."""
    names = [name for name in _NAMES if name in batch.schema.names]
    cells = batch.select(names).rename_columns([_NAMES[name] for name in names])
    form = WriteForm(
        kind="cells",
        key=("row",),
        timestamp="timestamp" if TIMESTAMP in names else None,
        op="op" if OP in names else None,
    )
    lines = mutation_lines(schema, form, cells)
    families = lines.column("family")
    found = pc.unique(families).to_pylist()
    for name in found:
        if name != ROW_ERASURE_FAMILY and schema.group_of(name) is None:
            raise InvalidCells(f"family {name!r} of a cell is in no group of the table's schema")
    mine = [name for name in found if schema.group_of(name) == group]
    chosen = lines.filter(pc.is_in(families, pa.array([*mine, ROW_ERASURE_FAMILY], pa.string())))
    return imported_cells(sorted_mutations(chosen), schema, timestamp)
