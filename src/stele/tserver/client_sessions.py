"""Which connection of a client counts: the newest.

A client that lost its connection sends again, through the next one, what was not answered. What it
had sent before may still lie unread in the old one, and must not be taken for something new when it
is found there later. So clients count their losses, and what comes with a lower number than was
seen before is refused. Nobody waits for the answer to it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from stele.errors import Unavailable

FIRST_SESSION: Final = 1

CLIENTS_MAX: Final = 4_096
"""Clients that are remembered, those with the latest losses. An old connection is closed after a
minute of silence at the latest, long before so many others have lost theirs."""


class ClientSessions:
    """The highest number seen of each client that ever lost a connection."""

    def __init__(self, clients_max: int = CLIENTS_MAX) -> None:
        self._clients_max = clients_max
        self._highest: OrderedDict[bytes, int] = OrderedDict()

    def admit(self, client: bytes, session: int) -> None:
        """Take note of a request, or refuse it because a later connection has taken over."""
        highest = self._highest.get(client, FIRST_SESSION)
        if session < highest:
            raise Unavailable(
                f"connection {session} of this client is over: connection {highest} has taken over"
            )
        if session > highest:
            self._highest[client] = session
            self._highest.move_to_end(client)
            if len(self._highest) > self._clients_max:
                self._highest.popitem(last=False)
