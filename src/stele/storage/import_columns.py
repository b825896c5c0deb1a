"""Which columns the files of an import were made for, and whether a table still means the same.

Files are written long before they are part of a table, for the schema that the job began with. What
they hold is read by the schema of the commit. A declared column is known by its id, which outlives
labels and types and is never given to another one: with the same id a type can only have been
widened, and old values are still read. Another id, a declaration that is gone, or one that is new
for a column of the files, would let their bytes mean something else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from stele.errors import Conflict, Corruption, InvalidArgument
from stele.model.columns import Column
from stele.model.schema import Schema


class DeclaredColumn(msgspec.Struct, frozen=True):
    """A declared column, as far as it says what bytes mean."""

    family: str
    qualifier: bytes
    id: int
    type: str

    @property
    def column(self) -> Column:
        """Where it is."""
        return Column(self.family, self.qualifier)


class ImportColumns(msgspec.Struct, frozen=True, kw_only=True):
    """What a job knew of a table's columns when it began."""

    version: int
    """Of the schema."""
    declared: tuple[DeclaredColumn, ...]
    written: tuple[tuple[str, bytes], ...] | None = None
    """Families and qualifiers of all that the job writes; ``None`` if only its data says which."""

    @staticmethod
    def of(schema: Schema, written: Iterable[Column] | None = None) -> ImportColumns:
        """Those of a job that writes these columns, or any, for a schema."""
        return ImportColumns(
            version=schema.version,
            declared=tuple(
                DeclaredColumn(
                    typed.column.family, typed.column.qualifier, typed.id, str(typed.type)
                )
                for typed in schema.columns
            ),
            written=None
            if written is None
            else tuple((column.family, column.qualifier) for column in written),
        )

    def check(self, now: Schema, table: str, families: Collection[str]) -> None:
        """Refuse what was made for other columns; ``families`` are those of the job's cells."""
        if self.version == now.version:
            return
        before = {declared.column: declared for declared in self.declared}
        for column in self._columns(now):
            if column.family not in families:
                continue
            old, new = before.get(column), now.typed_column(column)
            if (None if old is None else old.id) == (None if new is None else new.id):
                continue
            was = "not declared" if old is None else old.type
            became = "not declared" if new is None else str(new.type)
            again = " anew" if was == became else ""
            raise Conflict(
                f"table {table!r} was altered while the job ran: column {str(column)!r} was {was} "
                f"and is {became}{again}; nothing was written, run it again"
            )

    def _columns(self, now: Schema) -> Iterator[Column]:
        """All columns that the job may have written, and that were or are declared."""
        if self.written is not None:
            yield from (Column(family, qualifier) for family, qualifier in self.written)
            return
        yield from (declared.column for declared in self.declared)
        yield from (typed.column for typed in now.columns)


_COLUMNS = msgspec.msgpack.Decoder(ImportColumns)


def encode_columns(columns: ImportColumns) -> bytes:
    """What a job knew, as bytes."""
    return msgspec.msgpack.encode(columns)


def decode_columns(data: bytes) -> ImportColumns:
    """What bytes say that a job knew; ``Corruption`` if they say nothing of the kind."""
    try:
        return _COLUMNS.decode(data)
    except (msgspec.DecodeError, UnicodeError, InvalidArgument) as error:
        raise Corruption(f"not the columns of an import: {error}") from error
