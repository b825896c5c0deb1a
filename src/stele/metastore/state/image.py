"""Images of the state: a stream of checksummed chunks, the same bytes for the same state.

    image   = 1*chunk, the last one being the end
    chunk   = checksum body             checksum: CRC-32C of the body, four bytes, highest first
    body    = msgpack [number, items]   number: from 0, without holes
    items   = [[key, value] ...]        in the order of keys; none: the end of the image
    end     = msgpack [number, [], count, digest]

The end carries the number of items and the SHA-256 of all bodies before it, so that an image that
lost its tail, or has chunks of another one, is refused as a whole. ``docs/formats/metastore.md``
has the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Final

import msgspec
from crc32c import crc32c

from stele.errors import Corruption
from stele.metastore.kv import View
from stele.metastore.state import keys

CHUNK_BYTES: Final = 256 << 10
"""A chunk ends behind the item that reaches this: some milliseconds of a network."""

_CHECKSUM_BYTES: Final = 4


class Body(msgspec.Struct, frozen=True, array_like=True):
    """What a chunk says."""

    number: int
    items: list[tuple[bytes, bytes]]
    count: int = 0
    digest: bytes = b""


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[Body]] = msgspec.msgpack.Decoder(Body)


def write_image(view: View) -> Iterator[bytes]:
    """The chunks of all that a view holds; closes it when they are taken or given up."""
    try:
        digest = sha256()
        count = number = 0
        for items in _groups(view.scan(b"", keys.END_OF_STATE)):
            body = _encoder.encode(Body(number, items))
            digest.update(body)
            count += len(items)
            number += 1
            yield _sealed(body)
        yield _sealed(_encoder.encode(Body(number, [], count, digest.digest())))
    finally:
        view.close()


def _groups(items: Iterator[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    group: list[tuple[bytes, bytes]] = []
    size = 0
    for key, value in items:
        group.append((key, value))
        size += len(key) + len(value)
        if size >= CHUNK_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _sealed(body: bytes) -> bytes:
    checksum: int = crc32c(body)
    return checksum.to_bytes(_CHECKSUM_BYTES, "big") + body


def read_image(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """The items of an image. ``Corruption`` at the first thing that is not as it was written."""
    digest = sha256()
    count = 0
    for number, chunk in enumerate(chunks):
        body = _opened(chunk, number)
        if not body.items:
            if (body.count, body.digest) != (count, digest.digest()):
                raise Corruption("the end of a state image is not the end of what came before it")
            return
        digest.update(chunk[_CHECKSUM_BYTES:])
        count += len(body.items)
        yield from body.items
    raise Corruption("a state image has no end")


def _opened(chunk: bytes, number: int) -> Body:
    body = chunk[_CHECKSUM_BYTES:]
    if crc32c(body).to_bytes(_CHECKSUM_BYTES, "big") != chunk[:_CHECKSUM_BYTES]:
        raise Corruption(f"chunk {number} of a state image does not match its checksum")
    try:
        opened = _decoder.decode(body)
    except (ValueError, RecursionError) as error:
        raise Corruption(f"chunk {number} of a state image cannot be read: {error}") from error
    if opened.number != number:
        raise Corruption(f"chunk {opened.number} of a state image stands where {number} belongs")
    return opened
