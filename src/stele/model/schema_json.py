"""A schema as JSON, the form it has in META and in requests.

Canonical: one schema has one text. Fields stand in the order of the structs below, families and
removed ones sorted, columns by id, groups in their own order (the first may be the home of hidden
families). ``format`` counts incompatible changes of this form; a field that is not known here was
written by a newer program and is refused by name, never dropped.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from stele.errors import InvalidArgument, InvalidSchema, UnsupportedFormat
from stele.model.columns import Column
from stele.model.groups import WILDCARD, Group
from stele.model.limits import SCHEMA_BYTES_MAX
from stele.model.schema import Schema
from stele.model.typed_columns import TypedColumn
from stele.model.types import value_type

SCHEMA_FORMAT = 1

_Int64 = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class _GroupDoc(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    families: tuple[str, ...] | Literal["*"]
    purge: str | None
    compression: str
    block_cells: _Int64
    in_memory: bool


class _ColumnDoc(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: _Int64
    family: str
    qualifier: bytes
    type: str
    label: str
    former: tuple[str, ...]


class _SchemaDoc(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: _Int64
    version: _Int64
    history_us: _Int64
    key: str | tuple[tuple[str, str], ...]
    groups: tuple[_GroupDoc, ...]
    columns: tuple[_ColumnDoc, ...]
    removed: tuple[str, ...]
    next_column_id: _Int64


class _Format(msgspec.Struct, frozen=True):
    format: int


def schema_to_json(schema: Schema) -> bytes:
    """The canonical text of ``schema``."""
    groups = tuple(
        _GroupDoc(
            group.name,
            WILDCARD if group.families is None else group.families,
            None if group.purge is None else str(group.purge),
            group.compression,
            group.block_cells,
            group.in_memory,
        )
        for group in schema.groups
    )
    columns = tuple(
        _ColumnDoc(
            typed.id,
            typed.column.family,
            typed.column.qualifier,
            typed.type.name,
            typed.label,
            tuple(former.name for former in typed.former),
        )
        for typed in schema.columns
    )
    key = schema.key.spec
    document = _SchemaDoc(
        SCHEMA_FORMAT,
        schema.version,
        schema.history_us,
        key if isinstance(key, str) else tuple(key),
        groups,
        columns,
        schema.removed,
        schema.next_column_id,
    )
    return msgspec.json.encode(document)


def schema_from_json(text: bytes | str) -> Schema:
    """The schema that ``text`` describes, checked like one that a user wrote.

    :class:`InvalidSchema` when it is not one, :class:`UnsupportedFormat` when a newer program
    wrote it.
    """
    data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    if len(data) > SCHEMA_BYTES_MAX:
        raise InvalidSchema(
            f"schema of {len(data)} bytes is over the limit of {SCHEMA_BYTES_MAX} bytes"
        )
    try:
        written = msgspec.json.decode(data, type=_Format).format
        if written != SCHEMA_FORMAT:
            raise UnsupportedFormat(
                f"schema of format {written}; this program reads format {SCHEMA_FORMAT}"
            )
        return _build(msgspec.json.decode(data, type=_SchemaDoc))
    except InvalidSchema:
        raise
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidSchema(f"not a schema: {error}") from error
    except InvalidArgument as error:
        raise InvalidSchema(str(error)) from error


def _build(document: _SchemaDoc) -> Schema:
    groups = [
        Group(
            group.name,
            group.families,
            purge=group.purge,
            compression=group.compression,
            block_cells=group.block_cells,
            in_memory=group.in_memory,
        )
        for group in document.groups
    ]
    columns = [
        TypedColumn(
            column.id,
            Column(column.family, column.qualifier),
            value_type(column.type),
            column.label,
            tuple(map(value_type, column.former)),
        )
        for column in document.columns
    ]
    return Schema(
        groups,
        columns,
        document.key,
        document.history_us,
        version=document.version,
        removed=document.removed,
        next_column_id=document.next_column_id,
    )
