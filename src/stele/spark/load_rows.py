"""Wide rows of a load as they are, for files of the columns layout.

Most loads are *plain*: each row once, values and nothing else. Such rows go into a file column by
column; making cells of them and rows of the cells again would cost twice as much. What is not plain
shows only while rows are read, in their order: then the group begins anew as cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from stele.errors import InvalidCells
from stele.model.arrow_input import NullRule, encoded_rows
from stele.model.cells import TIMESTAMP_MAX
from stele.model.columns import Column
from stele.model.key_codec import RAW_KEYS
from stele.model.schema import Schema
from stele.model.typed_columns import TypedColumn
from stele.model.types import is_text
from stele.spark.load_cells import FAMILY_MAP, OP, TIMESTAMP, is_delete
from stele.spark.row_sorter import ROW
from stele.storage.fragment_columns_format import native_candidates
from stele.storage.fragment_columns_writer import NATIVE_SHARE_MIN


class NotPlain(Exception):
    """No failure: the rows say more than values, each once, and are written in another way."""


@dataclass(frozen=True, slots=True)
class PlainRows:
    """What a columns file gets of the rows of one group."""

    schema: Schema
    typed: tuple[TypedColumn, ...]
    """Declared columns of the group."""
    nulls: NullRule
    timestamp: int
    """Of rows that have none."""
    keys_are_encoded: bool
    """Whether keys were encoded by us, and need no check."""

    def check(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows with their keys and times in order; ``NotPlain`` if there is more to them."""
        first = True
        for batch in batches:
            if first and not self._suits(batch):
                raise NotPlain
            first = False
            self._check_keys(batch)
            yield self._values(batch)

    def _suits(self, batch: pa.RecordBatch) -> bool:
        """Whether enough of the first cells would be native."""
        native = {str(typed.column) for typed in native_candidates(self.typed)}
        cells = {name: _valid(batch, name) for name in batch.schema.names if ":" in name}
        mine = sum(count for name, count in cells.items() if name in native)
        return bool(mine) and mine >= NATIVE_SHARE_MIN * sum(cells.values())

    def _check_keys(self, batch: pa.RecordBatch) -> None:
        rows = batch.column(ROW)
        if pc.any(pc.equal(rows[1:], rows[:-1])).as_py():
            raise NotPlain
        if not self.keys_are_encoded and self.schema.key != RAW_KEYS:
            encoded_rows(self.schema, batch, [ROW])

    def _values(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        names = [ROW]
        arrays = [batch.column(ROW)]
        if OP in batch.schema.names and pc.any(is_delete(batch)).as_py():
            raise NotPlain
        if any(name.startswith(FAMILY_MAP) for name in batch.schema.names):
            raise NotPlain
        if TIMESTAMP in batch.schema.names:
            names.append(TIMESTAMP)
            arrays.append(self._times(batch.column(TIMESTAMP)))
        for name in batch.schema.names:
            if ":" not in name:
                continue
            array = batch.column(name)
            if self.nulls == "delete" and array.null_count:
                raise NotPlain
            names.append(name)
            arrays.append(self._bytes(name, array))
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def _times(self, array: pa.Array) -> pa.Array:
        times = pc.fill_null(array.cast(pa.int64()), TIMESTAMP_MAX)
        unset = pc.equal(times, TIMESTAMP_MAX)
        return pc.if_else(unset, self.timestamp, times)

    def _bytes(self, name: str, array: pa.Array) -> pa.Array:
        """Text of a column that nobody has declared, as the bytes it is stored as."""
        if not is_text(array.type) or self.schema.typed_column(Column.parse(name)) is not None:
            return array
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise InvalidCells(f"column {name!r} has text that is no UTF-8: {error}") from error
        return array.cast(pa.binary())


def _valid(batch: pa.RecordBatch, name: str) -> int:
    array = batch.column(name)
    return len(array) - int(array.null_count)
