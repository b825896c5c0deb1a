"""Both decoders by themselves: what they refuse, and files whose pages are not ours."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from stele.env.memory_fs import MemoryFileSystem
from stele.errors import Corruption
from stele.kernels.parquet_thrift import BODY, COMPRESSED, FAMILIES_PAGE, UNCOMPRESSED
from stele.model.cells import Cell
from stele.storage.fragment_decoder import ArrowDecoder, PageDecoder, parse_dictionary
from stele.storage.fragment_format import FragmentInfo
from stele.storage.fragment_options import FragmentOptions
from stele.storage.fragment_reader import FragmentReader
from tests.unit.kernels import parquet_oracle as oracle
from tests.unit.storage.arrow_fragments import write_by_arrow
from tests.unit.storage.fragment_cases import (
    SMALL,
    cells_of,
    new_fs,
    open_info,
    path_of,
    plain_cells,
    read_all,
    write,
)

PLAIN = FragmentOptions(block_cells=16, compression="none")


def opened(cells: list[Cell], options: FragmentOptions) -> tuple[FragmentReader, bytes]:
    """A reader, and the bytes of its first row group."""
    fs = new_fs()
    (info,) = write(fs, cells, options)
    reader = open_info(fs, info)
    entry = reader.index.groups[0]
    start = int(entry["offset"])
    end = start + int(entry["key_bytes"]) + int(entry["value_bytes"])
    return reader, fs.read_all(path_of(info))[start:end]


def decoder_of(reader: FragmentReader) -> PageDecoder:
    decoder = reader._decoder
    assert isinstance(decoder, PageDecoder)
    return decoder


def test_pages_written_by_hand_decode_like_pyarrows() -> None:
    cells = plain_cells(16)
    reader, _ = opened(cells, PLAIN)
    data = oracle.make_pages(cells).encode()
    assert cells_of([decoder_of(reader).decode(data, 0, values=True)]) == cells


def _with_dictionary(page: bytes, count: int) -> bytes:
    pages = oracle.make_pages(plain_cells(16))
    pages.bodies[FAMILIES_PAGE] = page
    pages.counts[FAMILIES_PAGE] = count
    return pages.encode()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "a page header cannot be read"),
        (_with_dictionary(oracle.plain_strings(["other"]), 1), "a family that the file does not"),
        (_with_dictionary(oracle.plain_strings(["info"])[:-1], 1), "a name is cut off"),
        (_with_dictionary(oracle.plain_strings(["info"]) + b"\x00", 1), "a name is cut off"),
        (_with_dictionary(b"\x02\x00\x00\x00\xff\xff", 1), "dictionary of families is wrong"),
        (_with_dictionary(oracle.plain_strings(["info"]), 2), "another size than it says"),
        (_with_dictionary(b"", 0), "a family that the file does not have"),
    ],
)
def test_damaged_row_groups_are_refused_with_their_place(data: bytes, said: str) -> None:
    reader, _ = opened(plain_cells(16), PLAIN)
    with pytest.raises(Corruption, match=f"row group 0: .*{said}.* at offset 4"):
        decoder_of(reader).decode(data, 0, values=True)


def test_more_families_than_a_table_may_have_are_refused() -> None:
    assert len(parse_dictionary(oracle.plain_strings(["f"] * 1_025))) == 1_025
    with pytest.raises(ValueError, match="1026 families, the limit is 1024"):
        parse_dictionary(oracle.plain_strings(["f"] * 1_026))


def test_names_in_a_dictionary_that_no_cell_uses_do_no_harm() -> None:
    cells = plain_cells(16)
    reader, _ = opened(cells, PLAIN)
    pages = oracle.make_pages(cells)
    pages.bodies[FAMILIES_PAGE] = oracle.plain_strings(["info", "x"])
    pages.counts[FAMILIES_PAGE] = 2
    assert cells_of([decoder_of(reader).decode(pages.encode(), 0, values=True)]) == cells


def test_a_page_that_does_not_decompress_is_refused() -> None:
    reader, data = opened(plain_cells(16), SMALL)
    status, table = oracle.walk(data, 16)
    assert status > 0
    damaged = bytearray(data)
    damaged[table[0][BODY]] ^= 0xFF
    with pytest.raises(Corruption, match="row group 0: a page cannot be decompressed"):
        decoder_of(reader).decode(bytes(damaged), 0, values=True)


def test_pages_larger_than_the_index_says_are_refused() -> None:
    """The index is what bounds the memory that a row group may ask for."""
    reader, _ = opened(plain_cells(16), PLAIN)
    data = oracle.make_pages(plain_cells(16, value=bytes(10_000))).encode()
    with pytest.raises(Corruption, match="larger than the index says"):
        decoder_of(reader).decode(data, 0, values=True)


def test_a_dictionary_is_parsed_once() -> None:
    reader, data = opened(plain_cells(64), PLAIN)
    decoder = decoder_of(reader)
    for _ in range(5):
        decoder.decode(data, 0, values=True)
    assert len(decoder._dictionaries) == 1


def test_families_are_the_files_own_whatever_a_row_group_has() -> None:
    cells = sorted(
        (Cell(b"r%02d" % at, "cab"[at % 3], b"", 0, txn=at) for at in range(30)), key=Cell.key
    )
    fs = new_fs()
    (info,) = write(fs, cells, FragmentOptions(block_cells=1), block_size=1)
    with open_info(fs, info) as reader:
        blocks = list(reader.blocks())
    assert {block.families for block in blocks} == {("a", "b", "c")}
    assert cells_of(blocks) == cells


# Files with other pages than ours: what another writer might write.

OTHER_PAGES: dict[str, dict[str, Any]] = {
    "page version 2": {"data_page_version": "2.0"},
    "several pages": {"data_page_size": 100, "write_batch_size": 4},
    "other encodings": {"column_encoding": None, "use_dictionary": False},
    "dictionaries everywhere": {"column_encoding": None, "use_dictionary": True},
    "no page checksums": {"write_page_checksum": False, "data_page_version": "2.0"},
}


@pytest.fixture(params=OTHER_PAGES, ids=lambda name: name.replace(" ", "_"))
def other_pages(
    request: pytest.FixtureRequest,
) -> tuple[MemoryFileSystem, FragmentInfo, list[Cell]]:
    fs = new_fs()
    cells = plain_cells(300, value=b"some value")
    options = FragmentOptions(block_cells=64)
    return fs, write_by_arrow(fs, cells, options, **OTHER_PAGES[request.param]), cells


def test_other_pages_are_left_to_pyarrow(
    other_pages: tuple[MemoryFileSystem, FragmentInfo, list[Cell]],
) -> None:
    fs, info, cells = other_pages
    with open_info(fs, info) as reader:
        assert not reader.index.metadata.plain_pages
        assert isinstance(reader._decoder, ArrowDecoder)
        assert cells_of(reader.blocks()) == cells
        keys = cells_of(reader.blocks(values=False))
    assert [cell.key() for cell in keys] == [cell.key() for cell in cells]
    assert {cell.value for cell in keys} == {b""}


def test_other_pages_are_verified_before_pyarrow_sees_them(
    other_pages: tuple[MemoryFileSystem, FragmentInfo, list[Cell]],
) -> None:
    fs, info, _ = other_pages
    data = bytearray(fs.read_all(path_of(info)))
    for at in range(4, info.index.offset, 101):
        damaged = bytearray(data)
        damaged[at] ^= 1
        other = new_fs()
        other.write_atomic(path_of(info), bytes(damaged))
        with open_info(other, info) as reader:
            blooms_start = int(reader.index.groups["bloom_offset"][0])
            if at < blooms_start:
                with pytest.raises(Corruption, match="checksum of row group"):
                    list(reader.blocks())


def test_what_pyarrow_cannot_decode_is_corruption() -> None:
    reader, data = opened(plain_cells(16), SMALL)
    fs = new_fs()
    (info,) = write(fs, plain_cells(16), SMALL)
    footer = fs.read_all(path_of(info))[info.index.offset + info.index.size + 40 :]
    decoder = ArrowDecoder(reader.index, footer, "file")
    assert cells_of([decoder.decode(data, 0, values=True)]) == plain_cells(16)
    with pytest.raises(Corruption, match="file: row group 0"):
        decoder.decode(data[: len(data) // 2], 0, values=True)


def test_a_footer_that_is_none_is_corruption() -> None:
    reader, _ = opened(plain_cells(16), SMALL)
    with pytest.raises(Corruption, match="Parquet's footer cannot be read"):
        ArrowDecoder(reader.index, b"nonsense" * 10, "file")


def test_a_footer_of_another_file_is_noticed() -> None:
    reader, _ = opened(plain_cells(64), SMALL)
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(pa.table({"a": [1]}), sink)
    with pytest.raises(Corruption, match="other row groups than the index"):
        ArrowDecoder(reader.index, sink.getvalue().to_pybytes(), "file")


def test_reading_nothing_but_a_few_families_of_many() -> None:
    cells = sorted(
        (Cell(b"r", f"f{at:04}", b"", 0, b"v", txn=at) for at in range(1_000)), key=Cell.key
    )
    fs = new_fs()
    infos = write(fs, cells, SMALL)
    assert read_all(fs, infos) == cells


def test_the_uncompressed_size_must_match() -> None:
    reader, data = opened(plain_cells(16), SMALL)
    _, table = oracle.walk(data, 16)
    first = table[0]
    header = oracle.header(0, first[UNCOMPRESSED] + 1, first[COMPRESSED], 16, oracle.DELTA_LENGTH)
    with pytest.raises(Corruption, match="a page cannot be decompressed"):
        decoder_of(reader).decode(header + data[first[BODY] :], 0, values=True)
