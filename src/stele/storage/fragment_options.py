"""How a fragment is written: the choices a table's group may make, and what follows from them.

Measured on cells of about 130 bytes: zstd at level 1 halves the bytes and costs two thirds of the
time to write, higher levels cost more for nothing, lz4 is quicker to read and larger; blocks of
4,096 cells balance point reads (one block is decoded) against scans and the size of the footer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from stele.errors import InvalidArgument
from stele.storage.fragment_format import FILE_GROUPS_MAX

BLOCK_CELLS_MAX = 65_536
BLOCK_BYTES_MAX = 16 * 1024 * 1024
ZSTD_LEVEL_DEFAULT = 1
ZSTD_LEVEL_MAX = 22

CODECS = ("none", "lz4", "snappy", "zstd")

_COMPRESSION = re.compile(r"(none|lz4|snappy|zstd)(?::([0-9]{1,2}))?")


@dataclass(frozen=True, slots=True)
class FragmentOptions:
    """The options of one group of a table."""

    compression: str = "zstd"
    """``none``, ``lz4``, ``snappy``, ``zstd``, or ``zstd:LEVEL``."""
    block_cells: int = 4_096
    """Cells of a row group, about: they end where a row ends. 2,048 suits point reads, 16,384
    analytical scans."""
    block_bytes: int = 4 * 1024 * 1024
    """Bytes of a row group before compression, about; ends one early when values are large."""
    file_bytes: int = 512 * 1024 * 1024
    """Size at which the next row begins another file of the same fragment."""
    file_groups: int = FILE_GROUPS_MAX
    """Row groups at which the next row begins another file."""

    def __post_init__(self) -> None:
        parse_compression(self.compression)
        _check_range("block_cells", self.block_cells, 1, BLOCK_CELLS_MAX)
        _check_range("block_bytes", self.block_bytes, 1, BLOCK_BYTES_MAX)
        _check_range("file_bytes", self.file_bytes, 1, 1 << 40)
        _check_range("file_groups", self.file_groups, 1, FILE_GROUPS_MAX)

    @property
    def codec(self) -> str:
        """The compression without its level: all a reader has to know."""
        return parse_compression(self.compression)[0]


def _check_range(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise InvalidArgument(f"{name} is {value}; it must be {low} … {high}")


def parse_compression(text: str) -> tuple[str, int | None]:
    """The codec and its level, if it has one."""
    found = _COMPRESSION.fullmatch(text)
    if found is None:
        raise InvalidArgument(
            f"unknown compression {text!r}; there are {', '.join(CODECS)} and zstd:LEVEL"
        )
    codec, level = found[1], found[2]
    if codec != "zstd":
        if level is not None:
            raise InvalidArgument(f"compression {text!r}: only zstd has levels")
        return codec, None
    chosen = ZSTD_LEVEL_DEFAULT if level is None else int(level)
    if not 1 <= chosen <= ZSTD_LEVEL_MAX:
        raise InvalidArgument(f"compression {text!r}: levels are 1 … {ZSTD_LEVEL_MAX}")
    return codec, chosen
