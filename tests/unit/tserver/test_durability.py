from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from stele.errors import OutOfSpace, SteleError
from stele.tserver.durability import decided


class Commit:
    """A ``Pending`` that the test decides."""

    txn = 7

    def __init__(self) -> None:
        self.callbacks: list[Callable[[SteleError | None], None]] = []

    def wait(self, timeout_us: int | None = None) -> int:
        raise AssertionError(f"nobody blocks, not even for {timeout_us}")

    def then(self, callback: Callable[[SteleError | None], None]) -> None:
        self.callbacks.append(callback)


async def test_all_are_waited_for_and_errors_stay_in_their_places() -> None:
    commits = [Commit() for _ in range(3)]
    waiting = asyncio.create_task(decided(commits))
    await asyncio.sleep(0)
    full = OutOfSpace("full")
    for place in (2, 0):
        threading.Thread(target=commits[place].callbacks[0], args=(None,)).start()
    await asyncio.sleep(0.01)
    assert not waiting.done()
    threading.Thread(target=commits[1].callbacks[0], args=(full,)).start()
    assert await waiting == [None, full, None]


async def test_nothing_to_wait_for() -> None:
    assert await decided([]) == []


async def test_who_is_cancelled_does_not_mind_a_late_decision() -> None:
    commit = Commit()
    waiting = asyncio.create_task(decided([commit]))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    commit.callbacks[0](None)
    await asyncio.sleep(0)
    assert waiting.cancelled()
