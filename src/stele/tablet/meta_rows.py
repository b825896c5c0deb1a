"""Tablet configs as rows of a META table.

The key of a tablet's row is its table's id, a space, and the exclusive end of its rows; ``!``
instead of the space when it has no end. Characters of table ids sort after both, so the
tablets of a table stand together, in order, the unbounded one last: the tablet of a row is the
first one whose key is above ``table SPACE row``.

A config is written whole: the batch erases the row and puts every column, and because cells of one
batch share a txn the erasure hides only what was there before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256

import msgspec

from stele.errors import Corruption, InvalidArgument, LimitExceeded, UnsupportedFormat
from stele.model.cells import Cell
from stele.model.known_json import NEWER, decode_known
from stele.model.limits import QUALIFIER_BYTES_MAX, ROW_BYTES_MAX
from stele.model.mutations import MutationBatch
from stele.model.ranges import RowRange
from stele.storage.references import (
    Reference,
    decode_marks,
    decode_references,
    encode_marks,
    encode_references,
)
from stele.tablet.config import ConfigEdit, HiddenImport, Stamp, TabletConfig

META_FAMILIES = ("first", "tablet", "location", "log", "fragments", "marks", "clock", "imports")
FIRST_COLUMN = ("first", b"")
"""Family and qualifier of a tablet's first row."""

TABLET_COLUMN = ("tablet", b"")
"""Of what does not fit a column of its own, the stamp among it."""

_TABLE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

BORDER_BYTES_MAX = ROW_BYTES_MAX - 64 - 1
"""The longest row at which a tablet can end: with its table's id it is a row of META."""


class _Identity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What does not fit a column of its own."""

    id: str
    epoch: int
    revision: int
    protected: bool
    history_floor: int


def check_table_id(table: str) -> str:
    """Ids sort after space and ``!``, or rows of different tables would mix."""
    if not _TABLE_ID.fullmatch(table):
        raise InvalidArgument(f"{table!r} is not a table id: letters, digits, '-' and '_'")
    return table


def meta_key(table: str, end: bytes | None) -> bytes:
    """The key of the tablet that ends, exclusively, at ``end``."""
    return table.encode() + (b"!" if end is None else b" " + end)


def check_border(row: bytes) -> bytes:
    """The row itself, if a tablet can end there."""
    if len(row) > BORDER_BYTES_MAX:
        raise LimitExceeded(
            f"no tablet can begin or end at a row of {len(row)} bytes, beginning {row[:32]!r}: the "
            f"limit is {BORDER_BYTES_MAX} bytes"
        )
    return row


def parse_meta_key(key: bytes) -> tuple[str, bytes | None]:
    """Table and exclusive end of a META row; ``Corruption`` for a key of another shape."""
    found = re.match(rb"([A-Za-z0-9][A-Za-z0-9_-]{0,63})(?: (.+)|!)\Z", key, re.DOTALL)
    if found is None:
        raise Corruption(f"{key!r} is not the key of a tablet in META")
    return found[1].decode(), found[2]


def table_rows(table: str) -> RowRange:
    """All META rows of one table's tablets."""
    return RowRange(table.encode() + b" ", table.encode() + b'"')


def rows_from(table: str, row: bytes) -> RowRange:
    """The META rows of the tablet that holds ``row`` and of all above it."""
    return RowRange(meta_key(table, row) + b"\x00", table_rows(table).end)


def edit_batch(edit: ConfigEdit) -> MutationBatch:
    """One atomic META write: rows of removed configs go, rows of written ones are replaced."""
    batch = MutationBatch()
    for config in edit.written:
        check_border(config.rows.end or b"")
    written = {meta_key(config.table, config.rows.end): config for config in edit.written}
    removed = {meta_key(config.table, config.rows.end) for config in edit.removed}
    for key in sorted(removed | written.keys()):
        batch.erase_row(key)
    for key, config in written.items():
        for family, qualifier, value in _columns(config):
            batch.put(key, family, qualifier, value)
    return batch


