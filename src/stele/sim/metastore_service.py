"""What a simulated client may ask of a member, and how the member's driver is asked.

The thinnest possible service: the real one speaks RPC, checks permissions and forwards, which is
tested with real processes. Here only the order of things matters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from stele.errors import SteleError
from stele.metastore import events as e
from stele.metastore.commands import (
    Answer,
    Command,
    OpenSession,
    Refused,
    encode_command,
    error_of,
)
from stele.metastore.driver import Driver
from stele.protocol.metastore import WatchResponse
from stele.protocol.metastore_values import KeyRange, KeyValue
from stele.raft import Change
from stele.sim.metastore_host import MICROSECONDS, MetastoreHost

STREAM_NAMES = 1 << 30


@dataclass(frozen=True, slots=True)
class WriteCall:
    """Carry out a command."""

    command: Command


@dataclass(frozen=True, slots=True)
class WriteManyCall:
    """Carry out several commands that came together; answered with what was said to each."""

    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class ReadCall:
    """Linearizable: the keys, of one state."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadResult:
    """Its answer."""

    index: int
    values: tuple[KeyValue | None, ...]


@dataclass(frozen=True, slots=True)
class KeepAliveCall:
    """Renew a session."""

    session: int


@dataclass(frozen=True, slots=True)
class LockWaitCall:
    """Wait until a lock is granted, or for a while."""

    session: int
    ticket: int


@dataclass(frozen=True, slots=True)
class WatchCall:
    """Send all changes of a range after an index, as a stream."""

    stream: int
    selected: KeyRange
    since: int


@dataclass(frozen=True, slots=True)
class ChangeCall:
    """Change the membership by one step."""

    change: Change


@dataclass(frozen=True, slots=True)
class JoinCall:
    """Make a newcomer a voter."""

    node: int


@dataclass(frozen=True, slots=True)
class TransferCall:
    """Hand leadership over."""

    target: int


Call = (
    WriteCall
    | WriteManyCall
    | ReadCall
    | KeepAliveCall
    | LockWaitCall
    | WatchCall
    | ChangeCall
    | JoinCall
    | TransferCall
)


class Network(Protocol):
    """Where answers go."""

    @property
    def now_ms(self) -> int:
        """The time."""

    def draw(self, bound: int) -> int:
        """A number from 0 to ``bound - 1``."""

    def transmit(self, source: int, target: int, parcel: tuple[Any, ...]) -> None:
        """Give something to the network."""

    def after(
        self,
        delay_ms: int,
        kind: str,
        host: MetastoreHost | None,
        action: Callable[[Any], None],
        arg: Any,
    ) -> None:
        """Something happens later."""


def serve(world: Network, host: MetastoreHost, client: int, number: int, call: Call) -> None:
    """Take one call; the answer, or the error, goes back with a hint who leads."""
    driver = host.driver
    assert driver is not None

    def reply(value: Any) -> None:
        world.transmit(host.id, client, ("answer", number, value, driver.node.core.leader))

    match call:
        case WatchCall():
            _WatchStream(world, host, driver, client, call).resume()
        case LockWaitCall():
            driver.wait_for_lock(call.session, call.ticket).then(reply)
        case _:
            _ask(driver, call, world.now_ms).then(reply)


def _ask(driver: Driver, call: Call, now_ms: int) -> Any:
    match call:
        case WriteCall(command):
            if isinstance(command, OpenSession):
                command = msgspec.structs.replace(command, now_us=now_ms * MICROSECONDS)
            return driver.write(encode_command(command), lambda answer: answer)
        case WriteManyCall(commands):
            return driver.write_many(tuple(map(encode_command, commands)), _each_answer)
        case ReadCall(keys):
            return driver.read(lambda: _look_up(driver, keys))
        case KeepAliveCall(session):
            return driver.ask(lambda n: e.KeepAlive(n, session), lambda ttl_us: ttl_us)
        case ChangeCall(change):
            return driver.ask(lambda n: e.ChangeMembership(n, change), lambda members: members)
        case JoinCall(node):
            address = f"host-{node}"
            return driver.ask(lambda n: e.JoinGroup(n, node, address), lambda members: members)
        case TransferCall(target):
            return driver.ask(lambda n: e.TransferLeadership(n, target), lambda leader: leader)
    raise AssertionError(call)


def _each_answer(answers: list[Answer]) -> tuple[Answer | SteleError, ...]:
    return tuple(error_of(told) if isinstance(told, Refused) else told for told in answers)


def _look_up(driver: Driver, keys: tuple[str, ...]) -> ReadResult:
    machine = driver.machine
    return ReadResult(machine.applied_index, tuple(machine.get(key) for key in keys))


class _WatchStream:
    """Runs a stream of the driver's by hand, and numbers what it brings: a client that misses a
    number knows that its stream broke."""

    def __init__(
        self, world: Network, host: MetastoreHost, driver: Driver, client: int, call: WatchCall
    ) -> None:
        self._world = world
        self._host = host
        self._client = client
        self._stream = (call.stream, world.draw(STREAM_NAMES))
        """The call, and which taking of it: the network may double a call, but not a stream."""

        self._number = 0
        self._responses = driver.watches.stream(call.selected, call.since)
        self._step: Any = None
        """The coroutine of the next response, while it waits."""

    def resume(self, _: None = None) -> None:
        """Send all there is, until it has to wait."""
        while True:
            self._step = self._step or anext(self._responses)
            try:
                waiter = self._step.send(None)
            except StopIteration as produced:
                self._step = None
                self._send(produced.value)
            except SteleError as error:
                self._send(error)
                return
            else:
                waiter.then(self._resume_soon)
                return

    def _resume_soon(self, _: Any) -> None:
        self._world.after(1, "push", self._host, self.resume, None)

    def _send(self, value: WatchResponse | SteleError) -> None:
        parcel = ("pushed", self._stream, self._number, value)
        self._world.transmit(self._host.id, self._client, parcel)
        self._number += 1
