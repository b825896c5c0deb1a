"""The one record about the state as a whole, written with every batch."""

from __future__ import annotations

from typing import Final

import msgspec

from stele.errors import Corruption, UnsupportedFormat
from stele.metastore.kv import Reader
from stele.metastore.state import keys

FORMAT_VERSION: Final = 1


class Header(msgspec.Struct, array_like=True, gc=False):
    """Changed in memory while entries are applied; written once for each batch of them."""

    format_version: int = FORMAT_VERSION
    applied_index: int = 0
    waterline: int = 0
    """Nothing below this index can be read."""
    waterline_goal: int = 0
    """Up to where history shall be given up."""
    key_count: int = 0
    used_bytes: int = 0
    """Keys and values of all versions that are kept."""
    quota_bytes: int = 0
    """Above this nothing may be put; 0 for no limit."""
    acl_enabled: bool = False
    incarnation: int = 0
    """How often the store was restored from a backup."""
    forgotten_index: int = 0
    """The last request of the client that was forgotten last: clients born before it that are not
    known may be ones that were forgotten."""


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[Header]] = msgspec.msgpack.Decoder(Header)


def load_header(values: Reader) -> Header:
    """The header of a store; a fresh one for a store that is empty."""
    data = values.get(keys.HEADER)
    if data is None:
        return Header()
    try:
        header = _decoder.decode(data)
    except (ValueError, RecursionError) as error:
        raise Corruption(f"the header of the state cannot be read: {error}") from error
    if header.format_version != FORMAT_VERSION:
        raise UnsupportedFormat(
            f"the state has format version {header.format_version}, this program knows "
            f"{FORMAT_VERSION}: run a newer release"
        )
    return header


def encode_header(header: Header) -> bytes:
    """The reverse."""
    return _encoder.encode(header)
