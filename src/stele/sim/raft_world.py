"""A Raft group in one thread: an event queue, a network that misbehaves, machines that crash.

Time is an integer of milliseconds that only the queue moves. All chance comes from one generator,
so a seed fixes the whole run; every event goes into a running hash by which two runs are compared.
Messages are encoded when sent and decoded when they arrive.
"""

from __future__ import annotations

import heapq
import random
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stele.raft import (
    HardState,
    InstallSnapshot,
    Membership,
    Message,
    RaftConfig,
    RaftNode,
    Ready,
    Snapshot,
    bootstrap,
    decode_message,
    encode_message,
)
from stele.sim.raft_checks import RaftChecker
from stele.sim.raft_host import Disk, Host, Image

TICK_MS = 15
SNAPSHOT_TRANSFER_MS = 40
ANY_LIFE = -1
"""Messages find a machine after a restart as well."""

SIM_CONFIG = RaftConfig(
    election_ticks=5,
    heartbeat_ticks=2,
    entry_bytes_max=500,
    append_bytes_max=160,
    inflight_bytes_max=400,
    uncommitted_bytes_max=2_000,
    committed_bytes_max=200,
    reads_waiting_max=16,
    promotion_lag_entries_max=20,
)
"""Limits so tight that every run meets them."""


@dataclass(slots=True)
class Weather:
    """How bad the network and the disks are at present."""

    loss: float = 0.0
    duplication: float = 0.0
    delay_ms_max: int = 3
    sync_ms_max: int = 3


Event = tuple[int, int, str, Host | None, int, Callable[..., None], Any]


