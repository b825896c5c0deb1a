"""Carries out what a node decides: the part of a host that needs neither loop nor sockets.

    requests ──▶ node.handle ──▶ node.take ──▶ send, persist        the shell's business
                     ▲               │
                     │               ├──▶ apply to the state, tell watchers and lock waiters
                     └── Applied ◀───┘    answers, refusals, reads: whoever waits under the number

A shell is an asyncio server with sockets and a thread for the disk, or the few lines of an embedded
store that do everything at once. Whoever asks gets a ``Waiter``: a future of the server's loop, or
its counterpart for threads; both can be awaited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from stele.errors import SessionExpired, SteleError
from stele.metastore import events as e
from stele.metastore.alarm_policy import AlarmWatch, Facts
from stele.metastore.commands import Effects, raise_if_refused
from stele.metastore.lock_queue import LockWaiters
from stele.metastore.member import Member
from stele.metastore.snapshots import Installation
from stele.metastore.watch_hub import WatchHub
from stele.metastore.watch_streams import WatchStreams
from stele.protocol.metastore import LockResponse
from stele.protocol.metastore_values import Changes
from stele.raft import Entry, EntryKind, InstallSnapshot, Message, Snapshot


class Waiter(Protocol):
    """Somebody who waits for one answer, and may have stopped waiting."""

    def done(self) -> bool:
        """Whether an answer would come too late."""

    def set_result(self, value: Any, /) -> None:
        """The answer."""

    def set_exception(self, error: SteleError, /) -> None:
        """Why there is none."""

    def __await__(self) -> Any: ...


class Shell(Protocol):
    """What a driver needs done in the world."""

    def new_waiter(self) -> Any:
        """One more who waits."""

    def wake(self) -> None:
        """Something was handed to the node: call ``Driver.turn`` soon, once. A turn also tells the
        followers what is committed; if ``Node.owes_news`` after the last one, call it again."""

    def send(self, messages: Sequence[Message]) -> None:
        """Give messages to the network; they may be lost."""

    def persist(self, groups: Sequence[e.Group], base: Snapshot | None) -> None:
        """Append to the log and sync; tell the node ``Persisted``."""

    def make_image(self, peer: int) -> None:
        """Take an image of the state for a peer; tell the node ``ImageMade``."""

    def send_image(self, message: InstallSnapshot) -> None:
        """Stream that image; tell the node ``ImageSent``."""

    def sync_state(self) -> None:
        """Make the state durable on its own; tell the node ``StateSynced``."""

    def report_space(self, leader: int) -> None:
        """Tell the leader how the disk here is: full, or not any more."""

    def stopped(self, reason: str) -> None:
        """The node has given up."""


PUT_OFF_ENTRIES_MAX = 256
"""Applied at the latest when there are so many: some milliseconds of work."""

Convert = Callable[[Any], Any]


class Driver:
    """One node with its state, its watchers and those who wait. One thread at a time.

    The leader waits for a follower's log, and nobody for its state as long as nobody reads or
    watches there. So a shell may have a follower put entries off and ``catch_up`` a little later:
    they then cost no time between an append and its answer, and less together than one by one.
    """

    def __init__(self, member: Member, shell: Shell, *, puts_off: bool = False) -> None:
        self.node = member.node
        self.machine = member.machine
        self.hub = WatchHub()
        self.watches = WatchStreams(self.hub, self.machine, shell.new_waiter)
        self._member = member
        self.locks = LockWaiters()
        self._shell = shell
        self._puts_off = puts_off
        self._put_off: tuple[Entry, ...] = ()
        self._request = 0
        self._alarms = AlarmWatch()
        self._waiting: dict[int, tuple[Waiter, Convert]] = {}

    # Asking.

    def write(self, payload: bytes, convert: Convert) -> Any:
        """A command for the log; its answer goes through ``convert``. Refusals are raised."""
        request = self._next()
        waiter = self._wait(request, convert)
        self.node.handle(e.Write(request, payload))
        self._shell.wake()
        return waiter

    def write_many(self, payloads: tuple[bytes, ...], convert: Convert) -> Any:
        """Several commands; ``convert`` gets the list of their answers, refusals among them."""
        request = self._next()
        waiter = self._wait(request, convert)
        self.node.handle(e.WriteMany(request, payloads))
        self._shell.wake()
        return waiter

    def read(self, look_up: Callable[[], Any]) -> Any:
        """Look something up in a state that holds all that was acknowledged before."""
        request = self._next()
        waiter = self._wait(request, lambda _: look_up())
        self.node.handle(e.Read(request))
        self._shell.wake()
        return waiter

    def ask(self, event: Callable[[int], e.Event], convert: Convert) -> Any:
        """Any other request of the node's, made from the number it gets."""
        request = self._next()
        waiter = self._wait(request, convert)
        self.node.handle(event(request))
        self._shell.wake()
        return waiter

    def tell(self, event: e.Event) -> None:
        """An event that nobody waits for."""
        self.node.handle(event)
        if self.node.has_news:
            self._shell.wake()

    def tell_followers(self) -> None:
        """They have waited long enough for what the node owes them."""
        self.node.has_news = True
        self._shell.wake()

    def tick(self, now_us: int, wall_us: int) -> None:
        """A unit of time has passed."""
        self.node.handle(e.Tick(now_us, wall_us))
        self._look_at_alarms()
        for waiter, response in self.locks.tick():
            _resolve(waiter, response)
        self.watches.tick()
        self._forget_abandoned()
        self._shell.wake()

    def _look_at_alarms(self) -> None:
        machine, node = self.machine, self.node
        usage = machine.usage()
        facts = Facts(
            node.id,
            node.leads,
            self._member.log.space_is_short,
            machine.alarms(),
            node.core.membership.members,
            usage.used_bytes,
            usage.quota_bytes,
        )
        for news in self._alarms.tick(facts):
            node.handle(news)

    def wait_for_lock(self, session: int, ticket: int) -> Any:
        """Answered when the lock is granted, or after a while with how it stands."""
        waiter = self._shell.new_waiter()
        self.locks.add(ticket, session, waiter)
        return waiter

    def _next(self) -> int:
        self._request += 1
        return self._request

    def _wait(self, request: int, convert: Convert) -> Any:
        waiter = self._shell.new_waiter()
        self._waiting[request] = (waiter, convert)
        return waiter

    def _forget_abandoned(self) -> None:
        """Callers that went away should not be kept until an answer comes that may never."""
        gone = [request for request, (waiter, _) in self._waiting.items() if waiter.done()]
        for request in gone:
            del self._waiting[request]
            self.node.handle(e.Forget(request))

    def begin_again(self, member: Member, error: SteleError) -> None:
        """A new node in the place of the old: whoever waited for that one hears why not."""
        waiting, self._waiting = self._waiting, {}
        for waiter, _ in waiting.values():
            if not waiter.done():
                waiter.set_exception(error)
        self._member, self.node = member, member.node

    # Carrying out.

    def stage(self, snapshot: Snapshot) -> Installation:
        """The image of a snapshot has become what the log builds on: put it beside the state. Slow,
        and the one method here for any thread."""
        return self._member.stage(snapshot)

    def adopt(self, installation: Installation) -> e.StateReplaced:
        """Make an image the state. What was put off is part of it: all of that was committed when
        the image was chosen, because it reaches further."""
        self._put_off = ()
        replaced = self._member.adopt(installation)
        self.watches.interrupt()
        return replaced

    def turn(self) -> None:
        """Do all that there is to do now, and what follows from how that went."""
        while self.step():
            pass

    def step(self) -> bool:
        """Do what there is to do now; whether something follows from how that went."""
        todo = self.node.take()
        if todo is None:
            return False
        self._carry_out(todo)
        return self.node.has_news

    @property
    def is_behind(self) -> bool:
        """Whether entries were put off."""
        return bool(self._put_off)

    @property
    def must_catch_up(self) -> bool:
        """Whether somebody waits for what was put off, or there is enough of it."""
        return bool(self._put_off) and (
            len(self._put_off) >= PUT_OFF_ENTRIES_MAX
            or self.node.leads
            or len(self.hub) > 0
            or bool(self._waiting)
        )

    def catch_up(self) -> None:
        """Apply what was put off."""
        put_off, self._put_off = self._put_off, ()
        if put_off:
            self._apply(put_off)

    def _carry_out(self, todo: e.Instructions) -> None:
        shell = self._shell
        if todo.send:
            shell.send(todo.send)
        if todo.persist or todo.cut_log is not None:
            shell.persist(todo.persist, todo.cut_log)
        if todo.apply:
            if self._put_off or (self._puts_off and not self.node.leads):
                self._put_off += todo.apply
            else:
                self._apply(todo.apply)
        for answer in todo.answers:
            self._answer(answer.request, answer.value)
        for refusal in todo.refusals:
            self._refuse(refusal.request, refusal.error)
        for serve in todo.reads:
            for request in serve.requests:
                self._answer(request, serve.index)
        self._begin_slow_work(todo)

    def _begin_slow_work(self, todo: e.Instructions) -> None:
        shell = self._shell
        for peer in todo.make_images:
            shell.make_image(peer)
        for image in todo.send_images:
            shell.send_image(image.message)
        if todo.sync_state:
            self.machine.write()
            shell.sync_state()
        if todo.report_space:
            shell.report_space(todo.report_space)
        if todo.stop is not None:
            shell.stopped(todo.stop)

    def _apply(self, entries: tuple[Entry, ...]) -> None:
        effects = self.machine.apply(payloads(entries))
        machine = self.machine
        is_over_quota = machine.is_over_quota and not machine.has_alarms
        self.node.handle(e.Applied(entries, effects, is_over_quota))
        if len(self.hub) > 0:
            # Ahead of the answers: who keeps what it has read must know that it is out of date
            # before anybody can say that something has changed.
            for effect in effects:
                if effect.changes:
                    self.hub.publish(Changes(effect.index, effect.changes))
        for answer in self.node.take_answers():
            self._answer(answer.request, answer.value)
        for effect in effects:
            if effect.granted or effect.ended:
                self._settle_locks(effect)

    def _settle_locks(self, effect: Effects) -> None:
        for grant in effect.granted:
            for waiter in self.locks.granted(grant.ticket):
                _resolve(waiter, LockResponse(grant.ticket, grant.token))
        for session in effect.ended:
            for waiter in self.locks.ended(session):
                if not waiter.done():
                    waiter.set_exception(SessionExpired(f"session {session} has ended"))

    def _answer(self, request: int, value: Any) -> None:
        waiter, convert = self._waiting.pop(request, _NOBODY)
        if waiter is None or waiter.done():
            return
        try:
            result = convert(raise_if_refused(value))
        except SteleError as error:
            waiter.set_exception(error)
        else:
            waiter.set_result(result)

    def _refuse(self, request: int, error: SteleError) -> None:
        waiter, _ = self._waiting.pop(request, _NOBODY)
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)


_NOBODY: tuple[None, Convert] = (None, lambda value: value)
"""Who waits for a request that was forgotten."""


def payloads(entries: Iterable[Entry]) -> Iterator[tuple[int, bytes]]:
    """Entries as the state machine takes them: without a payload where there is no command."""
    for entry in entries:
        yield entry.index, entry.data if entry.kind is EntryKind.DATA else b""


def _resolve(waiter: Waiter, value: Any) -> None:
    if not waiter.done():
        waiter.set_result(value)
