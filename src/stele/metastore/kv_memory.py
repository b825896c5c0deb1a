"""The ordered map in memory, with an optional file behind it.

A dictionary and a sorted list of its keys. A view shares both with the map until the next write
after it, which copies them: exports are rare, writes are not. With a ``FileSystem``, ``sync``
writes the whole contents as one atomically replaced file; on the file system of the tests that
gives the crash states of the real thing, at the cost of its size at every sync.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from crc32c import crc32c

from stele.env.failpoints import declare, failpoint
from stele.env.ports import FileSystem
from stele.errors import Corruption, UnsupportedFormat

STATE_FILE: Final = "state.kv"

AFTER_SYNC: Final = declare("metastore.kv_memory.after_sync")

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]])


class MemoryView:
    """Implements :class:`stele.metastore.kv.View`, and the reading half of the map."""

    def __init__(self, values: dict[bytes, bytes], keys: list[bytes]):
        self._values = values
        self._keys = keys

    def get(self, key: bytes) -> bytes | None:
        return self._values.get(key)

    def scan(
        self, start: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        keys = self._keys[bisect_left(self._keys, start) : bisect_left(self._keys, end)]
        if reverse:
            keys.reverse()
        values = [self._values[key] for key in keys]
        return zip(keys, values, strict=True)

    def close(self) -> None:
        """Nothing to let go of: whoever holds the view holds the contents."""


class MemoryReplacement(MemoryView):
    """Implements :class:`stele.metastore.kv.Replacement`."""

    def __init__(self, owner: MemoryKeyValues, values: dict[bytes, bytes]):
        super().__init__(values, sorted(values))
        self._owner = owner

    def adopt(self) -> None:
        self._owner.take(self._values, self._keys)

    def retire(self) -> None:
        """Nothing to let go of: what was there before is garbage."""


class MemoryKeyValues(MemoryView):
    """Implements :class:`stele.metastore.kv.KeyValues`."""

    def __init__(self, files: FileSystem | None = None, path: str = STATE_FILE):
        super().__init__({}, [])
        self._files = files
        self._path = path
        self._is_shared = False
        self._is_being_replaced = False
        """The file holds what is about to be the contents: those of now must not overwrite it."""
        self._file_lock = threading.Lock()
        if files is not None and files.exists(path):
            values = dict(_decode(files.read_all(path), path))
            self.take(values, sorted(values))

    def write(self, batch: Mapping[bytes, bytes | None]) -> None:
        if self._is_shared:
            self._values, self._keys = dict(self._values), list(self._keys)
            self._is_shared = False
        for key, value in batch.items():
            if value is not None:
                if key not in self._values:
                    insort(self._keys, key)
                self._values[key] = value
            elif self._values.pop(key, None) is not None:
                del self._keys[bisect_left(self._keys, key)]

    def view(self) -> MemoryView:
        self._is_shared = True
        return MemoryView(self._values, self._keys)

    def sync(self) -> None:
        with self._file_lock:
            if not self._is_being_replaced:
                self._save(self.view())

    def stage(self, items: Iterable[tuple[bytes, bytes]]) -> MemoryReplacement:
        replacement = MemoryReplacement(self, dict(items))
        with self._file_lock:
            self._save(replacement)
            self._is_being_replaced = True
        return replacement

    def take(self, values: dict[bytes, bytes], keys: list[bytes]) -> None:
        """Hold these from now on."""
        with self._file_lock:
            self._values, self._keys = values, keys
            self._is_shared = self._is_being_replaced = False

    def _save(self, contents: MemoryView) -> None:
        if self._files is not None:
            self._files.write_atomic(self._path, _encode(contents.scan(b"", b"\xff")))
            failpoint(AFTER_SYNC)


def _encode(items: Iterable[tuple[bytes, bytes]]) -> bytes:
    body = _encoder.encode(list(items))
    checksum: int = crc32c(body)
    return checksum.to_bytes(4, "big") + body


def _decode(data: bytes, path: str) -> list[tuple[bytes, bytes]]:
    body = data[4:]
    if crc32c(body).to_bytes(4, "big") != data[:4]:
        raise Corruption("the checksum does not match", file=path, offset=0)
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError as error:  # whole, so it was written like this
        raise UnsupportedFormat(f"{path} has a form that is not known here: {error}") from error
