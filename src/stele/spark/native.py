"""Clean files as one native Parquet scan, with the read as a condition that Spark pushes down.

One scan for all files, whatever tablets they belong to: a thousand frames united would take Spark
a minute to plan. Files are named one by one, never found by listing a directory.

Bytes compare in Spark and in Parquet's statistics as they do here, without a sign.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from stele.model.cells import TIMESTAMP_MAX, TIMESTAMP_MIN
from stele.model.columns import ColumnSelection, FamilySelection
from stele.model.predicates import ScanSpec
from stele.model.ranges import EVERYTHING, RowRange
from stele.spark.shapes import CELL_FIELDS
from stele.spark.spark_types import spark_schema
from stele.storage.fragment_format import FragmentInfo

_PATTERN = re.compile(r"[\\*?{}\[\],]")
"""What means something in Hadoop's patterns of paths."""

Frame = Any
"""A DataFrame of classic Spark or of Spark Connect."""


def native_cells(spark: Any, location: str, files: Sequence[FragmentInfo], spec: ScanSpec) -> Frame:
    """The cells of clean files that a read asks for."""
    frame = parquet_files(spark, location, files, CELL_FIELDS)
    wanted = condition(files, spec)
    return frame if wanted is None else frame.where(wanted)


def parquet_files(
    spark: Any, location: str, files: Sequence[FragmentInfo], schema: pa.Schema
) -> Frame:
    """Columns of files, all in one scan."""
    paths = [path_of(location, file) for file in files]
    return spark.read.schema(spark_schema(schema)).parquet(*paths)


def path_of(location: str, file: FragmentInfo) -> str:
    """A file as Spark is told of it: a bracket in a name is no pattern.

    Escaped, because where Spark is told to take no path for a pattern it reads those that look
    like one twice.
    """
    return _PATTERN.sub(r"\\\g<0>", f"file://{os.path.join(location, file.name)}")


def condition(files: Sequence[FragmentInfo], spec: ScanSpec) -> str | None:
    """What a cell has to fulfil, in SQL; ``None`` if every cell of the files does anyway."""
    in_rows = row_condition(files, spec)
    found = [] if in_rows is None else [in_rows]
    if not _selects_all(spec.columns, files):
        found.append(_any([_in_family(part) for part in spec.columns.families or ()]))
    if spec.time_start != TIMESTAMP_MIN:
        found.append(f"`timestamp` >= {spec.time_start}L")
    if spec.time_end != TIMESTAMP_MAX:
        found.append(f"`timestamp` < {spec.time_end}L")
    return " AND ".join(found) or None


def row_condition(files: Sequence[FragmentInfo], spec: ScanSpec) -> str | None:
    """The part of the condition that is about rows."""
    rows = [part for part in spec.ranges if _touches(part, files)]
    if any(_covers(part, files) for part in rows):
        return None
    return _any([_in_range("`row`", part) for part in rows])


def _any(choices: list[str]) -> str:
    return f"({' OR '.join(choices)})" if choices else "false"


def _touches(rows: RowRange, files: Sequence[FragmentInfo]) -> bool:
    return any(
        rows.start <= file.summary.last_row
        and (rows.end is None or file.summary.first_row < rows.end)
        for file in files
    )


def _covers(rows: RowRange, files: Sequence[FragmentInfo]) -> bool:
    return all(
        rows.contains(file.summary.first_row) and rows.contains(file.summary.last_row)
        for file in files
    )


def _selects_all(columns: ColumnSelection, files: Sequence[FragmentInfo]) -> bool:
    families = {family for file in files for family in file.summary.families}
    return all(columns.ranges(family) == (EVERYTHING,) for family in families)


def _in_family(part: FamilySelection) -> str:
    # Names of families have no character that would have to be quoted.
    family = f"`family` = '{part.family}'"
    if part.is_whole_family:
        return family
    return f"({family} AND {_any([_in_range('`qualifier`', each) for each in part.ranges])})"


def _in_range(column: str, part: RowRange) -> str:
    """``start <= column < end``."""
    start = f"X'{part.start.hex()}'"
    if part == RowRange.row(part.start):
        return f"{column} = {start}"
    if part.end is None:
        return f"{column} >= {start}"
    return f"({column} >= {start} AND {column} < X'{part.end.hex()}')"