def _columns(config: TabletConfig) -> list[tuple[str, bytes, bytes]]:
    identity = _Identity(
        config.id, config.epoch, config.revision, config.protected, config.history_floor
    )
    columns = [
        (*FIRST_COLUMN, config.rows.start),
        (*TABLET_COLUMN, msgspec.json.encode(identity)),
        ("marks", b"", encode_marks(config.marks)),
        ("clock", b"", b"%d" % config.clock),
    ]
    if config.log is not None:
        columns.append(("log", b"", config.log.encode()))
    if config.location is not None:
        columns.append(("location", b"", config.location.encode()))
    by_columns: dict[str, list[Reference]] = {}
    for reference in config.references:
        by_columns.setdefault(str(reference.columns), []).append(reference)
    columns += [
        ("fragments", _qualifier(name.encode()), encode_references(references))
        for name, references in by_columns.items()
    ]
    columns += [
        ("imports", one.job.encode(), encode_references(one.references)) for one in config.imports
    ]
    return columns


def _qualifier(columns: bytes) -> bytes:
    """What references of some columns stand under; a list that is too long, by its hash."""
    return columns if len(columns) <= QUALIFIER_BYTES_MAX else sha256(columns).hexdigest().encode()


def stamp_of(value: bytes, key: bytes) -> Stamp:
    """The stamp in the column ``TABLET_COLUMN`` of a META row."""
    identity = decode_known(value, _Identity, f"META row {key!r}")
    return Stamp(identity.epoch, identity.revision)


def config_from_cells(key: bytes, cells: Sequence[Cell]) -> TabletConfig:
    """The config a META row holds. META is input like any other, so all of it is checked."""
    config = loose_config(key, cells)
    for reference in config.all_references:
        if not config.rows.covers(reference.rows):
            raise Corruption(f"META row {key!r}: a reference reaches beyond the tablet")
    return config


def loose_config(key: bytes, cells: Sequence[Cell]) -> TabletConfig:
    """The same, but its references may be anywhere: what a check of META starts from."""
    table, end = parse_meta_key(key)
    where = f"META row {key!r}"
    values = {(cell.family, cell.qualifier): cell.value for cell in cells}
    unknown = {family for family, _ in values}.difference(META_FAMILIES)
    if unknown:
        raise UnsupportedFormat(f"{where}: unknown family {min(unknown)!r}; {NEWER}")
    try:
        identity = decode_known(values[TABLET_COLUMN], _Identity, where)
        references = [
            reference
            for (family, _), value in sorted(values.items())
            if family == "fragments"
            for reference in decode_references(value, where)
        ]
        return TabletConfig(
            id=identity.id,
            table=table,
            rows=RowRange(values[FIRST_COLUMN], end),
            references=tuple(references),
            marks=decode_marks(values["marks", b""], where),
            log=_text(values.get(("log", b""))),
            location=_text(values.get(("location", b""))),
            clock=int(values["clock", b""]),
            epoch=identity.epoch,
            revision=identity.revision,
            protected=identity.protected,
            history_floor=identity.history_floor,
            imports=tuple(
                HiddenImport(job.decode(), decode_references(value, where))
                for (family, job), value in sorted(values.items())
                if family == "imports"
            ),
        )
    except (KeyError, ValueError, InvalidArgument) as error:
        raise Corruption(f"{where} cannot be read: {error!r}") from error


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def check_tiling(table: str, configs: Iterable[TabletConfig]) -> None:
    """Every row has exactly one tablet: no gap, no overlap, from the first row to the last."""
    position: bytes | None = b""
    for config in configs:
        if position is None:
            raise Corruption(f"META: tablet {config.id} of {table} follows the unbounded one")
        if config.rows.start != position:
            what = "gap" if config.rows.start > position else "overlap"
            raise Corruption(
                f"META: {what} in table {table} between {position!r} and {config.rows.start!r}, "
                f"at tablet {config.id}"
            )
        position = config.rows.end
    if position is not None:
        raise Corruption(f"META: table {table} has no tablet from {position!r} on")
