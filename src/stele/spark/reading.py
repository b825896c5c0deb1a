"""``ss.read`` and ``ss.view``: a table as a DataFrame, as fast as its files allow.

The driver pins a snapshot and decides; executors read files. Clean files are one native Parquet
scan, the rest is merged by the kernels, and both are united under one schema.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from stele.client.backend import TableBackend
from stele.client.encoder import Columns
from stele.client.table import Table, fields_of
from stele.client.table_core import text
from stele.client.times import At, TimeRange
from stele.errors import InvalidArgument
from stele.model.durations import parse_duration
from stele.model.filters import Filter
from stele.model.predicates import ScanSpec
from stele.spark.addresses import TableAddress
from stele.spark.native import Frame, native_cells
from stele.spark.native_rows import native_part, native_rows, quoted
from stele.spark.partition_policy import cut_evenly, merged_bytes, wanted_partitions
from stele.spark.pinning import KEEPER, HeldPin
from stele.spark.queries import condition_told
from stele.spark.requests import ReadRequest
from stele.spark.routes import choose_routes, never
from stele.spark.shapes import Names, Shape
from stele.spark.spark_types import spark_schema
from stele.spark.tasks import make_tasks, run_numbered
from stele.spark.world import files_at
from stele.storage.fragment_columns_format import NativePart
from stele.storage.fragment_format import FragmentInfo
from stele.storage.fragment_reader import FragmentReader
from stele.storage.read_plan import ReadPlan, TabletPlan

LEASE_DEFAULT = "1h"
"""How long a snapshot outlives a driver that does not renew it any more."""

Where = str | Filter | tuple[Filter, ...] | list[Filter]
"""A condition in SQL over the columns of the DataFrame, or filters that all have to hold."""

TableLike = Table | str


def read(
    spark: Any,
    table: TableLike,
    *,
    columns: Columns = None,
    rows: object = None,
    shape: Shape = "rows",
    names: Names = "qualified",
    undeclared: str | None = None,
    versions: int | None = 1,
    at: At = None,
    time_range: TimeRange | None = None,
    where: Where | None = None,
    partitions: int | None = None,
    lease: str = LEASE_DEFAULT,
) -> Frame:
    """A DataFrame over a table as it is now, or as it was at ``at``.

    ``table`` is a ``Table`` or a text such as ``"./data#users"``. ``columns``, ``rows``,
    ``versions``, ``time_range`` and ``at`` mean what they mean in ``Table.scan``. ``shape`` is
    ``"rows"``, one line for each row with typed columns, or ``"cells"``; ``names`` says how the
    columns of wide rows are called. Cells that have no column there, because the schema declares
    none and ``columns`` names none, are left out, and so are rows that have nothing else;
    ``undeclared`` names one more column for them, a map from ``family:qualifier`` to value. The
    DataFrame keeps its snapshot while this process lives, whatever happens to the table, and
    ``lease`` longer if it dies.
    """
    return read_pinned(
        spark,
        table,
        columns=columns,
        rows=rows,
        shape=shape,
        names=names,
        undeclared=undeclared,
        versions=versions,
        at=at,
        time_range=time_range,
        where=where,
        partitions=partitions,
        lease=lease,
    )[0]


def view(
    spark: Any,
    table: TableLike,
    name: str | None = None,
    *,
    refresh: bool = False,
    **arguments: Any,
) -> Frame:
    """A temporary view over :func:`read`, by the table's name unless another is given.

    A name that is no word is written in backquotes in SQL, as in ``FROM `page-views` ``.
    Called again, it replaces the view with one of a new snapshot; the old one is kept no longer
    than its lease. ``refresh=True`` does so with the ``arguments`` that the view was made with.
    """
    check_arguments("view", arguments)
    name = name or table_name(table)
    before = _VIEWS.get((id(spark), name))
    if refresh:
        if before is None:
            raise InvalidArgument(f"there is no view {name!r} in this session to refresh")
        if arguments:
            raise InvalidArgument(
                f"refresh=True keeps what view {name!r} was made with: leave out "
                f"{', '.join(arguments)}, or make the view anew without it"
            )
        arguments = dict(before.arguments)
    frame, pin = read_pinned(spark, table, **arguments)
    frame.createOrReplaceTempView(name if name.startswith("`") else quoted(name))
    if before is not None:
        KEEPER.forget(before.pin)
    _VIEWS[id(spark), name] = _View(pin, arguments)
    return frame


@dataclass(frozen=True, slots=True)
class _View:
    """What holds the snapshot of a view, and what it was made with."""

    pin: str
    arguments: Mapping[str, Any]


_VIEWS: dict[tuple[int, str], _View] = {}
"""The views of this process, by session and name."""


def check_arguments(function: str, arguments: Mapping[str, Any]) -> None:
    """Refuse what :func:`read` does not take, in the name of who hands it on."""
    known = inspect.signature(read).parameters
    for name in arguments:
        if name not in known:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def read_pinned(
    spark: Any,
    table: TableLike,
    *,
    columns: Columns = None,
    rows: object = None,
    shape: Shape = "rows",
    names: Names = "qualified",
    undeclared: str | None = None,
    versions: int | None = 1,
    at: At = None,
    time_range: TimeRange | None = None,
    where: Where | None = None,
    partitions: int | None = None,
    lease: str = LEASE_DEFAULT,
) -> tuple[Frame, str]:
    """The DataFrame of :func:`read`, and its pin, which whoever needs it no longer may release."""
    ttl_us = parse_duration(lease, "lease")
    sql = where if isinstance(where, str) else None
    filters = () if where is None or isinstance(where, str) else where
    with opened(table) as (handle, address):
        cells = handle.core.cell_spec(columns, versions, time_range, filters, None, at)
        request = ReadRequest(
            spec=ScanSpec(ranges=handle.core.encoder.ranges(rows), **fields_of(cells)),
            shape=shape,
            names=names,
            undeclared=None if undeclared is None else text("undeclared", undeclared),
            partitions=partitions,
        )
        request.converter(handle.schema)  # refuse what makes no sense before anything is pinned
        plan = handle.core.backend.pin(cells.at, ttl_us)
        KEEPER.hold(held_pin(handle, address, plan, ttl_us))
    try:
        frame = planned(spark, plan, request)
        if sql is not None:
            with condition_told(sql):
                frame = frame.where(sql)
    except Exception:
        KEEPER.release(plan.lease)
        raise
    return frame, plan.lease


def table_name(table: TableLike) -> str:
    """What a table is called."""
    return TableAddress.parse(table).table if isinstance(table, str) else table.name


@contextmanager
def opened(table: TableLike) -> Iterator[tuple[Table, TableAddress | None]]:
    """A handle of a table, and its address if it had to be opened for this."""
    if isinstance(table, Table):
        yield table, None
    elif isinstance(table, str):
        address = TableAddress.parse(table)
        with address.open() as handle:
            yield handle, address
    else:
        raise InvalidArgument(
            f"a table is a stele.Table or a text such as './data#users', not {table!r:.80}"
        )


def held_pin(handle: Table, address: TableAddress | None, plan: ReadPlan, ttl_us: int) -> HeldPin:
    """How to reach the owner again: by the handle, or by opening the address anew."""

    @contextmanager
    def owner() -> Iterator[TableBackend]:
        if address is not None:
            with address.open() as again:
                yield again.core.backend
        else:
            handle.core.handle.check()
            yield handle.core.backend

    def renew() -> None:
        with owner() as backend:
            backend.renew_pin(plan.lease, ttl_us)

    def release() -> None:
        with owner() as backend:
            backend.release_pin(plan.lease)

    return HeldPin(plan.lease, ttl_us, renew, release)


def planned(spark: Any, plan: ReadPlan, request: ReadRequest) -> Frame:
    """A DataFrame over a plan."""
    shape, spec = request.converter(plan.schema), request.cell_spec(plan.schema)
    rows = native_rows(shape, spec, partial(_part_of, plan))
    routes = choose_routes(plan, request, never if rows is None else rows.holds_lines)
    schema = spark_schema(shape.arrow_schema)
    frames = []
    if routes.clean:
        native = native_cells if rows is None else rows.frame
        frames.append(native(spark, plan.location, routes.clean, spec))
    if routes.merged:
        frames.append(_merged(spark, plan, request, routes.merged, schema))
    if not frames:
        return spark.createDataFrame([], schema)
    return frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])


def _part_of(plan: ReadPlan, file: FragmentInfo) -> NativePart:
    files = files_at(plan.location, plan.name)
    with FragmentReader.open(files, file.name, file) as reader:
        return native_part(reader.index.metadata)


def _merged(
    spark: Any,
    plan: ReadPlan,
    request: ReadRequest,
    tablets: tuple[TabletPlan, ...],
    schema: Any,
) -> Frame:
    """What the kernels have to merge: as many one-row partitions as there are tasks."""
    ranges = request.spec.ranges
    wanted = request.partitions or wanted_partitions(
        merged_bytes(tablets, ranges), parallelism(spark)
    )
    tasks = make_tasks(plan, request, cut_evenly(tablets, ranges, wanted))

    def run(batches: Any) -> Any:
        return run_numbered(tasks, batches)

    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(run, schema)


def parallelism(spark: Any) -> int:
    """How many tasks run at a time, as far as a session tells; Connect does not."""
    configured = spark.conf.get("spark.sql.leafNodeDefaultParallelism", None)
    if configured:
        return int(configured)
    context = getattr(spark, "_sc", None)
    return int(context.defaultParallelism) if context is not None else os.cpu_count() or 1
