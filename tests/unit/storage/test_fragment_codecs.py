"""Decompression of pages."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest
import zstandard

from stele.errors import UnsupportedFormat
from stele.storage.fragment_codecs import BadPage, decompressor

DATA = bytes(range(256)) * 40


def compress(codec: str, data: bytes) -> bytes:
    if codec == "none":
        return data
    name = {"lz4": "lz4_raw"}.get(codec, codec)
    return bytes(pa.Codec(name).compress(data, asbytes=True))


@pytest.mark.parametrize("codec", ["none", "lz4", "snappy", "zstd"])
@pytest.mark.parametrize("data", [b"", b"x", DATA])
def test_what_was_compressed_comes_back(codec: str, data: bytes) -> None:
    target = bytearray(len(data))
    decompressor(codec, "f")(memoryview(compress(codec, data)), memoryview(target))
    assert target == data


@pytest.mark.parametrize("codec", ["none", "lz4", "snappy", "zstd"])
@pytest.mark.parametrize("source", [b"not compressed at all", b"", b"\x28\xb5\x2f\xfd"])
def test_other_bytes_are_a_bad_page(codec: str, source: bytes) -> None:
    with pytest.raises(BadPage):
        decompressor(codec, "f")(memoryview(source), memoryview(bytearray(100)))


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("missing", [1, 100])
def test_too_little_is_a_bad_page(codec: str, missing: int) -> None:
    target = bytearray(len(DATA) + missing)
    with pytest.raises(BadPage):
        decompressor(codec, "f")(memoryview(compress(codec, DATA)), memoryview(target))


def test_a_frame_without_its_size_is_read_too() -> None:
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(DATA)
    target = bytearray(len(DATA))
    decompressor("zstd", "f")(memoryview(frame), memoryview(target))
    assert target == DATA


def test_an_unknown_codec_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedFormat, match=r"x\.parquet: compressed with 'brotli'"):
        decompressor("brotli", "x.parquet")


def test_threads_may_share_one() -> None:
    decompress = decompressor("zstd", "f")
    pages = [bytes([at]) * 50_000 for at in range(8)]
    results: list[bool] = []

    def work(page: bytes) -> None:
        compressed = compress("zstd", page)
        for _ in range(200):
            target = bytearray(len(page))
            decompress(memoryview(compressed), memoryview(target))
            results.append(target == page)

    threads = [threading.Thread(target=work, args=(page,)) for page in pages]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8 * 200
    assert all(results)
