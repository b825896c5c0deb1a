"""What a leader proposes by itself."""

from __future__ import annotations

from stele.metastore import events as e
from stele.metastore.commands import (
    NOBODY,
    AdvanceWaterline,
    Command,
    ExpireSessions,
    RaiseAlarm,
    decode_command,
)
from stele.metastore.leader_duties import LeaderDuties
from stele.metastore.node import NodeSettings
from stele.metastore.session_timers import SessionTimers
from stele.metastore.waterline_policy import WaterlinePolicy
from stele.raft import EntryKind
from tests.unit.metastore.node_group import Group, open_session

SETTINGS = NodeSettings(history_us=500_000, waterline_period_us=100_000)


def own_commands(group: Group) -> list[Command]:
    return [
        command
        for todo in group.hosts[1].taken
        for entry in todo.apply
        if entry.kind is EntryKind.DATA
        and not (command := decode_command(entry.data)).identity.client
    ]


def test_a_session_that_nobody_renews_ends_by_an_entry() -> None:
    group = Group(3)
    group.elect()
    group.ask(1, open_session(1, ttl_us=300_000))
    group.tick(10)
    session = group.hosts[1].answers[1].session
    (command,) = own_commands(group)
    assert isinstance(command, ExpireSessions)
    assert command.sessions == (session,)
    assert all(not host.machine.sessions() for host in group.hosts.values())


def test_the_waterline_follows_the_time() -> None:
    group = Group(1, SETTINGS)
    group.elect()
    group.tick(12)
    moves = [c for c in own_commands(group) if isinstance(c, AdvanceWaterline)]
    assert moves
    assert [move.to_index for move in moves] == sorted(move.to_index for move in moves)


def test_an_alarm_of_any_member_becomes_an_entry_once() -> None:
    group = Group(3)
    group.elect()
    group.ask(1, e.SpaceShort(2))
    group.ask(1, e.SpaceShort(2))
    group.tick()
    assert own_commands(group) == [RaiseAlarm(NOBODY, 2, "disk full")]
    assert group.hosts[3].machine.alarms() == {2: "disk full"}


def test_what_cannot_be_proposed_now_is_tried_at_the_next_tick() -> None:
    group = Group(1)
    core = group.hosts[1].node.core
    timers = SessionTimers(away_us_max=1_000_000)
    timers.replace([(5, 1_000)])
    duties = LeaderDuties(core, timers, WaterlinePolicy(1 << 40, 1))
    duties.begin()
    duties.raise_alarm(1, "quota")
    duties.tick(0, 0, 0)
    duties.tick(1_000, 0, 0)
    assert core.status().last_index == 1
    group.elect()
    before = core.status().last_index
    duties.tick(1_001, 0, 0)
    assert core.status().last_index == before + 2
    assert timers.renew(5) is None
    duties.end()
    assert timers.tick(10_000) == []
