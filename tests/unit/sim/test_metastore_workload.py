"""What simulated clients do, in peace: every kind of operation, with a history of its own."""

from __future__ import annotations

from collections import Counter

from stele.protocol.metastore_values import KeyValue
from stele.sim.metastore_workload import Workload, number_in
from stele.sim.metastore_world import MetastoreWorld


def finish(world: MetastoreWorld, workload: Workload) -> None:
    while not workload.is_done:
        world.step()


def test_in_peace_everything_is_done_and_everything_is_legal() -> None:
    world = MetastoreWorld(1, 3)
    workload = Workload(world)
    while world.now_ms < 2_500:
        world.step()
    workload.rest()
    finish(world, workload)
    workload.read_everything()
    finish(world, workload)
    target = world.checker.applied_max
    while not workload.watchers_are_at(target):
        world.step()
    workload.conclude_watches()
    world.checker.judge()
    check = world.checker
    kinds = Counter(
        operation.kind
        for recorder in (check.registers, check.lists, check.locks, check.watches)
        for operation in recorder.history().operations()
    )
    wanted = {"get", "put", "cas", "delete", "txn", "acquire", "release", "increment", "total"}
    assert wanted | {"commit", "watch", "deliver", "progress", "expire"} <= set(kinds)


def test_values_are_numbers_or_missing() -> None:
    assert number_in(None) is None
    assert number_in(KeyValue("/a", b"12", 1, 1, 1)) == 12


def test_values_are_never_used_twice() -> None:
    workload = Workload(MetastoreWorld(1, 1))
    assert len({workload.next_value() for _ in range(10)}) == 10
