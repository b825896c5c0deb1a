"""Keeping a session alive: renew it well before its end, and say so when it must be given up.

A renewal counts from the moment it was *sent*, because the group may have counted from then. If the
end comes without one, the session is taken for lost, whether or not the group has noticed: from
then on somebody else may hold its locks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from stele.client.metastore_transport import Lost, Transport
from stele.errors import SessionExpired, SteleError
from stele.protocol.metastore import KEEP_ALIVE, KeepAliveRequest

RENEWALS_PER_TTL = 3
"""Two may be lost."""

US_PER_SECOND = 1_000_000


async def keep_session(
    transport: Transport,
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
            answer = await transport.call(KEEP_ALIVE, request, timeout_s=left_s)
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
