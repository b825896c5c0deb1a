"""Scans: described at once, run when they are iterated, each time anew.

A :class:`Scan` holds nothing but its description. Whoever iterates it holds the store's stream, and
lets go of it when the iteration ends, whichever way it does.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NoReturn

import msgspec
import pyarrow as pa

from stele.client.backend import CellStream
from stele.client.frames import to_pandas, to_polars
from stele.client.table_core import TableCore
from stele.client.waiting import Deadline, Timeout
from stele.client.wide import WideShape, count_rows
from stele.errors import InvalidArgument
from stele.model.cells import CELLS
from stele.model.columns import Column
from stele.model.predicates import ScanSpec, spec_to_json
from stele.model.row import Row, rows_of

Shape = Literal["cells", "rows"]
"""``cells``: one line for each cell. ``rows``: one line for each row, see ``stele.client.wide``."""


@dataclass(frozen=True, repr=False)
class Scan:
    """A read of many rows in order. Made by ``Table.scan``; threads may share it.

    Iterating gives :class:`Row` objects; the other methods give Arrow and what is made of it. The
    object can be read by anything that takes an Arrow stream (DuckDB, Polars, pandas, pyarrow).
    Without ``at`` each run reads the newest durable state when it begins, and all of it at once.
    """

    core: TableCore
    spec: ScanSpec
    shape: Shape = "cells"
    timeout: Timeout = None
    named: tuple[Column, ...] = ()
    """Columns that were asked for by name, also where a whole family was as well."""

    def __post_init__(self) -> None:
        if self.shape not in ("cells", "rows"):
            raise InvalidArgument(f"shape is 'cells' or 'rows', not {self.shape!r}")
        if self.shape == "rows" and self.spec.versions != 1:
            raise InvalidArgument("wide rows have one version of each column: versions=1")

    @cached_property
    def _wide(self) -> WideShape | None:
        if self.shape == "cells":
            return None
        return WideShape.of(self.core.schema, self.spec.columns, self.named)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of :meth:`batches`."""
        return CELLS if self._wide is None else self._wide.arrow_schema

    def __repr__(self) -> str:
        return f"Scan({self.core.backend.name!r}, {spec_to_json(self.spec).decode()})"

    def __reduce__(self) -> NoReturn:
        self.core.handle.__reduce__()

    def __iter__(self) -> Iterator[Row]:
        schema = self.core.schema
        for batch in self.cells(self.spec):
            yield from rows_of(batch, schema)

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Arrow record batches, as they come; rows are never cut between two."""
        wide = self._wide
        if wide is None:
            return self.cells(self.spec)
        return self._wide_batches(wide)

    def _wide_batches(self, wide: WideShape) -> Generator[pa.RecordBatch, None, None]:
        narrowed = msgspec.structs.replace(self.spec, columns=wide.selection)
        with closing(self.cells(narrowed)) as batches:
            for batch in batches:
                yield wide.convert(batch)

    def to_arrow(self) -> pa.Table:
        """All of it as a ``pyarrow.Table``."""
        return pa.Table.from_batches(self.batches(), self.schema)

    def to_pandas(self) -> Any:
        """All of it as a ``pandas.DataFrame``."""
        return to_pandas(self.to_arrow())

    def to_polars(self) -> Any:
        """All of it as a ``polars.DataFrame``."""
        return to_polars(self.to_arrow())

    def reader(self) -> pa.RecordBatchReader:
        """A stream of record batches for libraries that read Arrow."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)

    def count(self) -> int:
        """How many rows there are; no more than one cell of each is looked at for long."""
        spec = msgspec.structs.replace(self.spec, cells_per_row=1)
        return sum(map(count_rows, self.cells(spec)))

    def explain(self) -> dict[str, Any]:
        """Run the scan, throw the cells away, and say what it took.

        The answer has the specification, the txn that was read at, rows, cells and batches, and
        under ``"store"`` what the store says it read.
        """
        counts = {"rows": 0, "cells": 0, "batches": 0}
        with closing(self.open(self.spec)) as stream:
            for batch in self._timely(stream):
                counts["rows"] += count_rows(batch)
                counts["cells"] += batch.num_rows
                counts["batches"] += 1
            specification = msgspec.json.decode(spec_to_json(self.spec))
            return {
                "table": self.core.backend.name,
                "specification": specification,
                "txn": stream.txn,
                **counts,
                "store": stream.explain(),
            }

    def open(self, spec: ScanSpec) -> CellStream:
        """Begin to read; the caller closes the stream."""
        self.core.handle.check()
        deadline = self.core.world.deadline(self.timeout)
        if self.timeout is None:
            return deadline.insist(lambda: self.core.backend.scan(spec))
        return deadline.insist(lambda: self.core.timely(deadline).scan(spec))

    def cells(self, spec: ScanSpec) -> Generator[pa.RecordBatch, None, None]:
        """The batches of one run."""
        with closing(self.open(spec)) as stream:
            yield from self._timely(stream)

    def _timely(self, stream: CellStream) -> Iterator[pa.RecordBatch]:
        """Batches until the deadline, if there is one: a scan without lasts while it is read."""
        deadline: Deadline | None = None
        if self.timeout is not None:
            deadline = self.core.world.deadline(self.timeout)
        batches = iter(stream)
        while True:
            self.core.handle.check()
            batch = next(batches, None)
            if batch is None:
                return
            if deadline is not None:
                deadline.check(f"a scan of table {self.core.backend.name!r}")
            if batch.num_rows:
                yield batch
