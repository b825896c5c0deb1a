from __future__ import annotations

import asyncio

import pytest

from stele.tserver.request_order import RequestOrder


async def test_requests_of_one_client_run_in_the_order_of_their_coming() -> None:
    order, seen = RequestOrder(), list[int]()
    gate = asyncio.Event()

    async def job(number: int) -> int:
        if number == 0:
            await gate.wait()
        seen.append(number)
        return number

    tasks = [asyncio.create_task(order.run(b"a", lambda n=n: job(n))) for n in range(5)]  # type: ignore[misc]
    other = asyncio.create_task(order.run(b"b", lambda: job(99)))
    assert await other == 99
    assert seen == [99]
    gate.set()
    assert await asyncio.gather(*tasks) == [0, 1, 2, 3, 4]
    assert seen == [99, 0, 1, 2, 3, 4]


async def test_a_request_that_nobody_waits_for_keeps_its_place() -> None:
    order, seen = RequestOrder(), list[str]()
    gate = asyncio.Event()

    async def slow() -> None:
        await gate.wait()
        seen.append("slow")

    async def quick() -> None:
        seen.append("quick")

    first = asyncio.create_task(order.run(b"a", slow))
    second = asyncio.create_task(order.run(b"a", quick))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert seen == []
    gate.set()
    await second
    assert seen == ["slow", "quick"]


async def test_a_failure_is_its_own_and_nothing_is_kept() -> None:
    order = RequestOrder()

    async def fail() -> None:
        raise ValueError("no")

    async def fine() -> int:
        return 1

    with pytest.raises(ValueError, match="no"):
        await order.run(b"a", fail)
    assert await order.run(b"a", fine) == 1
    await asyncio.sleep(0)
    assert order.clients == 0
