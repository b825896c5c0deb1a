"""A member of a metastore as a server: one loop for Raft and KeepAlives, threads for slow work.

Everything that arrives within one turn of the loop is handed to the node together. Groups pile up
behind the sync that runs, in a thread of its own unless the disk is quick (``log_runner``). The
state is synced, images are read and written in further threads. Whatever breaks the promise of
durability ends the server: a member that does not know its disk must not speak.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from stele.env.ports import Clock, Network, Random
from stele.errors import OutOfSpace, SteleError
from stele.metastore import events as e
from stele.metastore.driver import Driver
from stele.metastore.forwarding import Forwarder
from stele.metastore.images import Images
from stele.metastore.kv import KeyValues
from stele.metastore.log_runner import LogRunner
from stele.metastore.log_worker import LogJob, LogWorker
from stele.metastore.member import Member
from stele.metastore.member_guard import for_members
from stele.metastore.member_service import MemberService
from stele.metastore.peers import Peers
from stele.metastore.raft_service import RaftService
from stele.metastore.service import MetastoreService
from stele.protocol.metastore import BackupChunk
from stele.protocol.raft import REPORT_SPACE, SpaceReport
from stele.raft import NOBODY, InstallSnapshot, Message, Snapshot
from stele.rpc import Channel, Credentials, Limits, Role, Server, ServerOptions
from stele.rpc.deferred import Deferred

TICK_US: Final = 50_000
"""Raft's unit of time. A heartbeat takes one, an election begins after ten to twenty."""

PUT_OFF_S: Final = 0.005
"""How long a follower may put off what nobody there waits for: some appends, and less than a
heartbeat's period."""

NEWS_PATIENCE_S: Final = 0.005
"""How long news of a commit wait for entries to go with: what a client on a busy machine takes to
write again, and no longer than a follower puts off what it hears. Who reads at a follower does not
wait for it: the answer to its round brings the news along."""

US_PER_SECOND: Final = 1_000_000

log = logging.getLogger("stele.metastore")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeServerOptions:
    """Where a node serves, and how."""

    listen: str
    address: str = ""
    """Where others find it; where it listens unless said otherwise."""
    tick_us: int = TICK_US
    forward: bool = False
    """Whether requests that only the leader can answer are passed on to it."""
    limits: Limits = field(default_factory=Limits)


