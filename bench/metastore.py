"""The metastore against etcd: the same work on groups of real processes, in turns.

    python -m bench.metastore [--nodes 3 1] [--seconds 2] [--turns 3] [--kills 30] [--grow]
                              [--json FILE]

etcd comes from ``scripts/install_etcd.sh``. Its puts and gets are driven by h2load, a client in C
that costs next to nothing, or by the lean client that drives everything else, whichever is faster
in a turn; ours by our own client, in Python. Servers and clients share the machine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from bench import etcd_messages as m
from bench.harness import Row, faster, report, slower
from bench.metastore_groups import ETCD
from bench.metastore_growth import growth_rows
from bench.metastore_loads import (
    VALUE,
    Load,
    failover_s,
    gets,
    handover_delays_us,
    puts,
    quantile,
    transactions,
    watch_delays_us,
)
from bench.metastore_sides import EtcdSide, Side, SteleSide
from stele.rpc import run

FAILOVER_S_MAX: Final = 2.0
CHANGES: Final = 500
HANDOVERS: Final = 200
TARGETS: Final = {"put x64": 1.5, "get x64": 3.0, "transaction x64": 1.0}
"""What is promised of the ratio, on three nodes."""

SERIAL_PUT_MAX: Final = 1.2
DELAY_MAX: Final = 1.0


class Comparison:
    """Both sides with groups of one size, and the rows found so far."""

    def __init__(self, ours: SteleSide, theirs: EtcdSide, turns: int, seconds: float) -> None:
        self._ours = ours
        self._theirs = theirs
        self._turns = turns
        self._seconds = seconds
        self._size = len(ours.group.addresses)
        self.rows: list[Row] = []

    def _name(self, what: str) -> str:
        return f"{what}, {self._size} node{'s' if self._size > 1 else ''}"

    def _target(self, wanted: float | None) -> float | None:
        return wanted if self._size == 3 else None

    async def rates(
        self,
        what: str,
        work: Callable[[Side, int, float], Awaitable[Load]],
        workers: int,
        raw: tuple[str, bytes] | None = None,
    ) -> None:
        """Requests a second; the best turn of each counts, of etcd's the better client."""
        ours, theirs, by_h2load = [], [], []
        for _ in range(self._turns):
            ours.append(await work(self._ours, workers, self._seconds))
            theirs.append(await work(self._theirs, workers, self._seconds))
            if raw is not None:
                by_h2load.append(await self._theirs.h2load(*raw, workers, self._seconds))
        best, their_best = (max(turns, key=lambda turn: turn.per_s) for turns in (ours, theirs))
        name = f"{what} x{workers}"
        rate = max([their_best.per_s, *by_h2load])
        wanted = self._target(TARGETS.get(name))
        self.rows.append(faster(self._name(name), best.per_s, rate, "/s", wanted))
        self.rows.append(
            slower(
                self._name(f"{name}: processors of all servers"),
                best.server_us,
                their_best.server_us,
                "us",
            )
        )
        if workers == 1:
            self._add_times(name, ours, theirs)

    def _add_times(self, name: str, ours: list[Load], theirs: list[Load]) -> None:
        mine, other = (min(turn.p50_us for turn in turns) for turns in (ours, theirs))
        wanted = self._target(SERIAL_PUT_MAX) if name == "put x1" else None
        self.rows.append(slower(self._name(f"{name} p50"), mine, other, "us", wanted))
        mine, other = (min(turn.p99_us for turn in turns) for turns in (ours, theirs))
        self.rows.append(slower(self._name(f"{name} p99"), mine, other, "us"))

    async def delays(
        self, what: str, measure: Callable[[Side, int], Awaitable[list[float]]], count: int
    ) -> None:
        """Times; the best turn of each counts."""
        best = {share: [float("inf")] * 2 for share in (0.5, 0.99)}
        for _ in range(self._turns):
            for place, side in enumerate((self._ours, self._theirs)):
                found = await measure(side, count)
                for share, kept in best.items():
                    kept[place] = min(kept[place], quantile(found, share))
        for share, (mine, other) in best.items():
            wanted = self._target(DELAY_MAX) if share > 0.9 else None
            name = self._name(f"{what} p{100 * share:g}")
            self.rows.append(slower(name, mine, other, "us", wanted))

    def memory(self) -> None:
        """Of all servers, with what was written so far."""
        mine, other = (side.group.resident_bytes() / 1e6 for side in (self._ours, self._theirs))
        self.rows.append(slower(self._name("memory of all servers"), mine, other, "MB"))

    async def failover(self, kills: int) -> None:
        """Against what was promised: two seconds."""
        away = await failover_s(self._ours, kills)
        for share, wanted in ((0.5, None), (0.99, 1.0)):
            name = self._name(
                f"without a leader p{100 * share:g}, {kills} kills, against the bound"
            )
            self.rows.append(slower(name, quantile(away, share), FAILOVER_S_MAX, "s", wanted))


async def compare(nodes: int, options: argparse.Namespace, folder: Path) -> list[Row]:
    """All rows for groups of one size."""
    ours = await SteleSide.start(folder / f"stele-{nodes}", nodes)
    theirs = await EtcdSide.start(folder / f"etcd-{nodes}", nodes)
    try:
        both = Comparison(ours, theirs, options.turns, options.seconds)
        for workers in (1, 64, 256):
            await both.rates("put", puts, workers, (m.PUT, m.put(b"/bench/0/0", VALUE)))
            await both.rates("get", gets, workers, (m.RANGE, m.get(b"/bench/0/0")))
        for workers in (1, 64):
            await both.rates("transaction", transactions, workers)
        await both.delays("watch delivery", watch_delays_us, CHANGES)
        await both.delays("lock hand-over", handover_delays_us, HANDOVERS)
        both.memory()
        if nodes > 1 and options.kills:
            await both.failover(options.kills)
        return both.rows
    finally:
        await ours.close()
        await theirs.close()


async def measure(options: argparse.Namespace) -> list[Row]:
    """Everything that was asked for."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for nodes in options.nodes:
            rows += await compare(nodes, options, Path(folder))
        if options.grow:
            rows += await growth_rows(Path(folder), options.keys)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--nodes",
        type=int,
        nargs="*",
        default=[3, 1],
        help="sizes of groups; none for --grow alone",
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="of one turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--kills", type=int, default=30, help="of the leader")
    parser.add_argument("--grow", action="store_true", help="with keys, watchers and sessions")
    parser.add_argument("--keys", type=int, default=1_000_000, help="the most that growth writes")
    parser.add_argument("--folder", type=Path, default=None, help="where the servers keep files")
    parser.add_argument("--json", type=Path, default=None, help="a file for one object a line")
    options = parser.parse_args()
    if not ETCD.exists():
        sys.exit("there is no etcd here: run scripts/install_etcd.sh")
    report(run(measure(options)), options.json)


if __name__ == "__main__":
    main()
