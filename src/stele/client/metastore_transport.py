"""What a metastore client stands on: a group of nodes over the network, or one in this process.

The client is written once, as coroutines that wait for nothing but a transport. asyncio awaits
them; threads run them through a ``Runner``: on a loop in another thread when the nodes are
elsewhere, and right where they are called when the node is in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from stele.errors import SteleError
from stele.protocol.metastore import WatchRequest, WatchResponse
from stele.rpc.service import Req, Resp, Unary

T = TypeVar("T")


class WatchSource(Protocol):
    """A watch that goes on by itself when a node fails: in order, without gap or repetition."""

    async def next(self) -> WatchResponse:
        """The next changes, or how far there were none."""

    async def close(self) -> None:
        """Watch no more. Idempotent."""


class Transport(Protocol):
    """Calls that are tried again until their deadline. Everything in them can be repeated."""

    async def call(self, method: Unary[Req, Resp], request: Req, *, timeout_s: float) -> Resp:
        """The answer of the node that leads."""

    async def call_nearest(
        self, method: Unary[Req, Resp], request: Req, *, timeout_s: float
    ) -> Resp:
        """The answer of any node, for reads that need not be the newest."""

    async def call_at(
        self, address: str, method: Unary[Req, Resp], request: Req, *, timeout_s: float
    ) -> Resp:
        """The answer of one node, asked once."""

    async def watch(self, request: WatchRequest) -> WatchSource:
        """Begin a watch."""

    async def backup(self, write: Callable[[bytes], object]) -> int:
        """Hand a copy of the whole state to ``write``, piece by piece; the index it is of."""

    def monotonic_us(self) -> int:
        """The time that sessions are measured by; it counts while the machine is suspended."""

    def keep(
        self, session: int, client: int, ttl_us: int, renewed: Callable[[int], None], lost: Lost, /
    ) -> Callable[[], None]:
        """Keep the session of a client alive in the background; what is returned ends that.

        ``renewed`` hears until when the session lives at least; ``lost`` is called once, when it
        has ended or must be taken to have.
        """

    @property
    def addresses(self) -> tuple[str, ...]:
        """The nodes that are known; none for a node in this process."""

    async def close(self) -> None:
        """Let go of everything. Idempotent."""


Lost = Callable[[SteleError], None]


class Runner(Protocol):
    """How a thread waits for a coroutine of the client."""

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run it to its end."""
