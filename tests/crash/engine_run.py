"""A scripted life of an embedded store, and what must be found whenever it is cut short.

The script writes, erases, flushes, compacts, splits, joins, regroups, truncates, collects garbage
and reopens, one step after the other. A step that changes data is a function of the data before
it, so what a reader may find after a crash is the data after the last acknowledged step, or after
the one that was under way; nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.env.memory import DEFAULT_START_US, MemoryClock
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import (
    OutOfSpace,
    SteleError,
    StorageFailed,
    TableNotFound,
    TransientIoError,
)
from stele.model.groups import Group
from stele.model.mutations import MutationBatch
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from stele.sim.crash import CrashPoint, Notes
from stele.tablet.options import EngineOptions
from tests.unit.tablet.engine_support import get, get_many, memory_world, open_backend, values

NAME = "events"
SCHEMA = Schema(
    [Group("a", families=["f"], block_cells=256), Group("b", block_cells=256)], history=0
)
"""No history: a compaction drops all that an erasure hides, and the erasure."""

OPTIONS = EngineOptions(background=False, log_file_bytes=1024)
"""Log files of a few commits, so that they are rolled and given up within the script."""

STEP_US = 1_000_000
"""Time passes between steps: an erasure is below the horizon by the time it is compacted."""

Data = dict[tuple[bytes, str], bytes]


@dataclass(slots=True)
class Life:
    """A store that is open."""

    fs: MemoryFileSystem
    backend: EmbeddedBackend

    @property
    def table(self) -> EmbeddedTable:
        return self.backend.table(NAME)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the script: what it does to a store, and to the data a reader sees."""

    kind: str
    act: Callable[[Life], None]
    after: Callable[[Data], Data] = lambda data: data
    name: str = ""


def opened(fs: MemoryFileSystem, clock: MemoryClock | None = None, seed: int = 1) -> Life:
    return Life(fs, open_backend(memory_world(fs, clock=clock, seed=seed), OPTIONS))


def create(life: Life) -> None:
    life.backend.create_table(NAME, SCHEMA, [b"m"])


def write(name: str, puts: Data, erased_rows: tuple[bytes, ...] = ()) -> Step:
    """One commit: row erasures, and puts on top of them."""

    def act(life: Life) -> None:
        batch = MutationBatch()
        for row in erased_rows:
            batch.erase_row(row)
        for (row, family), value in puts.items():
            batch.put(row, family, b"q", value)
        life.table.apply(batch).wait()

    def after(data: Data) -> Data:
        return {key: value for key, value in data.items() if key[0] not in erased_rows} | puts

    return Step("put", act, after, name)


def many(prefix: bytes, value: bytes, count: int = 70) -> Data:
    """Enough cells that they travel as one Arrow batch."""
    return {(prefix + b"%03d" % n, "f" if n % 2 else "g"): value for n in range(count)}


def regroup(*groups: Group) -> Step:
    def act(life: Life) -> None:
        current = life.table.schema
        new = current.replace(groups=groups, version=current.version + 1)
        life.backend.alter_table(NAME, new)

    return Step("regroup", act, name=f"into {len(groups)}")


def truncate(rows: RowRange) -> Step:
    def after(data: Data) -> Data:
        return {key: value for key, value in data.items() if not rows.contains(key[0])}

    return Step("truncate", lambda life: life.table.truncate(rows), after)


def reopen(life: Life) -> None:
    life.backend.close()
    life.backend = open_backend(life.backend.store.world, OPTIONS)


def collect(life: Life) -> None:
    """Two rounds: into the trash, and out of it."""
    life.backend.store.collect_garbage()
    life.backend.store.collect_garbage()


FLUSH = Step("flush", lambda life: life.table.flush())
COMPACT = Step("compact", lambda life: life.table.compact())
COLLECT = Step("collect", collect)
REOPEN = Step("reopen", reopen)


def split(row: bytes) -> Step:
    return Step("split", lambda life: life.table.split(row), name=f"at {row!r}")


def join(row: bytes) -> Step:
    return Step("join", lambda life: life.table.join(row), name=f"at {row!r}")


SCRIPT: tuple[Step, ...] = (
    Step("create", create),
    write("two rows", {(b"a", "f"): b"1", (b"z", "g"): b"1", (b"a", "g"): b"1"}),
    FLUSH,
    write("many", many(b"k", b"x")),
    write("erase a", {}, (b"a", b"k001")),
    FLUSH,
    COMPACT,
    split(b"c"),
    write("put on erased", {(b"a", "f"): b"2", (b"n", "h"): b"2"}),
    join(b"c"),
    regroup(Group("only", block_cells=256)),
    FLUSH,
    write("erase and put", {(b"z", "g"): b"3"}, (b"z", b"n", b"k002")),
    COMPACT,
    REOPEN,
    write("after opening", {(b"b", "f"): b"4"}, (b"k003",)),
    COLLECT,
    truncate(RowRange(b"k05", b"k06")),
    regroup(Group("a", families=["g"], block_cells=256), Group("b", block_cells=256)),
    COMPACT,
    COLLECT,
    write("last", {(b"y", "g"): b"5"}),
)


def states(script: tuple[Step, ...]) -> list[Data]:
    """The data after no step, after one, and so on."""
    data: Data = {}
    found = [data]
    for step in script:
        data = step.after(data)
        found.append(data)
    return found


