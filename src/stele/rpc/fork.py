"""What a fork does to open channels: they stay with the parent.

After a fork the child has copies of the parent's descriptors but none of its threads. A write
there would land in the middle of the parent's stream, and closing through the event loop would
take the parent's sockets out of its own epoll set. So the child's copies are left alone and every
use of them is refused with an error that says what to do.
"""

from __future__ import annotations

import os

from stele.errors import StaleHandle

_generation = 0


def _forked() -> None:
    global _generation  # noqa: PLW0603 - one counter for the process is the point
    _generation += 1


os.register_at_fork(after_in_child=_forked)


class ForkGuard:
    """Remembers in which process something was opened."""

    __slots__ = ("_born", "_what")

    def __init__(self, what: str):
        self._what = what
        self._born = _generation

    @property
    def inherited(self) -> bool:
        """Whether this process got it from its parent."""
        return self._born != _generation

    def check(self) -> None:
        """Refuse to go on in a process that was forked since."""
        if self._born != _generation:
            raise StaleHandle(
                f"{self._what} was opened before a fork and belongs to the parent process; "
                f"open a new one here"
            )
