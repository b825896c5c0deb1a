"""Requests that travel together."""

from __future__ import annotations

import asyncio
from typing import Any

from stele.client.metastore_gathering import ALONE_BYTES_MIN, Gathering, gatherings
from stele.errors import Conflict, InvalidArgument, SteleError, Unavailable
from stele.protocol.metastore import (
    EXECUTE,
    GET,
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
from stele.protocol.metastore_values import Compare, CompareField, Get, Identity, Put, Relation
from stele.rpc.wire_errors import encode_error
from tests.unit.metastore.cluster_support import group_of


class Leader:
    """Answers messages when it is told to, and remembers what each held."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.alone: list[Any] = []
        self.failure: SteleError | None = None
        self.refused: frozenset[int] = frozenset()
        self.items_max = GET_MANY_MAX
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        forms = gatherings(self._send, asyncio.get_running_loop())
        self.gets: Gathering[Any, Any] = forms[GET.number]
        self.writes: Gathering[Any, Any] = forms[EXECUTE.number]

    async def _send(self, _method: object, message: Any) -> Any:
        count = len(message.keys if isinstance(message, GetManyRequest) else message.requests)
        self.sent.append(count)
        await self.may_answer.wait()
        if self.failure is not None:
            raise self.failure
        if isinstance(message, GetManyRequest):
            return GetManyResponse((None,) * min(count, self.items_max), 7)
        assert isinstance(message, ExecuteManyRequest)
        numbers = [request.identity.sequence for request in message.requests]
        return ExecuteManyResponse(
            tuple(None if n in self.refused else ExecuteResponse(n) for n in numbers),
            tuple(encode_error(Conflict(f"no {n}")) for n in numbers if n in self.refused),
        )

    async def _alone(self, request: Any) -> Any:
        self.alone.append(request)
        await asyncio.sleep(0)
        if isinstance(request, GetRequest):
            return GetResponse(None, 3)
        return ExecuteResponse(request.identity.sequence)

    async def get(self, key: str = "/a", *, at: int = 0) -> GetResponse:
        request = GetRequest(key, at)
        answer: GetResponse = await self.gets.ask(request, lambda: self._alone(request))
        return answer

    async def put(self, number: int, *, value: bytes = b"", read: bool = False) -> ExecuteResponse:
        operations = (Get("/a"),) if read else (Put("/a", value),)
        compares = (Compare("/a", CompareField.VALUE, Relation.EQUAL, b"x"),)
        request = ExecuteRequest(Identity(1, number), operations, compares)
        answer: ExecuteResponse = await self.writes.ask(request, lambda: self._alone(request))
        return answer


async def test_one_after_the_other_leave_at_once_and_as_they_are() -> None:
    leader = Leader()
    for _ in range(3):
        await leader.get()
    assert not leader.sent
    assert len(leader.alone) == 3


async def test_what_is_asked_at_one_moment_is_one_message() -> None:
    leader = Leader()
    await asyncio.gather(*(leader.get() for _ in range(10)))
    assert (len(leader.alone), leader.sent) == (1, [9])
    await asyncio.gather(*(leader.get() for _ in range(10)))
    assert leader.sent == [9, 10]
    await leader.get()
    await leader.get()
    assert len(leader.alone) == 3
    assert leader.sent == [9, 10]


async def test_a_message_has_a_largest_size() -> None:
    leader = Leader()
    await asyncio.gather(*(leader.get() for _ in range(3)))
    await asyncio.gather(*(leader.get() for _ in range(GET_MANY_MAX + 3)))
    assert leader.sent == [2, GET_MANY_MAX, 3]
    heavy = ALONE_BYTES_MIN // 2
    await asyncio.gather(*(leader.put(n, value=bytes(heavy)) for n in range(1, 40)))
    assert max(leader.sent[3:]) < 39
    assert sum(leader.sent[3:]) == 38


async def test_what_is_large_or_special_goes_alone() -> None:
    leader = Leader()
    await asyncio.gather(leader.get(), leader.get(), leader.get(), leader.get(at=5))
    assert [request.at for request in leader.alone] == [0, 5]
    await asyncio.gather(
        *(leader.put(n) for n in range(1, 4)),
        leader.put(10, value=bytes(ALONE_BYTES_MIN)),
        leader.put(11, read=True),
    )
    assert [r.identity.sequence for r in leader.alone[2:]] == [1, 10, 11]


async def test_each_gets_its_own_answer_or_error() -> None:
    leader = Leader()
    leader.refused = frozenset({2, 5})
    found = await asyncio.gather(*(leader.put(n) for n in range(1, 7)), return_exceptions=True)
    assert [f.index for f in found if isinstance(f, ExecuteResponse)] == [1, 3, 4, 6]
    assert [str(f) for f in found if isinstance(f, Conflict)] == ["no 2", "no 5"]


async def test_when_the_message_fails_each_goes_its_own_way() -> None:
    leader = Leader()
    leader.failure = Unavailable("gone")
    found = await asyncio.gather(*(leader.get() for _ in range(5)))
    assert all(answer.index == 3 for answer in found)
    assert len(leader.alone) == 5


async def test_what_was_left_out_of_an_answer_is_asked_again() -> None:
    leader = Leader()
    leader.items_max = 2
    found = await asyncio.gather(*(leader.get() for _ in range(6)))
    assert [answer.index for answer in found] == [3, 7, 7, 3, 3, 3]


async def test_who_is_cancelled_leaves_the_others_unharmed() -> None:
    leader = Leader()
    leader.may_answer.clear()
    tasks = [asyncio.ensure_future(leader.get()) for _ in range(5)]
    while not leader.sent:
        await asyncio.sleep(0)
    tasks[1].cancel()  # it carries the message
    tasks[3].cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(answer) for answer in found].count(asyncio.CancelledError) == 2
    assert [answer.index for answer in found if isinstance(answer, GetResponse)] == [3, 3, 3]
    leader.may_answer.set()
    assert (await leader.get()).index == 3


async def test_cancelled_before_it_was_sent_it_takes_nobody_along() -> None:
    leader = Leader()
    await asyncio.gather(leader.get(), leader.get(), leader.get())
    tasks = [asyncio.ensure_future(leader.get()) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(isinstance(answer, GetResponse) for answer in found) == 2


async def test_many_tasks_on_a_real_group() -> None:
    async with group_of(3) as group:
        ms = group.client()
        indices = await asyncio.gather(*(ms.put(f"/k/{n}", b"%d" % n) for n in range(100)))
        assert len(set(indices)) == 100
        found = await asyncio.gather(*(ms.get(f"/k/{n}") for n in range(101)))
        assert [item and item.value for item in found] == [b"%d" % n for n in range(100)] + [None]
        for answer in await asyncio.gather(
            *(ms.put("nonsense", b"") for _ in range(3)), return_exceptions=True
        ):
            assert isinstance(answer, InvalidArgument)


async def test_a_leader_that_dies_under_a_message_costs_nothing_but_time() -> None:
    async with group_of(3) as group:
        ms = group.client()
        await asyncio.gather(*(ms.put(f"/k/{n}", b"0") for n in range(20)))
        writes = [asyncio.ensure_future(ms.put(f"/k/{n}", b"1")) for n in range(20)]
        await asyncio.sleep(0)
        await group.kill(group.leader())
        await asyncio.gather(*writes)
        found = await asyncio.gather(*(ms.get(f"/k/{n}") for n in range(20)))
        assert [item.version for item in found if item is not None] == [2] * 20
