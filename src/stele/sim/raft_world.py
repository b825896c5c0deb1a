"""A Raft group in one thread: machines that crash, and messages that pass between them.

Messages are encoded when sent and decoded when they arrive.
"""

from __future__ import annotations

from collections.abc import Callable

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
from stele.sim.world import World

TICK_MS = 15
SNAPSHOT_TRANSFER_MS = 40
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


class RaftWorld(World[Host]):
    """The machines, and what passes between them."""

    def __init__(self, seed: int, size: int, *, keep_trace: bool = False) -> None:
        super().__init__(seed, keep_trace=keep_trace)
        self.on_answer: Callable[[Host, Message], None] = lambda _host, _message: None
        """Told of every message that rested on a sync, as it leaves."""

        self.checker = RaftChecker(self.hosts, self.counters)
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

    def act(self, host: Host, action: Callable[[RaftNode], object]) -> None:
        """Do something to a running node now, as part of the present event."""
        assert host.core is not None
        action(host.core)
        self.pump(host)

    def _describe(self, host: Host) -> str:
        assert host.core is not None
        s = host.core.state
        log = s.log
        return f"{s.role.value} t{s.term} l{log.last_index} c{log.commit} p{log.ledger.persisted}"

    def start(self, host: Host) -> None:
        """Boot a machine that is down; nothing to do if it is up."""
        if host.is_up:
            return
        host.start(SIM_CONFIG, self.draw)
        self.after(1 + self.draw(TICK_MS), "tick", host, self._tick, host)
        self.pump(host)

    def crash(self, host: Host) -> None:
        """Cut the power."""
        survivors = self.draw(len(host.writes) + 1)
        lost = host.crash(survivors, state_survives=self.draw(2) == 0)
        self.checker.before_restart(host.id)
        self.counters["crashes"] += 1
        self.counters["writes lost"] += lost

    def _after_event(self, host: Host) -> None:
        self.pump(host)

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
                self.after(1 + self.draw(TICK_MS), "image", host, self._send_image, (host, peer))
            if ready.needs_sync or ready.hard_state is not None or ready.messages_after_sync:
                host.writes.append(ready)
            self._apply(host, core, ready)
        if not host.syncing and any(w.needs_sync or w.messages_after_sync for w in host.writes):
            host.syncing = True
            delay = 1 + self.draw(self.weather.sync_ms_max)
            self.after(delay, "sync", host, self._finish_sync, (host, len(host.writes)))

    def _apply(self, host: Host, core: RaftNode, ready: Ready) -> None:
        for entry in ready.committed:
            host.image = host.image.apply(entry)
        if ready.committed:
            core.applied(host.image.index)
            self.checker.on_applied(host)

    def _tick(self, host: Host) -> None:
        assert host.core is not None
        host.core.tick()
        self.after(host.tick_ms, "tick", host, self._tick, host)

    def _finish_sync(self, begun: tuple[Host, int]) -> None:
        host, count = begun
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
        target = self.hosts[message.target]
        delays_ms = self.delays_of_copies((message.source, message.target))
        for delay_ms in delays_ms:
            parcel = (target, encode_message(message), image)
            self.deliver(extra_ms + delay_ms, "deliver", target, self._deliver, parcel)
        return bool(delays_ms)

    def _deliver(self, parcel: tuple[Host, bytes, Image | None]) -> None:
        host, data, image = parcel
        assert host.core is not None
        message = decode_message(data)
        if isinstance(message, InstallSnapshot):
            assert image is not None
            host.staged[image.index] = image
        log = host.core.state.log
        last, term = log.last_index, log.last_term
        host.core.step(message)
        if log.last_index < last or (log.last_index == last and log.last_term != term):
            self.counters["log cuts"] += 1

    def _send_image(self, order: tuple[Host, int]) -> None:
        """Begin to transfer the state to a follower, if it is still wanted."""
        host, peer = order
        assert host.core is not None
        wanted = host.core.state.peers.get(peer)
        if wanted is None or wanted.state.value != "snapshot" or wanted.pending_snapshot:
            return
        message = host.core.begin_snapshot(peer, host.image.index)
        arrived = self._transmit(message, host.image, SNAPSHOT_TRANSFER_MS)
        # The report may be wrong: the receiver can have crashed since.
        delay = 2 * SNAPSHOT_TRANSFER_MS + self.draw(SNAPSHOT_TRANSFER_MS)
        self.after(delay, "report", host, self._report_image, (host, peer, arrived))

    def _report_image(self, outcome: tuple[Host, int, bool]) -> None:
        host, peer, arrived = outcome
        assert host.core is not None
        host.core.report_snapshot(peer, arrived=arrived)
