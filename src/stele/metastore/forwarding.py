"""Requests that a follower passes on to the leader, in the name of who asked.

Clients go to the leader by themselves; this is for those that can reach one node only, behind a
gateway or a firewall. The request travels with its origin: the leader judges the caller, not the
follower, and the client's own identity is in the request, so a retry on another way still takes
effect once. A request is passed on once, never in a circle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from stele.errors import NotLeader
from stele.protocol.metastore import STATUS
from stele.rpc import Binding, Channel, Context, Origin
from stele.rpc.service import MethodKind, Unary

TIMEOUT_S: Final = 30.0
US_PER_SECOND: Final = 1_000_000


class Forwarder:
    """``leader`` gives the connection to the leader, or None if this node knows none."""

    def __init__(self, leader: Callable[[], Channel | None]) -> None:
        self._leader = leader
        self._loop = asyncio.get_running_loop()

    def wrapped(self, binding: Binding) -> Binding:
        """The same method, asked of the leader where this node is not. Streams stay here: a
        watch is served by any node, and a backup is better taken where it is asked for."""
        method = binding.method
        if method.kind is not MethodKind.UNARY or method is STATUS:
            return binding
        assert isinstance(method, Unary)
        unary: Unary[Any, Any] = method

        async def forwarded(context: Context, request: Any) -> Any:
            try:
                answer = binding.function(context, request)
                return await answer if hasattr(answer, "__await__") else answer
            except NotLeader:
                channel = self._leader()
                if channel is None or context.client_id is not None:
                    raise
            return await channel.call(
                unary, request, timeout_s=self._left_s(context), origin=_origin(context, request)
            )

        return Binding(method, forwarded, is_async=True)

    def _left_s(self, context: Context) -> float:
        now_us = int(self._loop.time() * US_PER_SECOND)
        return context.remaining_us(now_us, int(TIMEOUT_S * US_PER_SECOND)) / US_PER_SECOND


def _origin(context: Context, request: Any) -> Origin:
    identity = getattr(request, "identity", None)
    caller = context.caller
    return Origin(
        0 if identity is None else identity.client,
        tuple(sorted(str(role) for role in caller.roles)),
        caller.name,
    )
