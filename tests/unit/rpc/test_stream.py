"""The reading end of a stream: order, credit, end, and what happens to one that is dropped."""

from __future__ import annotations

import asyncio
import gc

import pytest

from stele.errors import Unavailable, UnsupportedFormat
from stele.rpc.events import Item
from stele.rpc.service import encode_message
from stele.rpc.stream import Inbox, Stream
from tests.unit.rpc.support import EchoService, Text, settle

METHOD = EchoService().count


class Source:
    """A connection that only remembers what it was told."""

    def __init__(self) -> None:
        self.read: list[int] = []
        self.cancelled: list[int] = []

    def consumed(self, request_id: int, weight: int) -> None:
        assert request_id == 7
        self.read.append(weight)

    def cancel(self, request_id: int) -> None:
        self.cancelled.append(request_id)


def item(number: int) -> Item:
    body = encode_message(Text("t", number))
    return Item(None, body, (memoryview(b"raw"),), len(body))


def open_stream() -> tuple[Stream[Text], Inbox, Source]:
    source, inbox = Source(), Inbox()
    return Stream(source, 7, inbox, METHOD, asyncio.get_running_loop()), inbox, source


async def test_items_come_in_order_and_reading_gives_credit() -> None:
    stream, inbox, source = open_stream()
    for number in range(3):
        inbox.put(item(number))
    inbox.end()
    assert source.read == []
    assert [message.count async for message in stream] == [0, 1, 2]
    assert len(source.read) == 3
    assert source.cancelled == []


async def test_a_reader_waits_for_the_next_item() -> None:
    stream, inbox, _ = open_stream()
    reader = asyncio.ensure_future(stream.next_reply())
    await settle()
    assert not reader.done()
    inbox.put(item(5))
    reply = await reader
    assert (reply.message.count, bytes(reply.attachments[0])) == (5, b"raw")


async def test_an_error_comes_after_what_arrived_before_it() -> None:
    stream, inbox, _ = open_stream()
    inbox.put(item(0))
    inbox.end(Unavailable("lost"))
    assert (await anext(stream)).count == 0
    for _ in range(2):
        with pytest.raises(Unavailable, match="lost"):
            await anext(stream)


async def test_an_item_that_cannot_be_read_is_a_typed_error() -> None:
    stream, inbox, _ = open_stream()
    inbox.put(Item(None, b"\xc1", (), 1))
    with pytest.raises(UnsupportedFormat, match=r"echo\.count"):
        await anext(stream)


async def test_all_that_is_there_can_be_had_at_once() -> None:
    stream, inbox, _ = open_stream()
    inbox.put(item(0))
    inbox.put(item(1))
    assert [reply.message.count for reply in await stream.next_replies()] == [0, 1]
    inbox.end()
    assert await stream.next_replies() == []


async def test_closing_cancels_once_and_drops_the_rest() -> None:
    stream, inbox, source = open_stream()
    async with stream:
        inbox.put(item(0))
        inbox.put(item(1))
        assert (await anext(stream)).count == 0
    await stream.aclose()
    assert source.cancelled == [7]
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_a_waiting_reader_hears_the_close() -> None:
    stream, _, _ = open_stream()
    reader = asyncio.ensure_future(stream.next_replies())
    await settle()
    await stream.aclose()
    assert await reader == []


async def test_a_stream_that_has_ended_is_not_cancelled() -> None:
    stream, inbox, source = open_stream()
    inbox.end()
    await stream.aclose()
    assert source.cancelled == []


async def test_a_stream_that_is_dropped_is_cancelled() -> None:
    stream, _, source = open_stream()
    del stream
    gc.collect()
    await settle()
    assert source.cancelled == [7]


async def test_a_cancelled_wait_can_be_repeated() -> None:
    stream, inbox, _ = open_stream()
    reader = asyncio.ensure_future(stream.next_reply())
    await settle()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    inbox.put(item(3))
    assert (await anext(stream)).count == 3
