"""The record of a repair, written before anything is changed.

The rows that go or change are kept as they were, the new ones as they will be; a row is its key and
its columns as META has them, bytes in base64. ``undo_edit`` makes of it the edit that takes the
repair back, and ``check_unchanged`` says whether that still makes sense: a tablet that was served
since has files and a log that the old row knows nothing of. ``docs/formats/meta.md`` has the form.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from stele.errors import Conflict, Corruption, UnsupportedFormat
from stele.model.cells import Cell
from stele.tablet.check.plan import Plan
from stele.tablet.config import ConfigEdit, TabletConfig
from stele.tablet.meta_rows import edit_batch, loose_config, meta_key
from stele.tablet.meta_table import META0, META1

UNDO_DIRECTORY = "repairs"
FORMAT_VERSION = 1


class UndoRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A META row as it was or will be."""

    key: bytes
    columns: tuple[tuple[str, bytes, bytes], ...]


class UndoStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was done, and because of what."""

    finding: dict[str, str | None]
    what: str


class UndoRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One repair."""

    format_version: int
    created_us: int
    steps: tuple[UndoStep, ...]
    before: tuple[UndoRow, ...]
    """Every row the repair removes or rewrites, as it was."""
    after: tuple[UndoRow, ...]
    """The rows it writes. A row of ``before`` that is not here is removed."""


def undo_record(plan: Plan, tablets: Iterable[TabletConfig], created_us: int) -> UndoRecord:
    """What has to be known to take a plan back, given the configs it was made from."""
    edits = [step.edit for step in plan.steps]
    after = tuple(config for edit in edits for config in edit.written)
    keys = {(config.table, config.rows.end) for config in after}
    removed = [config for edit in edits for config in edit.removed]
    before = [*removed, *(c for c in tablets if (c.table, c.rows.end) in keys)]
    steps = tuple(UndoStep(step.finding.as_json(), step.what) for step in plan.steps)
    return UndoRecord(FORMAT_VERSION, created_us, steps, _rows(before), _rows(after))


def _rows(configs: Iterable[TabletConfig]) -> tuple[UndoRow, ...]:
    return tuple(_row(config) for config in configs)


def _row(config: TabletConfig) -> UndoRow:
    puts = [cell for cell in edit_batch(ConfigEdit(written=(config,))).cells() if cell.family]
    return UndoRow(puts[0].row, tuple((c.family, c.qualifier, c.value) for c in puts))


def encode_undo(record: UndoRecord) -> bytes:
    """JSON that a person can read."""
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"


def undo_edit(data: bytes, file: str) -> ConfigEdit:
    """The edit that takes a repair back."""
    try:
        record = msgspec.json.decode(data, type=UndoRecord)
    except msgspec.DecodeError as error:
        raise Corruption(f"not the record of a repair: {error}", file=file) from error
    if record.format_version != FORMAT_VERSION:
        raise UnsupportedFormat(
            f"{file} has format version {record.format_version}, this program knows "
            f"{FORMAT_VERSION}"
        )
    return ConfigEdit(removed=_configs(record.after), written=_configs(record.before))


def reversed_record(edit: ConfigEdit, file: str, created_us: int) -> UndoRecord:
    """What has to be known to take an undo back."""
    step = UndoStep({"kind": "undo", "subject": file}, f"take back {file}")
    before, after = _rows(edit.removed), _rows(edit.written)
    return UndoRecord(FORMAT_VERSION, created_us, (step,), before, after)


def check_unchanged(edit: ConfigEdit, tablets: Iterable[TabletConfig], file: str) -> None:
    """``Conflict`` unless META is as the repair has left it, where the repair has changed it."""
    rows = {meta_key(config.table, config.rows.end): config for config in tablets}
    left = {meta_key(config.table, config.rows.end): config for config in edit.removed}
    for config in (*edit.removed, *edit.written):
        key = meta_key(config.table, config.rows.end)
        if config.table in (META0, META1):
            raise Conflict(f"{file} repaired META itself, which was written to since")
        if rows.get(key) != left.get(key):
            raise Conflict(f"{file} cannot be taken back: META row {key!r} has changed since")


def _configs(rows: Iterable[UndoRow]) -> tuple[TabletConfig, ...]:
    return tuple(
        loose_config(row.key, [Cell(row.key, f, q, 0, v) for f, q, v in row.columns])
        for row in rows
    )
