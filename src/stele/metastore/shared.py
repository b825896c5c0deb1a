"""An embedded node for callers on a loop: the sockets of attached processes.

What touches the node may wait for its disk, so every step of a request is made in one of a few
threads; what has to be waited for, a lock or the next change of a watch, is awaited on the loop and
costs no thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, TypeVar

from stele.client.metastore_inline import LocalAnswer
from stele.metastore.embedded import EmbeddedNode
from stele.rpc import Binding, Context
from stele.rpc.service import MethodKind

THREADS_MAX: Final = 4

T = TypeVar("T")
_ENDED: Final = object()


class SharedMetastore:
    """The service of an embedded node, as a server can bind it."""

    def __init__(self, node: EmbeddedNode) -> None:
        self._node = node
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="stele-metastore")

    def bindings(self) -> tuple[Binding, ...]:
        """All methods, for the server of another loop."""
        return tuple(self._wrapped(binding) for binding in self._node.bindings())

    def close(self) -> None:
        """Take no more requests."""
        self._threads.shutdown(wait=True)

    def _wrapped(self, binding: Binding) -> Binding:
        if binding.method.kind is MethodKind.STREAM:
            return Binding(binding.method, self._streamed(binding), is_async=False)

        async def answered(context: Context, request: Any) -> Any:
            return await self._run(self._node.call(binding, request, None, context))

        return Binding(binding.method, answered, is_async=True)

    def _streamed(self, binding: Binding) -> Callable[[Context, Any], AsyncIterator[Any]]:
        async def streamed(context: Context, request: Any) -> AsyncIterator[Any]:
            items = binding.function(context, request)
            try:
                while (item := await self._run(self._next(items))) is not _ENDED:
                    yield item
            finally:
                await self._run(self._node.drive(items.aclose(), None))

        return streamed

    async def _next(self, items: AsyncIterator[Any]) -> Any:
        return await self._node.drive(_next_or_end(items), None)

    async def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Step a coroutine in threads; wait for what it waits for on the loop."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                step = loop.run_in_executor(self._threads, _step, coroutine)
                try:
                    ended, value = await asyncio.shield(step)
                except asyncio.CancelledError:
                    await _let_finish(step)
                    raise
                if ended:
                    result: T = value
                    return result
                await _answered(loop, value)
        finally:
            coroutine.close()


async def _next_or_end(items: AsyncIterator[Any]) -> Any:
    return await anext(items, _ENDED)


def _step(coroutine: Coroutine[Any, Any, Any]) -> tuple[bool, Any]:
    """Whether it has ended, and its result; or what it waits for."""
    try:
        return False, coroutine.send(None)
    except StopIteration as end:
        return True, end.value


async def _let_finish(step: asyncio.Future[Any]) -> None:
    """A thread cannot be called back, and what it is at cannot be closed under its hands."""
    while not step.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait({step})
    step.exception()  # nobody wants to know


async def _answered(loop: asyncio.AbstractEventLoop, waiting: LocalAnswer) -> None:
    woken = loop.create_future()

    def in_loop() -> None:
        if not woken.done():
            woken.set_result(None)

    def wake() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(in_loop)

    waiting.then(wake)
    await woken
