"""Keeping a session alive: renew it well before its end, and say so when it must be given up.

A renewal counts from the moment it was *sent*, because the group may have counted from then. If the
end comes without one, the session is taken for lost, whether or not the group has noticed: from
then on somebody else may hold its locks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from stele.client.metastore_transport import Lost
from stele.errors import SessionExpired, SteleError
from stele.protocol.metastore import KEEP_ALIVE, KeepAliveRequest
from stele.rpc.service import Req, Resp, Unary

RENEWALS_PER_TTL = 3
"""Two may be lost."""

ATTEMPTS_MIN = 4
"""So many nodes can be asked within the time that is left: one that is paused and says nothing must
not use it up while the others have long elected another leader."""

ATTEMPT_S_MAX = 2.0

US_PER_SECOND = 1_000_000


class Renewals(Protocol):
    """How renewals reach the group."""

    async def call(
        self, method: Unary[Req, Resp], request: Req, *, timeout_s: float, attempt_s: float
    ) -> Resp:
        """Ask the node that leads, each that might for ``attempt_s`` at most."""

    def monotonic_us(self) -> int:
        """The time that sessions are measured by."""


async def keep_session(
    transport: Renewals,
    request: KeepAliveRequest,
    ttl_us: int,
    renewed: Callable[[int], None],
    lost: Lost,
) -> None:
    """Renew until it is lost or this task is cancelled."""
    expires_us = transport.monotonic_us() + ttl_us
    period_s = ttl_us / RENEWALS_PER_TTL / US_PER_SECOND
    while True:
        await asyncio.sleep(period_s)
        sent_us = transport.monotonic_us()
        left_s = max(expires_us - sent_us, 0) / US_PER_SECOND
        try:
            answer = await transport.call(
                KEEP_ALIVE,
                request,
                timeout_s=left_s,
                attempt_s=min(left_s / ATTEMPTS_MIN, ATTEMPT_S_MAX),
            )
        except SessionExpired as error:
            lost(error)
            return
        except SteleError as error:
            late = SessionExpired(f"session {request.session} could not be kept alive: {error}")
            late.__cause__ = error
            lost(late)
            return
        expires_us = sent_us + answer.ttl_us
        renewed(expires_us)
