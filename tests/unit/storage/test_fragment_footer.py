"""Parquet's footer as pyarrow reads it: everything it says of a file is so."""

from __future__ import annotations

import io
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from stele.model.cells import CELLS, Cell
from stele.storage.fragment_footer import CREATED_BY, STATISTICS_BYTES_MAX
from stele.storage.fragment_options import FragmentOptions
from tests.unit.storage.arrow_fragments import parquet_arguments, write_by_arrow
from tests.unit.storage.fragment_cases import SORTED_CELLS, new_fs, path_of, plain_cells, write

OPTIONS = FragmentOptions(block_cells=64)


def written(cells: list[Cell], options: FragmentOptions = OPTIONS) -> bytes:
    fs = new_fs()
    (info,) = write(fs, cells, options)
    return fs.read_all(path_of(info))


def by_arrow(cells: list[Cell], options: FragmentOptions = OPTIONS) -> bytes:
    fs = new_fs()
    return fs.read_all(path_of(write_by_arrow(fs, cells, options)))


def footer_of(data: bytes) -> pq.FileMetaData:
    return pq.read_metadata(pa.BufferReader(data))


@pytest.mark.parametrize("compression", ["none", "lz4", "snappy", "zstd"])
def test_it_says_what_pyarrows_own_says(compression: str) -> None:
    options = FragmentOptions(block_cells=64, compression=compression)
    ours, theirs = (footer_of(make(plain_cells(300), options)) for make in (written, by_arrow))
    assert ours.schema.equals(theirs.schema)
    assert ours.schema.to_arrow_schema().equals(CELLS)
    assert ours.metadata[b"ARROW:schema"] == theirs.metadata[b"ARROW:schema"]
    assert (ours.num_rows, ours.num_row_groups, ours.format_version) == (
        theirs.num_rows,
        theirs.num_row_groups,
        theirs.format_version,
    )
    assert ours.created_by == CREATED_BY
    for group in range(ours.num_row_groups):
        one, two = ours.row_group(group), theirs.row_group(group)
        assert (one.num_rows, one.sorting_columns) == (two.num_rows, two.sorting_columns)
        for number in range(len(CELLS)):
            mine, pyarrows = one.column(number), two.column(number)
            for name in ("path_in_schema", "physical_type", "compression", "num_values"):
                assert getattr(mine, name) == getattr(pyarrows, name)
            assert set(mine.encodings) == set(pyarrows.encodings)
            assert mine.has_dictionary_page == pyarrows.has_dictionary_page
            if mine.statistics is not None:
                assert mine.statistics.to_dict() == pyarrows.statistics.to_dict()


@settings(max_examples=40)
@given(SORTED_CELLS)
def test_sizes_and_places_are_true(cells: list[Cell]) -> None:
    data = written(cells, FragmentOptions(block_cells=7))
    footer, end = footer_of(data), 4
    for number in range(footer.num_row_groups):
        group, uncompressed = footer.row_group(number), 0
        for column in (group.column(at) for at in range(group.num_columns)):
            first = column.dictionary_page_offset or column.data_page_offset
            assert first == end
            end += column.total_compressed_size
            uncompressed += column.total_uncompressed_size
        assert group.total_byte_size == uncompressed
    assert footer.row_group(0).column(0).bloom_filter_offset == end


def test_long_rows_have_no_statistics() -> None:
    long = [Cell(bytes([at]) * (STATISTICS_BYTES_MAX + 1), "f", b"q", 1) for at in range(1, 9)]
    assert footer_of(written(long)).row_group(0).column(0).statistics is None
    fitting = [Cell(cell.row[:-1], "f", b"q", 1) for cell in long]
    statistics = footer_of(written(fitting)).row_group(0).column(0).statistics
    assert (statistics.min, statistics.max) == (fitting[0].row, fitting[-1].row)


def test_readers_skip_row_groups_by_the_statistics(tmp_path: Path) -> None:
    cells = plain_cells(1_000)
    file = tmp_path / "fragment.parquet"
    file.write_bytes(written(cells))
    table = pq.read_table(file, filters=[("row", "==", cells[500].row)])
    assert table.num_rows == 4
    with duckdb.connect() as connection:
        found = connection.sql(
            f"select stats_min_value, stats_max_value from parquet_metadata('{file}') "
            f"where path_in_schema = 'row'"
        ).fetchall()
    assert len(found) == 16
    assert all(low <= high for low, high in found)


def test_pyarrow_reads_a_rewritten_file_alike() -> None:
    """A second writer, given what the first file holds, ends up with the same cells."""
    table = pq.read_table(io.BytesIO(written(plain_cells(200))))
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, **parquet_arguments(OPTIONS)) as writer:
        writer.write_table(table)
    assert pq.read_table(io.BytesIO(sink.getvalue())).equals(table)
