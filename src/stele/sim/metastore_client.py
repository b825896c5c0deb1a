"""A client of the simulated metastore: scripts that ask, wait and try again.

A script is a generator that yields what it waits for, ``Ask`` or ``Sleep``, and is resumed with the
answer, or with None when its patience ends. Several scripts may share one client: one works with a
session while another keeps it alive.

Writes are tried again under the same identity, at other members, until there is an answer; when the
patience for that ends too, the outcome is unknown if any of the tries can have got through.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from stele.errors import GiveUp, OutcomeUnknown, SteleError
from stele.metastore.commands import Command
from stele.protocol.metastore_values import Identity
from stele.raft import NOBODY
from stele.sim.metastore_service import Call, ReadCall, ReadResult, WriteCall
from stele.sim.metastore_world import MetastoreWorld

PATIENCE_MS = 60
PAUSE_MS = 12
TRIES = 12
READ_TRIES = 8
PATIENT_TRIES = 1 << 20
"""For as long as a run lasts: somebody else notices when that is too long."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Send a call to a member, and wait for the answer."""

    target: int
    call: Call
    patience_ms: int = PATIENCE_MS


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait."""

    duration_ms: int


Want: TypeAlias = Ask | Sleep
Result = TypeVar("Result")
Script: TypeAlias = Generator[Want, Any, Result]


class Failed(Exception):
    """It did not happen and never will."""


class Unknown(Exception):
    """It may have happened."""


class Client:
    """One process that uses the metastore; has a number, and sequences of its own."""

    def __init__(self, world: MetastoreWorld, number: int) -> None:
        self.world = world
        self.number = number
        self.address = -number
        self._calls: dict[int, Callable[[Any], None]] = {}
        self._call_last = 0
        self._sequence = 0
        self._hint = NOBODY
        world.clients[self.address] = self.receive

    def receive(self, source: int, parcel: tuple[Any, ...]) -> None:  # noqa: ARG002
        """An answer arrives; late and doubled ones find nobody."""
        if parcel[0] == "answer":
            _, number, value, hint = parcel
            resume = self._calls.pop(number, None)
            if resume is not None:
                self._hint = hint
                resume(value)

    # Running scripts.

    def run(self, script: Script[Any]) -> None:
        """Begin a script."""
        self._advance(script, None)

    def _advance(self, script: Script[Any], value: Any) -> None:
        try:
            want = script.send(value)
        except StopIteration:
            return
        if isinstance(want, Sleep):
            self.world.after(
                want.duration_ms, "wake", None, lambda s: self._advance(s, None), script
            )
        else:
            self._ask(script, want)

    def _ask(self, script: Script[Any], ask: Ask) -> None:
        self._call_last += 1
        number = self._call_last
        self._calls[number] = lambda value: self._advance(script, value)
        self.world.after(ask.patience_ms, "give up", None, self._give_up, number)
        self.world.transmit(self.address, ask.target, ("call", number, ask.call))

    def _give_up(self, number: int) -> None:
        resume = self._calls.pop(number, None)
        if resume is not None:
            self._hint = NOBODY
            resume(None)

    # What scripts use.

    def pick(self) -> int:
        """Whom to ask: the leader as far as is known, mostly."""
        hosts = list(self.world.hosts)
        if self._hint in self.world.hosts and self.world.draw(8):
            return self._hint
        return hosts[self.world.draw(len(hosts))]

    def identity(self) -> Identity:
        """That of the next request; all before it are settled or given up."""
        self._sequence += 1
        return Identity(self.number, self._sequence, self._sequence - 1)

    def identities(self, count: int) -> list[Identity]:
        """Those of requests that go out together: none of them is settled before the others."""
        settled = self._sequence
        self._sequence += count
        return [Identity(self.number, settled + 1 + i, settled) for i in range(count)]

    def write(self, command: Command, *, tries: int = TRIES, may_have: bool = False) -> Script[Any]:
        """Carry a command out once; its answer. Raises ``Failed`` or ``Unknown``; ``may_have`` says
        that it was sent before, and perhaps got through."""
        for _ in range(tries):
            answer = yield Ask(self.pick(), WriteCall(command))
            if answer is None or isinstance(answer, OutcomeUnknown):
                may_have = True
                self.world.count("tries of unknown outcome")
            elif isinstance(answer, GiveUp):
                raise Failed(str(answer))
            elif not isinstance(answer, SteleError):
                return answer
            yield Sleep(1 + self.world.draw(PAUSE_MS))
        raise Unknown if may_have else Failed

    def read(self, *keys: str, tries: int = READ_TRIES) -> Script[ReadResult]:
        """Linearizable. Raises ``Failed`` when nobody answers in time."""
        for _ in range(tries):
            answer = yield Ask(self.pick(), ReadCall(keys))
            if isinstance(answer, ReadResult):
                return answer
            yield Sleep(1 + self.world.draw(PAUSE_MS))
        raise Failed

    def ask(self, call: Call, tries: int = TRIES) -> Script[Any]:
        """Anything that may be asked again; None when nobody answers."""
        for _ in range(tries):
            answer = yield Ask(self.pick(), call)
            if answer is not None and not isinstance(answer, SteleError):
                return answer
            if isinstance(answer, GiveUp):
                return answer
            yield Sleep(1 + self.world.draw(PAUSE_MS))
        return None
