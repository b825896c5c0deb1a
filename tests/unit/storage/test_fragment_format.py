"""The metadata of a fragment: what it says, and what a reader refuses, by name."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from stele.errors import Corruption, InvalidArgument, UnsupportedFormat
from stele.storage.fragment_columns_format import NativeColumn, NativePart
from stele.storage.fragment_format import (
    HISTOGRAM_ENTRIES_MAX,
    HISTOGRAM_KEY_BYTES_MAX,
    Erasures,
    FragmentInfo,
    FragmentMetadata,
    FragmentSummary,
    HistogramEntry,
    IndexPointer,
    decode_metadata,
    encode_metadata,
    make_histogram,
)


def summary(**changes: Any) -> FragmentSummary:
    fields: dict[str, Any] = {
        "cells": 10,
        "rows": 4,
        "first_row": b"\x00a",
        "last_row": b"\xffz",
        "families": ("", "info"),
        "txn_min": -(1 << 63),
        "txn_max": (1 << 63) - 1,
        "put_timestamps": (-5, 5),
        "erasures": Erasures(1, 2, 0, 1),
        "versions_max": 2,
    }
    return FragmentSummary(**{**fields, **changes})


def metadata(**changes: Any) -> FragmentMetadata:
    fields: dict[str, Any] = {
        "table": "t",
        "compression": "zstd",
        "plain_pages": True,
        "summary": summary(),
        "histogram": (HistogramEntry(b"\x00a", 0, 4),),
    }
    return FragmentMetadata(**{**fields, **changes})


def test_metadata_comes_back_as_it_went() -> None:
    assert decode_metadata(encode_metadata(metadata()), "f") == metadata()


def test_metadata_is_json_that_anyone_can_read() -> None:
    document = msgspec.json.decode(encode_metadata(metadata()))
    assert document["format"] == 1
    assert document["layout"] == "cells"
    assert document["features"] == []
    assert document["summary"]["families"] == ["", "info"]
    assert document["summary"]["erasures"] == {"row": 1, "family": 2, "column": 0, "cell": 1}


def test_unknown_fields_are_no_reason_to_refuse() -> None:
    document = msgspec.json.decode(encode_metadata(metadata()))
    document["written_by"] = "a later version"
    assert decode_metadata(msgspec.json.encode(document), "f") == metadata()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": 2}, "fragment format 2, this program reads 1"),
        ({"layout": "pages"}, "fragment layout 'pages', this program reads cells, columns"),
        ({"features": ("sealed", "folded")}, "lacks: folded, sealed"),
    ],
)
def test_what_this_program_does_not_know_is_refused_by_name(
    changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(UnsupportedFormat, match=f"x.parquet: .*{said}"):
        decode_metadata(encode_metadata(metadata(**changes)), "x.parquet")


def test_a_newer_format_may_have_changed_everything_else() -> None:
    with pytest.raises(UnsupportedFormat, match="fragment format 9"):
        decode_metadata(b'{"format": 9, "layout": "x", "summary": null}', "f")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b'{"layout": "cells"}',
        b'{"format": 1, "layout": "cells"}',
        encode_metadata(metadata()).replace(b'"cells":10', b'"cells":0'),
        encode_metadata(metadata()).replace(b'"cells":10', b'"cells":"10"'),
        encode_metadata(metadata()).replace(b'"txn_max":9', b'"txn_max":99'),
    ],
)
def test_metadata_that_is_none_is_corruption(data: bytes) -> None:
    with pytest.raises(Corruption, match="f: its metadata cannot be read"):
        decode_metadata(data, "f")


CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    ({"first_row": b"b", "last_row": b"a"}, "the first row is above the last"),
    ({"families": ("b", "a")}, "not sorted and unique"),
    ({"families": ("a", "a")}, "not sorted and unique"),
    ({"families": ()}, "not sorted and unique"),
    ({"txn_min": 2, "txn_max": 1}, "the smallest txn is above the largest"),
    ({"rows": 11}, "more rows or erasures than cells"),
    ({"erasures": Erasures(11)}, "more rows or erasures than cells"),
]


@pytest.mark.parametrize(("changes", "said"), CONTRADICTIONS)
def test_a_summary_cannot_contradict_itself(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        summary(**changes)


def test_metadata_that_contradicts_itself_is_corruption() -> None:
    data = encode_metadata(metadata()).replace(b'"rows":4', b'"rows":99')
    with pytest.raises(Corruption, match=r"f: .*more rows or erasures than cells"):
        decode_metadata(data, "f")


def test_a_file_cannot_have_any_name() -> None:
    pointer = IndexPointer(1, 1, 1)
    with pytest.raises(InvalidArgument, match="is not the name of a fragment"):
        FragmentInfo(name="../x", size=1, index=pointer, summary=summary())


@pytest.mark.parametrize(
    ("changes", "clean"),
    [
        ({"erasures": Erasures(), "versions_max": 1}, True),
        ({"erasures": Erasures(), "versions_max": 2}, False),
        ({"erasures": Erasures(cell=1), "versions_max": 1}, False),
    ],
)
def test_a_clean_file_has_one_version_and_no_erasures(changes: dict[str, Any], clean: bool) -> None:
    assert summary(**changes).is_clean is clean


@pytest.mark.parametrize("count", [1, 2, 127, 128, 129, 2_048])
def test_a_histogram_is_even_and_bounded(count: int) -> None:
    rows = [b"%05d" % at for at in range(count)]
    cells, sizes = [100 * at for at in range(count)], [4 + 7 * at for at in range(count)]
    histogram = make_histogram(rows, cells, sizes)
    assert 1 <= len(histogram) <= HISTOGRAM_ENTRIES_MAX
    assert len(histogram) >= min(count, HISTOGRAM_ENTRIES_MAX // 2)
    assert histogram[0] == HistogramEntry(rows[0], 0, 4)
    steps = {b.cells_before - a.cells_before for a, b in itertools.pairwise(histogram)}
    assert len(steps) <= 1


def test_long_rows_make_a_histogram_coarser() -> None:
    rows = [bytes([at]) * 20_000 for at in range(200)]
    histogram = make_histogram(rows, list(range(200)), list(range(200)))
    assert sum(len(entry.row) for entry in histogram) <= HISTOGRAM_KEY_BYTES_MAX
    assert len(histogram) == 3


def test_no_rows_make_no_histogram() -> None:
    assert make_histogram([], [], []) == ()


def file_info(number: int, **changes: Any) -> FragmentInfo:
    fields: dict[str, Any] = {
        "name": f"s-{number:08}.parquet",
        "size": 1_000 * number,
        "index": IndexPointer(1, 2, 3),
        "summary": summary(),
    }
    return FragmentInfo(**{**fields, **changes})


def test_a_companion_belongs_to_its_file() -> None:
    companion = file_info(2, summary=summary(cells=9))
    info = file_info(1, layout="columns", companion=companion)
    assert info.files == (info, companion)
    assert info.total_bytes == 3_000
    assert companion.files == (companion,)
    assert msgspec.json.decode(msgspec.json.encode(info), type=FragmentInfo) == info
    plain = msgspec.json.decode(msgspec.json.encode(companion))
    assert not {"layout", "companion"} & plain.keys(), "files of cells are described as ever"


@pytest.mark.parametrize(
    "changes",
    [
        {"layout": "cells", "companion": file_info(2, summary=summary(cells=9))},
        {"layout": "columns", "companion": file_info(2, layout="columns")},
        {"layout": "columns", "companion": file_info(1, summary=summary(cells=9))},
        {"layout": "columns", "companion": file_info(2)},
    ],
    ids=["of cells", "in columns", "itself", "no fewer cells"],
)
def test_impossible_companions_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="cannot have the companion"):
        file_info(1, **changes)


@pytest.mark.parametrize("layout", ["cells", "columns"])
def test_native_columns_are_for_the_columns_layout(layout: str) -> None:
    part = NativePart(
        columns=(NativeColumn(id=16, family="f", qualifier=b"", type="bool", own_stamps=False),),
        cells=1,
        rows=1,
        first_row=b"a",
        last_row=b"a",
        complete=True,
    )
    if layout == "columns":
        whole = metadata(layout=layout, native=part)
        assert decode_metadata(encode_metadata(whole), "f") == whole
        assert whole.own_bounds == (1, b"a", b"a")
        part = msgspec.UNSET  # type: ignore[assignment]
    else:
        assert metadata().own_bounds == (10, b"\x00a", b"\xffz")
    with pytest.raises(InvalidArgument, match="only for it"):
        metadata(layout=layout, native=part)
