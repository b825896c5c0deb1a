"""An answer that is given later, by whoever the handler handed it to.

A future tells its callbacks in the next turn of the loop; this tells at once. A handler of a server
returns one where many calls wait for the same event: when that comes, all answers are encoded and
written within its turn. It can be awaited like a future, by one task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any

from stele.errors import SteleError


class Deferred:
    """Settled once: by a result, by an error, or by nobody wanting it any more."""

    __slots__ = ("_callback", "_done", "error", "value")

    def __init__(self) -> None:
        self.value: Any = None
        self.error: SteleError | None = None
        self._done = False
        self._callback: Callable[[Deferred], None] | None = None

    def done(self) -> bool:
        """Whether it is settled."""
        return self._done

    def set_result(self, value: Any, /) -> None:
        """The answer."""
        assert not self._done, "answered twice"
        self.value = value
        self._settle()

    def set_exception(self, error: SteleError, /) -> None:
        """Why there is none."""
        assert not self._done, "answered twice"
        self.error = error
        self._settle()

    def cancel(self) -> None:
        """Nobody waits any more, and nobody is told."""
        self._done = True
        self._callback = None

    def then(self, callback: Callable[[Deferred], None]) -> None:
        """Call back once it is answered, or now if it is. One callback at most."""
        if self._done:
            callback(self)
            return
        assert self._callback is None, "two wait for one answer"
        self._callback = callback

    def _settle(self) -> None:
        self._done = True
        callback, self._callback = self._callback, None
        if callback is not None:
            callback(self)

    def __await__(self) -> Generator[Any, None, Any]:
        if not self._done:
            settled = asyncio.get_running_loop().create_future()
            self.then(lambda _: None if settled.done() else settled.set_result(None))
            try:
                yield from settled
            finally:
                if not self._done:
                    self.cancel()
        if self.error is not None:
            raise self.error
        return self.value
