"""Random courses of commands: the state machine against a plain model, and against itself.

One replica applies each entry alone. A second one lags behind and catches up in batches of any
size, is restarted and is replaced by images in between; whenever both are at the same index they
must hold the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from stele.metastore.commands import (
    Acquire,
    Command,
    Done,
    Effects,
    Execute,
    Executed,
    LockAnswer,
    LockState,
    Refused,
    decode_command,
)
from stele.metastore.kv_memory import MemoryKeyValues
from stele.metastore.paths import bounds
from stele.metastore.state import versions
from stele.metastore.state.machine import StateMachine
from stele.protocol.metastore_values import (
    Compare,
    CompareField,
    Delete,
    KeyRange,
    Put,
    Relation,
)
from tests.unit.metastore.state.plain_model import PlainModel
from tests.unit.metastore.state.replica import Replica

keys = st.sampled_from(["/a", "/a/x", "/a/y", "/b", "/b/z"])
ranges = st.sampled_from(
    [KeyRange("/a"), KeyRange("/a/", "/a0"), KeyRange("/", "0"), KeyRange("/a/y", "/b\0")]
)
locks = st.sampled_from(["/l", "/l", "/l", "/m"])
values = st.binary(max_size=3)
slots = st.integers(0, 3)

FOLLOWER_HELD_CHANGES = 12
"""Some entries: a restart takes the follower back to what it has written."""


class Machine(RuleBasedStateMachine):
    """The rules. Sessions are named by their place among those that were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.replica = Replica()
        self.model = PlainModel()
        self.opened: list[int] = []
        self.follower_values = MemoryKeyValues()
        self.follower = StateMachine(self.follower_values, FOLLOWER_HELD_CHANGES)
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(versions, "FORGET_CHANGES_MAX", 3)
        self.patch.setattr(versions, "FORGET_CHANGES_BESIDE", 1)

    def teardown(self) -> None:
        self.patch.undo()

    def session_at(self, slot: int) -> int:
        return self.opened[-1 - slot % len(self.opened)] if self.opened else 0

    # Keys.

    @rule(key=keys, value=values)
    def put(self, key: str, value: bytes) -> None:
        self.model.begin()
        version = self.model.put(key, value)
        assert self.replica.execute(Put(key, value)) == Executed(self.model.index, True, (version,))
        self.model.end()

    @rule(key=keys, owners=st.lists(slots, min_size=2, max_size=3))
    def change_hands(self, key: str, owners: list[int]) -> None:
        for slot in owners:
            self.put_ephemeral(key, b"", slot)

    @rule(key=keys, value=values, slot=slots)
    def put_ephemeral(self, key: str, value: bytes, slot: int) -> None:
        session = self.session_at(slot)
        self.model.begin()
        answer = self.replica.answer(
            Execute(self.replica.identity(1), (Put("/b/z", b"both"), Put(key, value, session)))
            if key != "/b/z"
            else Execute(self.replica.identity(1), (Put(key, value, session),))
        )
        if session and session not in self.model.sessions:
            assert isinstance(answer, Refused)
            assert answer.error == "SessionExpired"
        else:
            if key != "/b/z":
                self.model.put("/b/z", b"both")
            self.model.put(key, value, session)
            assert isinstance(answer, Executed)
        self.model.end()

    @rule(selected=ranges)
    def delete(self, selected: KeyRange) -> None:
        self.model.begin()
        found = self.model.within(*bounds(selected))
        count = sum(self.model.delete(key) for key in found)
        answer = self.replica.execute(Delete(selected.start, selected.end))
        assert answer.results == (count,)
        self.model.end()

    @rule(key=keys, value=values, expected=values)
    def swap(self, key: str, value: bytes, expected: bytes) -> None:
        self.model.begin()
        old = self.model.items.get(key)
        holds = (old.value if old else b"") == expected
        results = (self.model.put(key, value),) if holds else (self.model.delete(key),)
        compare = Compare(key, CompareField.VALUE, Relation.EQUAL, expected)
        answer = self.replica.execute(Put(key, value), compares=(compare,), failure=(Delete(key),))
        assert answer == Executed(self.model.index, holds, results)
        self.model.end()

    @rule(back=st.integers(0, 12), read=st.lists(ranges, max_size=2), key=keys, value=values)
    def commit(self, back: int, read: Sequence[KeyRange], key: str, value: bytes) -> None:
        at = max(self.model.index - back, 0)
        self.model.begin()
        conflict = any(self.model.has_changed(*bounds(each), at) for each in read)
        waterline = self.replica.machine.waterline
        answer = self.replica.commit(at, tuple(read), Put(key, value))
        if at < waterline:
            assert isinstance(answer, Refused)
            assert answer.error == "SnapshotTooOld"
        elif conflict:
            assert isinstance(answer, Refused)
            assert answer.error == "Conflict"
        else:
            assert answer == Done(self.model.index)
            self.model.put(key, value)
        self.model.end()

    # Sessions and locks.

    @initialize()
    def open_sessions(self) -> None:
        """Without some from the beginning most courses would never see a queue."""
        for _ in range(4):
            self.open_session()

    @rule()
    def open_session(self) -> None:
        self.model.begin()
        session = self.replica.open_session()
        assert session == self.model.index
        self.model.sessions.add(session)
        self.opened.append(session)
        self.model.end()

    @rule(chosen=st.lists(slots, max_size=2), close=st.booleans())
    def end_sessions(self, chosen: list[int], close: bool) -> None:
        sessions = [self.session_at(slot) for slot in chosen]
        if close and sessions:
            self.model.begin()
            self.check_ended(self.replica.close_session(sessions[0]), {sessions[0]})
        else:
            self.expire(sessions)

    @rule(key=locks, count=st.integers(1, 3))
    def expire_the_head_of_a_queue(self, key: str, count: int) -> None:
        self.expire([request.session for request in self.model.locks.get(key, [])[:count]])

    def expire(self, sessions: list[int]) -> None:
        self.model.begin()
        self.check_ended(self.replica.expire(*sessions), set(sessions))

    def check_ended(self, effects: Effects, ended: set[int]) -> None:
        assert set(effects.ended) == ended & self.model.sessions
        self.model.end_sessions(ended)
        self.check_granted(effects)
        self.model.end()

    @rule(key=locks, asks=st.lists(st.tuples(slots, st.booleans()), min_size=1, max_size=4))
    def queue_up(self, key: str, asks: list[tuple[int, bool]]) -> None:
        for slot, exclusive in asks:
            self.acquire(slot, key, exclusive, wait=True)

    @rule(slot=slots, key=locks, exclusive=st.booleans(), wait=st.booleans())
    def acquire(self, slot: int, key: str, exclusive: bool, wait: bool) -> None:
        session = self.session_at(slot)
        self.model.begin()
        command = Acquire(self.replica.identity(1), session, key, exclusive, wait)
        answer = self.replica.answer(command)
        if session not in self.model.sessions:
            assert isinstance(answer, Refused)
            assert answer.error == "SessionExpired"
        elif self.model.request_of(session, key):
            assert isinstance(answer, Refused)
            assert answer.error == "AlreadyExists"
        else:
            state = self.model.acquire(session, key, exclusive, wait)
            assert isinstance(answer, LockAnswer)
            assert answer.state == state
        self.model.end()

    @rule(slot=slots, key=locks)
    def release(self, slot: int, key: str) -> None:
        session = self.session_at(slot)
        self.model.begin()
        effects = self.replica.release(session, key)
        if session in self.model.sessions:
            self.model.release(session, key)
        self.check_granted(effects)
        self.model.end()

    def check_granted(self, effects: Effects) -> None:
        """Exactly those who waited and have the lock since this entry are told so."""
        expected = {
            (key, request.session, request.ticket, self.model.index)
            for key, queue in self.model.locks.items()
            for request in queue
            if request.token == self.model.index != request.ticket
        }
        told = [(each.key, each.session, each.ticket, each.token) for each in effects.granted]
        assert len(told) == len(expected)
        assert set(told) == expected

    @rule(slot=slots, key=locks)
    def cancel(self, slot: int, key: str) -> None:
        session = self.session_at(slot)
        request = self.model.request_of(session, key)
        self.model.begin()
        effects = self.replica.cancel(session, key, request.ticket if request else 1)
        answer = effects.answer
        assert isinstance(answer, LockAnswer)
        if request is None:
            assert answer.state == LockState.ENDED
        elif request.token:
            assert (answer.state, answer.token) == (LockState.GRANTED, request.token)
        else:
            self.model.release(session, key)
        self.check_granted(effects)
        self.model.end()

    # The past, repetition, restarts, other replicas.

    @precondition(lambda self: self.replica.log)
    @rule(back=st.integers(1, 5))
    def repeat(self, back: int) -> None:
        """A request that was sent again: nothing happens, whatever the answer."""
        _, payload = self.replica.log[-min(back, len(self.replica.log))]
        command: Command = decode_command(payload)
        if command.identity.client:
            self.model.begin()
            effects = self.replica.apply(command)
            assert (effects.changes, effects.granted, effects.ended) == ((), (), ())
            self.model.end()

    @rule(back=st.integers(0, 10))
    def advance(self, back: int) -> None:
        self.model.begin()
        self.replica.advance(self.model.index - back)
        self.model.end()

    @rule(through_image=st.booleans())
    def restart(self, through_image: bool) -> None:
        if through_image:
            self.replica.machine.replace(self.replica.machine.export())
        else:
            self.replica.restart()

    @rule(sizes=st.lists(st.integers(1, 5), max_size=4), restart=st.booleans())
    def catch_up_in_batches(self, sizes: list[int], restart: bool) -> None:
        for size in sizes:
            self.follower.apply(self.replica.log[self.follower.applied_index :][:size])
        if restart:
            self.follower = StateMachine(self.follower_values, FOLLOWER_HELD_CHANGES)

    @rule()
    def compare_replicas(self) -> None:
        self.follower.apply(self.replica.log[self.follower.applied_index :])
        assert b"".join(self.follower.export()) == self.replica.image()

    @rule()
    def install_image(self) -> None:
        self.follower.replace(self.replica.machine.export())
        assert self.follower.applied_index == self.replica.machine.applied_index

    @invariant()
    def the_state_is_the_models(self) -> None:
        machine = self.replica.machine
        assert machine.applied_index == self.model.index
        page = machine.range(KeyRange("/", "0"))
        assert {item.key: item for item in page.items} == self.model.items
        assert {info.id for info in machine.sessions()} == self.model.sessions
        assert machine.usage().keys == len(self.model.items)
        for key in ("/l", "/m"):
            info = machine.lock(key)
            queue = self.model.locks.get(key, [])
            held = [each for each in queue if each.token]
            waiting = [each for each in queue if not each.token]
            assert [(r.ticket, r.token) for r in info.holders] == [
                (r.ticket, r.token) for r in held
            ]
            assert [r.ticket for r in info.waiters] == [r.ticket for r in waiting]

    @invariant()
    def the_past_is_the_models(self) -> None:
        machine = self.replica.machine
        at = max(machine.waterline, machine.applied_index - 3)
        page = machine.range(KeyRange("/", "0"), at)
        assert {item.key: item for item in page.items} == self.model.past[at]


Machine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, derandomize=True
)
TestStateMachine = Machine.TestCase
