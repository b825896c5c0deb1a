"""Verification of META and of the files it names (M19–M31): pure, from facts to findings.

The tablets of a table have to tile its rows: the first begins with the empty row, each begins where
the one before it ended, the last has no end. What is wrong is seen by walking them in the
order of their ends and comparing each with its predecessor.

Half a split is told from other damage by what M21 says: at the moment of a split both halves have
the same files, so the row that is too much shows nothing but what the other shows too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

from stele.errors import Corruption, InvalidArgument
from stele.model.cells import Cell
from stele.storage.fragment_format import FragmentInfo
from stele.storage.references import (
    Reference,
    file_references,
    restrict,
    restrict_marks,
    unite,
)
from stele.tablet.check.facts import FileFacts, StoreFacts
from stele.tablet.check.findings import Finding, Kind
from stele.tablet.config import TabletConfig
from stele.tablet.meta_rows import FIRST_COLUMN, loose_config, parse_meta_key
from stele.tablet.meta_table import META0, META1


def read_row(table: str, key: bytes, cells: Sequence[Cell]) -> TabletConfig | Finding:
    """The config in a row of META table ``table``, however little it fits, or why there is none."""
    try:
        return loose_config(key, cells)
    except Corruption as error:
        unreadable = Finding(Kind.UNREADABLE_CONFIG, table, repr(key), str(error))
    try:
        owner, end = parse_meta_key(key)
    except Corruption:
        return unreadable
    first = {(cell.family, cell.qualifier): cell.value for cell in cells}.get(FIRST_COLUMN)
    if first is None or end is None or first < end:
        return Finding(Kind.UNREADABLE_CONFIG, owner, repr(key), unreadable.detail, end=end)
    return Finding(
        Kind.BACKWARD_RANGE,
        owner,
        repr(key),
        f"the tablet in META row {key!r} begins at {first!r}, not below its end",
        first,
        end,
    )


def verify(facts: StoreFacts) -> list[Finding]:
    """Everything that is wrong, table by table."""
    findings = list(facts.unreadable)
    by_table: dict[str, list[TabletConfig]] = {}
    for config in facts.tablets:
        by_table.setdefault(config.table, []).append(config)
    known = facts.tables.keys() | {META0, META1}
    for table, configs in sorted(by_table.items()):
        if table not in known:
            continue  # nobody serves it
        findings += _check_tiling(facts, table, configs)
        findings += (finding for config in configs for finding in _check_config(facts, config))
    findings += _check_ids(facts.tablets)
    findings += _check_catalog(facts, by_table)
    findings += _check_leases(facts)
    findings += _find_orphans(facts)
    return findings


# Rows.


class Border(Enum):
    """How a tablet begins, seen from the one before it (M30)."""

    FINE = "fine"
    GAP = "gap"
    OVERLAP = "overlap"


def border(below: TabletConfig | None, config: TabletConfig) -> Border:
    """Compare a tablet's first row with its predecessor's end; the first tablet has none."""
    start = config.rows.start
    if below is None:
        return Border.FINE if start == b"" else Border.GAP
    if below.rows.end is None or below.rows.end > start:
        return Border.OVERLAP
    return Border.FINE if below.rows.end == start else Border.GAP


def in_order(configs: Iterable[TabletConfig]) -> list[TabletConfig]:
    """Tablets of one table as META has them: by their ends, the unbounded one last."""
    return sorted(configs, key=lambda c: (c.rows.end is None, c.rows.end or b""))


def _check_tiling(
    facts: StoreFacts, table: str, configs: Iterable[TabletConfig]
) -> Iterator[Finding]:
    """The full walk of M29."""
    ordered = in_order(configs)
    name = facts.name(table)
    below: TabletConfig | None = None
    for place, config in enumerate(ordered):
        match border(below, config):
            case Border.GAP:
                yield _gap(name, below, config)
            case Border.OVERLAP:
                yield from _overlaps(name, ordered[:place], config)
            case Border.FINE:
                pass
        below = config
    assert below is not None
    if below.rows.end is not None:
        detail = f"table {name!r} has no tablet for the rows from {below.rows.end!r} on"
        yield Finding(Kind.NO_LAST_TABLET, table, table, detail, below.rows.end)


def _gap(name: str, below: TabletConfig | None, config: TabletConfig) -> Finding:
    start = b"" if below is None else below.rows.end
    assert start is not None
    kind = Kind.FIRST_ROW_NOT_EMPTY if below is None else Kind.GAP
    detail = f"table {name!r} has no tablet for the rows from {start!r} to {config.rows.start!r}"
    return Finding(kind, config.table, config.id, detail, start, config.rows.start)


def _overlaps(name: str, before: Sequence[TabletConfig], config: TabletConfig) -> Iterator[Finding]:
    """A finding for each tablet further down that has rows of this one."""
    shared = [other for other in before if other.rows.overlaps(config.rows)]
    for other in shared:
        rows = other.rows.intersect(config.rows)
        assert rows is not None
        half = len(shared) == 1 and is_half_split(other, config)
        detail = f"tablets {other.id} and {config.id} of table {name!r} both have the rows {rows}"
        if half:
            detail += ": half of a split or join was saved"
        kind = Kind.HALF_SPLIT if half else Kind.OVERLAP
        yield Finding(kind, config.table, other.id, detail, rows.start, rows.end)


def is_half_split(lower: TabletConfig, whole: TabletConfig) -> bool:
    """Whether ``whole`` shows everything that ``lower``, its lower part, shows (M21, M27)."""
    rows = lower.rows
    if rows.start != whole.rows.start or lower.log != whole.log:
        return False
    try:
        same_files = unite(lower.references) == unite(restrict(whole.references, rows))
    except InvalidArgument:  # the two disagree about what a file is
        return False
    return same_files and restrict_marks(lower.marks, rows) == restrict_marks(whole.marks, rows)


def _check_ids(configs: Iterable[TabletConfig]) -> Iterator[Finding]:
    counts = Counter((config.table, config.id) for config in configs)
    for (table, tablet), count in counts.items():
        if count > 1:
            yield Finding(Kind.DUPLICATE_ID, table, tablet, f"{count} tablets have the id {tablet}")


def _check_catalog(facts: StoreFacts, served: Iterable[str]) -> Iterator[Finding]:
    """Tables that only META or only the catalog knows."""
    present = {*served, *(finding.table for finding in facts.unreadable)}
    for table in sorted(present - facts.tables.keys() - {META0, META1}):
        detail = f"META has tablets of table {table}, which is not in the catalog"
        yield Finding(Kind.UNKNOWN_TABLE, table, table, detail)
    if facts.unknown_below is None:
        for table in sorted(facts.tables.keys() - present):
            detail = f"table {facts.name(table)!r} of the catalog has no tablets in META"
            yield Finding(Kind.NO_TABLETS, table, table, detail)


# One config.


def _check_config(facts: StoreFacts, config: TabletConfig) -> Iterator[Finding]:
    for reference in config.references:
        yield from _check_reference(facts, config, reference, f"tablet {config.id}")
    for mark in config.marks:
        if not config.rows.covers(mark.rows):
            detail = (
                f"a flush mark of tablet {config.id} reaches {mark.rows}, outside {config.rows}"
            )
            yield Finding(
                Kind.MARK_OUTSIDE, config.table, config.id, detail, mark.rows.start, mark.rows.end
            )
    newest = max(
        (*(mark.txn for mark in config.marks), *(r.txn_max for r in config.references)), default=0
    )
    if newest > config.clock:
        detail = f"tablet {config.id} speaks of txn {newest}; its clock is {config.clock}"
        yield Finding(Kind.AHEAD_OF_CLOCK, config.table, config.id, detail)
    if config.log is not None:
        yield from _check_log(facts, config, config.log)


def _check_log(facts: StoreFacts, config: TabletConfig, log: str) -> Iterator[Finding]:
    if log not in facts.logs:
        detail = f"the log of tablet {config.id}, {log}, is not there"
        yield Finding(Kind.MISSING_LOG, config.table, log, detail)
    elif (wrong := facts.logs[log]) is not None:
        yield Finding(
            Kind.DAMAGED_LOG, config.table, log, f"the log of tablet {config.id}: {wrong}"
        )


def _check_reference(
    facts: StoreFacts, config: TabletConfig, reference: Reference, who: str
) -> Iterator[Finding]:
    name = reference.file.name
    if not config.rows.covers(reference.rows):
        rows = reference.rows
        detail = f"{who} refers to rows {rows} of {name}, outside its own {config.rows}"
        yield Finding(Kind.REFERENCE_OUTSIDE, config.table, config.id, detail, rows.start, rows.end)
    for expected in reference.file.files:
        wrong = _wrong_with(facts.files.get(expected.name), expected)
        if wrong is not None:
            kind, reason = wrong
            detail = f"{who} refers to {expected.name}: {reason}"
            yield Finding(kind, config.table, expected.name, detail)


def _wrong_with(file: FileFacts | None, expected: FragmentInfo) -> tuple[Kind, str] | None:
    if file is None:
        return Kind.MISSING_FILE, "there is no such file"
    if file.size_bytes < expected.size:
        return Kind.SHORT_FILE, f"it has {file.size_bytes} bytes, not {expected.size}"
    if file.size_bytes > expected.size:
        return Kind.WRONG_FILE, f"it has {file.size_bytes} bytes, not {expected.size}"
    if expected.index in file.refused:
        return Kind.WRONG_FILE, file.refused[expected.index]
    return None if file.damage is None else (Kind.DAMAGED_FILE, file.damage)


# Files.


def _check_leases(facts: StoreFacts) -> Iterator[Finding]:
    """Files that only a snapshot or a reader of the past still needs."""
    now = {part for config in facts.tablets for part in file_references(config.references)}
    for name, configs in facts.leases.items():
        for config in configs:
            for reference in file_references(config.references):
                file = reference.file
                wrong = _wrong_with(facts.files.get(file.name), file)
                if wrong is not None and reference not in now:
                    kind, reason = wrong
                    detail = f"lease {name!r} needs {file.name}: {reason}"
                    yield Finding(kind, config.table, file.name, detail)


def referenced(facts: StoreFacts) -> frozenset[str]:
    """The names of all files that are needed."""
    held = (config for configs in facts.leases.values() for config in configs)
    named = (name for config in (*facts.tablets, *held) for name in config.files())
    return facts.leased_files.union(named)


def _find_orphans(facts: StoreFacts) -> Iterator[Finding]:
    if facts.unknown_below is not None:
        return
    for name in sorted(facts.files.keys() - referenced(facts)):
        table = facts.files[name].table or ""
        yield Finding(Kind.ORPHAN_FILE, table, name, f"nobody refers to {name}")
