"""Where the parts of a load begin, found out by the driver: a table's borders, and samples of keys.

A new table is split by the samples first. Reading them costs one pass over the keys, as a sort of
Spark's does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from stele.client.backend import TableBackend
from stele.client.table import Table
from stele.errors import InvalidArgument
from stele.spark.load_columns import quoted
from stele.spark.load_routing import Sample, Sampler, even_cuts, new_tablets, wanted_parts
from stele.spark.row_sorter import ROW
from stele.spark.spark_types import spark_schema

Splits = Literal["auto"] | Sequence[object]
"""Keys at which the table is split first; ``auto``: an empty table is split by samples."""

_SAMPLES = pa.schema([("row", pa.binary()), ("rows", pa.int64())])


@dataclass(frozen=True, slots=True)
class Cuts:
    """Rows at which parts begin, and how many rows there are, if they were counted."""

    rows: tuple[bytes, ...]
    count: int | None = None


def check_splits(splits: object) -> None:
    """Refuse what is no list of keys; text would be one of single letters."""
    is_list = isinstance(splits, Sequence) and not isinstance(splits, str | bytes | bytearray)
    if splits != "auto" and not is_list:
        raise InvalidArgument(f"splits is 'auto' or a list of keys, not {splits!r:.80}")


def find_cuts(frame: Any, handle: Table, splits: Splits, workers: int) -> Cuts:
    """The borders of tablets, and rows between them if tablets are few or large."""
    backend = handle.core.backend
    if splits != "auto":
        for key in splits:
            backend.split(handle.schema.key.to_bytes(key))
    borders = _borders(backend)
    if len(borders) + 1 >= workers and splits != "auto":
        return Cuts(tuple(borders))
    samples, rows = sample_rows(frame)
    if splits == "auto" and not borders and _is_empty(backend):
        for key in even_cuts(samples, new_tablets(rows, wanted_parts(rows, 1, workers))):
            backend.split(key)
        borders = _borders(backend)
    parts = wanted_parts(rows, len(borders) + 1, workers)
    if parts <= len(borders) + 1:
        return Cuts(tuple(borders), rows)
    return Cuts(tuple(sorted({*borders, *even_cuts(samples, parts)})), rows)


def _borders(backend: TableBackend) -> list[bytes]:
    return [tablet.rows.start for tablet in backend.tablets()][1:]


def _is_empty(backend: TableBackend) -> bool:
    return not any(tablet.fragments for tablet in backend.tablets())


def sample_rows(frame: Any) -> tuple[list[Sample], int]:
    """Keys of all partitions, each evenly spaced, and how many rows there are."""

    def sample(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sampler = Sampler()
        for batch in batches:
            sampler.add(batch.column(0).drop_null())
        found = sampler.samples()
        lines = [[one.row for one in found], [one.rows for one in found]]
        yield pa.RecordBatch.from_arrays(
            [pa.array(value, field.type) for value, field in zip(lines, _SAMPLES, strict=True)],
            schema=_SAMPLES,
        )

    lines = frame.select(quoted(ROW)).mapInArrow(sample, spark_schema(_SAMPLES)).collect()
    samples = [Sample(bytes(line["row"]), line["rows"]) for line in lines]
    return samples, sum(sample.rows for sample in samples)
