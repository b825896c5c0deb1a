"""What is measured of a store: rates, delays, and how long it is away when its leader dies."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from bench.metastore_sides import Side, SteleSide

VALUE: Final = b"v" * 200
KEYS_EACH: Final = 100
"""Keys that one worker goes through."""

PAUSE_BETWEEN_PUTS_S: Final = 0.002
QUEUE: Final = 8
"""Sessions that want the same lock."""

STAMP_BYTES: Final = 8


@dataclass(frozen=True)
class Load:
    """One turn of one side."""

    per_s: float
    p50_us: float
    p99_us: float
    server_us: float
    """Processor time of all servers for each request."""


def quantile(values: list[float], share: float) -> float:
    """The value that so large a share does not exceed."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


async def load(
    side: Side, work: Callable[[str], Awaitable[object]], workers: int, seconds: float
) -> Load:
    """So many workers, each with one request at a time."""
    took_us: list[float] = []
    ends = time.perf_counter() + seconds

    async def worker(number: int) -> None:
        keys = itertools.cycle([f"/bench/{number}/{key}" for key in range(KEYS_EACH)])
        began = time.perf_counter()
        while began < ends:
            await work(next(keys))
            now = time.perf_counter()
            took_us.append(1e6 * (now - began))
            began = now

    began, cpu_s = time.perf_counter(), side.group.cpu_s()
    await asyncio.gather(*(worker(number) for number in range(workers)))
    passed_s = time.perf_counter() - began
    return Load(
        per_s=len(took_us) / passed_s,
        p50_us=quantile(took_us, 0.5),
        p99_us=quantile(took_us, 0.99),
        server_us=1e6 * (side.group.cpu_s() - cpu_s) / len(took_us),
    )


async def puts(side: Side, workers: int, seconds: float) -> Load:
    return await load(side, lambda key: side.put(key, VALUE), workers, seconds)


async def gets(side: Side, workers: int, seconds: float) -> Load:
    return await load(side, side.get, workers, seconds)


async def transactions(side: Side, workers: int, seconds: float) -> Load:
    """Read, then write if unchanged; each worker has its own keys."""

    async def transaction(key: str) -> None:
        done = await side.add_one(f"/sum{key}")
        assert done, "nobody else writes this key"

    return await load(side, transaction, workers, seconds)


async def watch_delays_us(side: Side, changes: int, watchers: int = 1) -> list[float]:
    """From the moment a put is sent to the moment a watcher has it."""
    delays: list[float] = []
    streams = [await side.watch("/watched/") for _ in range(watchers)]

    async def follow(values: AsyncGenerator[bytes, None]) -> None:
        for _ in range(changes):
            sent_ns = int.from_bytes((await anext(values))[:STAMP_BYTES], "big")
            delays.append((time.perf_counter_ns() - sent_ns) / 1e3)
        await values.aclose()

    followers = [asyncio.ensure_future(follow(values)) for values in streams]
    for number in range(changes):
        stamp = time.perf_counter_ns().to_bytes(STAMP_BYTES, "big")
        await side.put(f"/watched/{number % KEYS_EACH}", stamp + VALUE[STAMP_BYTES:])
        await asyncio.sleep(PAUSE_BETWEEN_PUTS_S)
    await asyncio.gather(*followers)
    return delays


async def handover_delays_us(side: Side, handovers: int) -> list[float]:
    """From the moment a holder lets go of a lock to the moment the next one knows that it has it,
    with a queue of others behind."""
    delays: list[float] = []
    released_at = 0.0
    each = -(-handovers // QUEUE)

    async def contender(lock: Callable[[], Awaitable[Callable[[], Awaitable[None]]]]) -> None:
        nonlocal released_at
        for _ in range(each):
            release = await lock()
            if released_at:
                delays.append(1e6 * (time.perf_counter() - released_at))
            await asyncio.sleep(PAUSE_BETWEEN_PUTS_S)
            released_at = time.perf_counter()
            await release()

    locks = [(await side.session())("/bench/lock") for _ in range(QUEUE)]
    await asyncio.gather(*(contender(lock) for lock in locks))
    return delays


async def failover_s(side: SteleSide, kills: int) -> list[float]:
    """For each kill -9 of the leader: how long until the next put was acknowledged."""
    away: list[float] = []
    for _ in range(kills):
        dead = await side.leader()
        await side.put("/bench/alive", VALUE)
        killed = time.perf_counter()
        await asyncio.to_thread(side.group.kill, dead)
        await side.put("/bench/alive", VALUE)
        away.append(time.perf_counter() - killed)
        await asyncio.to_thread(side.group.start, dead)
        await asyncio.sleep(1)  # until it follows again: losing two of three is another benchmark
    return away
