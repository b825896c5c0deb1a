"""Options of fragments."""

from __future__ import annotations

from typing import Any

import pytest

from stele.errors import InvalidArgument
from stele.storage.fragment_options import FragmentOptions, parse_compression


@pytest.mark.parametrize(
    ("text", "codec", "level"),
    [
        ("none", "none", None),
        ("lz4", "lz4", None),
        ("snappy", "snappy", None),
        ("zstd", "zstd", 1),
        ("zstd:19", "zstd", 19),
    ],
)
def test_compression_by_name(text: str, codec: str, level: int | None) -> None:
    assert parse_compression(text) == (codec, level)
    options = FragmentOptions(compression=text)
    assert options.codec == codec


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "unknown compression"),
        ("brotli", "there are none, lz4, snappy, zstd"),
        ("lz4:3", "only zstd has levels"),
        ("zstd:0", "1 … 22"),
        ("zstd:23", "1 … 22"),
        ("zstd:-1", "unknown compression"),
        ("ZSTD", "unknown compression"),
    ],
)
def test_unknown_compression_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        FragmentOptions(compression=text)


@pytest.mark.parametrize(
    "wrong",
    [
        {"block_cells": 0},
        {"block_cells": 65_537},
        {"block_bytes": 0},
        {"block_bytes": 1 << 30},
        {"file_bytes": 0},
        {"file_groups": 0},
        {"file_groups": 2_049},
    ],
)
def test_options_out_of_range_are_refused_by_name(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(InvalidArgument, match=f"{name} is {wrong[name]}; it must be 1 …"):
        FragmentOptions(**wrong)
