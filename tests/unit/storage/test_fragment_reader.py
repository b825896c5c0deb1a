"""Reading fragments: the right cells for every kind of data, and pyarrow as the judge."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.env.memory_fs import MemoryFileSystem
from stele.errors import Corruption, NotFound, UnsupportedFormat
from stele.model.cells import Cell
from stele.model.ranges import RowRange
from stele.storage.fragment_format import FragmentInfo, IndexPointer
from stele.storage.fragment_options import FragmentOptions
from stele.storage.fragment_reader import Decoding, FragmentReader
from tests.unit.storage.fragment_cases import (
    DIRECTORY,
    ROWS,
    SMALL,
    SORTED_CELLS,
    cells_of,
    new_fs,
    open_info,
    path_of,
    plain_cells,
    read_all,
    write,
)

OPTIONS = st.builds(
    FragmentOptions,
    compression=st.sampled_from(["none", "lz4", "snappy", "zstd", "zstd:3"]),
    block_cells=st.integers(1, 40),
)


def judged(fs: MemoryFileSystem, info: FragmentInfo) -> pa.Table:
    """What pyarrow by itself reads from the file, every page checksum verified."""
    data = pa.BufferReader(fs.read_all(path_of(info)))
    return pq.read_table(data, page_checksum_verification=True)


@settings(max_examples=80)
@given(SORTED_CELLS, OPTIONS)
def test_both_decoders_and_pyarrow_itself_agree(
    cells: list[Cell], options: FragmentOptions
) -> None:
    fs = new_fs()
    (info,) = write(fs, cells, options)
    assert read_all(fs, [info]) == cells
    assert read_all(fs, [info], decoding=Decoding.PYARROW) == cells
    with FragmentReader.open(fs, path_of(info)) as reader:
        ours = pa.Table.from_batches([block.batch for block in reader.blocks()])
        assert cells_of(reader.blocks()) == cells
    assert ours.equals(judged(fs, info).cast(ours.schema))


def _many_families(count: int) -> list[Cell]:
    return sorted(
        (Cell(b"r%d" % (at % 3), f"f{at:05}", b"q", at, b"v", txn=at) for at in range(count)),
        key=Cell.key,
    )


@pytest.mark.parametrize(
    ("cells", "options"),
    [
        ([Cell(b"r", "f", b"q", 0, b"v")], SMALL),
        (plain_cells(1_000), FragmentOptions(block_cells=1)),
        (plain_cells(9_000), FragmentOptions()),
        (plain_cells(20, value=b""), SMALL),
        (plain_cells(6, value=bytes(3_000_000)), SMALL),
        (_many_families(900), FragmentOptions(block_cells=128)),
        (_many_families(900), FragmentOptions(block_cells=7)),
        (plain_cells(5_000, per_row=5_000), FragmentOptions(block_cells=100)),
        ([Cell(b"r", "f", b"q", -at, b"v", txn=at) for at in range(3_000)], SMALL),
        ([Cell(bytes([at]) * 60_000, "f", b"q" * 60_000, 0) for at in range(40)], SMALL),
    ],
    ids=[
        "one cell",
        "one cell a group",
        "the usual",
        "empty values",
        "huge values",
        "many families",
        "a few of many families",
        "one huge row",
        "many versions",
        "long keys",
    ],
)
def test_unusual_shapes(cells: list[Cell], options: FragmentOptions) -> None:
    fs = new_fs()
    infos = write(fs, cells, options)
    assert read_all(fs, infos) == cells
    assert read_all(fs, infos, decoding=Decoding.PYARROW) == cells


@settings(max_examples=60)
@given(SORTED_CELLS, ROWS, st.one_of(st.none(), ROWS), st.integers(1, 20))
def test_a_row_range_gives_its_cells_and_no_others(
    cells: list[Cell], start: bytes, end: bytes | None, block_cells: int
) -> None:
    if end is not None and end <= start:
        start, end = b"", start
    rows = RowRange(start, end)
    fs = new_fs()
    (info,) = write(fs, cells, FragmentOptions(block_cells=block_cells))
    with open_info(fs, info) as reader:
        blocks = list(reader.blocks(rows))
    assert all(block.count for block in blocks)
    assert cells_of(blocks) == [cell for cell in cells if rows.contains(cell.row)]


@pytest.mark.parametrize("decoding", Decoding)
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_keys_are_read_without_their_values(decoding: Decoding, compression: str) -> None:
    fs = new_fs()
    cells = plain_cells(100, value=b"not to be read")
    (info,) = write(fs, cells, FragmentOptions(block_cells=16, compression=compression))
    with open_info(fs, info, decoding=decoding) as reader:
        found = cells_of(reader.blocks(values=False))
    assert [cell.key() for cell in found] == [cell.key() for cell in cells]
    assert {cell.value for cell in found} == {b""}


def test_reading_keys_does_not_touch_the_values() -> None:
    fs = new_fs()
    (info,) = write(fs, plain_cells(16, value=bytes(range(200))))
    with open_info(fs, info) as reader:
        entry = reader.index.groups[0]
        at = int(entry["offset"]) + int(entry["key_bytes"]) + 10
    damaged = flipped(fs, info, 8 * at)
    with open_info(damaged, info) as reader:
        assert reader.read_block(0, values=False).count == 16
        with pytest.raises(Corruption, match="row group 0"):
            reader.read_block(0)


def test_what_a_reader_knows_without_reading() -> None:
    fs = new_fs()
    (info,) = write(fs, plain_cells(100))
    with open_info(fs, info) as reader:
        assert reader.name == info.name
        assert reader.size == info.size == len(fs.read_all(path_of(info)))
        assert reader.summary == info.summary
        assert reader.index.metadata.histogram[0].row == b"row0000000"
        for group in range(len(reader.index)):
            owner: Any = reader.read_block(group).owner
            assert owner.size == reader.index.block_bytes(group)


def test_threads_may_share_a_reader() -> None:
    fs = new_fs()
    cells = plain_cells(2_000)
    (info,) = write(fs, cells, FragmentOptions(block_cells=64))
    results: list[bool] = []
    with open_info(fs, info) as reader:

        def work() -> None:
            results.append(all(cells_of(reader.blocks()) == cells for _ in range(3)))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [True] * 4


def test_blocks_outlive_the_reader() -> None:
    fs = new_fs()
    cells = plain_cells(16)
    (info,) = write(fs, cells)
    reader = open_info(fs, info)
    block = reader.read_block(0)
    reader.close()
    del reader
    assert cells_of([block]) == cells


def test_a_file_closes_with_the_last_who_holds_its_reader() -> None:
    fs = new_fs()
    (info,) = write(fs, plain_cells(16))
    reader = open_info(fs, info)
    also = reader
    fs.delete(path_of(info))
    del reader
    gc.collect()
    assert also.read_block(0).count == 16
    del also
    gc.collect()
    assert fs.disk.used_bytes == 0


def test_a_bloom_filter_never_denies_a_row() -> None:
    fs = new_fs()
    cells = plain_cells(2_000, per_row=2)
    (info,) = write(fs, cells, FragmentOptions(block_cells=64))
    with open_info(fs, info) as reader:
        for cell in cells:
            (group,) = reader.index.groups_of_row(cell.row)
            assert reader.may_contain(cell.row, group)
        let_in = sum(reader.may_contain(b"stranger%d" % at, at % 30) for at in range(1_000))
        assert let_in < 60


def test_a_damaged_bloom_filter_is_noticed_when_it_is_asked() -> None:
    fs = new_fs()
    (info,) = write(fs, plain_cells(40))
    with open_info(fs, info) as reader:
        offset = int(reader.index.groups["bloom_offset"][1])
    with open_info(flipped(fs, info, 8 * offset + 77), info) as reader:
        assert reader.may_contain(b"row0000000", 0)
        with pytest.raises(Corruption, match=f"bloom filter 1 is wrong at offset {offset}"):
            reader.may_contain(b"row0000004", 1)


# What must be refused.


def flipped(fs: MemoryFileSystem, info: FragmentInfo, bit: int) -> MemoryFileSystem:
    """The same file in another file system, with one bit changed."""
    data = bytearray(fs.read_all(path_of(info)))
    data[bit // 8] ^= 1 << bit % 8
    return stored(info.name, bytes(data))


def stored(name: str, data: bytes) -> MemoryFileSystem:
    fs = new_fs()
    fs.write_atomic(f"{DIRECTORY}/{name}", data)
    return fs


def test_a_missing_file() -> None:
    with pytest.raises(NotFound):
        FragmentReader.open(new_fs(), f"{DIRECTORY}/s-00000001.parquet")


@pytest.mark.parametrize("with_info", [True, False])
def test_every_way_to_cut_a_file_short_is_noticed(with_info: bool) -> None:
    fs = new_fs()
    (info,) = write(fs, plain_cells(40))
    data = fs.read_all(path_of(info))
    for size in range(len(data)):
        cut = stored(info.name, data[:size])
        with pytest.raises((Corruption, UnsupportedFormat), match=info.name):
            FragmentReader.open(cut, path_of(info), info if with_info else None)


def test_a_longer_file_is_noticed() -> None:
    fs = new_fs()
    (info,) = write(fs, plain_cells(40))
    longer = stored(info.name, fs.read_all(path_of(info)) + b"\x00")
    for expected in (info, None):
        with pytest.raises(Corruption):
            FragmentReader.open(longer, path_of(info), expected)


def test_another_file_under_the_name_is_noticed() -> None:
    """An old copy restored under a newer name, with the same size and valid in itself."""
    fs = new_fs()
    (one,) = write(fs, plain_cells(40, value=b"first"), FragmentOptions(compression="none"))
    (two,) = write(
        fs, plain_cells(40, value=b"other"), FragmentOptions(compression="none"), session="s-2"
    )
    assert one.size == two.size
    assert one.summary == two.summary
    swapped = stored(one.name, fs.read_all(path_of(two)))
    with pytest.raises(Corruption, match="index's checksum is wrong"):
        FragmentReader.open(swapped, path_of(one), one)


def test_swapped_row_groups_are_noticed() -> None:
    fs = new_fs()
    cells = [Cell(b"%04d" % at, "f", b"", 0, b"v") for at in range(32)]
    (info,) = write(fs, cells, FragmentOptions(block_cells=16, compression="none"))
    data = fs.read_all(path_of(info))
    with open_info(fs, info) as reader:
        first, second = reader.index.groups["offset"].tolist()
        end = int(reader.index.groups["bloom_offset"][0])
    assert second - first == end - second
    mixed = data[:first] + data[second:end] + data[first:second] + data[end:]
    with (
        FragmentReader.open(stored(info.name, mixed), path_of(info)) as reader,
        pytest.raises(Corruption, match="checksum of row group 0 is wrong at offset 4"),
    ):
        reader.read_block(0)


def test_a_foreign_parquet_file_is_refused_as_such() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": list(range(1_000))}), sink)
    data = sink.getvalue().to_pybytes()
    name = "s-00000001.parquet"
    with pytest.raises(UnsupportedFormat, match="a Parquet file, but no fragment"):
        FragmentReader.open(stored(name, data), f"{DIRECTORY}/{name}")


def test_a_rewritten_fragment_is_refused_as_foreign() -> None:
    """Another tool keeps our metadata but not our trailer: then it is not our file any more."""
    fs = new_fs()
    (info,) = write(fs, plain_cells(40))
    sink = pa.BufferOutputStream()
    table = pq.read_table(pa.BufferReader(fs.read_all(path_of(info))))
    pq.write_table(table, sink)
    with pytest.raises(UnsupportedFormat, match="no fragment"):
        FragmentReader.open(stored(info.name, sink.getvalue().to_pybytes()), path_of(info))


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1PAR1", b"x" * 100, b"PAR1" + bytes(96)])
def test_files_that_are_nothing(data: bytes) -> None:
    name = "s-00000001.parquet"
    with pytest.raises(Corruption, match="s-00000001"):
        FragmentReader.open(stored(name, data), f"{DIRECTORY}/{name}")


@pytest.mark.parametrize("pointer", [IndexPointer(0, 1 << 30, 0), IndexPointer(1 << 50, 10, 0)])
def test_a_reference_that_points_outside_the_file(pointer: IndexPointer) -> None:
    fs = new_fs()
    (info,) = write(fs, plain_cells(4))
    wrong = FragmentInfo(name=info.name, size=info.size, index=pointer, summary=info.summary)
    with pytest.raises(Corruption, match="an index outside the file"):
        FragmentReader.open(fs, path_of(info), wrong)


def test_a_reference_with_another_summary() -> None:
    fs = new_fs()
    (info,) = write(fs, plain_cells(4))
    (other,) = write(fs, plain_cells(8), session="s-2")
    wrong = FragmentInfo(name=info.name, size=info.size, index=info.index, summary=other.summary)
    with pytest.raises(Corruption, match="other things of itself than its reference"):
        FragmentReader.open(fs, path_of(info), wrong)


def test_nothing_stays_open_after_a_refusal() -> None:
    fs = new_fs()
    (info,) = write(fs, plain_cells(4))
    damaged = flipped(fs, info, 8 * info.index.offset)
    with pytest.raises(Corruption):
        FragmentReader.open(damaged, path_of(info), info)
    damaged.delete(path_of(info))
    assert damaged.disk.used_bytes == 0
