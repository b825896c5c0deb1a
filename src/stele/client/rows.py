"""The answer of ``get_many``: rows in the order of the keys, made when they are looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import pyarrow as pa

from stele.client.frames import to_pandas, to_polars
from stele.model.row import Row, rows_of
from stele.model.schema import Schema


class Rows(Sequence[Row | None]):
    """A row for each key that was asked for, ``None`` where there is none.

    The cells came as one Arrow batch, which :meth:`to_arrow` gives without looking at rows.
    """

    __slots__ = ("_cells", "_found", "_schema", "keys", "txn")

    def __init__(
        self, keys: Sequence[bytes], cells: pa.RecordBatch, txn: int, schema: Schema
    ) -> None:
        self.keys = tuple(keys)
        self.txn = txn
        self._cells = cells
        self._schema = schema
        self._found: dict[bytes, Row] | None = None

    @overload
    def __getitem__(self, index: int) -> Row | None: ...

    @overload
    def __getitem__(self, index: slice) -> list[Row | None]: ...

    def __getitem__(self, index: int | slice) -> Row | list[Row | None] | None:
        if isinstance(index, slice):
            return [self._rows().get(key) for key in self.keys[index]]
        return self._rows().get(self.keys[index])

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        return f"Rows({len(self.keys)} keys, {len(self._rows())} found)"

    def found(self) -> list[Row]:
        """The rows that there are, in key order."""
        return list(self._rows().values())

    def to_arrow(self) -> pa.Table:
        """The cells of all rows, in key order, each row once."""
        return pa.Table.from_batches([self._cells])

    def to_pandas(self) -> Any:
        """The cells as a ``pandas.DataFrame``."""
        return to_pandas(self.to_arrow())

    def to_polars(self) -> Any:
        """The cells as a ``polars.DataFrame``."""
        return to_polars(self.to_arrow())

    def _rows(self) -> dict[bytes, Row]:
        if self._found is None:
            self._found = {row.key: row for row in rows_of(self._cells, self._schema)}
        return self._found
