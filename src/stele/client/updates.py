"""Decisions of reads followed by writes: conditional mutation, increment, append.

Each function here sees the row's newest cells and says what to write; nothing is read or written
by them, so a conflict only means that they are asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from stele.client.encoder import Columns, Encoder, Values
from stele.client.table_core import Decision
from stele.errors import InvalidArgument, InvalidCells
from stele.model.columns import Column, ColumnSelection
from stele.model.mutations import MutationBatch
from stele.model.row import ColumnName, RowCells, newest_values
from stele.model.types import value_type

Conditions: TypeAlias = Mapping[str, object] | Mapping[bytes, object] | Mapping[Column, object]
"""Columns and the values they must have; ``None`` means that there is none."""

_INT64 = value_type("int64")
_APPENDABLE = ("string", "binary")


def condition_columns(conditions: object) -> ColumnSelection:
    """What has to be read to judge conditions."""
    if not isinstance(conditions, Mapping) or not conditions:
        raise InvalidArgument(
            f"conditions is a mapping from columns to values with at least one, not "
            f"{conditions!r:.80}"
        )
    return ColumnSelection.parse(list(map(Column.parse, conditions)))


def conditional(
    encoder: Encoder,
    row: bytes,
    conditions: Conditions,
    put: Values | None,
    delete: Columns | bool,
) -> Callable[[RowCells | None], Decision[bool]]:
    """Write if every column has the value that the conditions give; ``delete=True`` is the row."""
    wanted = {
        encoder.place(name)[:2]: None if value is None else encoder.value(name, value)
        for name, value in conditions.items()
    }
    mutations = MutationBatch()
    if delete is True:
        encoder.delete(mutations, row)
    elif delete is not None and not isinstance(delete, bool):
        encoder.delete(mutations, row, delete)
    if put is not None:
        encoder.put(mutations, row, put)
    if not mutations:
        raise InvalidArgument("a conditional mutation has something to put or to delete")

    def decide(found: RowCells | None) -> Decision[bool]:
        values = newest_values(found)
        holds = all(values.get(place) == value for place, value in wanted.items())
        return Decision(mutations if holds else None, holds)

    return decide


def increment(
    encoder: Encoder, row: bytes, column: ColumnName, by: int
) -> Callable[[RowCells | None], Decision[int]]:
    """Add to a counter, which begins at 0: eight bytes, big-endian, signed."""
    family, qualifier, typed = encoder.place(column)
    if typed is not None and typed.type != _INT64:
        raise InvalidArgument(f"column {column!r} is of type {typed.type}; counters are int64")
    _INT64.encode(by)

    def decide(found: RowCells | None) -> Decision[int]:
        old = newest_values(found).get((family, qualifier))
        count = by if old is None else _number(column, old) + by
        mutations = MutationBatch()
        try:
            mutations.put(row, family, qualifier, _INT64.encode(count))
        except InvalidArgument as error:
            raise InvalidArgument(
                f"column {column!r}: {count - by} and {by} add up to more than an int64 holds"
            ) from error
        return Decision(mutations, count)

    return decide


def _number(column: ColumnName, data: bytes) -> int:
    try:
        number = _INT64.decode(data)
    except InvalidCells as error:
        raise InvalidArgument(f"column {column!r} holds no counter: {error}") from error
    assert isinstance(number, int)
    return number


def append(
    encoder: Encoder, row: bytes, column: ColumnName, tail: object
) -> Callable[[RowCells | None], Decision[bytes]]:
    """Lengthen a value, which begins empty, by bytes or text."""
    family, qualifier, typed = encoder.place(column)
    if typed is not None and typed.type.name not in _APPENDABLE:
        raise InvalidArgument(
            f"column {column!r} is of type {typed.type}; appending is for string and binary"
        )
    end = encoder.value(column, tail)

    def decide(found: RowCells | None) -> Decision[bytes]:
        value = newest_values(found).get((family, qualifier), b"") + end
        mutations = MutationBatch()
        mutations.put(row, family, qualifier, value)
        return Decision(mutations, value)

    return decide
