"""Coroutines that run where they are called."""

from __future__ import annotations

import threading

import pytest

from stele.client.metastore_inline import InlineRunner, LocalAnswer, settled
from stele.errors import Conflict, DeadlineExceeded


def test_an_answer_that_is_there_is_not_waited_for() -> None:
    answer = LocalAnswer()
    answer.set_result(7)

    async def ask() -> int:
        await settled(answer)
        value: int = await answer
        return value

    assert InlineRunner().run(ask()) == 7


def test_the_thread_waits_for_one_that_is_to_come() -> None:
    answer = LocalAnswer(timeout_s=20)
    threading.Timer(0.01, answer.set_result, ["late"]).start()

    async def ask() -> str:
        await settled(answer)
        value: str = await answer
        return value

    assert InlineRunner().run(ask()) == "late"


def test_errors_and_deadlines_come_out_where_they_are_awaited() -> None:
    refused, late = LocalAnswer(), LocalAnswer(timeout_s=0)
    refused.set_exception(Conflict("no"))

    async def ask(answer: LocalAnswer) -> None:
        await answer

    with pytest.raises(Conflict):
        InlineRunner().run(ask(refused))
    with pytest.raises(DeadlineExceeded):
        InlineRunner().run(ask(late))
    assert late.done(), "nobody waits any more"


def test_what_is_not_an_answer_cannot_be_waited_for() -> None:
    import asyncio

    async def ask() -> None:
        await asyncio.sleep(0)

    with pytest.raises(AssertionError, match="cannot wait"):
        InlineRunner().run(ask())
