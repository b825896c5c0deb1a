"""Who makes trouble for a simulated Raft group, and who uses it meanwhile.

Each run draws its own mix: some kinds of fault are switched off altogether, because a run with
every fault at once often gets nowhere, and a bug may need the absence of one fault as much as the
presence of another.
"""

from __future__ import annotations

from collections.abc import Callable

from stele.errors import GiveUp, RetryElsewhere, RetryLater
from stele.raft import AddLearner, Change, Message, Promote, RaftNode, Relocate, Remove, Role
from stele.raft.messages import VoteResponse
from stele.sim.raft_host import Host
from stele.sim.raft_world import TICK_MS, RaftWorld, Weather

FAULT_GAP_MS = 50
CLIENT_GAP_MS = 6
CALM_CLIENT_GAP_MS = 25
CHORES_IN_CALM = 5
OUTAGE_MS_MAX = 300
FLICKER_MS_MAX = 12
HOSTS_MAX = 7


class Nemesis:
    """Schedules faults until it is told to rest."""

    def __init__(self, world: RaftWorld) -> None:
        self._world = world
        self._active = True
        every: list[Callable[[], None]] = [
            self._crash_one,
            self._crash_many,
            self._isolate,
            self._cut_one_way,
            self._split,
            self._pause,
            self._skew,
            self._change_weather,
            self._contest,
            self._forget_after_answers,
        ]
        self._faults = [fault for fault in every if world.draw(10) < 7] or every
        self._forgetful_until_ms = 0
        world.on_answer = self._maybe_forget
        self._change_weather()
        world.after(FAULT_GAP_MS, "fault", None, self._strike, None)

    def rest(self) -> None:
        """Repair everything; nothing new will break."""
        self._active = False
        world = self._world
        world.blocked.clear()
        world.weather = Weather()
        for host in world.hosts.values():
            host.tick_ms = TICK_MS
            host.resumes_at_ms = 0
            self._restart(host)

    def _strike(self, _: None) -> None:
        if self._active:
            self._faults[self._world.draw(len(self._faults))]()
            gap = 1 + self._world.draw(2 * FAULT_GAP_MS)
            self._world.after(gap, "fault", None, self._strike, None)

    def _outage_ms(self) -> int:
        """Often so short that the group does not notice, but the node forgets."""
        bound = FLICKER_MS_MAX if self._world.draw(3) == 0 else OUTAGE_MS_MAX
        return 1 + self._world.draw(bound)

    def _pick(self) -> Host:
        """Any machine, and more often than others one that leads: that is where it hurts."""
        leading = self._leading()
        if leading and self._world.draw(2):
            return leading[self._world.draw(len(leading))]
        hosts = list(self._world.hosts.values())
        return hosts[self._world.draw(len(hosts))]

    def _leading(self) -> list[Host]:
        hosts = self._world.hosts.values()
        return [h for h in hosts if h.core is not None and h.core.state.role is Role.LEADER]

    def _crash(self, host: Host) -> None:
        if host.core is not None and self._active:
            self._world.crash(host)
            self._world.after(self._outage_ms(), "restart", None, self._restart, host)

    def _restart(self, host: Host) -> None:
        if host.core is None:
            self._world.start(host)

    def _crash_one(self) -> None:
        self._crash(self._pick())

    def _crash_many(self) -> None:
        """Power failures come in groups: whatever only memory held is gone everywhere."""
        for host in self._world.hosts.values():
            if self._world.draw(3) < 2:
                self._crash(host)

    def _block(self, links: list[tuple[int, int]]) -> None:
        self._world.counters["partitions"] += 1
        self._world.blocked.update(links)
        self._world.after(self._outage_ms(), "heal", None, self._unblock, links)

    def _unblock(self, links: list[tuple[int, int]]) -> None:
        self._world.blocked.difference_update(links)

    def _isolate(self) -> None:
        node = self._pick().id
        others = [other for other in self._world.hosts if other != node]
        self._block([(node, other) for other in others] + [(other, node) for other in others])

    def _cut_one_way(self) -> None:
        """One node cannot be heard, or cannot hear: its own view is that all is well."""
        node = self._pick().id
        others = [other for other in self._world.hosts if other != node]
        if self._world.draw(2):
            self._block([(node, other) for other in others])
        else:
            self._block([(other, node) for other in others])

    def _split(self) -> None:
        """Two halves, at times with one node that both can reach."""
        side = {node: self._world.draw(2) for node in self._world.hosts}
        bridge = self._pick().id if self._world.draw(3) == 0 else 0
        apart = [(a, b) for a in side for b in side if side[a] != side[b]]
        self._block([link for link in apart if bridge not in link])

    def _pause(self) -> None:
        self._world.counters["pauses"] += 1
        self._pick().resumes_at_ms = self._world.now_ms + self._outage_ms()

    def _contest(self) -> None:
        """Two candidates in one term, and voters that forget in the middle of it.

        A leader that is told to hand over to one node and then to another sends both into the
        election; the protection of leaders and the pre-vote do not apply.
        """
        for leader in self._leading():
            assert leader.core is not None
            voters = leader.core.state.membership.voters
            others = [node for node in voters if node != leader.id]
            if len(others) >= 2 and leader.resumes_at_ms <= self._world.now_ms:
                self._pit(leader, leader.core, others)

    def _pit(self, leader: Host, core: RaftNode, others: list[int]) -> None:
        self._world.counters["contests"] += 1
        first = self._world.draw(len(others))
        for rival in (others[first], others[first - 1]):
            core.transfer_leadership(rival)
        self._world.pump(leader)
        for node in (*others, leader.id):
            if self._world.draw(2):
                delay = 1 + self._world.draw(FLICKER_MS_MAX)
                self._world.after(delay, "crash", None, self._flicker, self._world.hosts[node])

    def _forget_after_answers(self) -> None:
        """For a while, nodes tend to crash right after they made a promise."""
        self._forgetful_until_ms = self._world.now_ms + self._outage_ms()

    def _maybe_forget(self, host: Host, message: Message) -> None:
        if self._world.now_ms < self._forgetful_until_ms:
            odds = 2 if isinstance(message, VoteResponse) else 20
            if self._world.draw(odds) == 0:
                self._world.after(1, "crash", None, self._flicker, host)

    def _flicker(self, host: Host) -> None:
        """Crash and be back at once."""
        if host.core is not None and self._active:
            self._world.crash(host)
            self._world.start(host)

    def _skew(self) -> None:
        """A clock that runs at a third of the others' speed, or at three times theirs."""
        self._world.counters["clock skews"] += 1
        self._pick().tick_ms = (TICK_MS // 3, TICK_MS // 2, TICK_MS, 2 * TICK_MS, 3 * TICK_MS)[
            self._world.draw(5)
        ]

    def _change_weather(self) -> None:
        draw = self._world.draw
        self._world.weather = Weather(
            loss=(0.0, 0.02, 0.1, 0.3)[draw(4)],
            duplication=(0.0, 0.05, 0.3)[draw(3)],
            delay_ms_max=(3, 10, 40, 120)[draw(4)],
            sync_ms_max=(1, 5, 25, 100)[draw(4)],
        )


