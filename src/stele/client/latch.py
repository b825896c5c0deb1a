"""One answer, given once by the loop and waited for by a thread or heard by callbacks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from copy import copy
from typing import Generic, TypeVar

from stele.client.waiting import US_PER_SECOND
from stele.errors import DeadlineExceeded, SteleError

T = TypeVar("T")

Listener = Callable[[SteleError | None], None]


class Latch(Generic[T]):
    """Given a value or an error, which stay. Lighter than a future: it is made for every call."""

    __slots__ = ("_error", "_gate", "_listeners", "_lock", "_value", "what")

    def __init__(self, what: str) -> None:
        self.what = what
        """What is waited for, in the sentence that says it did not come."""
        self._value: T | None = None
        self._error: SteleError | None = None
        self._lock = threading.Lock()
        self._listeners: list[Listener] = []
        self._gate = threading.Lock()
        self._gate.acquire()

    @property
    def is_open(self) -> bool:
        """Whether the answer is there."""
        return not self._gate.locked()

    @property
    def value(self) -> T | None:
        """The answer, if there is one already and it is no error."""
        return self._value

    def give(self, value: T) -> None:
        """The answer has come."""
        self._value = value
        self._open()

    def fail(self, error: SteleError) -> None:
        """There will be none. The error may be shared with others: each raises a copy."""
        self._error = error
        self._open()

    def wait(self, timeout_us: int | None) -> T:
        """The answer, or the error it has, or ``DeadlineExceeded``."""
        timeout_s = -1.0 if timeout_us is None else timeout_us / US_PER_SECOND
        if not self._gate.acquire(timeout=timeout_s):
            raise DeadlineExceeded(f"{self.what} did not come within its timeout")
        self._gate.release()
        if self._error is not None:
            raise copy(self._error)
        assert self._value is not None
        return self._value

    def then(self, listener: Listener) -> None:
        """Call when it is decided, from any thread; at once if it is already."""
        with self._lock:
            if not self.is_open:
                self._listeners.append(listener)
                return
        listener(None if self._error is None else copy(self._error))

    def _open(self) -> None:
        with self._lock:
            assert self._gate.locked(), "one answer only"
            listeners, self._listeners = self._listeners, []
            self._gate.release()
        for listener in listeners:
            listener(None if self._error is None else copy(self._error))
