from __future__ import annotations

import asyncio

from stele.client.waiting import ANSWER_US, TIMEOUT_US_DEFAULT, US_PER_SECOND
from stele.rpc.identity import EVERYONE, PeerIdentity, Proof
from stele.rpc.service import Context
from stele.tserver.deadlines import left_us


def until(deadline_us: int) -> Context:
    peer = PeerIdentity(EVERYONE, "p", Proof.CLAIM)
    return Context(peer, peer, None, deadline_us, ())


async def test_what_is_left_leaves_time_for_the_answer() -> None:
    now_us = int(asyncio.get_running_loop().time() * US_PER_SECOND)
    assert left_us(until(now_us + ANSWER_US // 2)) == 0
    assert left_us(until(now_us + 3 * ANSWER_US)) <= 2 * ANSWER_US


async def test_who_has_all_the_time_has_the_default() -> None:
    assert left_us(until(0)) == TIMEOUT_US_DEFAULT
