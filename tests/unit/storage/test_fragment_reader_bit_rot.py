"""Every single bit of a file, changed: noticed, or without any effect on what is read."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

from stele.env.ports import FileSystem
from stele.errors import Stop
from stele.model.cells import Cell, Op
from stele.storage.fragment_format import FragmentInfo
from stele.storage.fragment_options import FragmentOptions
from stele.storage.fragment_reader import FragmentReader
from tests.unit.storage.fragment_cases import (
    cells_of,
    in_order,
    new_fs,
    path_of,
    plain_cells,
    write,
)

SAMPLE = in_order(
    [
        Cell(b"a", "", b"", 5, b"", Op.ERASE_ROW, txn=9),
        Cell(b"a", "g", b"", 5, b"", Op.ERASE_FAMILY, txn=8),
        *plain_cells(6, per_row=3),
    ]
)
REPOSITORY = Path(__file__).resolve().parents[3]


def sample(compression: str = "zstd") -> tuple[bytes, FragmentInfo]:
    fs = new_fs()
    (info,) = write(fs, SAMPLE, FragmentOptions(block_cells=4, compression=compression))
    return fs.read_all(path_of(info)), info


class OneFile:
    """A file system that has one file, and is the file too: thousands of them are made here."""

    path = "file"

    def __init__(self, data: bytes):
        self._data = data

    def open_read(self, path: str) -> OneFile:
        return self

    def pread(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]

    def size(self) -> int:
        return len(self._data)

    def close(self) -> None:
        """There is nothing to close."""


def read(data: bytes, info: FragmentInfo | None) -> list[Cell]:
    """All that can be read from a file: its cells, and what its bloom filters say of them."""
    fs = cast("FileSystem", OneFile(data))
    with FragmentReader.open(fs, "file", info) as reader:
        cells = cells_of(reader.blocks())
        for cell in cells:
            groups = reader.index.groups_of_row(cell.row)
            assert any(reader.may_contain(cell.row, group) for group in groups)
        return cells


def changed(data: bytes, bit: int) -> bytes:
    damaged = bytearray(data)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def survives(data: bytes, info: FragmentInfo | None, bit: int) -> bool:
    """Whether a changed bit goes unnoticed; if so, it must have changed nothing."""
    try:
        cells = read(changed(data, bit), info)
    except Stop:
        return False
    assert cells == SAMPLE, f"bit {bit} changed the cells"
    return True


def test_the_sample_itself() -> None:
    data, info = sample()
    assert read(data, info) == read(data, None) == SAMPLE


def test_a_file_opened_by_name_notices_every_bit() -> None:
    data, _ = sample()
    unnoticed = [bit for bit in range(8 * len(data)) if survives(data, None, bit)]
    assert not unnoticed


def test_a_file_opened_by_reference_notices_every_bit_it_uses() -> None:
    """It reads neither the first four bytes nor anything behind the index."""
    data, info = sample()
    used = range(8 * 4, 8 * (info.index.offset + info.index.size))
    assert not [bit for bit in used if survives(data, info, bit)]
    behind = range(used.stop, 8 * len(data), 97)
    assert all(survives(data, info, bit) for bit in itertools.chain(range(32), behind))


@pytest.mark.parametrize("compression", ["none", "lz4", "snappy"])
def test_other_codecs_notice_as_well(compression: str) -> None:
    data, info = sample(compression)
    for bit in range(8 * 4, 8 * info.index.offset, 5):
        assert not survives(data, info, bit)


def resealed(data: bytes, info: FragmentInfo, bit: int) -> Any:
    """A row group with one bit changed, as if its checksum were right: decoded, or refused."""
    with FragmentReader.open(cast("FileSystem", OneFile(data)), "file", info) as reader:
        places = zip(reader.index.groups["offset"].tolist(), strict=False)
        group = sum(8 * offset <= bit for (offset,) in places) - 1
        entry = reader.index.groups[group]
        start = int(entry["offset"])
        end = start + int(entry["key_bytes"]) + int(entry["value_bytes"])
        body = changed(data, bit)[start:end]
        try:
            block = reader._decoder.decode(body, group, values=True)
        except Stop as error:
            return type(error).__name__
        block.batch.validate(full=True)
        return "decoded"


def sweep_without_checksums(compression: str) -> Counter[str]:
    """Run in a process of its own: the decoder alone must hold, whatever bits it is given."""
    data, info = sample(compression)
    with FragmentReader.open(cast("FileSystem", OneFile(data)), "file", info) as reader:
        end = int(reader.index.groups["bloom_offset"][0])
    return Counter(resealed(data, info, bit) for bit in range(8 * 4, 8 * end))


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_the_decoder_is_safe_without_checksums(compression: str) -> None:
    """No bit makes it read or write where it must not: the process lives, and blocks are valid."""
    code = (
        f"from {__name__} import sweep_without_checksums as sweep\n"
        f"counts = sweep({compression!r})\n"
        f"assert set(counts) == {{'decoded', 'Corruption'}}, counts\n"
        f"print(sum(counts.values()))\n"
    )
    paths = os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)])
    result = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", code],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2_000:]
    assert int(result.stdout) > 5_000
