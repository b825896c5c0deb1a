"""Connecting to a metastore of other processes, for threads and for asyncio."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable

from stele.client.metastore import Metastore
from stele.client.metastore_aio import AsyncMetastore
from stele.client.metastore_cluster import ClusterTransport
from stele.client.metastore_sequence import RequestNumbers, draw_client_id
from stele.env.real import SystemClock, SystemRandom
from stele.errors import InvalidArgument
from stele.rpc import ClientOptions, Credentials, LoopThread, Role, TlsFiles


async def connect_async(
    addresses: str | Iterable[str],
    *,
    tls: TlsFiles | None = None,
    name: str = "",
    role: Role = Role.CLIENT,
) -> AsyncMetastore:
    """A client of the metastore whose nodes listen at ``addresses``; see ``connect``."""
    random = SystemRandom()
    who = name or f"{socket.gethostname()}:{os.getpid()}"
    transport = ClusterTransport(
        _checked(addresses),
        ClientOptions(role=role, name=who),
        clock=SystemClock(),
        random=random,
        credentials=None if tls is None else Credentials(tls),
    )
    return AsyncMetastore(transport, RequestNumbers(draw_client_id(random)), who)


def connect(
    addresses: str | Iterable[str],
    *,
    tls: TlsFiles | None = None,
    name: str = "",
    role: Role = Role.CLIENT,
) -> Metastore:
    """A client of the metastore whose nodes listen at ``addresses``.

    One address of a node that is up is enough. Nothing is dialled before the first call. ``tls``
    names certificate, key and authority; without it only addresses of this machine are allowed.
    ``name`` is shown to operators beside this client's sessions.
    """
    runner = LoopThread.shared()
    inner = runner.run(connect_async(_checked(addresses), tls=tls, name=name, role=role))
    return Metastore(inner, runner)


def _checked(addresses: str | Iterable[str]) -> list[str]:
    found = [addresses] if isinstance(addresses, str) else list(addresses)
    if not found:
        raise InvalidArgument("a metastore needs at least one address, such as 127.0.0.1:7420")
    return found
