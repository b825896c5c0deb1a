"""Whether a database may still be used: it is open, and in the process that opened it."""

from __future__ import annotations

from typing import NoReturn

from stele.errors import InvalidArgument, StaleHandle
from stele.rpc.fork import ForkGuard


class Handle:
    """One for each open database, shared by everything that was obtained from it."""

    __slots__ = ("_guard", "_what", "closed")

    def __init__(self, what: str) -> None:
        self.closed = False
        self._what = what
        self._guard = ForkGuard(what)

    def __repr__(self) -> str:
        return f"<{self._what}{', closed' if self.closed else ''}>"

    def check(self) -> None:
        """Refuse to go on with a database that is closed, or that the parent process owns."""
        if self.closed:
            raise StaleHandle("the database is closed: open it again")
        if self._guard.inherited:
            self._guard.check()

    def __reduce__(self) -> NoReturn:
        """Whatever holds a handle cannot be sent to another process, nor copied."""
        raise InvalidArgument(
            f"{self._what} is open in this process: give the other one its path, and open it there"
        )
