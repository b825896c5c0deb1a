"""One fragment file as bytes: what other tools see, and what stands where."""

from __future__ import annotations

from pathlib import Path

import crc32c
import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stele.errors import InvalidCells, LimitExceeded
from stele.model.cells import Cell
from stele.storage import fragment_file
from stele.storage.fragment_format import FragmentInfo, decode_metadata
from stele.storage.fragment_options import FragmentOptions
from stele.storage.fragment_reader import FragmentReader
from tests.unit.storage.fragment_cases import (
    SMALL,
    new_fs,
    open_info,
    path_of,
    plain_cells,
    write,
)

CELLS = plain_cells(100)


def written(
    cells: list[Cell] = CELLS, options: FragmentOptions = SMALL
) -> tuple[bytes, FragmentInfo, FragmentReader]:
    fs = new_fs()
    (info,) = write(fs, cells, options)
    return fs.read_all(path_of(info)), info, open_info(fs, info)


def footer_of(data: bytes) -> pq.FileMetaData:
    return pq.read_metadata(pa.BufferReader(data))


def test_the_parquet_footer_says_what_the_index_says() -> None:
    data, info, reader = written()
    footer = footer_of(data)
    assert footer.num_rows == info.summary.cells == 100
    assert footer.num_row_groups == len(reader.index)
    for group in range(footer.num_row_groups):
        entry, row_group = reader.index.groups[group], footer.row_group(group)
        assert row_group.num_rows == entry["cells"]
        row, value = row_group.column(0), row_group.column(6)
        assert row.data_page_offset == entry["offset"]
        assert value.data_page_offset == entry["offset"] + entry["key_bytes"]
        assert value.total_compressed_size == entry["value_bytes"]
        assert row.statistics.min == reader.index.first_row(group)
        assert row.bloom_filter_offset == entry["bloom_offset"]
        assert row.bloom_filter_length == entry["bloom_bytes"]
        assert row_group.column(4).statistics is None, "statistics are for rows only"
        assert [column.column_index for column in row_group.sorting_columns] == [0, 1]


def test_our_metadata_stands_in_the_parquet_footer_too() -> None:
    data, _, reader = written()
    stored = footer_of(data).metadata[b"stele"]
    assert decode_metadata(stored, "f") == reader.index.metadata


def test_every_byte_belongs_to_something() -> None:
    """Magic, row groups, bloom filters, index, trailer, footer: no gap, no overlap."""
    data, info, reader = written()
    groups = reader.index.groups
    end = 4
    for entry in groups:
        assert entry["offset"] == end
        end += int(entry["key_bytes"]) + int(entry["value_bytes"])
    for entry in groups:
        assert entry["bloom_offset"] == end
        stop = end + int(entry["bloom_bytes"])
        assert crc32c.crc32c(data[end:stop]) == entry["bloom_crc"]
        end = stop
    assert info.index.offset == end
    end += info.index.size
    assert crc32c.crc32c(data[info.index.offset : end]) == info.index.crc
    footer_bytes = int.from_bytes(data[-8:-4], "little")
    assert end + 40 + footer_bytes + 8 == len(data) == info.size


@pytest.mark.parametrize("compression", ["none", "lz4", "snappy", "zstd"])
def test_other_tools_read_it(tmp_path: Path, compression: str) -> None:
    cells = [*CELLS, Cell(b"\xff\x00", "z", b"\x00\xff", -1, b"\x00\xff" * 5, txn=9)]
    data, _, _ = written(cells, FragmentOptions(block_cells=16, compression=compression))
    file = tmp_path / "fragment.parquet"
    file.write_bytes(data)

    table = pq.read_table(file, page_checksum_verification=True)
    assert table.column("row").to_pylist() == [cell.row for cell in cells]

    with duckdb.connect() as connection:
        count, last, total = connection.sql(
            f"select count(*), max(row), sum(txn) from '{file}'"
        ).fetchall()[0]
        (found,) = connection.sql(
            f"select value from '{file}' where row = '\\xFF\\x00'::blob and family = 'z'"
        ).fetchall()
    assert (count, last, total) == (len(cells), b"\xff\x00", sum(cell.txn for cell in cells))
    assert found == (b"\x00\xff" * 5,)

    frame = polars.read_parquet(file)
    assert frame["qualifier"].to_list() == [cell.qualifier for cell in cells]
    assert frame["family"].cast(polars.String).to_list() == [cell.family for cell in cells]
    assert frame["op"].to_list() == [int(cell.op) for cell in cells]


def test_the_same_cells_give_the_same_bytes() -> None:
    assert written()[0] == written()[0]


def test_compression_makes_a_difference() -> None:
    cells = plain_cells(400, value=b"the same words again and again " * 4)
    sizes = {
        name: written(cells, FragmentOptions(compression=name))[1].size
        for name in ("none", "lz4", "zstd")
    }
    assert sizes["none"] > sizes["lz4"] > 0
    assert sizes["none"] > sizes["zstd"] > 0


def test_cells_out_of_order_are_refused_before_they_are_written() -> None:
    fs = new_fs()
    with pytest.raises(InvalidCells, match="cell 50 of the fragment"):
        write(fs, [*CELLS[:50], *CELLS[40:]])
    assert fs.disk.used_bytes == 0


def test_a_row_that_no_file_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragment_file, "FILE_GROUPS_LIMIT", 3)
    with pytest.raises(LimitExceeded, match="b'row0000000' spans more row groups"):
        write(new_fs(), plain_cells(100, per_row=100), FragmentOptions(block_cells=16))


def test_the_histogram_is_true() -> None:
    _, _, reader = written(plain_cells(1_000), FragmentOptions(block_cells=20))
    rows = [cell.row for cell in plain_cells(1_000)]
    histogram = reader.index.metadata.histogram
    assert len(histogram) == 50
    for entry in histogram:
        assert rows.index(entry.row) == entry.cells_before
