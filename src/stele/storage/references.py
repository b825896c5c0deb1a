"""References: how a tablet speaks of a fragment file without owning it; and flush marks.

A reference names a file, a row fence, a column set and perhaps a txn. A tablet sees of the file
exactly the cells inside the fence and the columns. Row erasures carry no family; they act on
exactly the columns of the reference they are read through.

A file that was written before its commit was known (an import) stores txn 0 in every cell, and the
reference carries the txn that readers put in its place.

A flush mark has the same shape: everything inside its rows and columns, up to and including its
txn, is in fragments, so recovery need not and must not replay it (``flush_marks``).

Splitting, joining, regrouping and cloning tablets change references and marks, never files. All
functions here are pure. ``unite`` gives the one form in which a set of references is stored: no
cell of a file is named twice, so that joining two halves gives back the whole.

Both are stored in META as JSON, which is input like any other when it is read back: a value that
breaks a limit cannot be made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec

from stele.errors import Corruption, InvalidArgument
from stele.kernels.sources import Facts
from stele.model.cells import ROW_ERASURE_FAMILY
from stele.model.column_set import ALL_COLUMNS, ColumnSet
from stele.model.limits import FAMILIES_MAX, FAMILY_BYTES_MAX, ROW_BYTES_MAX
from stele.model.ranges import EVERYTHING, RowRange
from stele.storage.fragment_format import COLUMNS_LAYOUT, FragmentInfo, Int64
from stele.storage.regions import Region, subtract
from stele.storage.regions import unite as unite_regions

IMPORT_TXN = 0
"""What every cell of a file holds whose reference carries the txn."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One file as one tablet and group see it."""

    file: FragmentInfo
    rows: RowRange = EVERYTHING
    columns: ColumnSet = ALL_COLUMNS
    txn: Int64 | None = None

    def __post_init__(self) -> None:
        _check_region(self.rows, self.columns)
        summary = self.file.summary
        if self.txn is not None and (summary.txn_min, summary.txn_max) != (IMPORT_TXN, IMPORT_TXN):
            raise InvalidArgument(
                f"{self.file.name} cannot be given a txn: its cells have txns of their own"
            )

    @property
    def txn_max(self) -> int:
        """The largest txn any of its cells can have (T56)."""
        return self.file.summary.txn_max if self.txn is None else self.txn

    @property
    def families(self) -> tuple[str, ...]:
        """Families of the file that can be seen through it."""
        return self.columns.select(
            family for family in self.file.summary.families if family != ROW_ERASURE_FAMILY
        )

    @property
    def shows_whole_file(self) -> bool:
        """Whether every cell of the file can be seen through it."""
        summary = self.file.summary
        return (
            self.rows.contains(summary.first_row)
            and self.rows.contains(summary.last_row)
            and {*self.families, ROW_ERASURE_FAMILY} >= {*summary.families}
        )

    @property
    def parts(self) -> tuple[Reference, ...]:
        """The same for each file by itself: a companion is merged like any other file."""
        companion = self.file.companion
        return (self,) if companion is None else (self, replace(self, file=companion))

    @property
    def facts(self) -> Facts:
        """What a merge may know of the cells of its file, companion aside, without looking."""
        summary = self.file.summary
        if self.file.layout == COLUMNS_LAYOUT:
            return Facts(self.txn_max, erasures=False, versions_max=1)
        return Facts(self.txn_max, summary.erasures.total > 0, summary.versions_max)

    def restricted(self, region: Region) -> Reference | None:
        """The part inside a region; None when it can show no cell there."""
        inside = Region(self.rows, self.columns).intersect(region)
        if inside is None:
            return None
        summary = self.file.summary
        if inside.rows.start > summary.last_row:
            return None
        if inside.rows.end is not None and inside.rows.end <= summary.first_row:
            return None
        seen = replace(self, rows=inside.rows, columns=inside.columns)
        # Row erasures of a file reach every family of the reference, also those it has no cell of.
        return seen if seen.families or summary.erasures.row else None


@dataclass(frozen=True, slots=True)
class FlushMark:
    """Everything in these rows and columns up to and including ``txn`` is in fragments."""

    rows: RowRange
    columns: ColumnSet
    txn: Int64

    def __post_init__(self) -> None:
        _check_region(self.rows, self.columns)


def _check_region(rows: RowRange, columns: ColumnSet) -> None:
    """Hold what may come from META to the limits of rows and families."""
    # The end of a range is exclusive: one byte more than the longest row.
    longest = max(len(rows.start), len(rows.end or b""))
    if longest > ROW_BYTES_MAX + 1:
        raise InvalidArgument(f"a row of {longest} bytes, the limit is {ROW_BYTES_MAX}")
    if columns.is_empty:
        raise InvalidArgument("a reference or mark without columns")
    if len(columns.families) > FAMILIES_MAX:
        raise InvalidArgument(f"{len(columns.families)} families, the limit is {FAMILIES_MAX}")
    for family in columns.families:
        if len(family.encode()) > FAMILY_BYTES_MAX:
            raise InvalidArgument(f"family {family[:32]!r}… is over {FAMILY_BYTES_MAX} bytes")


References = tuple[Reference, ...]
Marks = tuple[FlushMark, ...]