class RaftWorld:
    """The machines, the links between them, and the queue of what happens next."""

    def __init__(self, seed: int, size: int, *, keep_trace: bool = False) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a simulation, nothing is kept secret
        self.now_ms = 0
        self.events = 0
        self.trace_hash = 0
        self.trace: list[str] | None = [] if keep_trace else None
        self.counters: Counter[str] = Counter()
        self.weather = Weather()
        self.blocked: set[tuple[int, int]] = set()
        """One-way links, from and to, that carry nothing."""

        self.on_answer: Callable[[Host, Message], None] = lambda _host, _message: None
        """Told of every message that rested on a sync, as it leaves."""

        self.hosts: dict[int, Host] = {}
        self.checker = RaftChecker(self.hosts, self.counters)
        self._queue: list[Event] = []
        self._sequence = 0
        founders = Membership(tuple(range(1, size + 1)))
        stored = bootstrap(founders)
        self.checker.found(stored.entries)
        for node in founders.voters:
            self.add_host(node, Disk(stored.hard_state, stored.snapshot, list(stored.entries)))

    def add_host(self, node: int, disk: Disk) -> None:
        """Switch on a machine with this disk."""
        host = self.hosts[node] = Host(node, disk)
        self.start(host)

    def add_empty_host(self, node: int) -> None:
        """Switch on a machine that knows nothing yet."""
        self.add_host(node, Disk(HardState(), Snapshot(), []))

    def draw(self, bound: int) -> int:
        """A number from 0 to ``bound - 1``."""
        return int(self.random.random() * bound)

    def after(
        self, delay_ms: int, kind: str, host: Host | None, action: Callable[..., None], arg: Any
    ) -> None:
        """Something happens later; to a host only if it still lives the same life."""
        life = host.life if host is not None else ANY_LIFE
        self._push(delay_ms, kind, host, life, action, arg)

    def _push(
        self,
        delay_ms: int,
        kind: str,
        host: Host | None,
        life: int,
        action: Callable[..., None],
        arg: Any,
    ) -> None:
        self._sequence += 1
        event = (self.now_ms + delay_ms, self._sequence, kind, host, life, action, arg)
        heapq.heappush(self._queue, event)

    def step(self) -> None:
        """The next event, and the checks after it."""
        at_ms, _, kind, host, life, action, arg = heapq.heappop(self._queue)
        self.now_ms = max(self.now_ms, at_ms)
        if host is None:
            action(arg)
            self._record(kind, None)
            return
        if host.core is None or life not in (host.life, ANY_LIFE):
            return
        if host.resumes_at_ms > self.now_ms:
            self._push(host.resumes_at_ms - self.now_ms, kind, host, life, action, arg)
            return
        action(host, arg)
        self.pump(host)
        self._record(kind, host)

    def act(self, host: Host, action: Callable[[RaftNode], object]) -> None:
        """Do something to a running node now, as part of the present event."""
        assert host.core is not None
        action(host.core)
        self.pump(host)

    def _record(self, kind: str, host: Host | None) -> None:
        self.events += 1
        if host is None or host.core is None:
            line = f"{self.now_ms} {kind}"
        else:
            s = host.core.state
            log = s.log
            line = (
                f"{self.now_ms} {kind} {host.id} {s.role.value} t{s.term} "
                f"l{log.last_index} c{log.commit} p{log.ledger.persisted}"
            )
        self.trace_hash = zlib.crc32(line.encode(), self.trace_hash)
        if self.trace is not None:
            self.trace.append(line)

    def start(self, host: Host) -> None:
        """Boot a machine that is down."""
        host.start(SIM_CONFIG, self.draw)
        self.after(1 + self.draw(TICK_MS), "tick", host, self._tick, None)
        self.pump(host)

    def crash(self, host: Host) -> None:
        """Cut the power."""
        survivors = self.draw(len(host.writes) + 1)
        lost = host.crash(survivors, state_survives=self.draw(2) == 0)
        self.checker.before_restart(host.id)
        self.counters["crashes"] += 1
        self.counters["writes lost"] += lost

    def pump(self, host: Host) -> None:
        """Carry out whatever the node wants done."""
        core = host.core
        assert core is not None
        self.checker.after_event(core.state)
        while (ready := core.ready()) is not None:
            self.checker.on_ready(core.state, ready)
            for message in ready.messages:
                self.send(message)
            for peer in ready.snapshots_wanted:
                self.after(1 + self.draw(TICK_MS), "image", host, self._send_image, peer)
            if ready.needs_sync or ready.hard_state is not None or ready.messages_after_sync:
                host.writes.append(ready)
            self._apply(host, core, ready)
        if not host.syncing and any(w.needs_sync or w.messages_after_sync for w in host.writes):
            host.syncing = True
            delay = 1 + self.draw(self.weather.sync_ms_max)
            self.after(delay, "sync", host, self._finish_sync, len(host.writes))

    def _apply(self, host: Host, core: RaftNode, ready: Ready) -> None:
        for entry in ready.committed:
            host.image = host.image.apply(entry)
        if ready.committed:
            core.applied(host.image.index)
            self.checker.on_applied(host)

    def _tick(self, host: Host, _: None) -> None:
        assert host.core is not None
        host.core.tick()
        self.after(host.tick_ms, "tick", host, self._tick, None)

    def _finish_sync(self, host: Host, count: int) -> None:
        assert host.core is not None
        host.syncing = False
        done = host.sync(count)
        host.core.persisted(done[-1].number)
        for ready in done:
            if ready.snapshot is not None:
                self.counters["snapshots installed"] += 1
                self.checker.on_applied(host)
            for message in ready.messages_after_sync:
                self.send(message)
                self.on_answer(host, message)

    def send(self, message: Message) -> None:
        """Give a message to the network."""
        self._transmit(message, None, 0)

    def _transmit(self, message: Message, image: Image | None, extra_ms: int) -> bool:
        """Whether at least one copy will arrive."""
        weather = self.weather
        link = (message.source, message.target)
        if link in self.blocked or self.random.random() < weather.loss:
            self.counters["messages lost"] += 1
            return False
        target = self.hosts[message.target]
        data = encode_message(message)
        copies = 1
        if self.random.random() < weather.duplication:
            copies = 2
            self.counters["messages doubled"] += 1
        for _ in range(copies):
            delay = extra_ms + 1 + self.draw(weather.delay_ms_max)
            self._push(delay, "deliver", target, ANY_LIFE, self._deliver, (data, image))
        return True

    def _deliver(self, host: Host, parcel: tuple[bytes, Image | None]) -> None:
        assert host.core is not None
        data, image = parcel
        message = decode_message(data)
        if isinstance(message, InstallSnapshot):
            assert image is not None
            host.staged[image.index] = image
        log = host.core.state.log
        last, term = log.last_index, log.last_term
        host.core.step(message)
        if log.last_index < last or (log.last_index == last and log.last_term != term):
            self.counters["log cuts"] += 1

    def _send_image(self, host: Host, peer: int) -> None:
        """Begin to transfer the state to a follower, if it is still wanted."""
        assert host.core is not None
        wanted = host.core.state.peers.get(peer)
        if wanted is None or wanted.state.value != "snapshot" or wanted.pending_snapshot:
            return
        message = host.core.begin_snapshot(peer, host.image.index)
        arrived = self._transmit(message, host.image, SNAPSHOT_TRANSFER_MS)
        # The report may be wrong: the receiver can have crashed since.
        delay = 2 * SNAPSHOT_TRANSFER_MS + self.draw(SNAPSHOT_TRANSFER_MS)
        self.after(delay, "report", host, self._report_image, (peer, arrived))

    def _report_image(self, host: Host, outcome: tuple[int, bool]) -> None:
        assert host.core is not None
        peer, arrived = outcome
        host.core.report_snapshot(peer, arrived=arrived)
