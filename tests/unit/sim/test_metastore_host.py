"""A simulated machine: its clock, its disk, its lives."""

from __future__ import annotations

import random

from stele.env.faults import Call, Failure
from stele.env.unsynced import Change, UnsyncedFile
from stele.metastore.commands import Execute, encode_command
from stele.protocol.metastore_values import Identity, Put
from stele.sim.metastore_host import DiskTrouble, Scatter, Waiter
from stele.sim.metastore_world import MetastoreWorld


def put_command() -> bytes:
    return encode_command(Execute(Identity(1, 1), (Put("/a", b"1"),)))


def run(world: MetastoreWorld, until_ms: int) -> None:
    while world.now_ms < until_ms:
        world.step()


def applied_by(world: MetastoreWorld) -> int:
    driver = world.hosts[1].driver
    return 0 if driver is None else driver.node.applied


def test_a_clock_drifts_and_never_goes_back() -> None:
    world = MetastoreWorld(1, 1)
    host = world.hosts[1]
    seen = [host.now_us()]
    for rate in (1.1, 0.9, 1.0):
        host.set_clock_rate(rate)
        run(world, world.now_ms + 100)
        seen.append(host.now_us())
    assert seen == sorted(seen)
    assert seen[1] - seen[0] > 100_000 > seen[2] - seen[1]


def test_a_member_comes_back_from_its_disk() -> None:
    world = MetastoreWorld(1, 1)
    host = world.hosts[1]
    run(world, 1_000)
    applied = applied_by(world)
    assert applied > 1
    world.stop(host, power=True)
    assert applied_by(world) == 0
    world.start(host)
    run(world, 2_000)
    assert host.life == 2
    assert applied_by(world) > applied


def test_a_failed_sync_stops_the_node_and_the_machine_is_rebooted() -> None:
    world = MetastoreWorld(1, 1)
    host = world.hosts[1]
    run(world, 500)
    world.stop(host, power=False)
    world.start(host)
    host.trouble.syncs_left = 0
    run(world, 3_000)
    assert world.counters["nodes stopped by their disk"] == 1
    assert host.driver is not None


def test_a_full_disk_has_room_again_when_it_is_freed() -> None:
    world = MetastoreWorld(1, 1)
    host = world.hosts[1]
    host.fill_disk(7)
    assert host.fs.free_bytes() == 7
    host.free_disk()
    assert host.fs.free_bytes() > 1 << 30


def test_trouble_comes_after_so_many_syncs() -> None:
    trouble = DiskTrouble()
    assert trouble.next(Call.SYNC) is None
    trouble.syncs_left = 1
    assert trouble.next(Call.WRITE) is None
    assert trouble.next(Call.SYNC) is None
    assert trouble.next(Call.SYNC) is Failure.EIO
    assert trouble.next(Call.SYNC) is None


def test_a_power_failure_leaves_versions_that_sectors_have_had() -> None:
    file = UnsyncedFile(b"", [Change(0, b"a" * 600, 600), Change(600, b"b" * 10, 610)])
    left = {Scatter(random.Random(seed)).contents(1, file) for seed in range(50)}
    assert len(left) > 4
    assert all(set(data) <= {0, ord("a"), ord("b")} for data in left)
    bits = {Scatter(random.Random(seed)).entries(1, 3) for seed in range(50)}
    assert {0, 7} < bits <= set(range(8))


def test_what_a_power_failure_did_to_files_is_counted() -> None:
    file = UnsyncedFile(b"", [Change(0, b"a" * 4_000, 4_000)])
    seen = set()
    for seed in range(50):
        scatter = Scatter(random.Random(seed))
        scatter.contents(1, file)
        seen.add((scatter.torn, scatter.lost))
    assert seen == {(0, 0), (1, 0), (0, 1)}, "all of it, some of it, nothing of it"


def test_followers_hear_soon_what_is_committed() -> None:
    world = MetastoreWorld(1, 3, keep_trace=True)
    run(world, 600)
    (leader,) = [host for host in world.hosts.values() if host.leads]
    assert leader.driver is not None
    assert world.trace is not None
    world.trace.clear()
    leader.driver.write(put_command(), lambda answer: answer)
    leader.turn()
    run(world, 700)
    assert {line.split()[2] for line in world.trace if " news " in line} == {str(leader.id)}
    nodes = [host.driver.node for host in world.hosts.values() if host.driver is not None]
    assert {node.status().commit for node in nodes} == {leader.driver.node.applied}


def test_a_waiter_calls_back_once_now_or_later() -> None:
    heard: list[object] = []
    early, late = Waiter(), Waiter()
    early.then(heard.append)
    early.set_result(1)
    late.set_exception(2)
    assert late.done()
    late.then(heard.append)
    assert heard == [1, 2]
    assert list(Waiter().__await__()) != []
    assert list(late.__await__()) == []