def run_script(fs: MemoryFileSystem, notes: Notes, script: tuple[Step, ...] = SCRIPT) -> None:
    """Take the steps. A step is known by its number, from 1."""
    clock = MemoryClock()
    notes.begin("open")
    life = opened(fs, clock)
    for number, step in enumerate(script, start=1):
        clock.advance(STEP_US)
        notes.attempt(number)
        notes.begin(step.kind)
        step.act(life)
        notes.ack(number)


def check_store(
    fs: MemoryFileSystem, point: CrashPoint, script: tuple[Step, ...] = SCRIPT
) -> list[int]:
    """Open what is left, and hold it against the script; twice, with garbage collected between."""
    acked = max(point.acked, default=0)
    attempted = max(point.attempted, default=0)
    clock = MemoryClock(DEFAULT_START_US + 2 * len(script) * STEP_US)
    backend = opened(fs, clock, seed=2).backend
    found = check_data(backend, script, acked, attempted)
    collected = backend.store.collect_garbage(), backend.store.collect_garbage()
    assert not collected[1], "what one round finds leaves nothing for the next"
    again = opened(fs.restarted(), clock, seed=3).backend
    assert check_data(again, script, found, found) == found
    again.store.lock.release()
    return list(range(1, found + 1))


def check_store_and_go_on(fs: MemoryFileSystem, point: CrashPoint) -> None:
    """The same, and then some more work."""
    found = check_store(fs, point)
    clock = MemoryClock(DEFAULT_START_US + 3 * len(SCRIPT) * STEP_US)
    if found:
        table = opened(fs.restarted(), clock, seed=4).backend.table(NAME)
        check_that_life_goes_on(table, states(SCRIPT)[len(found)], clock)


def check_that_life_goes_on(table: EmbeddedTable, data: Data, clock: MemoryClock) -> None:
    """An erasure hides what was there before the crash, also when it is itself compacted away."""
    batch = MutationBatch()
    for row in (b"a", b"k010", b"z"):
        batch.erase_row(row)
    table.apply(batch).wait()
    for _ in range(2):
        clock.advance(STEP_US)
        table.compact()
        left = {key: value for key, value in data.items() if key[0] not in (b"a", b"k010", b"z")}
        assert values(table) == left


def check_data(
    backend: EmbeddedBackend, script: tuple[Step, ...], acked: int, attempted: int
) -> int:
    """The number of the last step whose outcome is there."""
    try:
        table = backend.table(NAME)
    except TableNotFound:
        assert acked == 0, "the table is lost"
        return 0
    expected = states(script)
    found = values(table)
    fitting = [n for n in range(acked, attempted + 1) if n > 0 and found == expected[n]]
    assert fitting, (
        f"after step {acked} of {attempted} a reader finds\n{found}\ninstead of\n{expected[acked]}"
    )
    check_point_reads(table, found)
    return fitting[0] if acked or fitting[0] > 1 else 1


def check_point_reads(table: EmbeddedTable, expected: Data) -> None:
    """Point reads find what the scan found, and nothing in rows where it found nothing."""
    rows = sorted({row for row, _ in expected} | {b"a", b"k001", b"n", b"z"})
    many = {(cell.row, cell.family): cell.value for cell in get_many(table, rows)}
    assert many == expected
    for row in (b"a", b"k001", b"k002", b"z"):
        single = {(cell.row, cell.family): cell.value for cell in get(table, row)}
        assert single == {key: value for key, value in expected.items() if key[0] == row}


# A life that goes on after errors.


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a step ended: a step that failed may have taken effect, now or when reopened."""

    number: int
    done: bool


def possible(outcomes: Iterable[Outcome]) -> list[Data]:
    """Everything a reader may find after these steps."""
    found: list[Data] = [{}]
    for outcome in outcomes:
        after = [SCRIPT[outcome.number - 1].after(data) for data in found]
        found = after if outcome.done else [*found, *(x for x in after if x not in found)]
    return found


def run_stubbornly(fs: MemoryFileSystem, notes: Notes) -> None:
    """Take every step whatever became of the one before; look at the data after each."""
    clock = MemoryClock()
    life = opened(fs, clock)
    create(life)
    outcomes = [Outcome(1, True)]
    notes.ack(outcomes[0])
    for number, step in enumerate(SCRIPT[1:], start=2):
        clock.advance(STEP_US)
        notes.attempt(Outcome(number, False))
        outcome = Outcome(number, _succeeds(step, life))
        if step is REOPEN and not outcome.done:
            life.backend.store.lock.release()
            life = opened(fs, clock)
        outcomes.append(outcome)
        notes.ack(outcome)
        with suppress(TransientIoError, StorageFailed, OutOfSpace):
            found = values(life.table)
            assert found in possible(outcomes), f"after {step.kind} {step.name}: {found}"


def _succeeds(step: Step, life: Life) -> bool:
    try:
        step.act(life)
    except SteleError:
        return False
    return True


def check_possible(fs: MemoryFileSystem, point: CrashPoint) -> None:
    """What is left is possible, stays the same when opened again, and can be worked with."""
    under_way = point.attempted[len(point.acked) - 1 :] if point.acked else ()
    clock = MemoryClock(DEFAULT_START_US + 2 * len(SCRIPT) * STEP_US)
    backend = opened(fs, clock, seed=2).backend
    if not point.acked:
        return
    found = values(backend.table(NAME))
    assert found in possible([*point.acked, *under_way]), f"{found} after {point.acked}"
    backend.store.collect_garbage()
    backend.store.collect_garbage()
    again = opened(fs.restarted(), clock, seed=3).backend.table(NAME)
    assert values(again) == found
    check_that_life_goes_on(again, found, clock)
