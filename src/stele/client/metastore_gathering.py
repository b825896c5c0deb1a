"""Requests that are made at the same moment travel together, in one message.

A message costs both ends several times what is in it: framing, dispatch, a future, an answer. Where
many tasks share a client, what they ask within one turn of the loop is gathered and sent as one,
and the answers come back as one. Whoever asks first takes the others along:

    first ──▶ yields one turn ──▶ sends all that came meanwhile ──▶ hands out the answers
    others ─▶ join ─▶ wait ────────────────────────────────────────────────▲

Nobody waits for company that does not come: a request that is alone, with none under way and none
gathered with the one before it, leaves at once and as it is.

Gathering is an attempt, never a promise. If the message fails as a whole, or its sender is
cancelled, each request goes its own way with its own deadline. That is safe because every request
may be sent twice: reads change nothing, and writes carry their number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Generic

from stele.errors import SteleError
from stele.protocol.metastore import (
    EXECUTE,
    EXECUTE_MANY,
    EXECUTE_MANY_MAX,
    GET,
    GET_MANY,
    GET_MANY_MAX,
    ExecuteManyRequest,
    ExecuteManyResponse,
    ExecuteRequest,
    ExecuteResponse,
    GetManyRequest,
    GetManyResponse,
    GetRequest,
    GetResponse,
)
from stele.protocol.metastore_values import Get, Put
from stele.rpc.service import Req, Resp, Unary
from stele.rpc.wire_errors import decode_error

GATHERED_BYTES_MAX: Final = 256 * 1024
"""What one message holds at most: beyond a few hundred kilobytes sharing it saves nothing."""

ALONE_BYTES_MIN: Final = 32 * 1024
"""A request of this size pays for a message of its own."""

OPERATION_BYTES: Final = 128
"""What an operation is taken to cost beyond its value: its key, mostly."""

SendMany = Callable[[Unary[Any, Any], Any], Awaitable[Any]]
"""One attempt to have a message answered by the node that leads."""


class Form(Generic[Req, Resp]):
    """How requests of one method become one message, and its answer theirs."""

    def __init__(
        self,
        many: Unary[Any, Any],
        count_max: int,
        weigh: Callable[[Req], int],
        pack: Callable[[Sequence[Req]], Any],
        unpack: Callable[[Any], list[Resp | SteleError]],
    ) -> None:
        self.many = many
        self.count_max = count_max
        self.weigh = weigh
        """In bytes; ``ALONE_BYTES_MIN`` or more for what cannot share a message."""
        self.pack = pack
        self.unpack = unpack
        """Answers in the order of the requests; those at the end may be missing."""


class Gathering(Generic[Req, Resp]):
    """The requests of one method. Belongs to one loop."""

    def __init__(
        self, form: Form[Req, Resp], send: SendMany, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._form = form
        self._send = send
        self._loop = loop
        self._under_way = 0
        self._last_count = 1
        self._requests: list[Req] | None = None
        self._answers: list[asyncio.Future[Resp]] = []
        self._bytes = 0

    async def ask(self, request: Req, alone: Callable[[], Awaitable[Resp]]) -> Resp:
        """The answer to a request, sent together with others or by ``alone``."""
        weight = self._form.weigh(request)
        if weight >= ALONE_BYTES_MIN or (
            not self._under_way and self._last_count == 1 and self._requests is None
        ):
            self._under_way += 1
            try:
                return await alone()
            finally:
                self._under_way -= 1
        try:
            if self._requests is not None and self._has_room(weight):
                return await self._join(self._requests, request, weight)
            return await self._lead(request, weight)
        except _GoAlone:
            return await alone()

    def _has_room(self, weight: int) -> bool:
        assert self._requests is not None
        return (
            len(self._requests) < self._form.count_max
            and self._bytes + weight <= GATHERED_BYTES_MAX
        )

    async def _join(self, requests: list[Req], request: Req, weight: int) -> Resp:
        answer: asyncio.Future[Resp] = self._loop.create_future()
        requests.append(request)
        self._answers.append(answer)
        self._bytes += weight
        return await answer

    async def _lead(self, request: Req, weight: int) -> Resp:
        requests = self._requests = [request]
        answers = self._answers = []
        self._bytes = weight
        self._under_way += 1
        outcomes: list[Resp | SteleError] = []
        try:
            await asyncio.sleep(0)
            self._close(requests)
            if len(requests) > 1:
                message = self._form.pack(requests)
                outcomes = self._form.unpack(await self._send(self._form.many, message))
        except SteleError as error:
            raise _GoAlone from error
        finally:
            self._close(requests)
            self._under_way -= 1
            _hand_out(answers, outcomes[1:])
        if not outcomes:
            raise _GoAlone
        return _raised_or_given(outcomes[0])

    def _close(self, requests: list[Req]) -> None:
        """Take nobody along any more."""
        if self._requests is requests:
            self._requests = None
            self._last_count = len(requests)


class _GoAlone(Exception):
    """There was no message, or it failed as a whole."""


def _raised_or_given(outcome: Resp | SteleError) -> Resp:
    if isinstance(outcome, SteleError):
        raise outcome
    return outcome


def _hand_out(answers: list[asyncio.Future[Any]], outcomes: list[Any]) -> None:
    for position, answer in enumerate(answers):
        if answer.done():
            continue
        if position >= len(outcomes):
            answer.set_exception(_GoAlone())
        elif isinstance(outcomes[position], SteleError):
            answer.set_exception(outcomes[position])
        else:
            answer.set_result(outcomes[position])


def _weigh_execute(request: ExecuteRequest) -> int:
    size = 0
    for operations in (request.then, request.otherwise):
        for operation in operations:
            size += OPERATION_BYTES
            if isinstance(operation, Put):
                size += len(operation.value)
            elif isinstance(operation, Get):
                return ALONE_BYTES_MIN  # how much its answer holds, nobody knows before
    for compare in request.compares:
        size += OPERATION_BYTES
        if isinstance(compare.operand, bytes):
            size += len(compare.operand)
    return size


def _unpack_executed(response: ExecuteManyResponse) -> list[ExecuteResponse | SteleError]:
    refusals = iter(response.refusals)
    return [
        decode_error(next(refusals)) if answer is None else answer for answer in response.answers
    ]


def _weigh_get(request: GetRequest) -> int:
    return ALONE_BYTES_MIN if request.at or request.serializable else OPERATION_BYTES


def _pack_gets(requests: Sequence[GetRequest]) -> GetManyRequest:
    return GetManyRequest(tuple([request.key for request in requests]))


def _unpack_got(response: GetManyResponse) -> list[GetResponse | SteleError]:
    return [GetResponse(item, response.index) for item in response.items]


def gatherings(send: SendMany, loop: asyncio.AbstractEventLoop) -> dict[int, Gathering[Any, Any]]:
    """By the number of the method: all that can be gathered."""
    forms: dict[int, Form[Any, Any]] = {
        GET.number: Form(GET_MANY, GET_MANY_MAX, _weigh_get, _pack_gets, _unpack_got),
        EXECUTE.number: Form(
            EXECUTE_MANY,
            EXECUTE_MANY_MAX,
            _weigh_execute,
            lambda requests: ExecuteManyRequest(tuple(requests)),
            _unpack_executed,
        ),
    }
    return {number: Gathering(form, send, loop) for number, form in forms.items()}
