"""How the cost of a request grows with what a metastore holds: keys, watchers, sessions.

Three nodes of each side, filled step by step. Each row is the cost at the larger size against the
cost at the smallest, for the same side: 1 means that it does not grow. What one key, watcher or
session takes of the servers' memory is what they have grown by, for each: what was measured on the
way is in it, so it is an upper bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from bench.harness import Row, slower
from bench.metastore_loads import VALUE, puts, quantile, watch_delays_us
from bench.metastore_sides import EtcdSide, Side, SteleSide

KEYS_STEP: Final = 10
"""The store is filled to a hundredth, a tenth and all of the keys."""

WATCHERS: Final = (1, 100, 1_000)
SESSIONS: Final = (1, 100, 1_000)
IN_FLIGHT: Final = 256
CHANGES: Final = 20
SECONDS: Final = 2.0


async def growth_rows(folder: Path, keys: int) -> list[Row]:
    """Both sides, one after the other; then the memory of one thing more, side against side."""
    rows: list[Row] = []
    for_each: dict[str, list[float]] = {}
    kinds: tuple[type[SteleSide | EtcdSide], ...] = (SteleSide, EtcdSide)
    for kind in kinds:
        side: Side = await kind.start(folder / f"growth-{kind.name}", 3)
        try:
            for what, count, work in (
                ("key", keys, lambda side: _with_keys(side, keys)),
                ("watcher", WATCHERS[-1], _with_watchers),
                ("session", SESSIONS[-1], _with_sessions),
            ):
                before = side.group.resident_bytes()
                rows += await work(side)
                grown = max(side.group.resident_bytes() - before, 0)
                for_each.setdefault(what, []).append(grown / count)
        finally:
            await side.close()
    return rows + [
        slower(f"memory of all servers for each {what}, against etcd", ours, theirs or 1.0, "bytes")
        for what, (ours, theirs) in for_each.items()
    ]


async def _fill(side: Side, first: int, last: int) -> None:
    numbers = iter(range(first, last))

    async def worker() -> None:
        for number in numbers:
            await side.put(f"/grown/{number:08d}", VALUE)

    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))


async def _with_keys(side: Side, keys: int) -> list[Row]:
    costs, memory = [], []
    filled = 0
    sizes = (keys // KEYS_STEP**2, keys // KEYS_STEP, keys)
    for size in sizes:
        await _fill(side, filled, size)
        filled = size
        costs.append((await puts(side, 64, SECONDS)).server_us)
        memory.append(side.group.resident_bytes() / 1e6)
    return [
        *_rows(f"{side.name}: put x64, processors of all servers, keys", sizes, costs, "us"),
        *_rows(f"{side.name}: memory of all servers, keys", sizes, memory, "MB"),
    ]


async def _with_watchers(side: Side) -> list[Row]:
    delays = [quantile(await watch_delays_us(side, CHANGES, count), 0.99) for count in WATCHERS]
    return _rows(f"{side.name}: watch delivery p99, watchers", WATCHERS, delays, "us")


async def _with_sessions(side: Side) -> list[Row]:
    costs = []
    opened = 0
    for count in SESSIONS:
        wanted: list[Callable[[], Awaitable[object]]] = [side.session] * (count - opened)
        for begin in range(0, len(wanted), IN_FLIGHT):
            await asyncio.gather(*(one() for one in wanted[begin : begin + IN_FLIGHT]))
        opened = count
        costs.append((await puts(side, 64, SECONDS)).server_us)
    return _rows(
        f"{side.name}: put x64, processors of all servers, sessions", SESSIONS, costs, "us"
    )


def _rows(name: str, sizes: tuple[int, ...], found: list[float], unit: str) -> list[Row]:
    return [
        slower(f"{name} {size:,}", value, found[0], unit)
        for size, value in zip(sizes, found, strict=True)
    ]
