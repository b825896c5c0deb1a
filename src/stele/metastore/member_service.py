"""What operators ask of this node for itself, once it belongs to a group."""

from __future__ import annotations

from typing import Any

from stele.errors import AlreadyExists, NotFound
from stele.metastore import events as e
from stele.metastore.driver import Driver
from stele.protocol.metastore_member import (
    BOOTSTRAP,
    DRAIN,
    MEMBER,
    BootstrapRequest,
    BootstrapResponse,
    DrainRequest,
    DrainResponse,
)
from stele.rpc import Binding, Context


class MemberService:
    """``MEMBER`` at a node of a group."""

    def __init__(self, driver: Driver, cluster: str) -> None:
        self._driver = driver
        self._cluster = cluster

    def bindings(self) -> tuple[Binding, ...]:
        """All methods, for a server."""
        return MEMBER.bind(
            DRAIN.handled_by(self.drain),
            BOOTSTRAP.handled_by(self.bootstrap),
        )

    def drain(self, _context: Context, request: DrainRequest) -> Any:
        """Leave leading to others, or no longer. The number is checked because an address may have
        changed hands."""
        node = self._driver.node.id
        if request.node != node:
            raise NotFound(f"this is node {node}, not {request.node}")
        return self._driver.ask(lambda number: e.Drain(number, request.undo), DrainResponse)

    def bootstrap(self, _context: Context, _request: BootstrapRequest) -> BootstrapResponse:
        """Never over data."""
        raise AlreadyExists(
            f"node {self._driver.node.id} belongs to the group {self._cluster} already"
        )
