"""Methods that a node serves only as a member of its group.

One that was removed has a state that stands still; whoever asks it is sent to somebody else. Its
status it tells all the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from stele.metastore.driver import Driver
from stele.protocol.metastore import STATUS
from stele.rpc import Binding, Context
from stele.rpc.service import MethodKind


def for_members(driver: Driver, binding: Binding) -> Binding:
    """The same method, refused where the node is out of its group."""
    method, function = binding.method, binding.function
    if method is STATUS:
        return binding

    def guarded(context: Context, request: Any) -> Any:
        standing = driver.node.standing
        if standing.removed_at:
            raise standing.refusal()
        return function(context, request)

    async def guarded_later(context: Context, request: Any) -> Any:
        return await guarded(context, request)

    async def guarded_stream(context: Context, request: Any) -> AsyncIterator[Any]:
        async for item in guarded(context, request):
            yield item

    if method.kind is MethodKind.STREAM:
        return Binding(method, guarded_stream, binding.is_async)
    return Binding(method, guarded_later if binding.is_async else guarded, binding.is_async)
