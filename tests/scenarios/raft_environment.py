"""A Raft group under the hand of a scenario: nothing happens unless a command says so.

Commands, where N is a node:

    cluster voters=1,2,3 [learners=4] [election_ticks=10 …]    found a group
    config election_ticks=10 …                                  for the nodes that follow
    node N [log=[1:a 1:b] term=2 commit=1 voters=1,2,3]         a node with a state made by hand
    campaign N | tick N [count] | propose N text… | read N context | transfer N target
    abstain N [undo]                                            leave leading to others
    change N add-learner|promote|remove|relocate M [address]
    compact N index | image N peer | image-report N peer yes|no | unreachable N peer
    ready N          take Readys: send, start writes, apply     sync N [count]   finish writes
    deliver [A>B …]  let messages in flight arrive              drop [A>B …]
    recv KIND A>B term=… …                                      a message made by hand
    stabilize [N …]  ready, sync and deliver among these nodes until nothing is left to do
    quietly COMMAND  without its output
    isolate N | heal | crash N [keep=writes] | restart N
    status [N …] | log N | peers N | network
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from stele.errors import SteleError
from stele.raft import (
    AddLearner,
    Change,
    Entry,
    HardState,
    Membership,
    Message,
    Promote,
    RaftConfig,
    RaftNode,
    Ready,
    Relocate,
    Remove,
    Snapshot,
    StoredState,
    bootstrap,
)
from tests.scenarios import raft_printing as show

ROUNDS_MAX = 200


@dataclass(slots=True)
class Machine:
    """One node with its disk and the writes under way."""

    stored: StoredState
    node: RaftNode
    lives: int = 1
    writes: deque[Ready] = field(default_factory=deque)
    applied: int = 0


class RaftEnvironment:
    """Executes the commands of one scenario file."""

    def __init__(self) -> None:
        self._config = RaftConfig()
        self._machines: dict[int, Machine] = {}
        self._down: dict[int, Machine] = {}
        self._network: list[Message] = []
        self._isolated: set[int] = set()

    def execute(self, command: str) -> list[str]:
        """Carry out one command; what it prints. A typed refusal is output like any other."""
        try:
            return self._do(*command.split())
        except SteleError as refusal:
            return [f"{type(refusal).__name__}: {refusal}"]

    def _do(self, name: str, *words: str) -> list[str]:
        perform: Callable[..., list[str]] = getattr(self, "do_" + name.replace("-", "_"))
        return perform(*words)

    def do_quietly(self, *words: str) -> list[str]:
        self._do(*words)
        return []

    def do_cluster(self, *settings: str) -> list[str]:
        values = dict(word.split("=") for word in settings)
        membership = Membership(_ids(values.pop("voters")), _ids(values.pop("learners", "")), {})
        self._config = _config(values)
        for node in membership.members:
            self._boot(node, bootstrap(membership), 1)
        return self.do_status()

    def do_config(self, *settings: str) -> list[str]:
        self._config = _config(dict(word.split("=") for word in settings))
        return []

    def do_node(self, name: str, *settings: str) -> list[str]:
        text = " ".join(settings)
        log = text[text.index("[") : text.index("]") + 1] if "[" in text else "[]"
        values = dict(w.split("=") for w in text.replace(f"log={log}", "").split())
        entries: tuple[Entry, ...] = ()
        snapshot = Snapshot(0, 0, Membership(_ids(values.get("voters", ""))))
        entries = show.parse_entries(log, 1)
        term = int(values.get("term", entries[-1].term if entries else 0))
        hard = HardState(term, int(values.get("vote", 0)), int(values.get("commit", 0)))
        applied = int(values.get("applied", hard.commit))
        self._boot(int(name), StoredState(hard, snapshot, entries, applied), 1)
        return self.do_status(name)

    def _boot(self, node: int, stored: StoredState, life: int) -> None:
        # The first draw of a life is its nonce, the others are timeouts: node 1 is the quickest.
        draws = iter([life])
        core = RaftNode(node, self._config, stored, lambda bound: next(draws, (node - 1) % bound))
        self._machines[node] = Machine(stored, core, life, deque(), stored.applied)

    def _core(self, name: str) -> RaftNode:
        return self._machines[int(name)].node

    def do_abstain(self, name: str, undo: str = "") -> list[str]:
        self._core(name).abstain(undo=bool(undo))
        return self.do_status(name)

    def do_campaign(self, name: str) -> list[str]:
        self._core(name).campaign()
        return self.do_status(name)

    def do_tick(self, name: str, count: str = "1") -> list[str]:
        for _ in range(int(count)):
            self._core(name).tick()
        return self.do_status(name)

    def do_propose(self, name: str, *payloads: str) -> list[str]:
        made = self._core(name).propose([_payload(text) for text in payloads])
        return [f"{made.first_index}..{made.last_index} in term {made.term}"]

    def do_change(self, name: str, kind: str, node: str, address: str = "") -> list[str]:
        changes: dict[str, Change] = {
            "add-learner": AddLearner(int(node), address),
            "promote": Promote(int(node)),
            "remove": Remove(int(node)),
            "relocate": Relocate(int(node), address),
        }
        made = self._core(name).propose_change(changes[kind])
        return [f"{made.first_index} in term {made.term}"]

    def do_read(self, name: str, context: str) -> list[str]:
        self._core(name).read_index(int(context))
        return []

    def do_transfer(self, name: str, target: str) -> list[str]:
        self._core(name).transfer_leadership(int(target))
        return []

    def do_compact(self, name: str, index: str) -> list[str]:
        machine = self._machines[int(name)]
        start = machine.node.compact(int(index))
        kept = tuple(e for e in machine.stored.entries if e.index > start.index)
        machine.stored = StoredState(machine.stored.hard_state, start, kept, machine.applied)
        return [f"log begins after {show.snapshot_text(start)}"]

    def do_image(self, name: str, peer: str) -> list[str]:
        machine = self._machines[int(name)]
        message = machine.node.begin_snapshot(int(peer), machine.applied)
        self._send(message)
        return [show.message_text(message)]

    def do_image_report(self, name: str, peer: str, arrived: str) -> list[str]:
        self._core(name).report_snapshot(int(peer), arrived=arrived == "yes")
        return self.do_peers(name)

    def do_unreachable(self, name: str, peer: str) -> list[str]:
        self._core(name).report_unreachable(int(peer))
        return self.do_peers(name)

    def do_ready(self, name: str) -> list[str]:
        machine = self._machines[int(name)]
        lines: list[str] = []
        while (ready := machine.node.ready()) is not None:
            lines += show.ready_lines(int(name), ready)
            for message in ready.messages:
                self._send(message)
            if ready.needs_sync or ready.hard_state is not None or ready.messages_after_sync:
                machine.writes.append(ready)
            if ready.committed:
                machine.applied = ready.committed[-1].index
                machine.node.applied(machine.applied)
        return lines

    def do_sync(self, name: str, count: str = "") -> list[str]:
        machine = self._machines[int(name)]
        lines = []
        for _ in range(int(count) if count else len(machine.writes)):
            ready = machine.writes.popleft()
            _write(machine, ready)
            machine.node.persisted(ready.number)
            lines.append(f"{name} persisted {ready.number}")
            for message in ready.messages_after_sync:
                lines.append(f"  {show.message_text(message)}")
                self._send(message)
        return lines

    def _send(self, message: Message) -> None:
        if not self._isolated & {message.source, message.target}:
            self._network.append(message)

    def _take(self, links: tuple[str, ...]) -> list[Message]:
        """Messages in flight on these links, all of them if none is named."""
        taken = [m for m in self._network if not links or f"{m.source}>{m.target}" in links]
        self._network = [m for m in self._network if m not in taken]
        return taken

    def do_deliver(self, *links: str) -> list[str]:
        lines = []
        for message in self._take(links):
            lines.append(show.message_text(message))
            machine = self._machines.get(message.target)
            if machine is None:
                lines[-1] += " (down)"
            else:
                machine.node.step(message)
        return lines

    def do_drop(self, *links: str) -> list[str]:
        return [f"dropped {show.message_text(m)}" for m in self._take(links)]

    def do_recv(self, *words: str) -> list[str]:
        text = " ".join(words)
        entries = text[text.index("[") : text.index("]") + 1] if "[" in text else "[]"
        message = show.parse_message(text.replace(entries, "").split(), entries)
        self._machines[message.target].node.step(message)
        return self.do_status(str(message.target))

    def do_stabilize(self, *names: str) -> list[str]:
        chosen = [int(name) for name in names] or sorted(self._machines)
        links = tuple(f"{a}>{b}" for a in chosen for b in chosen)
        lines: list[str] = []
        for _ in range(ROUNDS_MAX):
            round_lines: list[str] = []
            for node in chosen:
                if node in self._machines:
                    round_lines += self.do_ready(str(node)) + self.do_sync(str(node))
            round_lines += self.do_deliver(*links)
            if not round_lines:
                return lines
            lines += round_lines
        raise AssertionError(f"not stable after {ROUNDS_MAX} rounds")

    def do_isolate(self, *names: str) -> list[str]:
        self._isolated |= {int(name) for name in names}
        self._network = [m for m in self._network if not self._isolated & {m.source, m.target}]
        return []

    def do_heal(self) -> list[str]:
        self._isolated.clear()
        return []

    def do_crash(self, name: str, keep: str = "keep=0") -> list[str]:
        machine = self._machines.pop(int(name))
        lost = len(machine.writes)
        for _ in range(int(keep.removeprefix("keep="))):
            _write(machine, machine.writes.popleft())
            lost -= 1
        self._down[int(name)] = machine
        return [f"{name} lost {lost} writes"]

    def do_restart(self, name: str) -> list[str]:
        machine = self._down.pop(int(name))
        stored = machine.stored
        again = StoredState(stored.hard_state, stored.snapshot, stored.entries, machine.applied)
        self._boot(int(name), again, machine.lives + 1)
        return self.do_status(name)

    def do_status(self, *names: str) -> list[str]:
        chosen = [int(name) for name in names] or sorted(self._machines)
        return [show.state_text(self._machines[node].node.state) for node in chosen]

    def do_log(self, name: str) -> list[str]:
        log = self._core(name).state.log
        return [show.entries_text(log.slice(log.first_index, log.last_index, 1 << 30))]

    def do_peers(self, name: str) -> list[str]:
        return show.peer_lines(self._core(name).state)

    def do_network(self) -> list[str]:
        return [show.message_text(m) for m in self._network]


def _config(values: dict[str, str]) -> RaftConfig:
    return RaftConfig(**{name: int(value) for name, value in values.items()})


def _ids(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(","))) if text else ()


def _payload(text: str) -> bytes:
    """``500x`` is five hundred bytes, anything else is itself."""
    if text.endswith("x") and text[:-1].isdigit():
        return b"x" * int(text[:-1])
    return text.encode()


def _write(machine: Machine, ready: Ready) -> None:
    """Carry out one write on the machine's disk."""
    old = machine.stored
    snapshot, entries = old.snapshot, old.entries
    if ready.snapshot is not None:
        snapshot, entries = ready.snapshot, ()
        machine.applied = snapshot.index
    if ready.entries:
        entries = (*(e for e in entries if e.index < ready.entries[0].index), *ready.entries)
    machine.stored = StoredState(ready.hard_state or old.hard_state, snapshot, entries, 0)
