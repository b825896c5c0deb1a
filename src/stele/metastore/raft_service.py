"""What the other members say to this one."""

from __future__ import annotations

import logging
from typing import Protocol

from stele.errors import InvalidArgument, SteleError
from stele.metastore import events as e
from stele.metastore.driver import Driver
from stele.metastore.peers import Peers
from stele.protocol.raft import (
    DELIVER,
    RAFT,
    REPORT_SPACE,
    TAKE_CHUNK,
    TELL_REMOVED,
    Delivery,
    ImageChunk,
    ImageChunkTaken,
    RemovalNotice,
    SpaceReport,
)
from stele.rpc import Binding, Context

log = logging.getLogger("stele.metastore")


class ImageTaker(Protocol):
    """Who takes chunks of images."""

    async def take(self, chunk: ImageChunk, data: bytes) -> ImageChunkTaken:
        """A chunk came."""


class RaftService:
    """``RAFT`` at one node. Messages for another group or another member are passed over: an
    address may have changed hands since the sender learned it."""

    def __init__(self, driver: Driver, cluster: str, peers: Peers, images: ImageTaker) -> None:
        self._driver = driver
        self._cluster = cluster
        self._peers = peers
        self._images = images

    def bindings(self) -> tuple[Binding, ...]:
        """All methods, for a server."""
        return RAFT.bind(
            DELIVER.handled_by(self.deliver),
            TAKE_CHUNK.handled_by(self.take_chunk),
            REPORT_SPACE.handled_by(self.report_space),
            TELL_REMOVED.handled_by(self.hear_of_removal),
        )

    def deliver(self, context: Context, delivery: Delivery) -> None:
        """Messages of consensus."""
        if delivery.cluster != self._cluster:
            log.warning("%s speaks of the group %s", context.peer, delivery.cluster)
            return
        for message in delivery.messages:
            self._peers.hear(message.source, delivery.address)
            try:
                self._driver.tell(e.PeerMessage(message))
            except SteleError as error:
                log.warning("a message of %s was passed over: %s", context.peer, error)
        if delivery.messages:
            self._answer_stranger(delivery.messages[0].source)  # all of them are one node's

    def _answer_stranger(self, source: int) -> None:
        """One that was removed has no other way to learn of it."""
        index = self._driver.node.standing.word_for(source)
        if index:
            self._peers.tell_removed(source, index)

    def hear_of_removal(self, _context: Context, notice: RemovalNotice) -> None:
        """A member says that this node is none any more."""
        if notice.cluster == self._cluster and notice.node == self._driver.node.id:
            self._driver.tell(e.ToldRemoved(notice.index, notice.address))

    async def take_chunk(self, context: Context, chunk: ImageChunk) -> ImageChunkTaken:
        """A piece of a state image."""
        if chunk.cluster != self._cluster:
            raise InvalidArgument(f"this node belongs to {self._cluster}, not to {chunk.cluster}")
        if len(context.attachments) != 1:
            raise InvalidArgument("a chunk of an image comes as one attachment")
        return await self._images.take(chunk, bytes(context.attachments[0]))

    def report_space(self, _context: Context, report: SpaceReport) -> None:
        """A member's disk is full, or not any more."""
        if report.cluster == self._cluster:
            news = e.SpaceShort if report.is_short else e.AlarmOver
            self._driver.tell(news(report.node))
