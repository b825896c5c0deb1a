"""The numbers of a client's requests.

The id must be one that no other client has or had: ``draw_client_id`` draws it from a space so
large that nobody draws it again. Each request that changes something takes the next number, and
says up to which number this client waits for nothing any more: the answers up to there need not be
remembered. It also says when the client was born, by an index of the log from before its first
request: so the group can tell a new client from one that it has forgotten. Threads may share it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from stele.client.metastore_transport import Transport
from stele.env.ports import Random
from stele.errors import Throttled
from stele.protocol.metastore import READ_INDEX, ReadIndexRequest
from stele.protocol.metastore_values import Identity

CLIENT_ID_BITS = 63
"""All the positive numbers that every language has in eight bytes: wire, store and log hold them in
eight, and whoever reads those with another tool is not to meet a negative one. Ten thousand clients
share one with a chance of one in 10^11; and an id cannot be guessed, which matters, because it is
what makes a session its client's own."""

WAITING_MAX = 512
"""Requests of one client that wait for their answers; the group remembers a window of twice as
many for each client."""


def draw_client_id(random: Random) -> int:
    """An id for a new client."""
    return 1 + random.below((1 << CLIENT_ID_BITS) - 1)


class RequestNumbers:
    """One for each client."""

    def __init__(self, client: int) -> None:
        self.client = client
        self._born = 0
        self._numbers = itertools.count(1)
        self._waiting: dict[int, None] = {}

    async def be_born(self, transport: Transport, timeout_s: float) -> None:
        """Learn an index, once; no request may take its number before."""
        if not self._born:
            asked = ReadIndexRequest()
            self._born = (await transport.call(READ_INDEX, asked, timeout_s=timeout_s)).index

    @property
    def is_born(self) -> bool:
        """Whether the index is known."""
        return self._born > 0

    def begin(self) -> Identity:
        """The identity of a request, which waits for its answer until ``end``."""
        waiting = self._waiting
        if len(waiting) >= WAITING_MAX:
            raise Throttled(
                f"{WAITING_MAX} requests of this metastore client wait for their answers"
            )
        number = next(self._numbers)
        waiting[number] = None
        return Identity(self.client, number, next(iter(waiting), number) - 1, self._born)

    def end(self, identity: Identity) -> None:
        """It waits no more."""
        del self._waiting[identity.sequence]

    @contextmanager
    def next(self) -> Iterator[Identity]:
        """``begin`` and ``end`` around what is done under the identity."""
        identity = self.begin()
        try:
            yield identity
        finally:
            self.end(identity)
