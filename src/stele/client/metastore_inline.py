"""Running the client's coroutines right where they are called, without a loop.

A node in this process answers most requests before the call returns. What has to be waited for, a
lock that somebody else holds or the sync that another thread has begun, is a ``LocalAnswer``: a
coroutine that awaits one hands it to whoever runs the coroutine, and that thread waits.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

from stele.errors import DeadlineExceeded, SteleError

T = TypeVar("T")


class LocalAnswer:
    """An answer to come, for threads; what a future is for a loop. Set once, from any thread."""

    __slots__ = (
        "__weakref__",
        "_answered",
        "_callbacks",
        "_error",
        "_lock",
        "_value",
        "timeout_s",
    )

    def __init__(self, timeout_s: float | None = None) -> None:
        self.timeout_s = timeout_s
        self._answered = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self._value: Any = None
        self._error: SteleError | None = None

    def done(self) -> bool:
        """Whether it is set."""
        return self._answered.is_set()

    def set_result(self, value: Any, /) -> None:
        """The answer."""
        self._value = value
        self._settle()

    def set_exception(self, error: SteleError, /) -> None:
        """Why there is none."""
        self._error = error
        self._settle()

    def then(self, callback: Callable[[], None]) -> None:
        """Call back once when it is set, from any thread; at once if it is already."""
        with self._lock:
            if not self._answered.is_set():
                self._callbacks.append(callback)
                return
        callback()

    def _settle(self) -> None:
        with self._lock:
            self._answered.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def wait(self) -> None:
        """Return when it is set; after the timeout it is, with ``DeadlineExceeded``."""
        if not self._answered.wait(self.timeout_s):
            self.set_exception(DeadlineExceeded(f"no answer within {self.timeout_s:g} s"))

    def __await__(self) -> Generator[LocalAnswer, None, Any]:
        if not self.done():
            yield self
        if self._error is not None:
            raise self._error
        return self._value


@types.coroutine
def settled(waiting: LocalAnswer) -> Generator[LocalAnswer, None, None]:
    """Return when an answer is set, whatever it is: for who has to look at it elsewhere."""
    if not waiting.done():
        yield waiting


class InlineRunner:
    """``Runner`` for coroutines that await nothing but ``LocalAnswer``."""

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run it to its end in this thread."""
        try:
            while True:
                waiting = coroutine.send(None)
                assert isinstance(waiting, LocalAnswer), f"cannot wait for {waiting!r} here"
                waiting.wait()
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            coroutine.close()
