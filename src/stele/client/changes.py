"""Changes of a table between two moments, as lines; see ``stele.storage.change_lines``.

They are read from the table's files, which a pin keeps: the store tells which files there are, and
is not asked again. So a feed may be read slowly, twice, or by several readers at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from stele.client.closing import Releasing
from stele.client.encoder import Columns
from stele.client.frames import to_pandas, to_polars
from stele.client.scan import Shape
from stele.client.table_core import TableCore
from stele.client.times import At, read_txn
from stele.client.wide import WideShape, named_columns
from stele.env.posix import PosixFileSystem
from stele.errors import InvalidArgument
from stele.model.durations import parse_duration
from stele.model.predicates import CellSpec
from stele.model.ranges import EVERYTHING, RowRange, normalise
from stele.storage.change_lines import CHANGE_MODES, ChangeMode, ChangeTelling
from stele.storage.change_reader import ChangeReader
from stele.storage.read_plan import ReadPlan
from stele.storage.references import Reference, restrict


@dataclass(frozen=True)
class Changes(Releasing):
    """The changes after ``since`` up to ``txn``, kept until they are released. Threads share it.

    Iterating gives a mapping for each line. The object can be read by anything that takes an Arrow
    stream. The next feed begins where this one ends: ``table.changes(since=changes.txn)``.
    """

    core: TableCore
    plan: ReadPlan
    since: int
    ranges: tuple[RowRange, ...]
    telling: ChangeTelling

    @property
    def txn(self) -> int:
        """The moment up to which changes are told: all that were committed at or below it."""
        return self.plan.txn

    @property
    def expires_us(self) -> int:
        """Until when they can be read, unless they are released before."""
        return self.plan.expires_us

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of :meth:`batches`."""
        return self.telling.schema

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.batches():
            yield from batch.to_pylist()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Arrow record batches: *all* by rising txn, *net* in the order of rows."""
        plan = self.plan
        reader = ChangeReader(
            PosixFileSystem(plan.location), "", self.since, plan.txn, plan.schema.served
        )
        for references in self._pieces:
            yield from self.telling.lines(reader, references, EVERYTHING)

    @cached_property
    def _pieces(self) -> list[tuple[Reference, ...]]:
        """What is told one after the other: *all* is by txn, over all tablets at once."""
        pieces = [
            restrict(tablet.references, rows)
            for rows in self.ranges
            for tablet in self.plan.tablets
        ]
        if self.telling.mode == "net":
            return pieces
        return [tuple(reference for piece in pieces for reference in piece)]

    def to_arrow(self) -> pa.Table:
        """All of them as a ``pyarrow.Table``."""
        return pa.Table.from_batches(self.batches(), self.schema)

    def to_pandas(self) -> Any:
        """All of them as a ``pandas.DataFrame``."""
        return to_pandas(self.to_arrow())

    def to_polars(self) -> Any:
        """All of them as a ``polars.DataFrame``."""
        return to_polars(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self.schema, self.batches())
        return reader.__arrow_c_stream__(requested_schema)

    def release(self) -> None:
        """Let go of the files and of history. Idempotent."""
        self.core.backend.release_pin(self.plan.lease)


def check_telling(mode: str, shape: str, versions: int | None) -> None:
    """Refuse what contradicts itself."""
    if mode not in CHANGE_MODES:
        raise InvalidArgument(f"changes are told {' or '.join(CHANGE_MODES)}, not {mode!r:.80}")
    if mode == "all" and shape != "cells":
        raise InvalidArgument(
            "every single mutation is told in shape='cells': wide rows are for net changes"
        )
    if mode == "all" and versions != 1:
        raise InvalidArgument("every single mutation is told: versions are for net changes")
    if shape == "rows" and versions != 1:
        raise InvalidArgument("wide rows have one version of each column: versions=1")
    if shape not in ("cells", "rows"):
        raise InvalidArgument(f"shape is 'cells' or 'rows', not {shape!r:.80}")


def feed_start(core: TableCore, since: At) -> int:
    """The txn that ``since`` names; 0 is the beginning."""
    found = read_txn(core.backend, since)
    if found is None:
        raise InvalidArgument("a feed begins somewhere: since=0 is the beginning")
    return found


def table_changes(
    core: TableCore,
    since: At,
    until: At,
    ranges: tuple[RowRange, ...],
    columns: Columns,
    mode: ChangeMode,
    shape: Shape,
    versions: int | None,
    lease: str,
) -> Changes:
    """Pin a range of txns and say how it is told."""
    check_telling(mode, shape, versions)
    spec = core.cell_spec(columns, versions, None, (), None, None)
    telling = ChangeTelling(mode, spec)
    if shape == "rows":
        wide = WideShape.of(core.schema, spec.columns, named_columns(columns))
        spec = CellSpec(columns=wide.selection)
        telling = ChangeTelling(mode, spec, wide.convert, wide.arrow_schema)
    first, last = feed_start(core, since), read_txn(core.backend, until)
    plan = core.backend.pin_changes(first, last, parse_duration(lease, "lease"))
    return Changes(core, plan, first, normalise(ranges), telling)
