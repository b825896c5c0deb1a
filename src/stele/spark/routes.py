"""Which files of a plan Spark may read by itself, and which have to be merged.

A file is *clean* for a read when what Spark finds in it is the answer, and nothing else has a say:
it is shown as a whole, by all tablets together; no txn is above the plan's; and

- for *cells* it is in the cells layout, has no erasures and no second versions, its own txns, and
  no other reference overlaps it in rows and columns;
- for *rows* it is in the columns layout, holds every column of the read in the type of the read,
  and no other reference that matters overlaps its rows: a line is made of all of them.

What has to be merged keeps its tablet.

Row ranges and columns are looked at first: what a read does not ask for cannot be in its way.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

import msgspec

from stele.model.column_set import ColumnSet
from stele.model.ranges import RowRange
from stele.spark.requests import ReadRequest
from stele.storage.clean_files import Routes, holds_cells, split_clean
from stele.storage.fragment_format import FragmentInfo
from stele.storage.read_plan import ReadPlan, TabletPlan
from stele.storage.reference_streams import first_row, last_row
from stele.storage.references import Reference

NATIVE_RANGES_MAX = 64
"""Row ranges that are given to Spark as a condition; more are quicker for the kernels."""


def never(_file: FragmentInfo) -> bool:
    """For reads whose lines no file holds as they are."""
    return False


def choose_routes(
    plan: ReadPlan, request: ReadRequest, holds_lines: Callable[[FragmentInfo], bool] = never
) -> Routes:
    """Split a plan for a read; ``holds_lines`` judges files of the columns layout for wide rows."""
    wanted = relevant(plan, request)
    if request.spec.filters or len(request.spec.ranges) > NATIVE_RANGES_MAX:
        return Routes((), wanted)
    in_cells = request.shape == "cells"
    is_fit = holds_cells if in_cells else holds_lines
    return split_clean(wanted, plan.txn, is_fit, by_columns=in_cells)


def relevant(plan: ReadPlan, request: ReadRequest) -> tuple[TabletPlan, ...]:
    """The tablets and references that hold anything a read asks for, as they are."""
    schema = plan.schema
    spec = request.cell_spec(schema)
    columns = schema.served.intersect(spec.columns.column_set)
    found = []
    for tablet in plan.tablets:
        ranges = inside(spec.ranges, tablet.rows)
        references = tuple(ref for ref in tablet.references if _matters(ref, ranges, columns))
        if references:
            found.append(msgspec.structs.replace(tablet, references=references))
    return tuple(found)


def inside(ranges: Sequence[RowRange], rows: RowRange) -> tuple[RowRange, ...]:
    """The parts that lie in a tablet of ranges that are in order and apart, as those of a read."""
    first = max(0, bisect_right(ranges, rows.start, key=_start) - 1)
    last = len(ranges) if rows.end is None else bisect_left(ranges, rows.end, key=_start)
    parts = (wanted.intersect(rows) for wanted in ranges[first:last])
    return tuple(part for part in parts if part is not None)


def _start(rows: RowRange) -> bytes:
    return rows.start


def _matters(reference: Reference, ranges: Sequence[RowRange], columns: ColumnSet) -> bool:
    low, high = first_row(reference), last_row(reference)
    in_rows = any(part.start <= high and (part.end is None or low < part.end) for part in ranges)
    return in_rows and reference.columns.overlaps(columns)