def restrict(
    references: Iterable[Reference], rows: RowRange = EVERYTHING, columns: ColumnSet = ALL_COLUMNS
) -> References:
    """What of the references lies in a row range and in a column set."""
    if columns.is_empty:
        return ()
    region = Region(rows, columns)
    inside = (reference.restricted(region) for reference in references)
    return tuple(reference for reference in inside if reference is not None)


def file_references(references: Iterable[Reference]) -> Iterator[Reference]:
    """All files that references show, companions apart from the files they belong to."""
    return (part for reference in references for part in reference.parts)


def split(references: Iterable[Reference], row: bytes) -> tuple[References, References]:
    """The references of the tablet below ``row`` and of the one from it on."""
    everything = tuple(references)
    return restrict(everything, RowRange(b"", row)), restrict(everything, RowRange(row))


def regroup(
    references: Iterable[Reference], groups: Mapping[str, ColumnSet]
) -> dict[str, References]:
    """The references of all old groups of a tablet, given to new groups by their columns."""
    everything = tuple(references)
    return {name: unite(restrict(everything, columns=columns)) for name, columns in groups.items()}


def unite(references: Iterable[Reference]) -> References:
    """The references of joined tablets or groups: no two show a cell, or a row, of one file.

    The result does not depend on how the references were cut before.
    """
    by_file: dict[tuple[str, int | None], list[Reference]] = {}
    for reference in references:
        by_file.setdefault((reference.file.name, reference.txn), []).append(reference)
    result: list[Reference] = []
    for (name, txn), same in sorted(by_file.items(), key=_by_name_and_txn):
        file = same[0].file
        if any(reference.file != file for reference in same):
            raise InvalidArgument(f"two references disagree about what file {name} is")
        regions = unite_regions(Region(part.rows, part.columns) for part in same)
        result.extend(Reference(file, region.rows, region.columns, txn) for region in regions)
    return tuple(result)


def without(references: Iterable[Reference], gone: Iterable[Reference]) -> References | None:
    """What references show besides what ``gone`` shows; ``None`` if they do not show all of that.

    How either was cut before does not matter: what counts is which cells of which file.
    """
    left = list(references)
    for one in gone:
        taken = Region(one.rows, one.columns)
        same = [ref for ref in left if (ref.file, ref.txn) == (one.file, one.txn)]
        missing = subtract(taken, (Region(ref.rows, ref.columns) for ref in same))
        if any(one.restricted(region) is not None for region in missing):
            return None
        pieces = (
            ref.restricted(region)
            for ref in same
            for region in Region(ref.rows, ref.columns).minus(taken)
        )
        others = [ref for ref in left if ref not in same]
        left = [*others, *(piece for piece in pieces if piece is not None)]
    return tuple(left)


def _by_name_and_txn(
    item: tuple[tuple[str, int | None], list[Reference]],
) -> tuple[str, bool, int]:
    (name, txn), _ = item
    return name, txn is not None, txn or 0


def coalesce_marks(marks: Iterable[FlushMark]) -> Marks:
    """As few marks as possible that cover exactly the same cells, the highest first."""
    by_txn: dict[int, list[Region]] = {}
    for mark in marks:
        by_txn.setdefault(mark.txn, []).append(Region(mark.rows, mark.columns))
    above: list[Region] = []
    kept: list[FlushMark] = []
    for txn in sorted(by_txn, reverse=True):
        regions = unite_regions(by_txn[txn])
        kept.extend(
            FlushMark(region.rows, region.columns, txn)
            for region in regions
            if subtract(region, above)
        )
        above.extend(regions)
    return tuple(kept)


def restrict_marks(
    marks: Iterable[FlushMark], rows: RowRange = EVERYTHING, columns: ColumnSet = ALL_COLUMNS
) -> Marks:
    """What the marks say of a row range and a column set."""
    if columns.is_empty:
        return ()
    wanted = Region(rows, columns)
    inside = ((Region(mark.rows, mark.columns).intersect(wanted), mark.txn) for mark in marks)
    return coalesce_marks(
        FlushMark(region.rows, region.columns, txn) for region, txn in inside if region is not None
    )


# The stored form.

_references = msgspec.json.Decoder(tuple[Reference, ...])
_marks = msgspec.json.Decoder(tuple[FlushMark, ...])


def encode_references(references: Iterable[Reference]) -> bytes:
    """References as they are stored; equal ones always give the same bytes."""
    return msgspec.json.encode(tuple(references), order="deterministic")


def decode_references(data: bytes, where: str) -> References:
    """References read back from ``where``; ``Corruption`` if they are not what we store."""
    try:
        return _references.decode(data)
    except (msgspec.DecodeError, UnicodeError, InvalidArgument) as error:
        raise Corruption(f"not a list of references: {error}", file=where) from error


def encode_marks(marks: Iterable[FlushMark]) -> bytes:
    """Marks as they are stored; equal ones always give the same bytes."""
    return msgspec.json.encode(tuple(marks), order="deterministic")


def decode_marks(data: bytes, where: str) -> Marks:
    """Marks read back from ``where``; ``Corruption`` if they are not what we store."""
    try:
        return _marks.decode(data)
    except (msgspec.DecodeError, UnicodeError, InvalidArgument) as error:
        raise Corruption(f"not a list of flush marks: {error}", file=where) from error
