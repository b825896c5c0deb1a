"""From what users write to what is stored, for one version of a schema.

Keys become rows by the key codec, values become bytes by the type their column is declared with,
and names of columns are taken apart once: programs name the same few columns all the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from stele.client.times import Moment, optional_micros
from stele.errors import InvalidArgument
from stele.model.columns import Column, ColumnSelector, FamilySelection
from stele.model.key_codec import RAW_KEYS, KeyCodec
from stele.model.limits import ROW_BYTES_MAX
from stele.model.mutations import MutationBatch
from stele.model.ranges import EVERYTHING, RowRange, check_row
from stele.model.row import ColumnName
from stele.model.schema import Schema
from stele.model.typed_columns import TypedColumn

Key: TypeAlias = Any
"""A row's key: its bytes, or a value or tuple of values of the table's key codec."""

Values: TypeAlias = Mapping[str, Any] | Mapping[bytes, Any] | Mapping[Column, Any]
"""Columns and their new values."""

Columns: TypeAlias = ColumnSelector | Iterable[ColumnSelector] | None
"""Columns (``"info:age"``) and families (``"info:"``); ``None`` for all."""

Place: TypeAlias = tuple[str, bytes, TypedColumn | None]
"""Family, qualifier, and the declaration if there is one."""

TEXT_KEYS = KeyCodec.parse("string")

PLACES_MAX = 4_096
NAME_LENGTH_MAX = 128
"""Names are remembered up to this many and this long: qualifiers may hold data."""


class Encoder:
    """Encodes for one schema. Threads share it: what it remembers can only be found twice."""

    __slots__ = ("_places", "_raw_keys", "schema")

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._raw_keys = schema.key == RAW_KEYS
        self._places: dict[ColumnName, Place] = {}

    def row(self, key: Key) -> bytes:
        """The row of a key, given typed or as its bytes."""
        if self._raw_keys and type(key) is bytes and 0 < len(key) <= ROW_BYTES_MAX:
            return key
        return self.schema.key.to_bytes(key)

    def border(self, key: Key) -> bytes:
        """A border of tablets: a key, the first parts of one, or any bytes."""
        return check_row(self.schema.key.bound(key))

    def place(self, name: ColumnName) -> Place:
        """Where a column is."""
        try:
            place = self._places.get(name)
        except TypeError:  # no name at all; below this is said properly
            place = None
        if place is None:
            column = Column.parse(name)
            place = (column.family, column.qualifier, self.schema.typed_column(column))
            if len(column.qualifier) <= NAME_LENGTH_MAX and len(self._places) < PLACES_MAX:
                self._places[name] = place
        return place

    def value(self, name: ColumnName, value: object) -> bytes:
        """The bytes of a value of a column."""
        return _encoded(name, self.place(name)[2], value)

    def put(
        self, batch: MutationBatch, row: bytes, values: Values, timestamp: Moment | None = None
    ) -> None:
        """Add the cells of a put."""
        if not isinstance(values, Mapping):
            raise InvalidArgument(f"values is a mapping from columns, not {values!r:.80}")
        at = optional_micros(timestamp, "timestamp")
        for name, value in values.items():
            family, qualifier, typed = self.place(name)
            batch.put(row, family, qualifier, _encoded(name, typed, value), at)

    def delete(
        self,
        batch: MutationBatch,
        row: bytes,
        columns: Columns = None,
        *,
        until: Moment | None = None,
        timestamp: Moment | None = None,
    ) -> None:
        """Add the erasures of a delete: of the whole row, or of columns and families."""
        if timestamp is not None and (until is not None or columns is None):
            raise InvalidArgument("timestamp names one version of columns: give columns, no until")
        bound = optional_micros(until, "until")
        exact = optional_micros(timestamp, "timestamp")
        if columns is None:
            batch.erase_row(row, bound)
            return
        if isinstance(columns, str | bytes | Column | FamilySelection):
            columns = (columns,)
        if not isinstance(columns, Iterable):
            raise InvalidArgument(f"columns is a list of names, not {columns!r:.80}")
        for selector in columns:
            self._erase(batch, row, selector, bound, exact)

    def _erase(
        self,
        batch: MutationBatch,
        row: bytes,
        selector: ColumnSelector,
        until: int | None,
        timestamp: int | None,
    ) -> None:
        if isinstance(selector, FamilySelection):
            if not selector.is_whole_family or timestamp is not None:
                raise InvalidArgument(f"a delete takes columns and whole families, not {selector}")
            batch.erase_family(row, selector.family, until)
            return
        family, qualifier, _ = self.place(selector)
        whole_family = not qualifier and not isinstance(selector, Column)
        if whole_family and timestamp is not None:
            raise InvalidArgument(f"timestamp names one version of a column; {selector!r} is none")
        if whole_family:
            batch.erase_family(row, family, until)
        elif timestamp is not None:
            batch.erase_cell(row, family, qualifier, timestamp)
        else:
            batch.erase_column(row, family, qualifier, until)

    def ranges(self, rows: object = None, prefix: object = None) -> tuple[RowRange, ...]:
        """The ranges that ``rows=`` or ``prefix=`` of a read name."""
        if rows is not None and prefix is not None:
            raise InvalidArgument("give rows or prefix, not both")
        if prefix is not None:
            return (self._prefix_range(prefix),)
        if isinstance(rows, list):
            return tuple(map(self.range, rows))
        return (self.range(rows),)

    def _prefix_range(self, prefix: object) -> RowRange:
        """Rows that begin with bytes, with text, or with the first parts of a composite key."""
        key = self.schema.key
        if isinstance(prefix, str) and key == TEXT_KEYS:
            prefix = key.bound(prefix)  # text that keys begin with is no whole key
        return RowRange.prefix(prefix) if isinstance(prefix, bytes) else key.prefix_range(prefix)

    def range(self, rows: object) -> RowRange:
        """One range: a ``RowRange``, a pair (start, end) of keys or bounds, or ``None``."""
        if rows is None:
            return EVERYTHING
        if isinstance(rows, RowRange):
            return _of_bytes(rows)
        if not isinstance(rows, tuple) or len(rows) != 2:
            raise InvalidArgument(
                f"rows is a pair (start, end), or a list of such pairs, not {rows!r:.80}; "
                "single rows are read with get_many"
            )
        return self.schema.key.range(*rows)


def _of_bytes(rows: RowRange) -> RowRange:
    """The range itself, which anybody can make of anything that has an order."""
    bounds: tuple[object, ...] = (rows.start, rows.end)
    if not all(isinstance(bound, bytes | None) for bound in bounds):
        raise InvalidArgument(f"a RowRange is of bytes, not {rows!r:.80}")
    return rows


def _encoded(name: ColumnName, typed: TypedColumn | None, value: object) -> bytes:
    if typed is not None:
        try:
            return typed.encode(value)
        except InvalidArgument as error:
            raise InvalidArgument(f"column {_shown(name)}: {error}") from error
    if type(value) is bytes:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise InvalidArgument(
        f"column {_shown(name)}: {value!r:.80} is {type(value).__name__}, and a column that the "
        "schema does not declare holds bytes"
    )


def _shown(name: ColumnName) -> str:
    return repr(str(name) if isinstance(name, Column) else name)
