"""A metastore in this process: one durable node, the same code, without sockets, loop or threads.

Whoever calls does the work: hands the request to the node, writes and syncs what that asks for,
and applies it. While one thread waits for the disk the others hand in theirs, and all that came
goes out with the next sync. The state is held in memory and written as one file now and then;
between two of those the log has everything. That suits what an embedded store keeps here, and opens
quickly.

The directory belongs to one process, so a group of one is always its own majority, and sessions
that are held in this process live as long as it does: the node renews them itself.
"""

from __future__ import annotations

import inspect
import itertools
import threading
import weakref
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

from stele.client.metastore_inline import LocalAnswer, settled
from stele.env.interrupts import Uninterrupted
from stele.env.paths import join
from stele.env.ports import Clock, FileSystem, Random, Tasks, Timer
from stele.errors import (
    InvalidArgument,
    NotFound,
    OutcomeUnknown,
    OutOfSpace,
    SteleError,
    StorageFailed,
    Unavailable,
)
from stele.metastore import events as e
from stele.metastore.alarm_policy import DISK_FULL
from stele.metastore.commands import NOBODY, ClearAlarm, encode_command
from stele.metastore.driver import Driver, payloads
from stele.metastore.kv_memory import MemoryKeyValues
from stele.metastore.log_worker import LogJob, LogWorker
from stele.metastore.member import (
    LOG_DIRECTORY,
    MemberOptions,
    found_group,
    open_member,
)
from stele.metastore.node import NodeSettings
from stele.metastore.raft_log import RaftLogOptions
from stele.metastore.raft_log_recovery import nothing_found, recover
from stele.metastore.service import MetastoreService
from stele.metastore.state.machine import StateMachine
from stele.protocol import metastore as p
from stele.protocol.metastore_member import BOOTSTRAP, DRAIN
from stele.raft import InstallSnapshot, Message, RaftConfig, Snapshot
from stele.rpc import Binding, Context, PeerIdentity, Proof, Role

T = TypeVar("T")

STATE_FILE: Final = "state.kv"

TICK_US: Final = 1_000_000
"""The unit in which sessions of other processes are measured here."""

OPTIONS: Final = MemberOptions(
    raft=RaftConfig(election_ticks=3, heartbeat_ticks=1),
    node=NodeSettings(compact_after_entries=500, keep_entries=50),
    log=RaftLogOptions(segment_bytes=1 << 20, reserve_bytes=64 << 10, ahead_bytes=64 << 10),
)
"""Small pieces: what is opened often must not have much to read."""

CLIENTS_PER_LIFE_BITS: Final = 24

LOCAL: Final = PeerIdentity(frozenset({Role.ADMIN}), "embedded", Proof.KERNEL)
"""Whoever can open the directory may do everything in it."""


_CUT_SHORT: Final = OutcomeUnknown("a write to the metastore was cut short: look what is there")

HERE: Final = Context(LOCAL, LOCAL, None, 0, ())


