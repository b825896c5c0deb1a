"""What must hold while a simulated metastore runs, and the histories for what must have held.

Checked at every apply, anywhere:

- *agreement*: the entry at an index is the same on every member, in every life;
- *determinism*: so are its effects, whatever the batches and restarts were;
- *sessions live*: none expires before the moment up to which its owner was promised that it lives;
- *living holders*: no lock passes to a session that has ended.

Checked at every start:

- *durability*: what a leader counted this member for, when it committed, is in the member's log or
  in its state, whatever happened to the machine since.

The rest is judged at the end by ``stele.sim.checkers``: registers are linearizable, transactions
serializable in real time, locks exclusive with growing tokens, watches without gap or duplicate.
What was committed, and when sessions ended, goes into those histories from the first apply of each
entry, which is not after anybody can have been told of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from stele.env.ports import Clock
from stele.metastore.commands import Effects, ExpireSessions, decode_command
from stele.metastore.member import Member
from stele.metastore.node import Node
from stele.raft import StoredState
from stele.sim.checkers.history import Operation, Recorder
from stele.sim.checkers.replay import judge

LOG_WITNESS = 0
"""The client number under which the log itself speaks in a history."""


class MetastoreChecker:
    """Listens to every member, and holds the recorders of the clients."""

    def __init__(self, clock: Clock, counters: Counter[str]) -> None:
        self.registers = Recorder(clock)
        self.lists = Recorder(clock)
        self.locks = Recorder(clock)
        self.watches = Recorder(clock)
        self.applied_max = 0
        self._clock = clock
        self._counters = counters
        self._entries: dict[int, bytes] = {}
        self._effects: dict[int, Effects] = {}
        self._promised_us: dict[int, int] = {}
        self._ended: set[int] = set()
        self._progress: dict[int, tuple[int, int]] = {}
        self._inherited: dict[tuple[int, int], int] = {}
        """What a leader knew to be committed when its term began; the entry is not of its term."""

        self._counted: dict[int, tuple[int, int]] = {}

    def listen(self, node: int, member: Member) -> None:
        """Hear of everything that this member applies, from its start on."""
        self._require_durable(node, member.log.stored)
        apply = member.machine.apply

        def listening(entries: Iterable[tuple[int, bytes]]) -> list[Effects]:
            applied = list(entries)
            effects = apply(applied)
            for (index, payload), effect in zip(applied, effects, strict=True):
                self._on_applied(node, index, payload, effect)
            return effects

        member.machine.apply = listening  # type: ignore[method-assign]

    def _on_applied(self, node: int, index: int, payload: bytes, effect: Effects) -> None:
        known = self._entries.get(index)
        if known is None:
            self._entries[index] = payload
            self._effects[index] = effect
            self.applied_max = max(self.applied_max, index)
            self._on_first_apply(index, payload, effect)
            return
        require(known == payload, "agreement", f"node {node} applies another entry at {index}")
        same = self._effects[index] == effect
        require(same, "determinism", f"node {node} at {index}: {effect} for {self._effects[index]}")

    def _on_first_apply(self, index: int, payload: bytes, effect: Effects) -> None:
        self._counters["entries applied"] += 1
        if effect.changes:
            changes = [(change.key, text_of(change.value)) for change in effect.changes]
            self.watches.note(LOG_WITNESS, "commit", "", index, changes)
        for session in effect.ended:
            self.locks.note(LOG_WITNESS, "expire", "", str(session), index)
        self._ended.update(effect.ended)
        for grant in effect.granted:
            told = f"session {grant.session} is granted {grant.key} at {index}, after its end"
            require(grant.session not in self._ended, "living holders", told)
        if effect.ended and isinstance(decode_command(payload), ExpireSessions):
            self._counters["sessions expired"] += len(effect.ended)
            for session in effect.ended:
                self._require_promise(session, index)

    def promise(self, session: int, until_us: int) -> None:
        """The owner of a session was told that it lives at least until then."""
        self._promised_us[session] = max(until_us, self._promised_us.get(session, 0))

    def _require_promise(self, session: int, index: int) -> None:
        early_us = self._promised_us.get(session, 0) - self._clock.monotonic_us()
        told = f"session {session} ends at {index}, {early_us} us before its owner can know"
        require(early_us <= 0, "sessions live", told)

    def note_progress(self, node: Node) -> None:
        """If this leader has committed more in its term: whose disks it counted for that."""
        term = node.core.leading_term
        if not term or (term, node.applied) == self._progress.get(node.id):
            return
        self._progress[node.id] = (term, node.applied)
        status = node.status()
        inherited = self._inherited.setdefault((node.id, term), status.commit)
        if status.commit == inherited:
            return
        matches = {peer.node: peer.match for peer in status.peers}
        matches[status.node] = status.persisted
        for member, match in matches.items():
            if match >= status.commit:
                self._counted[member] = (status.commit, term)

    def _require_durable(self, node: int, stored: StoredState) -> None:
        index, term = self._counted.get(node, (0, 0))
        place = index - stored.snapshot.index - 1
        if place >= 0:
            found = stored.entries[place].term if place < len(stored.entries) else None
            told = f"node {node} was counted for {index}/{term}, and finds {found} in its log"
            require(found == term, "durability", told)

    def judge(self) -> None:
        """Everything the clients saw; raises with the first thing that cannot have been."""
        for recorder, checks in (
            (self.registers, ["register"]),
            (self.lists, ["list-append"]),
            (self.locks, ["locks"]),
            (self.watches, ["watches"]),
        ):
            operations: list[Operation] = recorder.history().operations()
            self._counters["operations judged"] += len(operations)
            for judgement in judge(operations, checks):
                require(judgement.ok, judgement.check, judgement.told)


def text_of(value: bytes | None) -> str | None:
    """A value as a history holds it."""
    return None if value is None else value.decode()


class MetastoreViolation(AssertionError):
    """Something happened that must not."""


def require(holds: Any, name: str, what: str) -> None:
    """Raise unless it holds."""
    if not holds:
        raise MetastoreViolation(f"{name}: {what}")
