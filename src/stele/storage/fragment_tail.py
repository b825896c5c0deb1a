"""What fragment files of both layouts have in common: how pyarrow's bytes are caught and ended.

pyarrow writes to a *catcher*, from which the bytes are taken a row group at a time. When it is
closed it leaves bloom filters and Parquet's footer there, and our index goes between the two.
"""

from __future__ import annotations

import struct

import crc32c
import pyarrow.parquet as pq

from stele.storage.fragment_format import METADATA_KEY, PARQUET_MAGIC
from stele.storage.fragment_index import Groups

_FOOTER_END = struct.Struct("<I4s")


class Catcher:
    """The sink pyarrow writes to: keeps the bytes and knows the position in the file."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._position = 0
        self.closed = False

    def write(self, data: bytes) -> int:
        self._parts.append(data)
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """There is nothing between the writer and the parts."""

    def close(self) -> None:
        self.closed = True

    def take(self) -> list[bytes]:
        """Everything written since the last call, as it came."""
        parts, self._parts = self._parts, []
        return parts


def close_parquet(
    writer: pq.ParquetWriter, catcher: Catcher, metadata: bytes
) -> tuple[bytes, bytes]:
    """pyarrow's tail: the bloom filters, and the footer with its length and magic."""
    writer.add_key_value_metadata({METADATA_KEY: metadata})
    writer.close()
    tail = b"".join(catcher.take())
    size, magic = _FOOTER_END.unpack_from(tail, len(tail) - _FOOTER_END.size)
    footer_at = len(tail) - _FOOTER_END.size - size
    assert magic == PARQUET_MAGIC
    assert footer_at >= 0
    return tail[:footer_at], tail[footer_at:]


def add_blooms(groups: Groups, writer: pq.ParquetWriter, blooms: bytes, start: int) -> None:
    """Enter where each bloom filter of a closed file lies, and its checksum."""
    parsed = writer.writer.metadata
    view = memoryview(blooms)
    end = start
    for number in range(len(groups)):
        column = parsed.row_group(number).column(0)
        offset, size = column.bloom_filter_offset, column.bloom_filter_length
        assert offset == end, "bloom filters do not follow the row groups"
        end = offset + size
        groups["bloom_offset"][number] = offset
        groups["bloom_bytes"][number] = size
        groups["bloom_crc"][number] = crc32c.crc32c(view[offset - start : end - start])
    assert end == start + len(blooms), "there is more than bloom filters behind the row groups"
