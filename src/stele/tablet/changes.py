"""Changes of tablet configs, as values with preconditions.

``apply`` is pure: from the newest configs of a table it makes the edit to save, or says why the
change no longer fits. A refusal is an answer: whoever asked plans again from what is true now. What
can never be is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from stele.model.column_set import ALL_COLUMNS, ColumnSet
from stele.model.columns import HIDDEN_COLUMNS
from stele.model.ranges import RowRange
from stele.storage.references import (
    FlushMark,
    Reference,
    References,
    coalesce_marks,
    regroup,
    restrict,
    restrict_marks,
    unite,
    without,
)
from stele.tablet.config import ConfigEdit, HiddenImport, TabletConfig
from stele.tablet.meta_rows import check_border

Configs = Mapping[str, TabletConfig]
"""All tablets of one table that live here, by id."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The change does not fit any more; nothing was saved."""

    reason: str


Outcome = ConfigEdit | Refused


@dataclass(frozen=True, slots=True)
class CreateTablets:
    """The first tablets of a table."""

    configs: tuple[TabletConfig, ...]

    def apply(self, configs: Configs) -> Outcome:
        assert not configs, "a table's first tablets are made once"
        return ConfigEdit(written=self.configs)


@dataclass(frozen=True, slots=True)
class AddFlush:
    """Memory up to ``txn`` is in these files; each reference has the columns of one group.

    ``dropped`` is where memory may have held cells that went into no file, because their family
    was removed: the log must not bring them back either.
    """

    references: References
    txn: int
    dropped: RowRange | None = None

    def apply(self, configs: Configs) -> Outcome:
        written = []
        for config in configs.values():
            added = restrict(self.references, config.rows)
            if not added and not (self.dropped and config.rows.overlaps(self.dropped)):
                continue  # none of its rows were in memory, so no log cell of it is below the mark
            mark = FlushMark(config.rows, ALL_COLUMNS, self.txn)
            written.append(
                revised(
                    config,
                    references=(*config.references, *added),
                    marks=coalesce_marks((*config.marks, mark)),
                    clock=max(config.clock, self.txn),
                )
            )
        return ConfigEdit(written=tuple(written))


@dataclass(frozen=True, slots=True)
class ReplaceReferences:
    """A compaction of one tablet: ``inputs`` have become ``outputs``."""

    tablet: str
    inputs: tuple[Reference, ...]
    outputs: tuple[Reference, ...]

    def apply(self, configs: Configs) -> Outcome:
        config = configs.get(self.tablet)
        if config is None:
            return Refused(f"tablet {self.tablet} was split, joined or moved")
        kept = list(config.references)
        for reference in self.inputs:
            if reference not in kept:
                return Refused(f"tablet {self.tablet} no longer refers to {reference.file.name}")
            kept.remove(reference)
        return ConfigEdit(written=(revised(config, references=(*kept, *self.outputs)),))


@dataclass(frozen=True, slots=True)
class SwapReferences:
    """What a compaction elsewhere has made of references that some rows had when it was planned.

    Tablets may have been split, joined or regrouped since: what counts is that everything that was
    merged is still shown, tablet by tablet. One that has lost some of it stays as it is. Asked
    twice, nothing happens the second time.
    """

    rows: RowRange
    inputs: References
    outputs: References
    groups: tuple[tuple[str, ColumnSet], ...]
    """Of the schema: the outputs are cut into those that there are now."""

    def apply(self, configs: Configs) -> Outcome:
        found = [(config, self.swapped(config)) for config in configs.values()]
        lost = [config.id for config, new in found if new is None]
        written = tuple(new for old, new in found if new is not None and new is not old)
        if lost and not written:
            return Refused(f"{' and '.join(lost)} no longer shows all that was merged")
        return ConfigEdit(written=written)

    def swapped(self, config: TabletConfig) -> TabletConfig | None:
        """A tablet after it; itself if there is nothing to do, ``None`` if it does not fit."""
        inputs = restrict(self.inputs, config.rows) if config.rows.overlaps(self.rows) else ()
        if not inputs:
            return config
        outputs = restrict(into_groups(self.outputs, dict(self.groups)), config.rows)
        if outputs and set(outputs) <= set(config.references):
            return config
        kept = without(config.references, inputs)
        return None if kept is None else revised(config, references=(*kept, *outputs))


