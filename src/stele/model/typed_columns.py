"""Declared columns: a place for cells, a type, and an identity that outlives both.

The cells of a declared column are ordinary cells; the declaration says how their bytes are read.
Its id never changes and is never given to another column: files that store the column natively
name it by this id. The *label* is what rows of DataFrames call it; renaming changes the label, as
the cells keep their qualifier.

A widened column remembers its ``former`` types. Cells keep the bytes they were written with, so
reading tries the current type and then those before it; no byte string fits two of them with
different meanings. Storing natively uses the current type only, which makes it a bijection.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from stele.errors import InvalidCells, InvalidSchema, LimitExceeded
from stele.model.arrays import Bools, flatten
from stele.model.columns import Column
from stele.model.limits import LABEL_BYTES_MAX
from stele.model.types import ValueType, widens

COLUMN_ID_FIRST = 16
"""Ids below are kept for the fixed columns of the files."""

COLUMN_ID_MAX = (1 << 31) - 1
"""Parquet's field ids are 32 bits wide and signed."""


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """One declared column. ``label`` defaults to ``family:qualifier``."""

    id: int
    column: Column
    type: ValueType
    label: str = ""
    former: tuple[ValueType, ...] = ()

    def __post_init__(self) -> None:
        wanted = {"id": int, "column": Column, "type": ValueType, "label": str, "former": tuple}
        for name, kind in wanted.items():
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise InvalidSchema(
                    f"the {name} of a declared column is of type {kind.__name__}, not {value!r:.80}"
                )
        if not COLUMN_ID_FIRST <= self.id <= COLUMN_ID_MAX:
            raise InvalidSchema(
                f"column {self.column} has id {self.id}, not within {COLUMN_ID_FIRST} and "
                f"{COLUMN_ID_MAX}"
            )
        if not self.label:
            object.__setattr__(self, "label", str(self.column))
        if len(self.label) > LABEL_BYTES_MAX:
            raise LimitExceeded(
                f"label of column {self.column}, of {len(self.label)} characters, is over the "
                f"limit of {LABEL_BYTES_MAX}"
            )
        chain = (*self.former, self.type)
        for old, new in pairwise(chain):
            if old == new or not widens(old, new):
                raise InvalidSchema(f"column {self.column}: {new} does not widen {old}")

    def encode(self, value: object) -> bytes:
        """The bytes of a value that is written now."""
        return self.type.encode(value)

    def decode(self, data: bytes) -> object:
        """The value of a cell, whichever of the column's types it was written with."""
        for kind in (self.type, *reversed(self.former)):
            try:
                return kind.decode(data)
            except InvalidCells:
                continue
        raise InvalidCells(
            f"column {self.column} is of type {self.type}; {data[:32]!r} ({len(data)} bytes) is "
            "not the encoding of such a value"
        )

    def decode_array(self, array: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, Bools]:
        """Like :meth:`decode` for a binary array: values, and which elements are undecodable."""
        plain = flatten(array)
        values, bad = self.type.decode_array(plain)
        for kind in reversed(self.former):
            if not bad.any():
                break
            earlier, still_bad = kind.decode_array(plain)
            values = pc.if_else(pa.array(bad), earlier.cast(self.type.arrow), values)
            bad = bad & still_bad
        return values, bad
