from __future__ import annotations

from stele.raft import Role
from stele.raft.messages import Heartbeat, HeartbeatResponse
from stele.sim.raft_host import Host
from stele.sim.raft_world import RaftWorld
from stele.sim.world import Weather


def run_for(world: RaftWorld, ms: int) -> None:
    deadline = world.now_ms + ms
    while world.now_ms < deadline:
        world.step()


def leaders(world: RaftWorld) -> list[int]:
    return [
        host.id
        for host in world.hosts.values()
        if host.core is not None and host.core.state.role is Role.LEADER
    ]


def leader_of(world: RaftWorld) -> Host:
    (node,) = leaders(world)
    return world.hosts[node]


def test_a_healthy_group_elects_one_leader_and_keeps_it() -> None:
    world = RaftWorld(1, 3)
    run_for(world, 500)
    first = leaders(world)
    run_for(world, 1_000)
    assert len(first) == 1
    assert leaders(world) == first
    assert world.counters["elections"] == 1


def test_one_seed_is_one_history() -> None:
    hashes = []
    for seed in (5, 5, 6):
        world = RaftWorld(seed, 3, keep_trace=True)
        run_for(world, 300)
        assert world.trace
        hashes.append(world.trace_hash)
    assert hashes[0] == hashes[1] != hashes[2]


def test_blocked_links_carry_nothing() -> None:
    world = RaftWorld(1, 3)
    world.blocked = {(a, b) for a in (1, 2, 3) for b in (1, 2, 3)}
    run_for(world, 1_000)
    assert leaders(world) == []
    assert world.counters["messages lost"] > 0


def test_a_crashed_machine_comes_back_with_what_was_synced() -> None:
    world = RaftWorld(1, 3)
    run_for(world, 500)
    leader = leader_of(world)
    world.act(leader, lambda core: core.propose([b"kept"]))
    run_for(world, 200)
    world.crash(leader)
    assert leader.core is None
    run_for(world, 500)
    world.start(leader)
    run_for(world, 500)
    assert {host.image for host in world.hosts.values()} == {leader.image}
    assert world.counters["crashes"] == 1


def test_a_paused_machine_does_nothing_until_it_wakes() -> None:
    world = RaftWorld(1, 3)
    run_for(world, 500)
    leader = leader_of(world)
    assert leader.core is not None
    leader.resumes_at_ms = world.now_ms + 300
    before = leader.core.state.election_elapsed
    run_for(world, 290)
    assert leader.core.state.election_elapsed == before
    run_for(world, 300)
    assert len(leaders(world)) == 1


def test_loss_and_doubling_follow_the_weather() -> None:
    world = RaftWorld(1, 3)
    world.weather = Weather(loss=1.0)
    world.send(Heartbeat(1, 2, 1, 0, 0))
    assert world.counters["messages lost"] == 1
    world.weather = Weather(duplication=1.0)
    world.send(Heartbeat(1, 2, 1, 0, 0))
    assert world.counters["messages doubled"] == 1


def test_answers_are_announced_as_they_leave() -> None:
    world = RaftWorld(1, 3)
    heard: list[int] = []
    world.on_answer = lambda _, message: heard.append(message.source)
    run_for(world, 500)
    assert set(heard) <= {1, 2, 3}
    assert heard


def test_a_straggler_is_brought_up_by_an_image() -> None:
    world = RaftWorld(1, 3)
    run_for(world, 500)
    leader = leader_of(world)
    straggler = next(host for host in world.hosts.values() if host is not leader)
    world.crash(straggler)
    for serial in range(5):
        world.act(leader, lambda core, serial=serial: core.propose([b"%d" % serial]))  # type: ignore[misc]
        run_for(world, 50)
    assert leader.core is not None
    leader.disk.checkpoint(leader.core.compact(leader.image.index), leader.image)
    world.start(straggler)
    run_for(world, 1_000)
    assert straggler.image == leader.image
    assert world.counters["snapshots installed"] == 1


def test_messages_reach_a_machine_after_its_restart() -> None:
    world = RaftWorld(1, 3)
    world.weather = Weather(delay_ms_max=1)
    world.send(HeartbeatResponse(1, 2, 7, 0))
    world.crash(world.hosts[2])
    world.start(world.hosts[2])
    run_for(world, 10)
    core = world.hosts[2].core
    assert core is not None
    assert core.state.term == 7
