"""A simulated machine with one member of the metastore on it: its disk, its process, their ends.

Everything but the world is the product's own: the member, its driver, its log and its state run on
the file system in memory. This is the driver's shell: what it wants done in the world becomes
events of the world's queue. The disk can lose, tear and reorder what was not synced, fill up, and
fail.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from stele.env.disk import Disk
from stele.env.faults import Call, Failure, Faults
from stele.env.memory import SeededRandom
from stele.env.memory_fs import UNLIMITED_BYTES, MemoryFileSystem
from stele.env.unsynced import UnsyncedFile
from stele.errors import Corruption, OutOfSpace, SteleError
from stele.metastore import events as e
from stele.metastore.driver import Driver
from stele.metastore.kv_memory import MemoryKeyValues
from stele.metastore.log_worker import LogJob, LogWorker
from stele.metastore.member import LOG_DIRECTORY, Member, MemberOptions, open_member
from stele.metastore.node import NodeSettings
from stele.metastore.raft_log import RaftLog, RaftLogOptions
from stele.metastore.raft_log_format import LogIdentity
from stele.metastore.snapshots import NumberedChunk, number_chunks
from stele.metastore.state.machine import StateMachine
from stele.raft import (
    InstallSnapshot,
    Message,
    RaftConfig,
    Snapshot,
    StoredState,
    decode_message,
    encode_message,
)

CLUSTER = "sim"
STATE_FILE = "state.kv"
MICROSECONDS = 1_000
TICK_MS = 15
CHUNK_PATIENCE_MS = 100
CHUNK_TRIES = 3
RETRY_MS = 40
NEWS_MS = 2
"""How long followers may wait to hear what is committed, as in the server."""

HELD_CHANGES_MAX = 40
"""A dozen writes: enough for images, syncs and crashes to find some of them unwritten."""

OPTIONS = MemberOptions(
    RaftConfig(
        election_ticks=5,
        heartbeat_ticks=2,
        entry_bytes_max=4_000,
        append_bytes_max=600,
        inflight_bytes_max=2_000,
        uncommitted_bytes_max=12_000,
        committed_bytes_max=800,
        reads_waiting_max=16,
        promotion_lag_entries_max=20,
    ),
    NodeSettings(
        read_patience_ticks=6,
        transfer_patience_ticks=10,
        away_us_max=120_000,
        compact_after_entries=24,
        keep_entries=8,
        history_us=600_000,
        waterline_period_us=100_000,
    ),
    RaftLogOptions(segment_bytes=3_000, reserve_bytes=6_000, ahead_bytes=700),
)
"""Limits so tight that every run meets them."""


class World(Protocol):
    """What a machine can do to the world around it."""

    @property
    def now_ms(self) -> int:
        """The time."""

    @property
    def sync_ms_max(self) -> int:
        """How slow disks are at present."""

    def draw(self, bound: int) -> int:
        """A number from 0 to ``bound - 1``."""

    def after(
        self, delay_ms: int, kind: str, host: MetastoreHost, action: Callable[[Any], None], arg: Any
    ) -> None:
        """Something happens later, if the machine still lives the same life."""

    def transmit(self, source: int, target: int, parcel: tuple[Any, ...]) -> None:
        """Give something to the network: it may be lost, doubled, late."""

    def count(self, what: str, times: int = 1) -> None:
        """Something worth counting has happened."""

    def host_stopped(self, host: MetastoreHost) -> None:
        """The node gave up because of its disk."""

    def member_started(self, host: MetastoreHost, member: Member) -> None:
        """A process has come to life; checkers may want to listen."""


class Scatter:
    """What a power failure leaves, sector by sector and name by name as the dice fall."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._kept = dice.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        self.lost = 0
        """Files of which nothing came to the disk that was not synced."""

        self.torn = 0
        """Files of which some sectors did, and others did not."""

    def contents(self, inode: int, file: UnsyncedFile) -> bytes:  # noqa: ARG002
        versions = [
            len(sector.contents) - 1 if self._dice.random() < self._kept else 0
            for sector in file.sectors
        ]
        unsynced = [
            version
            for version, sector in zip(versions, file.sectors, strict=True)
            if len(sector.contents) > 1
        ]
        if unsynced and not all(unsynced):
            self.torn += any(unsynced)
            self.lost += not any(unsynced)
        return file.assemble(self._dice.choice(file.lengths), versions)

    def entries(self, inode: int, changes: int) -> int:  # noqa: ARG002
        return sum(1 << i for i in range(changes) if self._dice.random() < self._kept)


