"""The numbers of requests."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from stele.client.metastore_sequence import WAITING_MAX, RequestNumbers, draw_client_id
from stele.env.real import SystemRandom
from stele.errors import Throttled
from stele.protocol.metastore_values import Identity
from tests.unit.metastore.cluster_support import group_of


def test_s20_client_ids_are_not_drawn_twice() -> None:
    random = SystemRandom()
    assert len({draw_client_id(random) for _ in range(1000)}) == 1000
    assert all(0 < draw_client_id(random) < 1 << 63 for _ in range(1000))


def test_what_is_answered_grows_only_up_to_the_oldest_that_waits() -> None:
    sequence = RequestNumbers(9)
    with sequence.next() as first:
        assert first == Identity(9, 1, 0)
        for number in (2, 3):
            with sequence.next() as later:
                assert later == Identity(9, number, 0)
    with sequence.next() as after:
        assert after == Identity(9, 4, 3)


def test_too_many_that_wait_are_refused() -> None:
    sequence = RequestNumbers(9)
    with ExitStack() as stack:
        for _ in range(WAITING_MAX):
            stack.enter_context(sequence.next())
        with pytest.raises(Throttled, match=str(WAITING_MAX)), sequence.next():
            pass
    with sequence.next() as identity:
        assert identity.answered == WAITING_MAX


async def test_s20_a_client_learns_an_index_before_its_first_request() -> None:
    async with group_of(1) as group:
        ms = group.client()
        before = await ms.index()
        await ms.put("/a", b"1")
        await ms.put("/a", b"2")
        with ms.sequence.next() as identity:
            assert identity.born >= before
            assert identity.born < (await ms.get("/a")).created  # type: ignore[union-attr]
