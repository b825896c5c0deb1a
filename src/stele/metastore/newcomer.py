"""A node that belongs to no group yet and waits to be told what to do.

It listens where the member will listen, and answers one question: ``BOOTSTRAP``. Everything else is
refused as by a node that is not the one to ask, so that clients, and nodes that look for a group,
go on to others or try again. Once it was told, its owner closes it and opens the member.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from stele.env.ports import Network
from stele.errors import NotLeader, Throttled
from stele.metastore.raft_log_format import LogIdentity
from stele.protocol.metastore import METASTORE
from stele.protocol.metastore_member import (
    BOOTSTRAP,
    DRAIN,
    MEMBER,
    BootstrapRequest,
    BootstrapResponse,
)
from stele.rpc import Binding, Context, Credentials, Role, Server, ServerOptions
from stele.rpc.service import ServerStream, Unary

Begin = Callable[[tuple[str, ...]], Awaitable[LogIdentity]]
"""Found a group, or enter that of the nodes at some addresses; on disk when it returns."""


class Newcomer:
    """Belongs to the loop it was made in."""

    def __init__(
        self,
        begin: Begin,
        listen: str,
        credentials: Credentials | None = None,
        network: Network | None = None,
    ) -> None:
        self.told: asyncio.Future[LogIdentity] = asyncio.get_running_loop().create_future()
        """Resolved when the node belongs to a group."""
        self._begin = begin
        self._is_beginning = False
        self._server = Server(
            (
                *MEMBER.bind(BOOTSTRAP.handled_by(self.bootstrap), DRAIN.handled_by(_refuse)),
                *METASTORE.bind(*map(_refused, METASTORE.methods())),
            ),
            ServerOptions(role=Role.METASTORE),
            credentials=credentials,
            network=network,
        )
        self.address = self._server.listen(listen)

    async def bootstrap(self, _context: Context, request: BootstrapRequest) -> BootstrapResponse:
        """Begin, once. What fails, for example at an address that nobody answers at, may be asked
        again; what succeeded and was asked again, gets the same answer."""
        if self._is_beginning:
            raise Throttled("this node is being told to begin")
        if not self.told.done():
            self._is_beginning = True
            try:
                self.told.set_result(await self._begin(request.join))
            finally:
                self._is_beginning = False
        identity = self.told.result()
        return BootstrapResponse(identity.cluster, identity.node)

    async def close(self) -> None:
        """Answer who has asked, and make room for the member."""
        await self._server.close()


def _refused(method: Any) -> Binding:
    if isinstance(method, ServerStream):
        return method.handled_by(_refuse_stream)
    assert isinstance(method, Unary), f"{method.full_name} is of another kind"
    return method.handled_by(_refuse)


def _refuse(_context: Context, _request: Any) -> Any:
    raise NotLeader(
        "this node belongs to no group yet: tell it to by `stele metastore bootstrap --at ADDRESS`"
    )


async def _refuse_stream(context: Context, request: Any) -> AsyncIterator[Any]:
    yield _refuse(context, request)
