"""Mistakes that a metastore easily makes, each as a small patch that the simulation must notice.

A patch replaces one decision for the length of a ``with`` block; the product itself knows nothing
of it. Each bug names the promise that must be found broken, by the name of the check that says so
(``stele.sim.metastore_checks``, ``stele.sim.checkers``): what breaks in consequence does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from stele.errors import Unavailable
from stele.metastore import events as e
from stele.metastore.commands import Answer, Execute, Executed, LockInfo, decode_command
from stele.metastore.driver import Convert, Driver
from stele.metastore.log_worker import LogJob
from stele.metastore.node import Node
from stele.metastore.pending import PendingWrites
from stele.metastore.raft_log import RaftLog
from stele.metastore.reads import WaitingReads
from stele.metastore.session_timers import SessionTimers
from stele.metastore.state import image, keys, locks, machine
from stele.metastore.state.retries import Retries
from stele.metastore.state.transactions import Transactions
from stele.metastore.watch_hub import Watcher
from stele.metastore.watch_streams import WatchStreams
from stele.protocol.metastore_values import Change, Identity
from stele.raft import Ready
from stele.sim.metastore_checks import MetastoreViolation
from tests.unit.metastore import test_node, test_session_timers

FAR = 1 << 60


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """One mistake, and what has to be said about it."""

    name: str
    patches: tuple[tuple[Any, Any, Any], ...]
    """Owner, name and what stands there instead; in a dict, the item of that name."""

    promise: str
    """The check that notices it, which its message begins with; or the name of the unit test."""

    detail: str = ""
    """What else the message says, where the check knows several promises."""

    unit_test: Callable[[], None] | None = None
    """Notices what needs a coincidence that random schedules seldom bring about."""

    def is_noticed_by(self, failure: str | None) -> bool:
        """Whether this is the failure that the bug must lead to."""
        return (
            failure is not None
            and failure.startswith(f"{MetastoreViolation.__name__}: {self.promise}: ")
            and self.detail in failure
        )

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The product has this bug until the context ends."""
        with ExitStack() as stack:
            for owner, name, wrong in self.patches:
                stack.enter_context(_patch(owner, name, wrong))
            yield


def _patch(owner: Any, name: Any, wrong: Any) -> AbstractContextManager[object]:
    if isinstance(owner, dict):
        return mock.patch.dict(owner, {name: wrong})
    return mock.patch.object(owner, name, wrong)


def bug(
    name: str, owner: Any, attribute: Any, wrong: Any, promise: str, detail: str = ""
) -> PlantedBug:
    """A bug of one patch."""
    return PlantedBug(name, ((owner, attribute, wrong),), promise, detail)


def rare_bug(
    name: str, owner: Any, attribute: Any, wrong: Any, unit_test: Callable[[], None]
) -> PlantedBug:
    """A bug of one patch that a test of its own notices."""
    return PlantedBug(name, ((owner, attribute, wrong),), unit_test.__name__, unit_test=unit_test)


# Answers.


def _answer_when_proposed(self: Node) -> None:
    writes, self._writes = self._writes, []
    for write in writes:
        try:
            if isinstance(write, e.WriteMany):
                self._propose((write,))
                continue
            proposed = self.core.propose([write.payload])
        except Exception as refusal:  # noqa: BLE001 - whatever the core says
            self._out.refuse(write.request, refusal)  # type: ignore[arg-type]
            continue
        command = decode_command(write.payload)
        if isinstance(command, Execute) and not command.compares:
            self._out.answer(write.request, Executed(proposed.last_index, True, (1,)))
        else:
            self._pending.add(proposed, [(write.request, None)])


_write_many = Driver.write_many


def _swap_answers(self: Driver, payloads: tuple[bytes, ...], convert: Convert) -> Any:
    return _write_many(self, payloads, lambda answers: convert(answers[::-1]))


def _send_before_sync(self: Node, ready: Ready) -> None:
    self._out.send.extend(ready.messages + ready.messages_after_sync)
    for state in ready.read_states:
        self._reads.confirm(state.context, state.index)
    for context in ready.aborted_reads:
        for renewal in self._reads.abort(context):
            self._out.refuse(renewal.request, self._not_leader())


def _lost_means_failed(self: PendingWrites) -> None:
    for row in self._rows:
        # The simulated clients take this for a promise that it did not happen.
        self._out.refuse(row.request, Unavailable("leadership was lost"))
    self._rows.clear()


def _persisted_when_written(self: LogJob) -> None:
    self._log._is_unsynced = False


def _retry_failed_sync(self: LogJob) -> None:
    try:
        self._log.sync()
    except Exception:  # noqa: BLE001 - the mistake is to go on
        self._log._is_unsynced = False


# Reads and sessions.


def _read_without_round(self: Node) -> None:
    asked = self._reads.give_up_asked()
    self._reads.asked.renewals.extend(asked.renewals)
    if not self.leads:
        for request in asked.reads:
            self._out.refuse(request, self._not_leader())
    elif asked.reads:
        self._out.reads.append(e.ServeReads(tuple(asked.reads), self.applied))
    if self._reads.wants_round:
        _ask_reads(self)


_ask_reads = Node._ask_reads
_take_served = WaitingReads.take_served


def _serve_unapplied(self: WaitingReads, applied: int) -> Any:
    return _take_served(self, FAR)


def _renew_without_round(self: Node, event: e.KeepAlive) -> None:
    if self.leads:
        self._answer_renewal(event)
    else:
        self._out.refuse(event.request, self._not_leader())


def _renew_the_expiring(self: SessionTimers, session: int) -> int | None:
    ttl_us = self._ttls.get(session)
    if ttl_us is None or not self._leading:
        return None
    self._fresh.add(session)
    return ttl_us


