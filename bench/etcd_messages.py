"""The few messages of etcd's API that the benchmark sends, in protobuf by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

PUT: Final = "/etcdserverpb.KV/Put"
RANGE: Final = "/etcdserverpb.KV/Range"
TXN: Final = "/etcdserverpb.KV/Txn"
WATCH: Final = "/etcdserverpb.Watch/Watch"
LEASE_GRANT: Final = "/etcdserverpb.Lease/LeaseGrant"
LEASE_KEEP_ALIVE: Final = "/etcdserverpb.Lease/LeaseKeepAlive"
STATUS: Final = "/etcdserverpb.Maintenance/Status"
LOCK: Final = "/v3lockpb.Lock/Lock"
UNLOCK: Final = "/v3lockpb.Lock/Unlock"

_VARINT, _BYTES = 0, 2


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    return varint(field << 3 | _VARINT) + varint(value)


def data(field: int, value: bytes) -> bytes:
    return varint(field << 3 | _BYTES) + varint(len(value)) + value


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message, in order."""
    at = 0
    while at < len(message):
        tag, at = _take_varint(message, at)
        value, at = _take_varint(message, at)
        if tag & 7 == _VARINT:
            yield tag >> 3, value
        else:
            assert tag & 7 == _BYTES, "etcd sends numbers and bytes only"
            yield tag >> 3, message[at : at + value]
            at += value


def _take_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def first_number(message: bytes, field: int) -> int:
    """The number in a field; 0 where there is none."""
    return next((int(v) for f, v in fields(message) if f == field and isinstance(v, int)), 0)


def first_bytes(message: bytes, field: int) -> bytes:
    """The bytes in a field; none where there are none."""
    return next((v for f, v in fields(message) if f == field and isinstance(v, bytes)), b"")


def put(key: bytes, value: bytes, lease: int = 0) -> bytes:
    return data(1, key) + data(2, value) + (number(3, lease) if lease else b"")


def get(key: bytes) -> bytes:
    return data(1, key)


def put_if_unchanged(key: bytes, revision: int, value: bytes) -> bytes:
    """A transaction: put, if the key was last written at ``revision``."""
    compare = number(1, 0) + number(2, 2) + data(3, key) + number(6, revision)
    return data(1, compare) + data(2, data(2, put(key, value)))


def watch(key: bytes, end: bytes) -> bytes:
    return data(1, data(1, key) + data(2, end))


def events(response: bytes) -> list[bytes]:
    """The values that a message of a watch tells of."""
    told = [v for f, v in fields(response) if f == 11 and isinstance(v, bytes)]
    return [first_bytes(first_bytes(event, 2), 5) for event in told]
