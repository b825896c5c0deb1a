"""What a fork does to open channels: they stay with the parent.

After a fork the child has copies of the parent's descriptors but none of its threads. A write
there would land in the middle of the parent's stream, and closing through the event loop would
take the parent's sockets out of its own epoll set. So the child's copies are left alone and every
use of them is refused with an error that says what to do.
"""

from __future__ import annotations

import os
import weakref

from stele.errors import StaleHandle

_guards: weakref.WeakSet[ForkGuard] = weakref.WeakSet()


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


def _forked() -> None:
    for guard in list(_guards):
        guard.inherited = True


os.register_at_fork(after_in_child=_forked)