def _opened_everywhere(self: SessionTimers, session: int, ttl_us: int) -> None:
    self._ttls[session] = ttl_us
    self._fresh.add(session)


def _lead_with_old_deadlines(self: SessionTimers) -> None:
    self._leading = True


def _follow_with_deadlines(self: SessionTimers) -> None:
    self._leading = False


def _tick_by_own_clock(self: SessionTimers, now_us: int) -> list[int]:
    self._fresh &= set(self._ttls)
    self._note_fresh(now_us)
    return self._take_due(now_us) if self._leading else []


_node_tick = Node._on_tick


def _tick_timers_everywhere(self: Node, event: e.Tick) -> None:
    if not self.leads:
        self._timers.tick(event.now_us)
    _node_tick(self, event)


# The state machine.


def _never_answered(self: Retries, identity: Any) -> Answer | None:
    return None


_remember = Retries.remember


def _remember_the_first(self: Retries, index: int, identity: Identity, answer: Answer) -> None:
    """The mistake is the second effect, not what becomes of its answer."""
    known = self._clients.get(identity.client)
    is_old = known is not None and (
        identity.sequence <= known.answered or identity.sequence in known.answers
    )
    if not is_old:
        _remember(self, index, identity, answer)


def _nothing_changed(*_: Any) -> None:
    return None


def _keep_waiters(info: LockInfo, sessions: Collection[int]) -> LockInfo:
    return LockInfo(tuple(r for r in info.holders if r.session not in sessions), info.waiters)


def _let_all_in(holders: Any, exclusive: bool) -> bool:
    return True


_read_image = image.read_image


def _image_without_retries(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    for key, value in _read_image(chunks):
        if not key.startswith(keys.RETRIES):
            yield key, value


def _sync_nothing(self: Any) -> None:
    """Says that the state is durable when it is not."""


# Watches.


def _no_history(self: Any, after: int, limit: int) -> Sequence[Any]:
    return ()


def _offer_in_pieces(self: Watcher, index: int, changes: list[Change]) -> None:
    for change in changes:
        _offer(self, index, [change])


_offer = Watcher.offer


def _go_on(self: WatchStreams) -> None:
    """The state was replaced, and nobody is told."""


def _forget_the_directory(self: RaftLog) -> None:
    if self._file is not None and self._is_unsynced:
        self._file.sync()
        self._is_unsynced = False


PLANTED_BUGS = [
    bug(
        "writes are answered before they are applied",
        Node,
        "_propose_writes",
        _answer_when_proposed,
        "register",
    ),
    bug(
        "writes that came together get each other's answers",
        Driver,
        "write_many",
        _swap_answers,
        "register",
    ),
    bug(
        "members answer before their disk has it",
        Node,
        "_take_ready",
        _send_before_sync,
        "durability",
    ),
    bug("a sync is forgotten", LogJob, "sync", _persisted_when_written, "durability"),
    bug("a failed sync is passed over", LogJob, "sync", _retry_failed_sync, "durability"),
    bug(
        "the name of a new segment is not synced",
        RaftLog,
        "sync",
        _forget_the_directory,
        "durability",
    ),
    rare_bug(
        "a write of a lost leader counts as failed",
        PendingWrites,
        "abandon",
        _lost_means_failed,
        test_node.test_a_deposed_leader_does_not_know_what_becomes_of_its_writes,
    ),
    bug("reads without a round", Node, "_ask_reads", _read_without_round, "register"),
    bug(
        "reads do not wait for the state", WaitingReads, "take_served", _serve_unapplied, "register"
    ),
    rare_bug(
        "a renewal without a round",
        Node._HANDLERS,
        e.KeepAlive,
        _renew_without_round,
        test_node.test_a_leader_that_is_cut_off_renews_nothing,
    ),
    rare_bug(
        "a session is renewed although its end is proposed",
        SessionTimers,
        "renew",
        _renew_the_expiring,
        test_session_timers.test_one_that_is_about_to_end_is_not_renewed,
    ),
    PlantedBug(
        "a new leader expires sessions by its own old clock",
        (
            (SessionTimers, "opened", _opened_everywhere),
            (SessionTimers, "lead", _lead_with_old_deadlines),
            (SessionTimers, "follow", _follow_with_deadlines),
            (SessionTimers, "tick", _tick_by_own_clock),
            (Node._HANDLERS, e.Tick, _tick_timers_everywhere),
        ),
        "sessions live",
    ),
    bug(
        "a lock goes to a session that has ended",
        locks,
        "without",
        _keep_waiters,
        "living holders",
    ),
    bug(
        "two sessions hold a lock at once",
        locks,
        "is_compatible",
        _let_all_in,
        "locks",
        "exclusion",
    ),
    PlantedBug(
        "a repeated request is carried out again",
        (
            (Retries, "first_answer", _never_answered),
            (Retries, "why_not", _nothing_changed),
            (Retries, "remember", _remember_the_first),
        ),
        "register",
    ),
    bug(
        "transactions ignore what they have read",
        Transactions,
        "conflict",
        _nothing_changed,
        "list-append",
    ),
    bug(
        "an image leaves the retries out",
        machine,
        "read_image",
        _image_without_retries,
        "determinism",
    ),
    bug(
        "the log is cut before the state is durable",
        machine.StateMachine,
        "sync",
        _sync_nothing,
        "recovery",
    ),
    bug(
        "a resumed watch skips the history",
        machine.StateMachine,
        "history",
        _no_history,
        "watches",
        "no gap",
    ),
    bug("a watch goes on over an image", WatchStreams, "interrupt", _go_on, "watches", "no gap"),
    bug(
        "a watch brings a transaction in pieces",
        Watcher,
        "offer",
        _offer_in_pieces,
        "watches",
        "whole transactions",
    ),
]
