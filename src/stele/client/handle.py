"""Whether a database may still be used: it is open, and in the process that opened it."""

from __future__ import annotations

from stele.errors import StaleHandle
from stele.rpc.fork import ForkGuard


class Handle:
    """One for each open database, shared by everything that was obtained from it."""

    __slots__ = ("_guard", "closed")

    def __init__(self, what: str) -> None:
        self.closed = False
        self._guard = ForkGuard(what)

    def check(self) -> None:
        """Refuse to go on with a database that is closed, or that the parent process owns."""
        if self.closed:
            raise StaleHandle("the database is closed: open it again")
        if self._guard.inherited:
            self._guard.check()
