"""Which jobs are disturbed in which ways; a long run goes through all of it, a short one begins."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, zip_longest
from typing import Any

from tests.chaos.spark import faults
from tests.chaos.spark.file_worlds import CompactWorld, ReadWorld
from tests.chaos.spark.load_world import LoadWorld
from tests.chaos.spark.recover_world import RecoverWorld
from tests.chaos.spark.worlds import World
from tests.chaos.spark.write_world import (
    DeleteWorld,
    SmallWriteWorld,
    SourceWriteWorld,
    WriteWorld,
)

Fault = Callable[[Any], None]

WORLDS: dict[str, type[World]] = {
    "load": LoadWorld,
    "write": WriteWorld,
    "small write": SmallWriteWorld,
    "source write": SourceWriteWorld,
    "delete": DeleteWorld,
    "compact": CompactWorld,
    "recover": RecoverWorld,
    "read": ReadWorld,
}

FAULTS: dict[str, tuple[Fault, ...]] = {
    "load": (
        faults.worker_exits,
        faults.driver_dies,
        faults.table_changes,
        faults.disk_is_full,
        faults.another_attempt,
        faults.split_between,
        faults.step_fails,
        faults.dropped,
        faults.truncated,
        faults.regrouped,
        faults.worker_fails,
        faults.family_gone,
    ),
    "write": (
        faults.driver_dies,
        faults.worker_exits,
        faults.table_changes,
        faults.disk_is_full,
        faults.another_attempt,
        faults.split_between,
        faults.step_fails,
        faults.dropped,
        faults.truncated,
        faults.regrouped,
    ),
    "small write": (
        faults.another_attempt,
        faults.driver_dies,
        faults.worker_exits,
        faults.step_fails,
        faults.table_changes,
    ),
    "source write": (
        faults.worker_exits,
        faults.step_fails,
        faults.table_changes,
        faults.disk_is_full,
        faults.worker_fails,
    ),
    "delete": (
        faults.table_changes,
        faults.driver_dies,
        faults.worker_exits,
        faults.step_fails,
        faults.worker_exits_as_the_table_changes,
    ),
    "compact": (
        faults.disk_is_full,
        faults.worker_exits,
        faults.table_changes,
        faults.driver_dies,
        faults.another_attempt,
        faults.split_between,
        faults.step_fails,
        faults.regrouped,
        faults.dropped,
        faults.worker_exits_as_the_table_changes,
    ),
    "recover": (
        faults.worker_exits,
        faults.driver_dies,
        faults.disk_is_full,
        faults.step_fails,
        faults.worker_fails,
    ),
    "read": (
        faults.worker_exits,
        faults.worker_exits_as_the_table_changes,
        faults.table_changes,
        faults.worker_fails,
    ),
}

CASES: tuple[tuple[str, Fault], ...] = tuple(
    case
    for case in chain.from_iterable(
        zip_longest(*([(kind, fault) for fault in some] for kind, some in FAULTS.items()))
    )
    if case is not None
)
"""All of them, every kind of job in turn."""


def cases_of(kind: str, jobs: int) -> list[tuple[int, Fault]]:
    """The share of one kind of job in a run of so many: the number of each, and its fault."""
    numbered = ((number, CASES[number % len(CASES)]) for number in range(jobs))
    return [(number, fault) for number, (mine, fault) in numbered if mine == kind]
