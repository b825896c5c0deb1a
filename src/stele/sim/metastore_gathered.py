"""Writes that a simulated client hands in together, as one request of several commands.

A real client gathers what its tasks ask at the same moment. One answer tells of all; without one,
or where it tells of a mishap, each write is tried again by itself, under the identity that it has.
Every write is an operation of its own in the history, so each has a number of its own there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from stele.errors import GiveUp, OutcomeUnknown, SteleError
from stele.metastore.commands import Execute, Executed
from stele.protocol.metastore_values import Delete, Put
from stele.sim.metastore_client import Ask, Client, Failed, Script, Unknown
from stele.sim.metastore_service import WriteManyCall


class GatheredWrite(NamedTuple):
    """One of several. ``value`` is None for a deletion."""

    number: int
    """Whose operation it is in the history."""

    key: str
    value: int | None


def write_together(client: Client, writes: Sequence[GatheredWrite]) -> Script[None]:
    """Hand them in together, and see each of them through."""
    recorder = client.world.checker.registers
    commands = []
    for write, identity in zip(writes, client.identities(len(writes)), strict=True):
        kind = "delete" if write.value is None else "put"
        recorder.invoke(write.number, kind, write.key, write.value)
        step = Delete(write.key) if write.value is None else Put(write.key, b"%d" % write.value)
        commands.append(Execute(identity, (step,)))
    answer = yield Ask(client.pick(), WriteManyCall(tuple(commands)))
    answers = answer if isinstance(answer, tuple) else (answer,) * len(writes)
    for write, told in zip(writes, answers, strict=True):
        if isinstance(told, Executed):
            recorder.ok(write.number, _result(write, told))
    for write, command, told in zip(writes, commands, answers, strict=True):
        if not isinstance(told, Executed):
            yield from _see_through(client, write, command, told)
    client.world.count("writes gathered")


def _see_through(
    client: Client, write: GatheredWrite, command: Execute, told: SteleError | None
) -> Script[None]:
    recorder = client.world.checker.registers
    may_have = told is None or isinstance(told, OutcomeUnknown)
    try:
        if isinstance(told, GiveUp):
            raise Failed(str(told))
        done = yield from client.write(command, may_have=may_have)
    except Failed:
        recorder.failed(write.number)
    except Unknown:
        recorder.unknown(write.number)
    else:
        recorder.ok(write.number, _result(write, done))


def _result(write: GatheredWrite, done: Executed) -> Any:
    return bool(done.results[0]) if write.value is None else None