class EmbeddedNode:
    """Implements ``Shell`` and ``ServiceHost``. Threads share it."""

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        clock: Clock,
        random: Random,
        tasks: Tasks,
        *,
        begin: bool = True,
    ) -> None:
        """The node of a directory; a new one if there is none and one may ``begin``."""
        values = MemoryKeyValues(files, join(directory, STATE_FILE))
        machine = StateMachine(values)
        self._revive = partial(open_member, files, random, machine, OPTIONS, directory)
        try:
            self._member = self._revive()
        except NotFound:
            if not begin:
                raise
            found_group(files, random, "", OPTIONS, directory)
            self._member = self._revive()
        self._clock = clock
        self._tasks = tasks
        self.cluster = self._member.identity.cluster
        self.address = ""
        self.driver = Driver(self._member, self)
        self._worker = LogWorker(self._member.identity.node, self._member.log, self.driver)
        self._lock = threading.Lock()
        self._kept: set[int] = set()
        self._clients = itertools.count(1)
        self._ticking: Timer | None = None
        self._failure: str | None = None
        self._closed = False
        self._is_cut_short = False
        self._answers: weakref.WeakSet[LocalAnswer] = weakref.WeakSet()
        service = MetastoreService(self.driver, clock, self)
        self._bindings = {binding.method.number: binding for binding in service.bindings()}
        for method in (p.CHANGE_MEMBERS, p.JOIN, p.TRANSFER, DRAIN, BOOTSTRAP):
            self._bindings[method.number] = method.handled_by(_refuse_to_grow)
        self._bindings[p.SET_QUOTA.number] = p.SET_QUOTA.handled_by(_refuse_quota)
        self._tick_later()

    def new_client_id(self) -> int:
        """An id that no client of this node has or had: every life has a term of its own."""
        with self.entered():
            return self.driver.node.core.term << CLIENTS_PER_LIFE_BITS | next(self._clients)

    # Requests.

    @contextmanager
    def alone(self) -> Iterator[StateMachine]:
        """Alone with the state, to look at it."""
        with self._lock:
            self._check_alive()
            yield self.driver.machine

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Alone with a node that leads; all that follows is done on the way out.

        Ctrl-C is heard then: a turn that ended in the middle would leave a job that nobody runs.
        """
        with Uninterrupted(), self._lock:
            self._check_alive()
            self._lead()
            yield
            self._settle()

    def _tell_all(self, error: SteleError) -> None:
        """Nobody is left waiting for an answer that cannot come."""
        for answer in list(self._answers):
            if not answer.done():
                answer.set_exception(error)

    def _check_alive(self) -> None:
        if self._closed:
            raise _closed()
        if self._failure is not None:
            raise StorageFailed(self._failure)

    def _lead(self) -> None:
        """A group of one leads as soon as it can write that down."""
        if self._is_cut_short:
            self._start_over(_CUT_SHORT)
        if not self.driver.node.leads:
            self.driver.node.core.campaign()
            self._settle()
        if self._member.log.space_is_short or DISK_FULL in self.driver.machine.alarms().values():
            self._look_for_space()
        if not self.driver.node.leads:
            self._check_alive()
            raise OutOfSpace("the disk is full: the metastore takes no requests")

    def _look_for_space(self) -> None:
        """While there is no room an alarm stops what takes space; once there is, it is over."""
        self._worker.tick()
        self._settle()  # which takes the reserve again
        alarms = self.driver.machine.alarms()
        if self._member.log.space_is_short and not alarms:
            self.driver.tick(self._clock.monotonic_us(), self._clock.now_us())
        elif alarms and not self._member.log.space_is_short:
            self.driver.write(encode_command(ClearAlarm(NOBODY, 0)), _nothing)
        self._settle()

    def _settle(self) -> None:
        """Take turns and write, until there is nothing to do, or somebody else is doing it."""
        while True:
            self.driver.turn()
            job = self._worker.next_job()
            if job is None:
                return
            self._run(job)
            if job.is_disk_full:
                self._start_over(OutOfSpace("the disk is full: nothing was changed"))
                return
            for event in self._worker.finish(job):
                self.driver.node.handle(event)

    def _run(self, job: LogJob) -> None:
        """Write, while others may hand in theirs.

        An exception of the thread itself, such as one that a handler of a signal raises, leaves it
        open what was written. The disk knows: it is read again by the next who comes.
        """
        self._lock.release()
        try:
            job.run()
        except BaseException:
            self._is_cut_short = True
            self._tell_all(_CUT_SHORT)
            raise
        finally:
            self._lock.acquire()

    def _start_over(self, error: SteleError) -> None:
        """Begin again from what the disk holds; whoever waits hears the error.

        After a full disk nothing of what waits was written, and nobody else knows of it: it never
        was.
        """
        self._member.log.close()
        self._is_cut_short = True
        member = self._revive()
        self._is_cut_short = False
        self.driver.begin_again(member, error)
        self._member = member
        self._worker = LogWorker(member.identity.node, member.log, self.driver)

    async def call(
        self, binding: Binding, request: Any, timeout_s: float | None, context: Context = HERE
    ) -> Any:
        """One request, of a client in this process unless the context says otherwise."""
        with self.entered():
            result = binding.function(context, request)
        if inspect.iscoroutine(result):
            return await self.drive(result, timeout_s)
        if isinstance(result, LocalAnswer):
            result.timeout_s = timeout_s
            return await result
        return result

    async def drive(self, coroutine: Coroutine[Any, Any, T], timeout_s: float | None) -> T:
        """Run a handler that waits in between; it is alone with the node while it does not."""
        is_waiting = False
        try:
            while True:
                with self.entered():
                    is_waiting = False
                    try:
                        waiting: LocalAnswer = coroutine.send(None)
                    except StopIteration as end:
                        result: T = end.value
                        return result
                    is_waiting = True
                waiting.timeout_s = timeout_s
                await settled(waiting)
        except BaseException:
            if is_waiting:
                with self._lock:
                    _give_up(coroutine)
            raise

    def binding(self, number: int) -> Binding:
        """The handler of a method."""
        return self._bindings[number]

    def bindings(self) -> tuple[Binding, ...]:
        """All handlers."""
        return tuple(self._bindings.values())

    # Time.

    def _tick_later(self) -> None:
        self._ticking = self._tasks.call_later(TICK_US, self._tick)

    def _tick(self) -> None:
        with self._lock:
            if self._closed or self._failure is not None:
                return
            for session in self._kept if self.driver.node.leads else ():
                self.driver.ask(partial(_renewal, session), _nothing)
            self._worker.tick()
            self.driver.tick(self._clock.monotonic_us(), self._clock.now_us())
            self._settle()
        self._tick_later()

    def keep(self, session: int) -> None:
        """Renew a session of this process from now on."""
        self._kept.add(session)

    def keep_no_more(self, session: int) -> None:
        """Its owner has let go of it."""
        self._kept.discard(session)

    # What the driver wants done.

    def new_waiter(self) -> LocalAnswer:
        """One more who waits."""
        answer = LocalAnswer()
        self._answers.add(answer)
        return answer

    def wake(self) -> None:
        """Whoever hands something in takes the turn: see ``entered``."""

    def persist(self, groups: Sequence[e.Group], base: Snapshot | None) -> None:
        """Written at the end of the turn."""
        self._worker.add(groups, base)

    def sync_state(self) -> None:
        """The state is small: at once. A disk that is full is tried again with the next entry."""
        node, machine = self.driver.node, self.driver.machine
        try:
            machine.sync()
        except OutOfSpace:
            node.handle(e.StateSynced(0))
        except SteleError as error:
            node.handle(e.StorageLost(str(error)))
        else:
            node.handle(e.StateSynced(machine.applied_index))

    def stopped(self, reason: str) -> None:
        """The disk is lost."""
        self._failure = reason
        self._tell_all(StorageFailed(reason))

    def send(self, messages: Sequence[Message]) -> None:
        """There is nobody else."""
        raise AssertionError(f"a group of one has nobody to send {messages!r} to")

    def make_image(self, peer: int) -> None:
        """There is nobody else."""
        raise AssertionError(f"a group of one has no member {peer}")

    def send_image(self, message: InstallSnapshot) -> None:
        """There is nobody else."""
        raise AssertionError(f"a group of one has no member {message.target}")

    def report_space(self, leader: int) -> None:
        """The leader is here and knows."""

    # What the service needs.

    async def backup(self) -> AsyncIterator[p.BackupChunk]:
        """An image of the state as it is now, for whoever is alone with the node."""
        index = self.driver.machine.applied_index
        for data in self.driver.machine.export():
            yield p.BackupChunk(index, data)

    def close(self) -> None:
        """Let go of the log. What was acknowledged is durable already. Idempotent."""
        with self._lock:
            self._closed = True
            if self._ticking is not None:
                self._ticking.cancel()
            self._member.log.close()
            self._tell_all(_closed())


class _GivenUpError(Exception):
    """Thrown into a handler that nobody waits for, so that it tidies up behind itself. Closing it
    would not do: up to Python 3.12 a generator counts as running if its ``anext`` was closed."""


def _give_up(handler: Coroutine[Any, Any, Any]) -> None:
    with suppress(_GivenUpError):
        handler.throw(_GivenUpError())


def _refuse_to_grow(_context: Context, _request: Any) -> NoReturn:
    raise InvalidArgument(
        "the metastore of a database in a directory has one member; run nodes of their own "
        "with stele serve master"
    )


def _refuse_quota(_context: Context, _request: Any) -> NoReturn:
    raise InvalidArgument(
        "the metastore of a database in a directory has no quota: beyond it the database could not "
        "even be opened"
    )


def _renewal(session: int, number: int) -> e.Event:
    return e.KeepAlive(number, session)


def _closed() -> Unavailable:
    return Unavailable("the metastore is closed: open the database again")


def _nothing(_value: object) -> None:
    return None


def read_machine(files: FileSystem, directory: str) -> StateMachine:
    """The state that an embedded node would wake up with, in memory; nothing is changed.

    A group of one has decided whatever its log holds. ``NotFound`` if there never was a node.
    """
    log = join(directory, LOG_DIRECTORY)
    if not files.exists(log):
        raise nothing_found(log)
    machine = StateMachine(MemoryKeyValues(files, join(directory, STATE_FILE)))
    entries = recover(files, log).stored.entries
    machine.apply(payloads(entry for entry in entries if entry.index > machine.applied_index))
    return machine