@dataclass(frozen=True, slots=True)
class SplitTablet:
    """One tablet becomes two at ``row``, an existing key that begins the upper one."""

    tablet: str
    row: bytes
    lower: str
    upper: str
    protected: bool = False

    def apply(self, configs: Configs) -> Outcome:
        config = configs.get(self.tablet)
        if config is None:
            return Refused(f"tablet {self.tablet} was split, joined or moved")
        check_border(self.row)
        if not config.rows.contains(self.row) or self.row == config.rows.start:
            return Refused(f"row {self.row!r} does not divide tablet {self.tablet}, {config.rows}")
        below = _part(config, RowRange(config.rows.start, self.row), self.lower)
        above = _part(config, RowRange(self.row, config.rows.end), self.upper)
        above = replace(above, protected=self.protected)
        return ConfigEdit(removed=(config,), written=(below, above))


@dataclass(frozen=True, slots=True)
class JoinTablets:
    """Two touching tablets become one."""

    lower: str
    upper: str
    joined: str

    def apply(self, configs: Configs) -> Outcome:
        below, above = configs.get(self.lower), configs.get(self.upper)
        if below is None or above is None:
            return Refused(f"tablet {self.lower} or {self.upper} was split, joined or moved")
        if below.rows.end != above.rows.start:
            return Refused(f"tablets {self.lower} and {self.upper} do not touch")
        joined = replace(
            below,
            id=self.joined,
            rows=RowRange(below.rows.start, above.rows.end),
            references=_united((*below.references, *above.references)),
            marks=coalesce_marks((*below.marks, *above.marks)),
            clock=max(below.clock, above.clock),
            epoch=max(below.epoch, above.epoch),
            revision=max(below.revision, above.revision) + 1,
            history_floor=max(below.history_floor, above.history_floor),
            imports=_joined_imports(below, above),
        )
        return ConfigEdit(removed=(below, above), written=(joined,))


@dataclass(frozen=True, slots=True)
class Regroup:
    """The schema has new groups: each reference is cut into those it has columns of.

    Columns that no group holds any more are referred to by nobody afterwards. That is how a
    removed family disappears.
    """

    groups: tuple[tuple[str, ColumnSet], ...]

    def apply(self, configs: Configs) -> Outcome:
        written = []
        for config in configs.values():
            regrouped = into_groups_of(config, dict(self.groups))
            if regrouped != config:
                written.append(revised(regrouped))
        return ConfigEdit(written=tuple(written))


@dataclass(frozen=True, slots=True)
class TruncateRows:
    """Everything in ``rows`` that is in files is gone, and so is its history below ``txn``.

    Whoever makes the change lets no flush come in between, so that no file holds anything above
    ``txn``. Hidden cells stay: a request that was answered before is not a new one now.
    """

    rows: RowRange
    txn: int

    def apply(self, configs: Configs) -> Outcome:
        written = []
        for config in configs.values():
            if not config.rows.overlaps(self.rows):
                continue
            hidden = tuple(r for r in config.references if HIDDEN_COLUMNS.covers(r.columns))
            shown = [reference for reference in config.references if reference not in hidden]
            pieces = (restrict(shown, outside) for outside in _outside(self.rows))
            references = (*chain.from_iterable(pieces), *hidden)
            floor = max(config.history_floor, self.txn)
            written.append(revised(config, references=references, history_floor=floor))
        return ConfigEdit(written=tuple(written))


@dataclass(frozen=True, slots=True)
class RaiseFloor:
    """What was read of ``rows`` up to ``txn`` cannot be read again."""

    rows: RowRange
    txn: int

    def apply(self, configs: Configs) -> Outcome:
        return ConfigEdit(
            written=tuple(
                revised(config, history_floor=self.txn)
                for config in configs.values()
                if config.rows.overlaps(self.rows) and config.history_floor < self.txn
            )
        )


@dataclass(frozen=True, slots=True)
class PrepareImport:
    """Files of a job belong to the tablets from now on, but are not shown.

    They replace what an earlier attempt at the same job has prepared.
    """

    job: str
    references: References

    def apply(self, configs: Configs) -> Outcome:
        written = []
        for config in configs.values():
            others = tuple(one for one in config.imports if one.job != self.job)
            mine = restrict(self.references, config.rows)
            imports = (*others, HiddenImport(self.job, mine)) if mine else others
            if imports != config.imports:
                written.append(revised(config, imports=imports))
        return ConfigEdit(written=tuple(written))