class NodeServer:
    """Implements ``Shell`` and ``ServiceHost``. Belongs to the loop it was made in."""

    def __init__(
        self,
        member: Member,
        values: KeyValues,
        options: NodeServerOptions,
        *,
        clock: Clock,
        random: Random,
        credentials: Credentials | None = None,
        network: Network | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._member = member
        self._values = values
        self._options = options
        self._clock = clock
        self.node = member.identity.node
        self.cluster = member.identity.cluster
        self.address = options.address or options.listen
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="metastore")
        self.driver = Driver(member, self, puts_off=True)
        self._worker = LogWorker(self.node, member.log, self.driver)
        self._log_runner = LogRunner(self._loop, clock, self._job_done, self.wake)
        self._peers = Peers(
            self.cluster,
            self.node,
            self.address,
            random=random,
            credentials=credentials,
            network=network,
            unreachable=lambda peer: self.driver.tell(e.PeerUnreachable(peer)),
        )
        self._images = Images(member, self.driver, self._peers, self)
        service = tuple(
            for_members(self.driver, binding)
            for binding in MetastoreService(self.driver, clock, self).bindings()
        )
        if options.forward:
            forwarder = Forwarder(self._leader_channel)
            service = tuple(forwarder.wrapped(binding) for binding in service)
        self._server = Server(
            (
                *service,
                *MemberService(self.driver, self.cluster).bindings(),
                *RaftService(self.driver, self.cluster, self._peers, self._images).bindings(),
            ),
            ServerOptions(
                role=Role.METASTORE,
                name=str(self.node),
                limits=options.limits,
            ),
            credentials=credentials,
            network=network,
        )
        self._removal_told = False
        self._turn_due = False
        self._ticking: asyncio.TimerHandle | None = None
        self._catching_up: asyncio.TimerHandle | None = None
        self._is_catching_up_due = False
        self._telling: asyncio.TimerHandle | None = None
        self.ended: asyncio.Future[str] = self._loop.create_future()
        """Resolved with the reason when the node has given up."""

    # Life.

    def start(self) -> str:
        """Listen and take part; the address with the port that was chosen."""
        chosen = self._server.listen(self._options.listen)
        self._tick()
        return chosen

    async def close(self, grace_s: float = 1.0) -> None:
        """Answer what is in flight, write what there is, let go of everything."""
        self._cancel_timers()
        await self._server.close(grace_s)
        await self._images.close()
        await self._peers.close()
        await self._loop.run_in_executor(None, self._log_runner.close)
        self._threads.shutdown(wait=True)
        self._member.log.close()
        self._values.close()

    def _cancel_timers(self) -> None:
        for timer in (self._ticking, self._catching_up, self._telling):
            if timer is not None:
                timer.cancel()

    def _tick(self) -> None:
        self._ticking = self._loop.call_later(self._options.tick_us / US_PER_SECOND, self._tick)
        self._worker.tick()
        self._start_job()
        self._peers.stay_connected()
        self.driver.watches.note_leader(is_known=self.driver.node.core.leader != NOBODY)
        self.driver.tick(self._clock.monotonic_us(), self._clock.now_us())
        self._tell_standing()

    def _tell_standing(self) -> None:
        """Say it once when this node has left its group, and when it is back."""
        removed_at = self.driver.node.standing.removed_at
        if self._removal_told == bool(removed_at):
            return
        self._removal_told = bool(removed_at)
        if removed_at:
            log.warning(
                "node %d is no member of the group %s: it was removed, as of index %d, and serves "
                "nobody; end it, or add it again (stele metastore members add %d %s)",
                *(self.node, self.cluster, removed_at, self.node, self.address),
            )
        else:
            log.warning("node %d is a member of the group %s again", self.node, self.cluster)

    # What the driver wants done.

    def new_waiter(self) -> Deferred:
        """One more who waits."""
        return Deferred()

    def wake(self) -> None:
        """Take a turn when this one of the loop is over: all that came in it goes together."""
        if not self._turn_due:
            self._turn_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Carry out what follows from all that came. A sync of a quick disk belongs to the turn:
        when all messages and answers are written it is waited for, and what follows from it is
        carried out too. Meanwhile the turn stays due, so that nothing asks for another."""
        if self.ended.done():
            return
        try:
            self._peers.follow(self.driver.node.core.membership)
            self._carry_out()
            while self._log_runner.run_here() or self._catches_up():
                self._carry_out()
        except Exception:
            # Instructions were lost on the way: what this node would say now may be wrong.
            log.exception("a bug in node %d", self.node)
            self.stopped("a turn was not carried out")
        finally:
            self._turn_due = False
        if self.ended.done():
            return
        self._see_to_news()
        if self.driver.node.has_news:
            self.wake()  # handed in while the last answers were written

    def _catches_up(self) -> bool:
        """Apply what was put off, if it is time for it; else see to it that it will be."""
        if not self.driver.is_behind:
            return False
        if self.driver.must_catch_up or self._is_catching_up_due:
            self._is_catching_up_due = False
            self._server.begin_turn()
            self.driver.catch_up()
            return True
        if self._catching_up is None:
            self._catching_up = self._loop.call_later(PUT_OFF_S, self._catch_up_later)
        return False

    def _catch_up_later(self) -> None:
        self._catching_up = None
        self._is_catching_up_due = True
        self.wake()

    def _see_to_news(self) -> None:
        """Have the followers told what is committed, unless it goes with entries soon."""
        if self.driver.node.owes_news:
            if self._telling is None:
                self._telling = self._loop.call_later(NEWS_PATIENCE_S, self._tell_followers)
        elif self._telling is not None:
            self._telling.cancel()
            self._telling = None

    def _tell_followers(self) -> None:
        self._telling = None
        self.driver.tell_followers()

    def _carry_out(self) -> None:
        self._server.begin_turn()
        try:
            while self.driver.node.has_news and self.driver.step():
                self._server.write_answers()
        finally:
            self._server.end_turn()

    def send(self, messages: Sequence[Message]) -> None:
        """Give messages to the network."""
        self._peers.send(messages)

    def persist(self, groups: Sequence[e.Group], base: Snapshot | None) -> None:
        """Hand groups to the log, or let them wait for it."""
        self._worker.add(groups, base)
        self._start_job()

    def _start_job(self) -> None:
        job = self._worker.next_job()
        if job is not None:
            self._log_runner.start(job)

    def _job_done(self, job: LogJob) -> None:
        for event in self._worker.finish(job):
            self.driver.tell(event)
        self._start_job()

    def make_image(self, peer: int) -> None:
        """Take an image of the state for a peer."""
        self._images.make(peer)

    def send_image(self, message: InstallSnapshot) -> None:
        """Stream it."""
        self._images.send(message)

    def sync_state(self) -> None:
        """Make the state durable on its own, in a thread."""
        index = self.driver.machine.applied_index

        def synced(done: asyncio.Future[None]) -> None:
            error = done.exception()
            if error is None:
                self.driver.tell(e.StateSynced(index))
            elif isinstance(error, OutOfSpace):
                self.driver.tell(e.StateSynced(0))  # not now: tried again with the next entry
            else:
                self.driver.tell(e.StorageLost(str(error)))

        self.in_thread(self.driver.machine.sync).add_done_callback(synced)

    def in_thread(self, call: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Something slow, beside the loop."""
        return self._loop.run_in_executor(self._threads, call, *args)

    def report_space(self, leader: int) -> None:
        """Tell the leader how the disk here is."""
        report = SpaceReport(self.cluster, self.node, is_short=self._member.log.space_is_short)
        with suppress(SteleError):  # whatever is in the way: it is said again
            self._peers.channel(leader).send(REPORT_SPACE, report)

    def stopped(self, reason: str) -> None:
        """The node has given up: so does the server."""
        log.error("node %d stops: %s", self.node, reason)
        self._cancel_timers()
        if not self.ended.done():
            self.ended.set_result(reason)

    def _leader_channel(self) -> Channel | None:
        leader = self.driver.node.core.leader
        return None if leader in (NOBODY, self.node) else self._peers.channel(leader)

    # What the service needs.

    def backup(self) -> AsyncIterator[BackupChunk]:
        """An image of the state as it is now."""
        return self._images.backup()
