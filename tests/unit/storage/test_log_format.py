"""Headers: every bit counts, and what is refused is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stele.errors import Corruption, InvalidArgument, UnsupportedFormat
from stele.storage import log_format
from stele.storage.log_format import (
    ENTRY_HEADER_BYTES,
    FILE_HEADER_BYTES,
    FLAG_LAST,
    FLAG_RELEASE,
    FileHeader,
    check_session,
    decode_entry_header,
    decode_file_header,
    encode_entry_header,
    file_name,
    file_sequence,
    header_checksum,
    padded,
)

U64 = st.integers(0, (1 << 64) - 1)
U32 = st.integers(0, (1 << 32) - 1)
I64 = st.integers(-(1 << 63), (1 << 63) - 1)
MARK = st.binary(min_size=8, max_size=8)
HEADERS = st.builds(
    FileHeader,
    session=st.from_regex(r"[A-Za-z0-9.-]{1,64}", fullmatch=True),
    sequence=U64,
    mark=MARK,
    chain=U32,
    first_index=U64,
    low_water=U64,
    clock=I64,
)
HEADER = FileHeader("s1", 3, b"markmark", 9, 17, 2, 1_000)


@given(HEADERS)
def test_a_file_header_comes_back(header: FileHeader) -> None:
    data = header.encode()
    assert len(data) == FILE_HEADER_BYTES
    assert decode_file_header(data, "f") == header


def test_every_flipped_bit_of_a_file_header_is_found() -> None:
    data = HEADER.encode()
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Corruption) as caught:
            decode_file_header(bytes(flipped), "log/1")
        assert (caught.value.file, caught.value.offset) == ("log/1", 0)


@pytest.mark.parametrize("length", [0, 1, FILE_HEADER_BYTES - 1])
def test_a_short_file_header_is_corruption(length: int) -> None:
    with pytest.raises(Corruption, match="cut short"):
        decode_file_header(HEADER.encode()[:length], "f")


def test_a_newer_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_format, "VERSION", 2)
    data = HEADER.encode()
    monkeypatch.setattr(log_format, "VERSION", 1)
    with pytest.raises(UnsupportedFormat, match="log/7: log version 2; this program knows 1"):
        decode_file_header(data, "log/7")


@given(MARK, U64, I64, I64, U32, U32, U32, U32, st.sampled_from([0, FLAG_LAST, FLAG_RELEASE, 3]))
def test_an_entry_header_comes_back(
    mark: bytes,
    index: int,
    low: int,
    high: int,
    size: int,
    body: int,
    chain: int,
    commits: int,
    flags: int,
) -> None:
    data, checksum = encode_entry_header(
        mark,
        index=index,
        txns=(low, high),
        body_bytes=size,
        body_checksum=body,
        chain=chain,
        commits=commits,
        flags=flags,
    )
    assert len(data) == ENTRY_HEADER_BYTES
    header = decode_entry_header(b"\x01" * 8 + data, 8, mark)
    assert header is not None
    assert (header.index, header.txn_min, header.txn_max) == (index, low, high)
    assert (header.body_bytes, header.body_checksum) == (size, body)
    assert (header.chain, header.commits, header.checksum) == (chain, commits, checksum)
    assert (header.is_last, header.has_release) == (bool(flags & 1), bool(flags & 2))
    assert header.entry_bytes == ENTRY_HEADER_BYTES + padded(size)


def test_every_flipped_bit_of_an_entry_header_is_found() -> None:
    data, _checksum = encode_entry_header(
        b"markmark",
        index=1,
        txns=(5, 6),
        body_bytes=64,
        body_checksum=3,
        chain=4,
        commits=2,
        flags=FLAG_LAST,
    )
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        assert decode_entry_header(flipped, 0, b"markmark") is None


def test_the_checksum_of_a_header_is_its_last_word() -> None:
    data = HEADER.encode()
    assert header_checksum(data) == int.from_bytes(data[-4:], "little")
    assert header_checksum(data + b"more") == header_checksum(data)


@pytest.mark.parametrize(
    ("sequence", "name"),
    [(1, "00000001.log"), (99_999_999, "99999999.log"), (123_456_789, "123456789.log")],
)
def test_names_of_files(sequence: int, name: str) -> None:
    assert file_name(sequence) == name
    assert file_sequence(name) == sequence


@pytest.mark.parametrize(
    "name",
    ["1.log", "00000000.log", "000000001.log", "00000001.log.tmp", "x00000001.log", "SEALED", ""],
)
def test_names_that_are_not_ours(name: str) -> None:
    assert file_sequence(name) is None


@pytest.mark.parametrize("session", ["", "a" * 65, "a/b", "a b", "ä"])
def test_a_session_that_cannot_be_written_down(session: str) -> None:
    with pytest.raises(InvalidArgument, match="session"):
        check_session(session)


@given(st.integers(0, 1 << 40))
def test_padding(size: int) -> None:
    assert padded(size) % 8 == 0
    assert size <= padded(size) < size + 8