@dataclass(frozen=True, slots=True)
class EndImport:
    """A job is decided: with a txn its files are shown under it, without one they are let go.

    If it replaces, the files of before go in the same moment, in tablets too that get none.
    """

    job: str
    txn: int | None
    replaces: bool = False

    def apply(self, configs: Configs) -> Outcome:
        ended = (
            (config, without_import(config, self.job, self.txn, replaces=self.replaces))
            for config in configs.values()
        )
        return ConfigEdit(written=tuple(revised(new) for old, new in ended if new != old))


@dataclass(frozen=True, slots=True)
class DropTablets:
    """All tablets of the table go."""

    def apply(self, configs: Configs) -> Outcome:
        return ConfigEdit(removed=tuple(configs.values()))


ConfigChange = (
    CreateTablets
    | AddFlush
    | ReplaceReferences
    | SwapReferences
    | SplitTablet
    | JoinTablets
    | Regroup
    | TruncateRows
    | RaiseFloor
    | PrepareImport
    | EndImport
    | DropTablets
)


def revised(config: TabletConfig, **changes: object) -> TabletConfig:
    """The config with some fields changed, under the next revision."""
    return replace(config, revision=config.revision + 1, **changes)  # type: ignore[arg-type]


def into_groups(references: References, groups: Mapping[str, ColumnSet]) -> References:
    """References cut such that each shows columns of one group only."""
    return tuple(x for group in regroup(references, groups).values() for x in group)


def into_groups_of(config: TabletConfig, groups: Mapping[str, ColumnSet]) -> TabletConfig:
    """A tablet whose references, hidden ones too, each show columns of one group only."""
    return _mapped(config, lambda references: into_groups(references, groups))


def without_import(
    config: TabletConfig, job: str, txn: int | None, *, replaces: bool = False
) -> TabletConfig:
    """A tablet after the end of a job: its files are shown under a txn, or gone without one.

    One that replaces leaves of the others only what holds later commits, and raises the floor of
    history to its txn, by which it is known to have been carried out.
    """
    mine = [one for one in config.imports if one.job == job]
    replaces = replaces and txn is not None and config.history_floor < txn
    if not mine and not replaces:
        return config
    left = tuple(one for one in config.imports if one.job != job)
    if txn is None:
        return replace(config, imports=left)
    shown = tuple(replace(ref, txn=txn) for one in mine for ref in one.references)
    kept, floor = config.references, config.history_floor
    if replaces:
        kept = tuple(r for r in kept if HIDDEN_COLUMNS.covers(r.columns) or r.txn_max > txn)
        floor = txn
    return replace(
        config,
        imports=left,
        references=(*kept, *shown),
        clock=max(config.clock, txn),
        history_floor=floor,
    )


def _mapped(config: TabletConfig, change: Callable[[References], References]) -> TabletConfig:
    """The same done to all references; a job that has none left is not spoken of any more."""
    hidden = (HiddenImport(one.job, change(one.references)) for one in config.imports)
    return replace(
        config,
        references=change(config.references),
        imports=tuple(one for one in hidden if one.references),
    )


def _joined_imports(below: TabletConfig, above: TabletConfig) -> tuple[HiddenImport, ...]:
    by_job: dict[str, References] = {}
    for one in (*below.imports, *above.imports):
        by_job[one.job] = (*by_job.get(one.job, ()), *one.references)
    return tuple(HiddenImport(job, _united(found)) for job, found in by_job.items())


def _part(config: TabletConfig, rows: RowRange, name: str) -> TabletConfig:
    """The part of a tablet that serves some of its rows."""
    part = _mapped(config, lambda references: restrict(references, rows))
    return revised(part, id=name, rows=rows, marks=restrict_marks(config.marks, rows))


def _united(references: References) -> References:
    """References with touching fences become one; those of different groups stay apart."""
    by_columns: dict[ColumnSet, list[Reference]] = {}
    for reference in references:
        by_columns.setdefault(reference.columns, []).append(reference)
    return tuple(one for same in by_columns.values() for one in unite(same))


def _outside(rows: RowRange) -> list[RowRange]:
    """What is below and what is above a range."""
    below = [RowRange(b"", rows.start)] if rows.start else []
    return below if rows.end is None else [*below, RowRange(rows.end)]
