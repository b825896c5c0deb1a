"""``ss.lookup_join``: rows of a table beside the lines of a DataFrame that name their keys.

Worth it where a DataFrame names few of a table's rows: the keys are encoded, sent to the task of
their tablet, sorted, and looked up batch by batch in the pinned files, of which only the blocks are
read that may hold one. A key that is null or that no row has is joined with nulls, or dropped.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stele.client.encoder import Columns
from stele.client.table import fields_of
from stele.client.times import At
from stele.errors import InvalidArgument, InvalidCells
from stele.model.durations import parse_duration
from stele.model.key_codec import RAW_KEYS
from stele.model.limits import ROW_BYTES_MAX
from stele.model.predicates import ScanSpec
from stele.model.ranges import EVERYTHING
from stele.model.schema import Schema
from stele.model.schema_json import schema_from_json
from stele.model.types import is_bytes, is_text
from stele.spark.native import Frame
from stele.spark.native_rows import TEXT_KEYS
from stele.spark.partition_policy import Piece, cut_evenly, merged_bytes, wanted_partitions
from stele.spark.pinning import KEEPER
from stele.spark.reading import LEASE_DEFAULT, TableLike, held_pin, opened, parallelism
from stele.spark.requests import ReadRequest
from stele.spark.routes import relevant
from stele.spark.shapes import Names
from stele.spark.spark_types import spark_schema
from stele.spark.tasks import gathered
from stele.spark.world import files_at
from stele.spark.write_form import arrow_schema
from stele.storage.plan_reader import PlanReader
from stele.storage.read_plan import ReadPlan

PART, KEY = "_stele_part", "_stele_key"
"""Columns that exist only between the two steps of a lookup."""

How = Literal["left", "inner"]
HOWS: tuple[How, ...] = ("left", "inner")


class Lookup(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a task has to know."""

    location: str
    table: str
    txn: int
    schema_json: str
    request: ReadRequest
    pieces: tuple[Piece, ...]
    on: tuple[str, ...]
    how: How


_LOOKUPS = msgspec.msgpack.Decoder(Lookup)


def lookup_join(
    frame: Frame,
    table: TableLike,
    *,
    on: str | Sequence[str],
    columns: Columns = None,
    names: Names = "qualified",
    how: How = "left",
    at: At = None,
    lease: str = LEASE_DEFAULT,
) -> Frame:
    """The lines of ``frame``, each with the columns of the row whose key its columns ``on`` are.

    A composite key has as many columns. ``columns``, ``names``, ``at`` and ``lease`` are those of
    ``ss.read``. ``how`` is ``"left"``, or ``"inner"`` to drop lines whose key no row has. A value
    that no key can have, as one beyond 32 bits for an ``int32``, is a key that no row has.
    """
    spark = frame.sparkSession
    ttl_us = parse_duration(lease, "lease")
    with opened(table) as (handle, address):
        cells = handle.core.cell_spec(columns, 1, None, (), None, at)
        request = ReadRequest(spec=ScanSpec(**fields_of(cells)), names=names)
        keys = (on,) if isinstance(on, str) else tuple(on)
        check_lookup(handle.schema, request, frame.columns, keys, how)
        check_keys(handle.schema, keys, arrow_schema(frame.schema))
        plan = handle.core.backend.pin(cells.at, ttl_us)
        KEEPER.hold(held_pin(handle, address, plan, ttl_us))
    tablets = relevant(plan, request)
    wanted = wanted_partitions(merged_bytes(tablets, (EVERYTHING,)), parallelism(spark))
    pieces = tuple(piece for task in cut_evenly(tablets, (EVERYTHING,), wanted) for piece in task)
    return _joined(frame, make_lookup(plan, request, pieces, keys, how), max(1, len(pieces)))


