"""Answers that are given later."""

from __future__ import annotations

import asyncio

import pytest

from stele.errors import Conflict
from stele.rpc.deferred import Deferred


def test_whoever_waits_is_told_at_once() -> None:
    deferred, told = Deferred(), list[object]()
    deferred.then(lambda done: told.append(done.value))
    assert not deferred.done()
    deferred.set_result(7)
    assert told == [7]
    assert deferred.done()


def test_what_is_settled_already_is_told_at_once_too() -> None:
    deferred, told = Deferred(), list[object]()
    deferred.set_exception(Conflict("no"))
    deferred.then(lambda done: told.append(done.error))
    assert isinstance(told[0], Conflict)


def test_it_is_settled_once() -> None:
    deferred = Deferred()
    deferred.set_result(1)
    with pytest.raises(AssertionError):
        deferred.set_result(2)
    with pytest.raises(AssertionError):
        deferred.set_exception(Conflict("no"))


def test_after_cancelling_nobody_is_told() -> None:
    deferred, told = Deferred(), list[object]()
    deferred.then(told.append)
    deferred.cancel()
    assert deferred.done()
    assert not told


async def test_it_can_be_awaited() -> None:
    deferred = Deferred()
    asyncio.get_running_loop().call_soon(deferred.set_result, 7)
    assert await deferred == 7
    assert await deferred == 7
    failed = Deferred()
    asyncio.get_running_loop().call_soon(failed.set_exception, Conflict("no"))
    with pytest.raises(Conflict):
        await failed


async def test_a_task_that_is_cancelled_waits_no_more() -> None:
    deferred = Deferred()

    async def wait() -> None:
        await deferred

    task = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert deferred.done(), "so that whoever would answer does not"
