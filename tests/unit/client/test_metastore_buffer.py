"""What a transaction has read and written."""

from __future__ import annotations

from stele.client.metastore_buffer import TransactionBuffer
from stele.client.metastore_paths import selection
from stele.protocol.metastore_values import Delete, Identity, KeyValue, Put


def item(key: str, value: bytes = b"old") -> KeyValue:
    return KeyValue(key, value, 5, 5, 1)


def test_reads_are_of_the_first_index_and_every_range_is_named() -> None:
    buffer = TransactionBuffer()
    buffer.note_read(selection("/a"), 7)
    buffer.note_read(selection("/d/"), 7)
    buffer.note_read(selection("/a"), 7)
    assert buffer.is_read_only
    buffer.put(Put("/x", b"1"))
    buffer.delete("/y")
    request = buffer.commit_request(Identity(1, 2, 0))
    assert request.read_index == 7
    assert request.ranges == (selection("/a"), selection("/d/"))
    assert request.writes == (Put("/x", b"1"), Delete("/y"))


def test_a_transaction_sees_its_own_writes() -> None:
    buffer = TransactionBuffer()
    assert buffer.written("/d/a") == (False, None)
    buffer.put(Put("/d/a", b"new"))
    buffer.put(Put("/d/c", b"more"))
    buffer.delete("/d/b")
    buffer.put(Put("/elsewhere", b"x"))
    mine, seen = buffer.written("/d/a")
    assert mine
    assert seen is not None
    assert seen.value == b"new"
    assert buffer.written("/d/b") == (True, None)
    found = buffer.overlay(selection("/d/"), [item("/d/a"), item("/d/b"), item("/d/d")])
    assert [(each.key, each.value) for each in found] == [
        ("/d/a", b"new"),
        ("/d/c", b"more"),
        ("/d/d", b"old"),
    ]


def test_the_last_write_of_a_key_holds() -> None:
    buffer = TransactionBuffer()
    buffer.put(Put("/a", b"1"))
    buffer.delete("/a")
    assert buffer.commit_request(Identity(1, 1, 0)).writes == (Delete("/a"),)
