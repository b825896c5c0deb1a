"""What a fork does to open channels: they stay with the parent.

After a fork the child has copies of the parent's descriptors but none of its threads. A write
there would land in the middle of the parent's stream, and closing through the event loop would
take the parent's sockets out of its own epoll set. So the child's copies are left alone and every
use of them is refused with an error that says what to do.

Left alone, but not kept open: while a child holds a copy, the parent's death does not end its
connections, and its listening socket would go on to accept some that nobody serves. So in the child
the descriptors of sockets are made to stand for the null device, whose number nobody else can get.
"""

from __future__ import annotations

import os
import socket
import weakref

from stele.errors import StaleHandle

_guards: weakref.WeakSet[ForkGuard] = weakref.WeakSet()
_sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()


class ForkGuard:
    """Remembers in which process something was opened. `inherited` says that it was another."""

    __slots__ = ("__weakref__", "_what", "inherited")

    def __init__(self, what: str):
        self.inherited = False
        self._what = what
        _guards.add(self)

    def check(self) -> None:
        """Refuse to go on in a process that was forked since."""
        if self.inherited:
            raise StaleHandle(
                f"{self._what} was opened before a fork and belongs to the parent process; "
                f"open a new one here"
            )


def stays_with_parent(sock: socket.socket) -> None:
    """A fork does not take this socket with it."""
    _sockets.add(sock)


def _forked() -> None:
    for guard in list(_guards):
        guard.inherited = True
    inherited = [sock.fileno() for sock in list(_sockets) if sock.fileno() >= 0]
    if inherited:
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for descriptor in inherited:
            os.dup2(null, descriptor, inheritable=False)
        os.close(null)


os.register_at_fork(after_in_child=_forked)