def check_lookup(
    schema: Schema, request: ReadRequest, names: Sequence[str], on: Sequence[str], how: str
) -> None:
    """Refuse what makes no sense before anything is pinned."""
    if how not in HOWS:
        raise InvalidArgument(f"how is one of {', '.join(HOWS)}; not {how!r:.80}")
    parts = len(schema.key.parts)
    if len(on) != parts:
        raise InvalidArgument(
            f"the table's key ({schema.key}) has {parts} parts: name as many columns in on, not "
            f"{len(on)}"
        )
    for name in on:
        if name not in names:
            raise InvalidArgument(
                f"the DataFrame has no column {name!r:.80} to look up; it has {', '.join(names)}"
            )
    for field in _found_fields(schema, request):
        if field.name in names:
            raise InvalidArgument(
                f"both sides have a column {field.name!r}: rename the DataFrame's, or select "
                f"other columns"
            )


def check_keys(schema: Schema, on: Sequence[str], lines: pa.Schema) -> None:
    """Refuse columns whose types no key of the table has, whatever is in them."""
    kinds = [lines.field(name).type for name in on]
    if len(on) == 1 and is_bytes(kinds[0]):
        return
    for name, kind, part in zip(on, kinds, schema.key.parts, strict=True):
        if is_bytes(kind) and pa.types.is_fixed_size_binary(part.arrow):
            continue
        if pa.types.is_decimal(kind) and pa.types.is_integer(part.arrow):
            continue
        if schema.key == RAW_KEYS and is_text(kind):
            continue
        try:
            part.encode_array(pa.array([], kind), last=part is schema.key.parts[-1])
        except InvalidArgument as error:
            raise InvalidArgument(
                f"column {name!r} is {kind}, and {part.name!r} of the table's key is "
                f"{part.type_name}: cast it"
            ) from error


def make_lookup(
    plan: ReadPlan, request: ReadRequest, pieces: tuple[Piece, ...], on: tuple[str, ...], how: How
) -> bytes:
    """A lookup, ready to travel."""
    return msgspec.msgpack.encode(
        Lookup(
            location=plan.location,
            table=plan.name,
            txn=plan.txn,
            schema_json=plan.schema_json,
            request=request,
            pieces=pieces,
            on=on,
            how=how,
        )
    )


def _joined(frame: Frame, lookup: bytes, partitions: int) -> Frame:
    from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

    task = _LOOKUPS.decode(lookup)
    found = _found_fields(schema_from_json(task.schema_json.encode()), task.request)
    between = StructType(
        [*frame.schema, StructField(PART, IntegerType()), StructField(KEY, BinaryType())]
    )

    def route(batches: Any) -> Any:
        return route_keys(lookup, partitions, batches)

    def look_up(batches: Any) -> Any:
        return look_up_keys(lookup, batches)

    return (
        frame.mapInArrow(route, between)
        .repartition(partitions, PART)
        .sortWithinPartitions(PART, KEY)
        .mapInArrow(look_up, StructType([*frame.schema, *spark_schema(pa.schema(found))]))
    )


def _found_fields(schema: Schema, request: ReadRequest) -> list[pa.Field]:
    """The columns of a wide row without its key."""
    return list(request.converter(schema).arrow_schema)[len(schema.key.parts) :]


