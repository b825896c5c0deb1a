"""One columns file as bytes: what other tools see, and what stands where."""

from __future__ import annotations

from pathlib import Path

import crc32c
import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq

from stele.env.memory_fs import MemoryFileSystem
from stele.model.cells import Cell
from stele.storage.fragment_format import FragmentInfo, decode_metadata
from stele.storage.fragment_options import FragmentOptions
from tests.unit.storage.columns_cases import SOME_COLUMNS, people, write_typed
from tests.unit.storage.fragment_cases import new_fs, open_info, path_of

CELLS = people(120)


def written(
    cells: list[Cell] = CELLS, options: FragmentOptions | None = None
) -> tuple[MemoryFileSystem, bytes, FragmentInfo]:
    fs = new_fs()
    options = options or FragmentOptions(block_cells=16)
    (info,) = write_typed(fs, cells, options=options)
    return fs, fs.read_all(path_of(info)), info


def test_other_tools_read_it_as_a_table(tmp_path: Path) -> None:
    _, data, _ = written()
    path = tmp_path / "columns.parquet"
    path.write_bytes(data)
    query = 'select sum("info:age"), count("more:flag") from read_parquet(?)'
    with duckdb.connect() as connection:
        assert connection.execute(query, [str(path)]).fetchall() == [(sum(range(120)), 80)]
    frame = polars.read_parquet(path)
    assert frame["info:name"].to_list()[:2] == ["name 0", "name 1"]
    table = pq.read_table(path)
    assert table["row"].to_pylist() == [b"row%05d" % at for at in range(120)]
    assert set(table["_timestamp"].to_pylist()) == {1_000}
    assert set(table["_txn"].to_pylist()) == {7}


def test_columns_carry_the_ids_of_the_schema() -> None:
    _, data, _ = written()
    schema = pq.ParquetFile(pa.BufferReader(data)).schema_arrow
    for column in SOME_COLUMNS:
        field = schema.field(str(column.column))
        assert field.metadata[b"PARQUET:field_id"] == str(column.id).encode()
        assert field.type == column.type.arrow


def test_every_byte_belongs_to_something() -> None:
    """Magic, the columns of each row group, bloom filters, index: no gap, and all sealed."""
    fs, data, info = written()
    index = open_info(fs, info).index
    assert len(index) > 2
    end = 4
    for entry, chunks in zip(index.groups, index.chunks, strict=True):
        assert entry["offset"] == end
        for chunk in chunks:
            stop = end + int(chunk["bytes"])
            assert crc32c.crc32c(data[end:stop]) == chunk["crc"]
            end = stop
        assert end == entry["offset"] + entry["key_bytes"]
        assert crc32c.crc32c(data[int(entry["offset"]) : end]) == entry["key_crc"]
    for entry in index.groups:
        assert entry["bloom_offset"] == end
        end += int(entry["bloom_bytes"])
    assert end == info.index.offset


def test_the_footer_says_what_the_index_says() -> None:
    fs, data, info = written()
    index = open_info(fs, info).index
    footer = pq.read_metadata(pa.BufferReader(data))
    assert decode_metadata(footer.metadata[b"stele"], "f") == index.metadata
    for group in range(footer.num_row_groups):
        row_group = footer.row_group(group)
        assert row_group.column(0).statistics.min == index.first_row(group)
        assert [column.column_index for column in row_group.sorting_columns] == [0]
        for leaf in range(row_group.num_columns):
            assert (
                row_group.column(leaf).total_compressed_size == index.chunks[group][leaf]["bytes"]
            )
    names = [footer.schema.column(leaf).name for leaf in range(footer.num_columns)]
    age, name = names.index("info:age"), names.index("info:name")
    assert footer.row_group(0).column(age).statistics.max >= 1, "for predicates"
    assert footer.row_group(0).column(name).statistics is None, "text may be long"


def test_columns_of_few_values_have_a_dictionary() -> None:
    _, data, _ = written(people(2_000), FragmentOptions(block_cells=4_096))
    group = pq.read_metadata(pa.BufferReader(data)).row_group(0)
    encodings = {
        group.column(at).path_in_schema: group.column(at).encodings
        for at in range(group.num_columns)
    }
    assert "RLE_DICTIONARY" in encodings["info:name"]
    assert "RLE_DICTIONARY" in encodings["_txn"]
    assert "DELTA_LENGTH_BYTE_ARRAY" in encodings["row"]
    assert "PLAIN" in encodings["info:score"]


def test_the_histogram_has_rows_that_exist() -> None:
    fs, _, info = written()
    metadata = open_info(fs, info).index.metadata
    rows = [entry.row for entry in metadata.histogram]
    assert rows == sorted(set(rows))
    assert set(rows) <= {cell.row for cell in CELLS}
    assert metadata.histogram[0].cells_before == 0
