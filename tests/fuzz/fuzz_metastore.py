"""Bytes that reach a metastore's state: requests of clients, and images of other replicas.

A request that passes the checks becomes an entry, and then no replica may fail on it, whatever it
says: so it is applied, to a state that has a bit of everything. The first byte chooses the door.
"""

from __future__ import annotations

from crc32c import crc32c

from stele.metastore.command_checks import checked_payload
from stele.metastore.commands import (
    NOBODY,
    AclRule,
    Acquire,
    CancelWait,
    ClearAlarm,
    CloseSession,
    Command,
    CommitTransaction,
    Execute,
    ExpireSessions,
    Grant,
    OpenSession,
    RaiseAlarm,
    Release,
    SetAcl,
    SetQuota,
    SwitchAcl,
    decode_command,
    encode_command,
)
from stele.metastore.kv_memory import MemoryKeyValues
from stele.metastore.state.image import read_image
from stele.metastore.state.machine import StateMachine
from stele.protocol.metastore_values import (
    Compare,
    CompareField,
    Delete,
    Get,
    Identity,
    KeyRange,
    Put,
    Relation,
)
from tests.unit.metastore.state.replica import Replica

COMMAND, IMAGE = range(2)

ME = Identity(2, 1)
COMPARE = Compare("/a", CompareField.TOKEN, Relation.LESS, 7)


def _image() -> list[bytes]:
    replica = Replica()
    replica.machine.apply([(1, encode_command(OpenSession(Identity(2, 9), 1_000_000, "", 0)))])
    replica.put("/a", b"1")
    replica.put("/a", b"2")
    replica.execute(Put("/a/b", b"1"), Delete("/a"))
    return list(replica.machine.export())


IMAGE_CHUNKS = _image()

COMMANDS: list[Command] = [
    Execute(ME, (Put("/a", b"1", 1), Delete("/b", "/c"), Get("/a")), (COMPARE,), (Delete("/a"),)),
    CommitTransaction(ME, 2, (KeyRange("/a"), KeyRange("/", "0")), (Put("/a", b"x"),)),
    OpenSession(ME, 1_000_000, "somebody", 5),
    CloseSession(ME, 1),
    ExpireSessions(NOBODY, (1, 2), 5),
    Acquire(ME, 1, "/l"),
    Release(ME, 1, "/l"),
    CancelWait(ME, 1, "/l", 3),
    SetAcl(ME, "/", (AclRule("ada", Grant.ALL),)),
    SwitchAcl(ME, True),
    RaiseAlarm(NOBODY, 1, "full"),
    ClearAlarm(NOBODY, 1),
    SetQuota(ME, 100),
]

SEEDS = [bytes([COMMAND]) + encode_command(command) for command in COMMANDS]
SEEDS += [bytes([IMAGE]) + IMAGE_CHUNKS[0][4:]]


def TestOneInput(data: bytes) -> None:
    kind, content = data[:1], data[1:]
    if kind == bytes([COMMAND]):
        _apply(content)
    elif kind == bytes([IMAGE]):
        list(read_image([_sealed(content), IMAGE_CHUNKS[-1]]))


def _apply(content: bytes) -> None:
    payload = checked_payload(decode_command(content))
    machine = StateMachine(MemoryKeyValues())
    machine.replace(IMAGE_CHUNKS)
    index = machine.applied_index
    first = machine.apply([(index + 1, payload)])[0]
    again = machine.apply([(index + 2, payload)])[0]
    assert first.answer is not None
    assert again.answer is not None
    before = b"".join(machine.export())
    machine.replace([*machine.export()])
    assert b"".join(machine.export()) == before


def _sealed(body: bytes) -> bytes:
    checksum: int = crc32c(body)
    return checksum.to_bytes(4, "big") + body
