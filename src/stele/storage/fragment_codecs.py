"""Compression of pages, and decompression into memory that is already there.

pyarrow's own zstd makes a context for every call, which costs more than most pages take to
decompress; the ``zstandard`` package keeps one for each thread and writes where it is told.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

import pyarrow as pa
import zstandard

from stele.errors import UnsupportedFormat


class BadPage(Exception):
    """The compressed bytes do not give what the page's header says. Never leaves the reader."""


class Decompressor(Protocol):
    """Threads may share one."""

    def __call__(self, source: memoryview, target: memoryview) -> None:
        """Fill ``target`` exactly, or raise ``BadPage``."""


def _copy(source: memoryview, target: memoryview) -> None:
    if len(source) != len(target):
        raise BadPage(f"{len(source)} bytes where {len(target)} should be")
    target[:] = source


class _Zstd:
    def __init__(self) -> None:
        self._threads = threading.local()

    def __call__(self, source: memoryview, target: memoryview) -> None:
        context = getattr(self._threads, "context", None)
        if context is None:
            context = self._threads.context = zstandard.ZstdDecompressor()
        try:
            size = context.stream_reader(source).readinto(target)
        except zstandard.ZstdError as error:
            raise BadPage(str(error)) from error
        if size != len(target):
            raise BadPage(f"{size} bytes where {len(target)} should be")


class _Arrow:
    """The codecs for which pyarrow's are good: they keep no context."""

    def __init__(self, name: str) -> None:
        self._codec = pa.Codec(name)

    def __call__(self, source: memoryview, target: memoryview) -> None:
        if not len(target):
            return
        try:
            result = self._codec.decompress(source, len(target))
        except (pa.ArrowException, OSError) as error:
            raise BadPage(str(error)) from error
        target[:] = memoryview(result).cast("B")


_DECOMPRESSORS: dict[str, Decompressor] = {
    "none": _copy,
    "zstd": _Zstd(),
    "lz4": _Arrow("lz4_raw"),
    "snappy": _Arrow("snappy"),
}


def decompressor(codec: str, file: str) -> Decompressor:
    """The decompressor of a codec, by the name it has in a file's metadata."""
    chosen = _DECOMPRESSORS.get(codec)
    if chosen is None:
        raise UnsupportedFormat(f"{file}: compressed with {codec!r}, which this program lacks")
    return chosen


Compressor = Callable[[memoryview], bytes]
"""A page, compressed. Not for two threads at once."""


QUICK_LEVEL = 1
QUICK_TABLE_LOG = 13
"""The table of matches that zstd fills, at its quick level: half as large as usual, so that it
stays in the nearest cache. A sixth less time, for pages of the same size to half a per cent."""


def _zstd_compressor(level: int) -> zstandard.ZstdCompressor:
    if level != QUICK_LEVEL:
        return zstandard.ZstdCompressor(level=level)
    parameters = zstandard.ZstdCompressionParameters.from_level(
        level, hash_log=QUICK_TABLE_LOG, write_content_size=1
    )
    return zstandard.ZstdCompressor(compression_params=parameters)


def compressor(codec: str, level: int | None) -> Compressor:
    """A compressor of one's own; only zstd has levels."""
    if codec == "none":
        return bytes
    if codec == "zstd":
        assert level is not None
        return _zstd_compressor(level).compress
    chosen = pa.Codec("lz4_raw" if codec == "lz4" else codec)
    return lambda page: bytes(chosen.compress(pa.py_buffer(page), asbytes=True))
