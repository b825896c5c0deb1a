"""Images of the state on their way between servers, and out to whoever keeps a backup.

An image is a view of the store, which stands still while the store moves on. Its chunks are read
and written in a thread, one after the other, and each is acknowledged before the next is sent: a
slow receiver slows the sender, and neither holds more than a chunk in memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final, Protocol

from stele.errors import SteleError
from stele.metastore import events as e
from stele.metastore.driver import Driver
from stele.metastore.member import Member
from stele.metastore.peers import Peers
from stele.metastore.snapshots import NumberedChunk, number_chunks
from stele.protocol.metastore import BackupChunk
from stele.protocol.raft import TAKE_CHUNK, ImageChunk, ImageChunkTaken
from stele.raft import InstallSnapshot

CHUNK_S: Final = 30.0
"""How long a receiver may take for one chunk, the last one's sync included."""

log = logging.getLogger("stele.metastore")


class Threads(Protocol):
    """Where slow work is done."""

    def in_thread(self, call: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Something slow, beside the loop."""


class Images:
    """Those of one server. Belongs to its loop."""

    def __init__(self, member: Member, driver: Driver, peers: Peers, threads: Threads) -> None:
        self._member = member
        self._driver = driver
        self._peers = peers
        self._threads = threads
        self._made: dict[int, Iterator[bytes]] = {}
        self._sending: dict[int, asyncio.Task[None]] = {}
        self._receiving = asyncio.Lock()
        self._taking: set[asyncio.Task[ImageChunkTaken]] = set()

    # Out.

    def make(self, peer: int) -> None:
        """An image of this moment, for a peer."""
        machine = self._member.machine
        self._made[peer] = machine.export()
        self._driver.tell(e.ImageMade(peer, machine.applied_index))

    def send(self, message: InstallSnapshot) -> None:
        """Stream the image that was made for the peer that a message is for."""
        peer = message.target
        before = self._sending.pop(peer, None)
        if before is not None:
            before.cancel()
        sending = asyncio.ensure_future(self._send(message, self._made.pop(peer)))
        self._sending[peer] = sending

    async def _send(self, message: InstallSnapshot, chunks: Iterator[bytes]) -> None:
        peer = message.target
        try:
            numbered = number_chunks(chunks)
            while (chunk := await self._threads.in_thread(next, numbered, None)) is not None:
                await self._send_chunk(message, chunk)
        except SteleError as error:
            log.warning("the image for node %d did not arrive: %s", peer, error)
            self._driver.tell(e.ImageSent(peer, arrived=False))
        except Exception:
            log.exception("a bug in the way of the image for node %d", peer)
            self._driver.tell(e.ImageSent(peer, arrived=False))
        else:
            self._driver.tell(e.ImageSent(peer, arrived=True))

    async def _send_chunk(self, message: InstallSnapshot, chunk: NumberedChunk) -> None:
        request = ImageChunk(
            self._member.identity.cluster, message, chunk.number, chunk.checksum, chunk.is_last
        )
        await self._peers.channel(message.target).call_attached(
            TAKE_CHUNK, request, (chunk.data,), timeout_s=CHUNK_S, wait=True
        )

    # In.

    async def take(self, chunk: ImageChunk, data: bytes) -> ImageChunkTaken:
        """A chunk came; the last one is acknowledged when the whole image is durable.

        A thread cannot be called back: what it is at is finished before the next chunk is looked
        at, though the sender may have gone and another one has begun."""
        taking = asyncio.ensure_future(self._take(chunk, data))
        self._taking.add(taking)
        taking.add_done_callback(self._taken)
        return await asyncio.shield(taking)

    def _taken(self, taking: asyncio.Task[ImageChunkTaken]) -> None:
        self._taking.discard(taking)
        if not taking.cancelled():
            taking.exception()  # the sender hears of it, if it still waits

    async def _take(self, chunk: ImageChunk, data: bytes) -> ImageChunkTaken:
        inbox = self._member.inbox
        numbered = NumberedChunk(chunk.number, data, chunk.checksum, chunk.is_last)
        async with self._receiving:
            complete = await self._threads.in_thread(inbox.take, chunk.message.snapshot, numbered)
            if complete:
                await self._threads.in_thread(inbox.publish)
                self._driver.tell(e.ImageArrived(chunk.message))
        return ImageChunkTaken(chunk.number)

    async def backup(self) -> AsyncIterator[BackupChunk]:
        """The state of this moment, to keep."""
        machine = self._member.machine
        index, chunks = machine.applied_index, machine.export()
        while (data := await self._threads.in_thread(next, chunks, None)) is not None:
            yield BackupChunk(index, data)

    async def close(self) -> None:
        """Send nothing any more; finish what threads are at."""
        for task in self._sending.values():
            task.cancel()
        await asyncio.gather(*self._sending.values(), *self._taking, return_exceptions=True)
