"""Who makes trouble for a simulated Raft group, and who uses it meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from stele.errors import GiveUp, RetryElsewhere, RetryLater
from stele.raft import AddLearner, Change, Message, Promote, RaftNode, Relocate, Remove
from stele.raft.messages import VoteResponse
from stele.sim.nemesis import Nemesis, Severity
from stele.sim.raft_host import Host
from stele.sim.raft_world import TICK_MS, RaftWorld

SEVERITY = Severity(
    fault_gap_ms=50,
    outage_ms_max=300,
    flicker_ms_max=12,
    loss=(0.0, 0.02, 0.1, 0.3),
    duplication=(0.0, 0.05, 0.3),
    delay_ms_max=(3, 10, 40, 120),
    sync_ms_max=(1, 5, 25, 100),
)
CLIENT_GAP_MS = 6
CALM_CLIENT_GAP_MS = 25
CHORES_IN_CALM = 5
HOSTS_MAX = 7


class RaftNemesis(Nemesis[Host]):
    """The faults of a Raft group."""

    def __init__(self, world: RaftWorld) -> None:
        self._world = world
        self._forgetful_until_ms = 0
        super().__init__(world, SEVERITY, TICK_MS)
        world.on_answer = self._maybe_forget

    def _own_faults(self) -> list[Callable[[], None]]:
        return [self._contest, self._forget_after_answers]

    def _crash(self, host: Host) -> None:
        if host.is_up and self._active:
            self._world.crash(host)
            self._world.after(self._outage_ms(), "restart", None, self._world.start, host)

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
                delay = 1 + self._world.draw(SEVERITY.flicker_ms_max)
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
        if host.is_up and self._active:
            self._world.crash(host)
            self._world.start(host)


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
            if host.core is not None and host.resumes_at_ms <= now and (not leader or host.leads)
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