class Clients:
    """Proposals, reads, and the chores of an operator."""

    def __init__(self, world: RaftWorld) -> None:
        self._world = world
        self._serial = 0
        self._chores: list[Callable[[Host], None]] = [
            self._propose,
            self._propose,
            self._propose,
            self._read,
            self._read,
            self._compact,
            self._transfer,
            self._change,
            self._report_unreachable,
        ]
        self._calm = False
        world.after(CLIENT_GAP_MS, "client", None, self._act, None)

    def calm_down(self) -> None:
        """From now on only proposals and reads, and fewer of them."""
        self._calm = True

    def _act(self, _: None) -> None:
        world = self._world
        chore = self._chores[world.draw(CHORES_IN_CALM if self._calm else len(self._chores))]
        host = self._find(leader=world.draw(4) != 0)
        if host is not None:
            chore(host)
        gap = CALM_CLIENT_GAP_MS if self._calm else 1 + world.draw(2 * CLIENT_GAP_MS)
        world.after(gap, "client", None, self._act, None)

    def _find(self, *, leader: bool) -> Host | None:
        """A running host; mostly one that thinks it leads, as clients follow hints."""
        now = self._world.now_ms
        awake = [
            host
            for host in self._world.hosts.values()
            if host.core is not None
            and host.resumes_at_ms <= now
            and (not leader or host.core.state.role is Role.LEADER)
        ]
        return awake[self._world.draw(len(awake))] if awake else None

    def _try(self, host: Host, what: str, action: Callable[[RaftNode], object]) -> None:
        try:
            self._world.act(host, action)
        except (RetryElsewhere, RetryLater, GiveUp) as refusal:
            self._world.counters[f"{what} refused: {type(refusal).__name__}"] += 1
        else:
            self._world.counters[what] += 1

    def _propose(self, host: Host) -> None:
        self._serial += 1
        draw = self._world.draw
        payloads = [b"%d.%d" % (self._serial, i) + b"." * draw(40) for i in range(1 + draw(3))]
        self._try(host, "proposals", lambda core: core.propose(payloads))

    def _read(self, host: Host) -> None:
        self._serial += 1
        context = self._serial
        self._world.checker.asked(context)
        self._try(host, "reads", lambda core: core.read_index(context))

    def _compact(self, host: Host) -> None:
        index = host.image.index - self._world.draw(6)
        core = host.core
        assert core is not None
        if index > core.state.log.base_index:
            host.disk.checkpoint(core.compact(index), host.image)
            self._world.counters["compactions"] += 1

    def _transfer(self, host: Host) -> None:
        assert host.core is not None
        voters = host.core.state.membership.voters
        if voters:
            target = voters[self._world.draw(len(voters))]
            self._try(host, "transfers", lambda core: core.transfer_leadership(target))

    def _report_unreachable(self, host: Host) -> None:
        target = 1 + self._world.draw(HOSTS_MAX)
        self._try(host, "unreachable reports", lambda core: core.report_unreachable(target))

    def _change(self, host: Host) -> None:
        assert host.core is not None
        change = self._choose_change(host.core)

        def propose(core: RaftNode) -> None:
            core.propose_change(change)
            if isinstance(change, AddLearner):
                self._world.add_empty_host(change.node)

        self._try(host, "changes", propose)

    def _choose_change(self, core: RaftNode) -> Change:
        draw = self._world.draw
        membership = core.state.membership
        if membership.learners and draw(3):
            return Promote(membership.learners[draw(len(membership.learners))])
        newcomer = max(self._world.hosts) + 1
        if newcomer <= HOSTS_MAX and draw(3) == 0:
            return AddLearner(newcomer, f"host-{newcomer}")
        members = membership.members or (1,)
        member = members[draw(len(members))]
        if len(membership.voters) > 2 and draw(2):
            return Remove(member)
        return Relocate(member, f"host-{member}-{draw(100)}")
