"""What can be repaired without guessing, as a plan: pure, from facts and findings to edits.

Three things are unambiguous:

* the lower row of half a split or join, which shows nothing that its neighbour does not show too,
  is deleted (M27);
* a gap is closed by widening the tablet above it downwards (M28): its references and flush marks
  that begin with it begin lower, because at the moment of a split they were the whole tablet's. But
  only while nothing else may have been in the gap: no row that cannot be read, no file of the
  table that nobody refers to and that has rows there;
* rows of a table that the catalog does not know are deleted: META is written before the catalog
  when a table is made, so nobody has ever seen them.

All else is refused, with the reason: which of two tablets is right, or what a lost one held, is
for a person to say. A plan is made for the whole store and each of its edits stands alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from stele.model.ranges import RowRange
from stele.storage.references import coalesce_marks
from stele.tablet.changes import revised
from stele.tablet.check.facts import StoreFacts
from stele.tablet.check.findings import Finding, Kind, Severity
from stele.tablet.check.verify import referenced
from stele.tablet.config import ConfigEdit, TabletConfig
from stele.tablet.meta_table import META0, META1


@dataclass(frozen=True, slots=True)
class Step:
    """One repair."""

    finding: Finding
    what: str
    edit: ConfigEdit


@dataclass(frozen=True, slots=True)
class Refusal:
    """A finding that nobody but a person can settle."""

    finding: Finding
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, and what not."""

    steps: tuple[Step, ...] = ()
    refusals: tuple[Refusal, ...] = ()

    def edit(self, *, of_meta: bool) -> ConfigEdit:
        """All steps as one: of META1's own tablets, whose configs are in META0, or of the rest."""
        edits = [step.edit for step in self.steps if (step.finding.table == META1) is of_meta]
        return ConfigEdit(
            removed=tuple(config for edit in edits for config in edit.removed),
            written=tuple(config for edit in edits for config in edit.written),
        )


def make_plan(facts: StoreFacts, findings: list[Finding]) -> Plan:
    """A step or a refusal for everything that was found; files nobody needs are the collector's."""
    steps: list[Step] = []
    refusals: list[Refusal] = []
    for finding in findings:
        if finding.kind is Kind.ORPHAN_FILE:
            continue
        answer = _repair(facts, findings, finding)
        if isinstance(answer, str):
            refusals.append(Refusal(finding, answer))
        else:
            steps.append(answer)
    return Plan(tuple(steps), tuple(refusals))


def _repair(facts: StoreFacts, findings: list[Finding], finding: Finding) -> Step | str:
    match finding.kind:
        case _ if facts.unknown_below is not None:
            return f"{facts.unknown_below} has to be readable first"
        case _ if finding.table == META0:
            return "the root is never changed by a repair"
        case _ if finding.table != META1 and any(_is_of_meta(other) for other in findings):
            return "META's own tablets have to be repaired first"
        case Kind.HALF_SPLIT:
            return _delete_lower(facts, finding)
        case Kind.GAP | Kind.FIRST_ROW_NOT_EMPTY:
            return _widen(facts, findings, finding)
        case Kind.UNKNOWN_TABLE:
            return _delete_rows(facts, findings, finding)
    return _REASONS.get(finding.kind, "what was there cannot be known")


def _is_of_meta(finding: Finding) -> bool:
    return finding.table in (META0, META1) and finding.kind.severity is Severity.DAMAGE


_REASONS = {
    Kind.OVERLAP: "the tablets do not show the same files: which of them is right is not known",
    Kind.NO_LAST_TABLET: "there is no tablet above the gap that could be widened",
    Kind.DUPLICATE_ID: "which of the tablets has the id by right is not known",
}


def _delete_lower(facts: StoreFacts, finding: Finding) -> Step:
    lower = next(
        config
        for config in facts.tablets
        if (config.table, config.id) == (finding.table, finding.subject)
        and config.rows == RowRange(finding.start, finding.end)
    )
    what = f"delete the config of tablet {lower.id}, {lower.rows}"
    return Step(finding, what, ConfigEdit(removed=(lower,)))


def _widen(facts: StoreFacts, findings: list[Finding], gap: Finding) -> Step | str:
    """Close a gap, if the tablet above it is sound and nothing else may have been in the gap."""
    assert gap.end is not None
    missing = RowRange(gap.start, gap.end)
    above = next(
        config
        for config in facts.tablets
        if (config.table, config.id, config.rows.start) == (gap.table, gap.subject, gap.end)
    )
    for other in findings:
        if other is not gap and other.table == gap.table and _touches(other, missing, above):
            return f"there is more wrong with these rows ({other.kind.value})"
    for name in sorted(facts.files.keys() - referenced(facts)):
        file = facts.files[name]
        if file.table is None or file.rows is None:
            return f"{name}, which nobody refers to, cannot be read: it may belong there"
        if file.table == gap.table and file.rows.overlaps(missing):
            return f"{name}, which nobody refers to, has rows there: it may belong there"
    widened = widen(above, gap.start)
    what = f"widen tablet {above.id} from {above.rows} to {widened.rows}"
    return Step(gap, what, ConfigEdit(written=(widened,)))


def _touches(finding: Finding, missing: RowRange, above: TabletConfig) -> bool:
    """Whether another finding makes it doubtful what belongs into a gap, or to the tablet there."""
    if finding.kind.severity is Severity.NOTE:
        return False
    if finding.kind in _NO_CONFIG:
        assert missing.end is not None
        return finding.end is not None and missing.start < finding.end <= missing.end
    return finding.subject in (above.id, above.log, *above.files())


def widen(config: TabletConfig, start: bytes) -> TabletConfig:
    """A tablet that begins lower, with what of its references and marks began where it did."""
    first = config.rows.start

    def lower(rows: RowRange) -> RowRange:
        return RowRange(start, rows.end) if rows.start == first else rows

    return revised(
        config,
        rows=RowRange(start, config.rows.end),
        references=tuple(replace(r, rows=lower(r.rows)) for r in config.references),
        marks=coalesce_marks(replace(mark, rows=lower(mark.rows)) for mark in config.marks),
    )


def _delete_rows(facts: StoreFacts, findings: list[Finding], finding: Finding) -> Step | str:
    table = finding.table
    if any(other.table == table and other.kind in _NO_CONFIG for other in findings):
        return "some of its rows in META cannot be read"
    configs = tuple(config for config in facts.tablets if config.table == table)
    what = f"delete the configs of the {len(configs)} tablets of table {table}"
    return Step(finding, what, ConfigEdit(removed=configs))


_NO_CONFIG = (Kind.BACKWARD_RANGE, Kind.UNREADABLE_CONFIG)
