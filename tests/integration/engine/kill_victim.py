"""Processes that live in a data directory until they are killed; started by ``test_kill_loop``.

The host imports and compiles everything once. For every line of its input it forks a child that
opens the directory, compares it with what was acknowledged in earlier lives, says so, and writes
until it dies. Both speak in lines on standard output:

    pid <pid>                      the host has started a child
    clean <tablets> <references>   opened; everything acknowledged is there, META has no hole
    found <writer> <0|1>           whether the operation in flight at the last death had happened
    ack <writer> <number> <txn>    an operation is acknowledged
    did <what>                     some maintenance was done
    bad <sentence>                 something is wrong
    end <status>                   the child is gone
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from stele.cluster.embedded import EmbeddedBackend, open_embedded
from stele.cluster.embedded_table import EmbeddedTable
from stele.cluster.store import Store
from stele.env.failpoints import ENVIRONMENT_VARIABLE, arm_from_environment
from stele.env.memory import MemoryClock, SeededRandom
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import Conflict, InvalidArgument, SteleError, TableNotFound, Throttled
from stele.model.cells import batch_to_cells
from stele.model.groups import Group
from stele.model.predicates import ScanSpec
from stele.model.schema import Schema
from stele.tablet.compaction_policy import CompactionLimits
from stele.tablet.engine import World
from stele.tablet.flush_policy import FlushLimits
from stele.tablet.meta_rows import check_tiling
from stele.tablet.options import EngineOptions
from stele.tablet.split_policy import SizeLimits
from tests.integration.engine.kill_workload import (
    FAMILIES,
    ROWS_PER_WRITER,
    WRITERS,
    Rows,
    operation,
)

OPTIONS = EngineOptions(
    flush=FlushLimits(memory_bytes=24 << 10, budget_bytes=256 << 10, log_bytes=96 << 10),
    compaction=CompactionLimits(sources_min=3),
    sizes=SizeLimits(split_bytes=12 << 10),
    log_file_bytes=16 << 10,
    cache_bytes=1 << 20,
)
"""So small that flushes, compactions, splits, joins and log files follow each other closely."""

TABLE = "victim"
GROUPINGS = (
    (Group("all", block_cells=256),),
    (Group("one", ["f"], block_cells=256), Group("rest", block_cells=256)),
)
TYPES = {"f:q": "string", "g:q": "string"}
"""Declared, so that compactions write the columns layout where few cells are erased."""
THROTTLED_S = 0.002
BREATH_S = 0.01


def say(text: str) -> None:
    os.write(sys.stdout.fileno(), f"{text}\n".encode())


# The host.


def warm() -> None:
    """Load the kernels, in memory and in this thread: a fork keeps no other."""
    from tests.model.machine_base import InlineTasks

    clock = MemoryClock()
    world = World(MemoryFileSystem(), clock, SeededRandom(1), InlineTasks(clock))
    backend = EmbeddedBackend(Store.open(world, EngineOptions(background=False), "warm"))
    table = backend.create_table(TABLE, Schema(GROUPINGS[1], TYPES))
    for number in range(4):
        table.apply(operation(1, 0, number).batch()).wait()
        table.flush()
    table.compact()
    list(table.scan(ScanSpec()))
    backend.close()


def main() -> None:
    warm()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            live(json.loads(line))
        say(f"pid {child}")
        _, status = os.waitpid(child, 0)
        say(f"end {os.waitstatus_to_exitcode(status)}")


# A life.


def live(order: dict[str, Any]) -> None:
    """Open, check, write until the end. Never returns."""
    faulthandler.register(signal.SIGUSR1)  # a victim that hangs is asked where its threads are
    try:
        os.environ[ENVIRONMENT_VARIABLE] = order["failpoints"]
        arm_from_environment()
        backend = open_embedded(order["root"], OPTIONS)
        table = opened_table(backend)
        with open(order["state"], encoding="utf-8") as file:
            state = json.load(file)
        numbers = check(backend, table, state)
        work(backend, table, state["seed"], numbers, order)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the test has to hear of it
        say(f"bad {error!r}")
    os._exit(3)


def opened_table(backend: EmbeddedBackend) -> EmbeddedTable:
    try:
        return backend.table(TABLE)
    except TableNotFound:
        return backend.create_table(TABLE, Schema(GROUPINGS[0], TYPES), [b"030"])


def check(backend: EmbeddedBackend, table: EmbeddedTable, state: dict[str, Any]) -> list[int]:
    """Compare everything with what was acknowledged; the next operation of each writer."""
    assert table.durable_txn() >= state["txn"], "the clock went back"
    found: list[Rows] = [{} for _ in range(WRITERS)]
    for batch in table.scan(ScanSpec()):
        for cell in batch_to_cells(batch):
            row = cell.row.decode()
            found[int(row.rpartition("-")[2])][f"{row}/{cell.family}"] = cell.value.decode()
    numbers = []
    happened = []
    for writer, known in enumerate(state["writers"]):
        after = operation(state["seed"], writer, known["next"]).apply(known["rows"])
        if found[writer] not in (known["rows"], after):
            lost = known["rows"].items() - found[writer].items()
            back = found[writer].items() - known["rows"].items()
            raise AssertionError(f"writer {writer}: lost {lost}, not acknowledged {back}")
        happened.append(found[writer] == after)
        numbers.append(known["next"] + happened[-1])
    tablets = check_meta(backend, table)
    say(f"clean {len(tablets)} {sum(tablet.fragments for tablet in tablets)}")
    for writer, has in enumerate(happened):
        say(f"found {writer} {int(has)}")
    return numbers


def check_meta(backend: EmbeddedBackend, table: EmbeddedTable) -> tuple[Any, ...]:
    """Every row has one tablet, every file that is named is there."""
    configs = backend.store.meta1.configs(table.id)
    check_tiling(table.id, configs)
    files = set(backend.store.world.files.list(backend.store.user.fragments.directory))
    missing = {name for config in configs for name in config.files()} - files
    assert not missing, f"META names files that are gone: {missing}"
    return table.tablets()


def work(
    backend: EmbeddedBackend,
    table: EmbeddedTable,
    seed: int,
    numbers: list[int],
    order: dict[str, Any],
) -> None:
    writers = [
        threading.Thread(target=guarded(write, table, seed, writer, number), daemon=True)
        for writer, number in enumerate(numbers)
    ]
    for thread in writers:
        thread.start()
    dice = random.Random(f"{seed}/{order['life']}")
    guarded(maintain, backend, table, dice, order["wanted"])()


def guarded(function: Callable[..., None], *arguments: Any) -> Callable[[], None]:
    """Nothing that goes wrong in a thread goes unheard."""

    def run() -> None:
        try:
            function(*arguments)
        except BaseException as error:  # noqa: BLE001
            say(f"bad {error!r}")
            os._exit(3)

    return run


def write(table: EmbeddedTable, seed: int, writer: int, number: int) -> None:
    pause = threading.Event()
    while True:
        try:
            txn = table.apply(operation(seed, writer, number).batch()).wait()
        except Throttled:
            pause.wait(THROTTLED_S)
            continue
        say(f"ack {writer} {number} {txn}")
        number += 1


def maintain(
    backend: EmbeddedBackend, table: EmbeddedTable, dice: random.Random, wanted: list[str]
) -> None:
    """What an operator might do, beside what the store does by itself; what is wanted first."""

    def row() -> bytes:
        return b"%03d" % dice.randrange(ROWS_PER_WRITER)

    pause = threading.Event()
    actions: dict[str, Callable[[], object]] = {
        "flush": table.flush,
        "compact": table.compact,
        "split": lambda: table.split(row()),
        "join": lambda: table.join(dice.choice([t.rows.start for t in table.tablets()][1:])),
        "regroup": lambda: regroup(backend, table),
        "collect": backend.store.collect_garbage,
        "breathe": lambda: pause.wait(BREATH_S),
    }
    while True:
        name = dice.choice(wanted or [*actions])
        try:
            actions[name]()
        except (Conflict, InvalidArgument, IndexError):
            continue  # the border or the schema was changed by somebody else meanwhile
        except SteleError as error:
            say(f"bad {name}: {error!r}")
        say(f"did {name}")
        wanted = [other for other in wanted if other != name]


def regroup(backend: EmbeddedBackend, table: EmbeddedTable) -> None:
    schema = table.schema
    groups = GROUPINGS[len(schema.groups) % len(GROUPINGS)]
    assert all(schema.allows(family) for family in FAMILIES)
    backend.alter_table(TABLE, schema.replace(groups=groups, version=schema.version + 1))


if __name__ == "__main__":
    main()
