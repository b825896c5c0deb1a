"""Which files of a plan hold nothing but what a reader may see, so that any Parquet reader may take
them as they are.

A file is *clean* when it is shown as a whole, by all tablets together; no txn is above the plan's;
nothing else that counts overlaps it; and its own cells are fit, which depends on what they are read
for. If a reference puts a txn in the place of the file's own, as it does after an import, lines of
the columns layout are still right, which are read for their values; cells are not. What is not
clean has to be merged, tablet by tablet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from stele.storage.fragment_format import CELLS_LAYOUT, COLUMNS_LAYOUT, FragmentInfo
from stele.storage.read_plan import TabletPlan
from stele.storage.reference_streams import first_row, last_row
from stele.storage.references import Reference, References, unite


@dataclass(frozen=True, slots=True)
class Routes:
    """A plan in two parts: together they are complete, and no cell is in both."""

    clean: tuple[FragmentInfo, ...]
    merged: tuple[TabletPlan, ...]


def split_clean(
    tablets: Sequence[TabletPlan],
    txn: int,
    is_fit: Callable[[FragmentInfo], bool],
    *,
    by_columns: bool,
) -> Routes:
    """Tablets at a txn in two parts; ``by_columns``: other columns of a row are not in the way."""
    alone = {
        tablet.rows: {
            reference
            for reference in _uncrowded(tablet.references, by_columns=by_columns)
            if reference.txn_max <= txn and _has_own_stamps(reference) and is_fit(reference.file)
        }
        for tablet in tablets
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
        for tablet in tablets
    )
    clean = sorted(whole.values(), key=lambda file: file.summary.first_row)
    return Routes(tuple(clean), tuple(tablet for tablet in merged if tablet.references))


def holds_cells(file: FragmentInfo) -> bool:
    """Whether a file has one line for each cell, and every one of them is visible."""
    return file.layout == CELLS_LAYOUT and file.summary.is_clean


def _has_own_stamps(reference: Reference) -> bool:
    """Whether a file says itself when its cells are of, or is not read for that."""
    return reference.txn is None or reference.file.layout == COLUMNS_LAYOUT


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