class DiskTrouble(Faults):
    """A disk that works until it is told to fail."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs_left: int | None = None
        """How many syncs will still work; None for all."""

    def next(self, call: Call) -> Failure | None:
        if call is Call.SYNC and self.syncs_left is not None:
            self.syncs_left -= 1
            if self.syncs_left < 0:
                self.syncs_left = None
                return Failure.EIO
        return super().next(call)


class Waiter:
    """Whoever asked is called back, once."""

    __slots__ = ("_is_done", "_then", "_value")

    def __init__(self) -> None:
        self._is_done = False
        self._value: Any = None
        self._then: Callable[[Any], None] | None = None

    def then(self, call: Callable[[Any], None]) -> None:
        """Where the answer goes, or the error; at once if it is there."""
        self._then = call
        if self._is_done:
            call(self._value)

    def done(self) -> bool:
        return self._is_done

    def set_result(self, value: Any, /) -> None:
        self._is_done = True
        self._value = value
        if self._then is not None:
            self._then(value)

    set_exception = set_result

    def __await__(self) -> Iterator[Waiter]:
        """Hands itself to whoever runs the coroutine, who resumes it when this is done."""
        if not self._is_done:
            yield self


@dataclass(slots=True)
class Transfer:
    """An image on its way to a peer, a chunk at a time."""

    chunks: Iterator[NumberedChunk]
    message: InstallSnapshot | None = None
    current: NumberedChunk | None = None


class MetastoreHost:
    """One machine; ``driver`` is None while it is down. Implements ``stele.metastore.Shell``."""

    def __init__(self, world: World, node: int, stored: StoredState) -> None:
        self.id = node
        self.trouble = DiskTrouble()
        self.fs = MemoryFileSystem(faults=self.trouble, seed=node)
        self.driver: Driver | None = None
        self.member: Member | None = None
        self.life = 0
        """Counts the starts; events of an earlier life are void."""

        self.tick_ms = TICK_MS
        self.resumes_at_ms = 0
        """The process stands still until then."""

        self._world = world
        self._clock_rate = 1.0
        self._clock_offset_us = 0
        self._worker: LogWorker | None = None
        self._transfers: dict[int, Transfer] = {}
        self._is_telling = False
        identity = LogIdentity(CLUSTER, node)
        dice = SeededRandom(node)
        RaftLog.create(self.fs, LOG_DIRECTORY, dice, identity, stored, OPTIONS.log).close()

    @property
    def is_up(self) -> bool:
        return self.driver is not None

    @property
    def leads(self) -> bool:
        """Whether it is up and thinks so."""
        return self.driver is not None and self.driver.node.leads

    # Time.

    def now_us(self) -> int:
        """What the machine's own clock says: it drifts, but never goes back."""
        return self._clock_offset_us + int(self._world.now_ms * MICROSECONDS * self._clock_rate)

    def set_clock_rate(self, rate: float) -> None:
        """From now on the clock runs at another speed."""
        now_us = self.now_us()
        self._clock_rate = rate
        self._clock_offset_us += now_us - self.now_us()

    # Life and death.

    def start(self) -> None:
        """Begin a new life from the disk. Raises what the product raises when that cannot be."""
        dice = SeededRandom(self._world.draw(1 << 30))
        machine = StateMachine(MemoryKeyValues(self.fs, STATE_FILE), HELD_CHANGES_MAX)
        member = open_member(self.fs, dice, machine, OPTIONS)
        self.member = member
        self.driver = Driver(member, self, puts_off=True)
        self._worker = LogWorker(self.id, member.log, self.driver)
        self._transfers = {}
        self._is_telling = False
        self.life += 1
        self._world.member_started(self, member)
        self._world.after(1 + self._world.draw(TICK_MS), "tick", self, self._tick, None)

    def kill(self) -> None:
        """The process ends; what it wrote is still visible, synced or not."""
        self._boot(self.fs.restarted().disk)

    def cut_power(self, dice: random.Random) -> None:
        """The machine goes down; what was not synced may be lost, in any mixture."""
        scatter = Scatter(dice)
        self._boot(self.fs.crash_image(scatter).disk)
        self._world.count("files torn", scatter.torn)
        self._world.count("files set back", scatter.lost)

    def _boot(self, disk: Disk) -> None:
        self.driver = self.member = None
        self.trouble = DiskTrouble()
        seed = self._world.draw(1 << 30)
        capacity = self.fs.capacity_bytes
        self.fs = MemoryFileSystem(disk, faults=self.trouble, capacity_bytes=capacity, seed=seed)

    def fill_disk(self, room_bytes: int) -> None:
        """Somebody else takes all space but this."""
        self.fs.capacity_bytes = self.fs.disk.used_bytes + room_bytes

    def free_disk(self) -> None:
        """There is room again."""
        self.fs.capacity_bytes = UNLIMITED_BYTES

    def _tick(self, _: None) -> None:
        assert self.driver is not None
        assert self._worker is not None
        self._worker.tick()
        self.driver.catch_up()
        self.driver.tick(self.now_us(), self._world.now_ms * MICROSECONDS)
        self._world.after(self.tick_ms, "tick", self, self._tick, None)

    def turn(self) -> None:
        """Do all that the node wants done, and begin the next write."""
        self._carry_out()
        if self.driver is not None and self.driver.must_catch_up:
            self.driver.catch_up()
            self._carry_out()
        if self.driver is None or self._worker is None:
            return
        job = self._worker.next_job()
        if job is not None:
            job.write()
            self._world.after(self._disk_ms(), "sync", self, self._finish_sync, job)
        if not self._is_telling and self.driver.node.owes_news:
            self._is_telling = True
            self._world.after(NEWS_MS, "news", self, self._tell_followers, None)

    def _carry_out(self) -> None:
        while self.driver is not None and self.driver.node.has_news and self.driver.step():
            pass

    def _tell_followers(self, _: None) -> None:
        assert self.driver is not None
        self._is_telling = False
        self.driver.tell_followers()

    def _disk_ms(self) -> int:
        return 1 + self._world.draw(self._world.sync_ms_max)

    def _finish_sync(self, job: LogJob) -> None:
        assert self.driver is not None
        assert self._worker is not None
        job.sync()
        if job.has_slow_work:
            self._world.after(self._disk_ms(), "image", self, self._finish_image, job)
        else:
            self._finish(job)

    def _finish_image(self, job: LogJob) -> None:
        """The image lies beside the state. Before it becomes that the machine may go down."""
        job.do_slow_work()
        self._world.after(self._disk_ms(), "adopt", self, self._finish, job)

    def _finish(self, job: LogJob) -> None:
        assert self.driver is not None
        assert self._worker is not None
        for event in self._worker.finish(job):
            if isinstance(event, e.StateReplaced):
                self._world.count("snapshots installed")
            elif isinstance(event, e.SpaceShort):
                self._world.count("disks full")
            self.driver.tell(event)

    # What the driver wants done.

    def new_waiter(self) -> Waiter:
        return Waiter()

    def wake(self) -> None:
        """Every event of the world ends with a turn."""

    def send(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._world.transmit(self.id, message.target, ("raft", encode_message(message)))

    def persist(self, groups: Sequence[e.Group], base: Snapshot | None) -> None:
        assert self._worker is not None
        self._worker.add(groups, base)

    def make_image(self, peer: int) -> None:
        assert self.driver is not None
        machine = self.driver.machine
        self._transfers[peer] = Transfer(number_chunks(list(machine.export())))
        self.driver.tell(e.ImageMade(peer, machine.applied_index))

    def send_image(self, message: InstallSnapshot) -> None:
        transfer = self._transfers[message.target]
        transfer.message = message
        self._next_chunk(message.target, transfer)

    def sync_state(self) -> None:
        assert self.driver is not None
        index = self.driver.machine.applied_index
        self._world.after(self._disk_ms(), "state sync", self, self._finish_state_sync, index)

    def _finish_state_sync(self, index: int) -> None:
        assert self.driver is not None
        try:
            self.driver.machine.sync()
        except OutOfSpace:
            self._world.after(RETRY_MS, "state sync", self, self._finish_state_sync, index)
        except SteleError as error:
            self.driver.tell(e.StorageLost(str(error)))
        else:
            self._world.count("compactions")
            self.driver.tell(e.StateSynced(index))

    def report_space(self, leader: int) -> None:
        assert self.member is not None
        is_short = self.member.log.space_is_short
        self._world.transmit(self.id, leader, ("space", self.id, is_short))

    def stopped(self, reason: str) -> None:  # noqa: ARG002 - the counters tell
        self._world.host_stopped(self)

    # What arrives.

    def receive(self, source: int, parcel: tuple[Any, ...]) -> None:
        """Something of another machine."""
        assert self.driver is not None
        match parcel:
            case ("raft", data):
                self.driver.tell(e.PeerMessage(decode_message(data)))
            case ("space", node, is_short):
                self.driver.tell(e.SpaceShort(node) if is_short else e.AlarmOver(node))
            case ("chunk", message, chunk):
                self._take_chunk(source, message, chunk)
            case ("taken", number):
                self._chunk_taken(source, number)

    def _next_chunk(self, peer: int, transfer: Transfer) -> None:
        assert self.driver is not None
        transfer.current = next(transfer.chunks, None)
        if transfer.current is None:
            del self._transfers[peer]
            self.driver.tell(e.ImageSent(peer, arrived=True))
        else:
            self._offer_chunk((peer, transfer, transfer.current.number, CHUNK_TRIES))

    def _offer_chunk(self, offer: tuple[int, Transfer, int, int]) -> None:
        """Send it, and again when nothing is heard, a few times."""
        assert self.driver is not None
        peer, transfer, number, tries = offer
        current = transfer.current
        if self._transfers.get(peer) is not transfer or current is None:
            return
        if current.number != number:
            return
        if tries == 0:
            del self._transfers[peer]
            self.driver.tell(e.ImageSent(peer, arrived=False))
            return
        self._world.transmit(self.id, peer, ("chunk", transfer.message, current))
        again = (peer, transfer, number, tries - 1)
        self._world.after(CHUNK_PATIENCE_MS, "chunk again", self, self._offer_chunk, again)

    def _take_chunk(self, source: int, message: InstallSnapshot, chunk: NumberedChunk) -> None:
        assert self.driver is not None
        assert self.member is not None
        inbox = self.member.inbox
        try:
            if inbox.take(message.snapshot, chunk):
                inbox.publish()
                self.driver.tell(e.ImageArrived(message))
        except (Corruption, OutOfSpace):
            self._world.count("chunks refused")
        except SteleError as error:
            self.driver.tell(e.StorageLost(str(error)))
        else:
            self._world.transmit(self.id, source, ("taken", chunk.number))

    def _chunk_taken(self, peer: int, number: int) -> None:
        transfer = self._transfers.get(peer)
        if transfer is not None and transfer.message is not None:
            current = transfer.current
            if current is not None and current.number == number:
                self._next_chunk(peer, transfer)
