"""Real processes, killed at any moment: no acknowledged write is lost, nothing erased comes back.

A victim writes from several threads while it flushes, compacts, splits, joins, regroups and
collects garbage. It ends by SIGKILL after some acknowledgements, or while it is still recovering
from the death before, or by itself at a failpoint. The next one checks everything first.

    STELE_CHAOS_KILLS   how many lives (the gate has few, ``make chaos`` as many as it is told)
    STELE_CHAOS_SEED    where the dice start
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import stele.cluster.embedded  # noqa: F401 - declares the failpoints of everything below
from stele.cluster.embedded import open_embedded
from stele.env.failpoints import EXIT_STATUS, declared
from stele.model.cells import batch_to_cells
from stele.model.predicates import ScanSpec
from tests.integration.engine.kill_victim import OPTIONS, TABLE
from tests.integration.engine.kill_workload import WRITERS, Rows, operation

KILLS = int(os.environ.get("STELE_CHAOS_KILLS", "40"))
SEED = int(os.environ.get("STELE_CHAOS_SEED", "1"))
MIDDLE_KILLS = 60
MORE_LIVES_MAX = 20
"""Lives beside those asked for, on a machine so busy that some maintenance was always killed."""
ACKNOWLEDGED_MAX = 250
"""A victim is killed at the latest after so many operations."""
EARLY_MS_MAX = 120
"""Opening takes about this long: a kill within it hits a recovery."""
STACKS_S = 2.0
"""Time to write down where all threads are."""
KINDS = ("flush", "compact", "split", "join", "regroup", "collect")
"""Maintenance that is asked for, beside what the store does by itself. All of it has to happen."""
LONG_LIFE = 20
"""A life that is to see what is still missing is killed at the latest after so much longer."""
SILENCE_S = 45.0
"""A victim that says nothing for so long hangs."""

FAILPOINTS = [
    name
    for name in declared()
    if name.startswith(("tablet.", "storage.", "metastore.raft_log.", "env.files."))
]


@dataclass
class Known:
    """What the victims have acknowledged."""

    seed: int
    rows: list[Rows] = field(default_factory=lambda: [{} for _ in range(WRITERS)])
    following: list[int] = field(default_factory=lambda: [0] * WRITERS)
    txn: int = 0

    def happened(self, writer: int, number: int) -> None:
        assert number == self.following[writer], "an operation was skipped"
        self.rows[writer] = operation(self.seed, writer, number).apply(self.rows[writer])
        self.following[writer] += 1

    def save(self, path: Path) -> None:
        writers = [
            {"rows": rows, "next": following}
            for rows, following in zip(self.rows, self.following, strict=True)
        ]
        path.write_text(json.dumps({"seed": self.seed, "txn": self.txn, "writers": writers}))


class Host:
    """The process that starts victims, and what they say."""

    def __init__(self, process: subprocess.Popen[bytes], known: Known) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._commands = process.stdin
        self._lines = process.stdout
        self._heard = b""
        self.known = known
        self.counts: Counter[str] = Counter()
        self.tablets_max = 0

    def start(self, **order: object) -> int:
        self._commands.write(json.dumps(order).encode() + b"\n")
        self._commands.flush()
        word, pid = self.next_line(SILENCE_S)
        assert word == "pid"
        return int(pid)

    def next_line(self, patience_s: float) -> list[str]:
        """The words of the next line; none when nothing was said in time."""
        while b"\n" not in self._heard:
            ready, _, _ = select.select([self._lines], [], [], patience_s)
            if not ready:
                return []
            said = os.read(self._lines.fileno(), 1 << 16)
            assert said, "the host is gone"
            self._heard += said
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode().split(" ")

    def listen(self, patience_s: float = SILENCE_S) -> str:
        """Take in one line; its first word, or nothing when nothing was said."""
        words = self.next_line(patience_s)
        match words:
            case ["ack", writer, number, txn]:
                self.known.happened(int(writer), int(number))
                self.known.txn = max(self.known.txn, int(txn))
            case ["found", writer, "1"]:
                self.known.happened(int(writer), self.known.following[int(writer)])
            case ["clean", tablets, _]:
                self.tablets_max = max(self.tablets_max, int(tablets))
            case ["did", what]:
                self.counts[what] += 1
            case ["end", status]:
                assert int(status) in (-signal.SIGKILL, EXIT_STATUS), f"it ended with {status}"
                self.counts["failpoint exits"] += int(status) == EXIT_STATUS
            case ["bad", *sentence]:
                raise AssertionError(f"seed {self.known.seed}: " + " ".join(sentence))
        word = words[0] if words else ""
        if word in ("ack", "clean", "end"):
            self.counts[word] += 1
        return word

    def lacks(self) -> list[str]:
        """Maintenance that no victim has brought to its end yet."""
        return [name for name in KINDS if not self.counts[name]]

    def until_the_end(self) -> None:
        while self.listen() != "end":
            pass


@pytest.fixture
def host() -> Iterator[Host]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.integration.engine.kill_victim"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": "src"},
    ) as process:
        yield Host(process, Known(SEED))
        assert process.stdin is not None
        process.stdin.close()


def one_life(host: Host, dice: random.Random, order: dict[str, object], kind: str) -> None:
    """Start a victim and see it die."""
    failpoints = ""
    if kind == "failpoint":
        failpoints = f"{dice.choice(FAILPOINTS)}=exit@{dice.choice((1, 1, 2, 3, 8))}"
    pid = host.start(failpoints=failpoints, wanted=host.lacks(), **order)
    acknowledged = host.counts["ack"] + dice.randrange(ACKNOWLEDGED_MAX)
    latest = host.counts["ack"] + LONG_LIFE * ACKNOWLEDGED_MAX if kind == "long" else 0
    if kind == "early":
        word = host.listen(dice.randrange(EARLY_MS_MAX) / 1000)
        host.counts["kills before it was open"] += word == ""
    else:
        word = ""
        while word != "end" and (
            host.counts["ack"] <= acknowledged or (host.lacks() and host.counts["ack"] < latest)
        ):
            word = host.listen()
            if not word:
                os.kill(pid, signal.SIGUSR1)
                host.listen(STACKS_S)
                raise AssertionError("the victim hangs; its threads are on standard error")
    if word != "end":
        os.kill(pid, signal.SIGKILL)
        host.until_the_end()


def many_lives(host: Host, tmp_path: Path, lives: int) -> None:
    """One after the other in the same directory, checked by each and at last.

    Some maintenance may need a longer life than the dice give on a busy machine: then there are
    more of them, and longer ones.
    """
    dice = random.Random(host.known.seed)
    root, state = tmp_path / "data", tmp_path / "state.json"
    life = 0
    while life < lives or (host.lacks() and life < lives + MORE_LIVES_MAX):
        host.known.save(state)
        kind = ("acks", "early", "failpoint")[life % 3] if life % 8 != 7 else "early"
        kind = kind if life < lives else "long"
        order: dict[str, object] = {"root": str(root), "state": str(state), "life": life}
        one_life(host, dice, order, kind)
        life += 1
    print({"seed": host.known.seed, **host.counts, "tablets": host.tablets_max})
    check_at_last(host.known, root)
    assert host.counts["end"] == life
    assert host.counts["ack"] >= 10 * lives
    assert host.counts["clean"] >= lives // 3
    assert host.counts["kills before it was open"] > lives // 12, "no recovery was hit"
    assert host.counts["failpoint exits"] > lives // 12
    assert host.tablets_max > 2
    assert not host.lacks(), f"these never came to an end: {host.lacks()}, only {host.counts}"


def test_no_acknowledged_write_is_lost_by_kills(host: Host, tmp_path: Path) -> None:
    many_lives(host, tmp_path, KILLS)


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2])
def test_nor_with_other_dice(host: Host, tmp_path: Path, number: int) -> None:
    host.known = Known(SEED + number)
    many_lives(host, tmp_path, MIDDLE_KILLS)


def check_at_last(known: Known, root: Path) -> None:
    """A process that was never there before finds everything."""
    backend = open_embedded(str(root), OPTIONS)
    found: Rows = {}
    for batch in backend.table(TABLE).scan(ScanSpec()):
        for cell in batch_to_cells(batch):
            found[f"{cell.row.decode()}/{cell.family}"] = cell.value.decode()
    backend.close()
    for writer, rows in enumerate(known.rows):
        mine = {name: value for name, value in found.items() if f"-{writer}/" in name}
        after = operation(known.seed, writer, known.following[writer]).apply(rows)
        assert mine in (rows, after)
