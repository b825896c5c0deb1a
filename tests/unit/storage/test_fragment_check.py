"""The deep check of a file: it finds what checksums cannot, a writer that was wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest
from hypothesis import given, settings

from stele.errors import Corruption
from stele.kernels.block import Block
from stele.model.cells import Cell
from stele.storage import fragment_file
from stele.storage.fragment_check import check_fragment
from stele.storage.fragment_encoder import EncodedGroup, GroupEncoder
from stele.storage.fragment_footer import encode_footer
from stele.storage.fragment_format import encode_metadata
from stele.storage.fragment_index import Groups, encode_index
from stele.storage.fragment_options import FragmentOptions
from stele.storage.fragment_reader import FragmentReader
from stele.storage.fragment_summary import SummaryBuilder
from tests.unit.storage.arrow_fragments import write_by_arrow
from tests.unit.storage.fragment_cases import (
    SMALL,
    SORTED_CELLS,
    new_fs,
    path_of,
    plain_cells,
    read_all,
    write,
)


@settings(max_examples=40)
@given(SORTED_CELLS)
def test_what_the_writer_writes_is_right(cells: list[Cell]) -> None:
    fs = new_fs()
    for info in write(fs, cells, FragmentOptions(block_cells=5, file_groups=3)):
        assert check_fragment(fs, path_of(info), info) == info.summary
        assert check_fragment(fs, path_of(info)) == info.summary


def test_files_with_other_pages_are_right_too() -> None:
    fs = new_fs()
    info = write_by_arrow(fs, plain_cells(100), SMALL, data_page_version="2.0")
    assert check_fragment(fs, path_of(info), info) == info.summary


def _unsorted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order is checked, and then cells are written in another one."""
    encode = GroupEncoder.encode

    def disordered(self: GroupEncoder, blocks: Sequence[Block]) -> EncodedGroup:
        (block,) = blocks
        rest = [block.slice(2, block.count)] if block.count > 2 else []
        return encode(self, [block.slice(1, 2), block.slice(0, 1), *rest])

    monkeypatch.setattr(GroupEncoder, "encode", disordered)


def _wrong_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    build = SummaryBuilder.build
    monkeypatch.setattr(
        SummaryBuilder,
        "build",
        lambda self: msgspec.structs.replace(build(self), txn_max=1 << 40),
    )


def _wrong_first_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_wrong(metadata: bytes, groups: Groups, first_rows: Sequence[bytes]) -> bytes:
        return encode_index(
            metadata, groups, [first_rows[0], first_rows[1] + b"\x00", *first_rows[2:]]
        )

    monkeypatch.setattr(fragment_file, "encode_index", one_wrong)


def _wrong_metadata_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        fragment_file,
        "encode_footer",
        lambda groups, blooms, codec, metadata: encode_footer(
            groups, blooms, codec, metadata.replace(b'"table-1"', b'"table-2"')
        ),
    )


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (_unsorted, "row group 0: cell 1 of the fragment.*is not above the cell before it"),
        (_wrong_summary, "its summary is not that of its cells"),
        (_wrong_first_row, "row group 1 begins with another row"),
        (_wrong_metadata_for_others, "Parquet's footer has other metadata than the index"),
    ],
)
def test_a_mistake_of_the_writer_is_found(
    monkeypatch: pytest.MonkeyPatch,
    mistake: Callable[[pytest.MonkeyPatch], None],
    said: str,
) -> None:
    fs = new_fs()
    with monkeypatch.context() as patched:
        mistake(patched)
        (info,) = write(fs, plain_cells(64))
    assert len(read_all(fs, [info])) == 64, "its checksums are right"
    with pytest.raises(Corruption, match=said):
        check_fragment(fs, path_of(info), info)


def test_a_reference_to_another_file_is_found() -> None:
    fs = new_fs()
    (one,) = write(fs, plain_cells(64))
    (two,) = write(fs, plain_cells(32), session="s-2")
    with pytest.raises(Corruption, match="its reference says"):
        check_fragment(fs, path_of(one), two)


def test_the_metadata_in_both_places_is_the_same_document() -> None:
    fs = new_fs()
    (info,) = write(fs, plain_cells(64))
    data = fs.read_all(path_of(info))
    with FragmentReader.open(fs, path_of(info)) as reader:
        document = encode_metadata(reader.index.metadata)
    assert data.count(document) == 2