def route_keys(
    data: bytes, partitions: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The lines with their encoded keys and the numbers of the pieces that may have them.

    A key that no piece has gets a number below zero: a different one for each line, so that many of
    them do not all go to one task.
    """
    lookup = _LOOKUPS.decode(data)
    schema = schema_from_json(lookup.schema_json.encode())
    starts = [piece.rows.start for piece in lookup.pieces]
    for batch in batches:
        keys = encoded_keys(schema, batch, lookup.on)
        parts = [
            _piece_of(lookup.pieces, starts, key, -1 - number % partitions)
            for number, key in enumerate(keys.to_pylist())
        ]
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, pa.array(parts, pa.int32()), keys],
            names=[*batch.schema.names, PART, KEY],
        )


def _piece_of(
    pieces: Sequence[Piece], starts: Sequence[bytes], key: bytes | None, nowhere: int
) -> int:
    if key is None:
        return nowhere
    number = bisect_right(starts, key) - 1
    return number if number >= 0 and pieces[number].rows.contains(key) else nowhere


def encoded_keys(schema: Schema, batch: pa.RecordBatch, on: Sequence[str]) -> pa.Array:
    """The rows that the columns ``on`` name; null where one of them is, or no row can be so.

    One column of bytes holds encoded keys already, as everywhere.
    """
    first = batch.column(on[0])
    is_plain = is_text(first.type) and schema.key in (RAW_KEYS, TEXT_KEYS)
    if len(on) == 1 and (is_plain or is_bytes(first.type)):
        rows = first.cast(pa.binary())
        sizes = pc.binary_length(rows)
        possible = pc.and_(pc.greater(sizes, 0), pc.less_equal(sizes, ROW_BYTES_MAX))
        return pc.if_else(possible, rows, pa.scalar(None, pa.binary()))
    empty, _ = schema.key.decode_arrays(pa.array([], pa.binary()))
    try:
        parts = [_as_part(batch.column(n), part.type) for n, part in zip(on, empty, strict=True)]
    except pa.ArrowNotImplementedError as error:
        raise InvalidCells(f"the columns {', '.join(on)} are no keys: {error}") from error
    whole = np.logical_and.reduce(
        [part.is_valid().to_numpy(zero_copy_only=False) for part in parts]
    )
    chosen = pa.array(whole)
    rows = schema.key.encode_arrays([part.filter(chosen) for part in parts])
    places = np.full(len(batch), -1, np.int64)
    places[whole] = np.arange(len(rows))
    return rows.take(pa.array(places, mask=places < 0))


def _as_part(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values in the type of a part of a key; null where that has no such value.

    Arrow casts all or nothing, so what fails is halved: few values do, and most batches have none.
    """
    try:
        return values.cast(kind)
    except pa.ArrowInvalid:
        if len(values) == 1:
            return pa.nulls(1, kind)
        half = len(values) // 2
        return pa.concat_arrays([_as_part(values[:half], kind), _as_part(values[half:], kind)])


def look_up_keys(data: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The lines with what was found, or without; they come sorted by piece and key."""
    lookup = _LOOKUPS.decode(data)
    schema = schema_from_json(lookup.schema_json.encode())
    reader = PlanReader(files_at(lookup.location, lookup.table), "", lookup.txn, schema.served)
    for batch in batches:
        parts = batch.column(PART).to_numpy()
        cuts = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(parts)]
        found = [
            _found(reader, lookup, schema, int(parts[start]), batch.column(KEY)[start:end])
            for start, end in pairwise(cuts)
            if end > start
        ]
        lines = pa.concat_tables(found).combine_chunks()
        left = batch.drop_columns([PART, KEY])
        joined = pa.Table.from_arrays(
            [*left.columns, *lines.columns[1:]],
            schema=pa.schema([*left.schema, *list(lines.schema)[1:]]),
        )
        if lookup.how == "inner":
            joined = joined.filter(lines.column(0))
        yield from joined.to_batches()


def _found(
    reader: PlanReader, lookup: Lookup, schema: Schema, part: int, keys: pa.Array
) -> pa.Table:
    """For each key whether there is such a row, and its columns."""
    converter = lookup.request.converter(schema)
    fields = _found_fields(schema, lookup.request)
    lines = pa.schema(fields).empty_table()
    rows = pa.array([], pa.binary())
    if part >= 0:
        piece, spec = lookup.pieces[part], lookup.request.cell_spec(schema)
        wanted = pc.unique(keys).to_pylist()
        for cells in gathered(reader.read_rows(piece.references, wanted, spec)):
            wide = converter.convert(cells).select([field.name for field in fields])
            lines = pa.concat_tables([lines, pa.Table.from_batches([wide])])
            rows = pa.concat_arrays([rows, pc.unique(cells.column("row"))])
    places = pc.index_in(keys, value_set=rows)
    taken = lines.take(places)
    return taken.add_column(0, "_found", places.is_valid())
