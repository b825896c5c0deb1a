"""Which files of a plan Spark may read by itself, and which have to be merged.

A file is *clean* for a read when what Spark finds in it is the answer, and nothing else has a say:
it is shown as a whole, by all tablets together; no txn is above the plan's, none is put in its
place; and

- for *cells* it is in the cells layout, has no erasures and no second versions, and no other
  reference overlaps it in rows and columns;
- for *rows* it is in the columns layout, holds every column of the read in the type of the read,
  and no other reference that matters overlaps its rows: a line is made of all of them.

What has to be merged keeps its tablet.

Row ranges and columns are looked at first: what a read does not ask for cannot be in its way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from stele.model.column_set import ColumnSet
from stele.model.ranges import RowRange
from stele.spark.requests import ReadRequest
from stele.storage.fragment_format import CELLS_LAYOUT, FragmentInfo
from stele.storage.read_plan import ReadPlan, TabletPlan
from stele.storage.reference_streams import first_row, last_row
from stele.storage.references import Reference, References, unite

NATIVE_RANGES_MAX = 64
"""Row ranges that are given to Spark as a condition; more are quicker for the kernels."""


@dataclass(frozen=True, slots=True)
class Routes:
    """A plan in two parts: together they are complete, and no cell is in both."""

    clean: tuple[FragmentInfo, ...]
    merged: tuple[TabletPlan, ...]


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
    is_fit = _holds_cells if in_cells else holds_lines
    alone = {
        tablet.rows: {
            reference
            for reference in _uncrowded(tablet.references, by_columns=in_cells)
            if reference.txn is None and reference.txn_max <= plan.txn and is_fit(reference.file)
        }
        for tablet in wanted
    }
    united = unite(reference for references in alone.values() for reference in references)
    whole = {ref.file.name: ref.file for ref in united if ref.shows_whole_file}
    merged = (
        msgspec.structs.replace(
            tablet,
            references=tuple(
                reference
                for reference in tablet.references
                if reference.file.name not in whole or reference not in alone[tablet.rows]
            ),
        )
        for tablet in wanted
    )
    clean = sorted(whole.values(), key=lambda file: file.summary.first_row)
    return Routes(tuple(clean), tuple(tablet for tablet in merged if tablet.references))


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


def inside(ranges: Iterable[RowRange], rows: RowRange) -> tuple[RowRange, ...]:
    """The parts of ranges that lie in a tablet."""
    parts = (wanted.intersect(rows) for wanted in ranges)
    return tuple(part for part in parts if part is not None)


def _matters(reference: Reference, ranges: Sequence[RowRange], columns: ColumnSet) -> bool:
    low, high = first_row(reference), last_row(reference)
    in_rows = any(part.start <= high and (part.end is None or low < part.end) for part in ranges)
    return in_rows and reference.columns.overlaps(columns)


def _holds_cells(file: FragmentInfo) -> bool:
    return file.layout == CELLS_LAYOUT and file.summary.is_clean


def _uncrowded(references: References, *, by_columns: bool) -> Iterable[Reference]:
    """The references that no other one overlaps: in rows and columns, or in rows alone."""
    crowded: set[Reference] = set()
    reach: list[Reference] = []
    for reference in sorted(references, key=first_row):
        reach = [other for other in reach if last_row(other) >= first_row(reference)]
        for other in reach:
            if not by_columns or other.columns.overlaps(reference.columns):
                crowded |= {other, reference}
        reach.append(reference)
    return (reference for reference in references if reference not in crowded)
