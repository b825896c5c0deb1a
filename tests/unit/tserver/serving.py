"""A backend behind a Unix socket, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stele.client.backend import Backend
from stele.client.remote import RemoteBackend
from stele.client.remote_link import RemoteLink
from stele.client.waiting import ClientWorld
from stele.env.real import SystemClock, SystemRandom
from stele.errors import SteleError, Unavailable
from stele.protocol.tables import TABLE_LIMITS
from stele.rpc.identity import Role
from stele.rpc.server import Server, ServerOptions
from stele.rpc.sync import LoopThread
from stele.tserver.table_service import TableService


class FixedLocation:
    """A store that is at one place, or nowhere for the time being."""

    def __init__(self, address: str):
        self.here: str | None = address

    def address(self) -> str:
        if self.here is None:
            raise Unavailable("the store is nowhere")
        return self.here

    def explain(self, error: SteleError) -> SteleError:
        return Unavailable(f"explained: {error}")


class ServedBackend:
    """Serves at a path; can go away and come back."""

    def __init__(self, backend: Backend, path: Path):
        self.address = f"unix:{path}"
        self.service = TableService(backend, SystemRandom())
        self.thread = LoopThread("test-server")
        self.start()

    def start(self) -> None:
        async def serve() -> Server:
            options = ServerOptions(role=Role.TABLET, limits=TABLE_LIMITS)
            server = Server(self.service.bindings(), options)
            server.listen(self.address)
            return server

        self.server = self.thread.run(serve())

    def cut(self) -> None:
        """Drop all connections; those who dial again are welcome."""

        async def abort() -> None:
            for session in list(self.server.sessions):
                session.abort()

        self.thread.run(abort())

    def stop(self) -> None:
        self.thread.run(self.server.close(0))

    def close(self) -> None:
        self.stop()
        self.service.close()
        self.thread.close()


def link_to(address: str) -> RemoteLink:
    return RemoteLink(FixedLocation(address), ClientWorld(SystemClock(), SystemRandom()))


@contextmanager
def remote(backend: Backend, folder: Path) -> Iterator[tuple[RemoteBackend, ServedBackend]]:
    """A client of a served backend, and what serves it."""
    served = ServedBackend(backend, folder / "s")
    client = RemoteBackend(link_to(served.address))
    try:
        yield client, served
    finally:
        client.close()
        served.close()
