"""The record about the state as a whole."""

from __future__ import annotations

import pytest

from stele.errors import Corruption, UnsupportedFormat
from stele.metastore.kv_memory import MemoryKeyValues
from stele.metastore.state import keys
from stele.metastore.state.header import Header, encode_header, load_header


def test_it_is_read_as_it_was_written() -> None:
    values = MemoryKeyValues()
    assert load_header(values) == Header()
    header = Header(applied_index=7, waterline=3, key_count=2, used_bytes=99, acl_enabled=True)
    values.write({keys.HEADER: encode_header(header)})
    assert load_header(values) == header


def test_damage_and_newer_formats_are_named() -> None:
    values = MemoryKeyValues()
    values.write({keys.HEADER: b"\xc1"})
    with pytest.raises(Corruption, match="header"):
        load_header(values)
    values.write({keys.HEADER: encode_header(Header(format_version=2))})
    with pytest.raises(UnsupportedFormat, match="format version 2"):
        load_header(values)
