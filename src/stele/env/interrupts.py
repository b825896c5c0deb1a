"""Ctrl-C at a good moment: what must not be torn is finished first, then the program hears of it.

Python runs handlers of signals in the main thread, between any two steps of whatever that thread
does. A ``KeyboardInterrupt`` in the middle of a commit would leave others waiting for a leader that
has gone, and a log of which nobody knows how far it was written. So the few steps that belong
together are taken under :class:`Uninterrupted`, which holds the interrupt back until they are done.

Whoever waits for long between such steps, and could be torn there, says so with ``listening``.

Other threads get no signals, and other signals are the program's own business.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from signal import SIGINT
from types import FrameType
from typing import Any, Self

_signals: Any = importlib.import_module("_signal")
"""What ``signal`` stands on. It wraps every answer in an enum, which takes ten times as long."""

_INTERRUPT = int(SIGINT)


def is_main_thread() -> bool:
    """Whether interrupts come here. Cheap enough to ask before every commit."""
    return threading.get_ident() == threading.main_thread().ident


class Uninterrupted:
    """Used once, in a ``with``. Within another one it does nothing."""

    __slots__ = ("_came", "_previous")

    def __init__(self) -> None:
        self._previous: Any = None
        """Who is told of an interrupt at other times, if it was replaced."""
        self._came: tuple[int, FrameType | None] | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """The handler meanwhile: remember that it came."""
        self._came = (number, frame)

    def __enter__(self) -> Self:
        if not is_main_thread():
            return self
        previous = _signals.getsignal(_INTERRUPT)
        if callable(previous) and not isinstance(previous, Uninterrupted):
            self._previous = previous
            _signals.signal(_INTERRUPT, self)  # one that came before is raised here, and now
        return self

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Within it interrupts are heard at once, also one that came before."""
        if self._previous is None:
            yield
            return
        came, self._came = self._came, None
        _signals.signal(_INTERRUPT, self._previous)
        try:
            if came is not None:
                self._previous(*came)
            yield
        finally:
            _signals.signal(_INTERRUPT, self)

    def __exit__(self, *_: object) -> None:
        if self._previous is not None:
            _signals.signal(_INTERRUPT, self._previous)
            if self._came is not None:
                self._previous(*self._came)
