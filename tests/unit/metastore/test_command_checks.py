"""Nothing odd enters the log."""

from __future__ import annotations

import pytest

from stele.errors import InvalidArgument, LimitExceeded
from stele.metastore.command_checks import (
    ACL_RULES_MAX,
    COMPARES_MAX,
    NUMBER_MAX,
    OPERATIONS_MAX,
    OWNER_CHARS_MAX,
    READ_RANGES_MAX,
    SESSION_TTL_US_MAX,
    SESSION_TTL_US_MIN,
    VALUE_BYTES_MAX,
    checked_payload,
)
from stele.metastore.commands import (
    NOBODY,
    AclRule,
    Acquire,
    AdvanceWaterline,
    ClearAlarm,
    Command,
    CommitTransaction,
    Execute,
    Grant,
    OpenSession,
    RaiseAlarm,
    Release,
    SetAcl,
    decode_command,
)
from stele.protocol.metastore_values import (
    Compare,
    CompareField,
    Delete,
    Get,
    Identity,
    KeyRange,
    Operation,
    Put,
    Relation,
)

ME = Identity(1, 1)


def numbered(count: int) -> tuple[Put, ...]:
    return tuple(Put(f"/k{number}", b"") for number in range(count))


def compare(key: str, field: CompareField, operand: int | bytes) -> Compare:
    return Compare(key, field, Relation.EQUAL, operand)


GOOD: list[Command] = [
    Execute(ME, ()),
    Execute(ME, numbered(OPERATIONS_MAX)),
    Execute(ME, (Put("/a", b"x" * VALUE_BYTES_MAX),)),
    Execute(ME, (Put("/a", b""), Get("/a"), Delete("/b", "/c"), Put("/c", b""))),
    Execute(ME, (), (compare("/a", CompareField.VALUE, b""),), (Delete("/a"),)),
    Execute(ME, (), (Compare("/a", CompareField.TOKEN, Relation.LESS, 1),)),
    Execute(ME, (), (compare("/a", CompareField.TOKEN, 1),)),
    CommitTransaction(ME, 0, (KeyRange("/", "0"),), ()),
    OpenSession(ME, SESSION_TTL_US_MIN, "x" * OWNER_CHARS_MAX, 0),
    Acquire(ME, 1, "/a"),
    SetAcl(ME, "/", (AclRule("*", Grant.ALL),)),
    AdvanceWaterline(NOBODY, 1),
]

BAD: list[Command] = [
    Execute(Identity(0, 1), ()),
    Execute(Identity(-1, 1), ()),
    Execute(Identity(NUMBER_MAX + 1, 1), ()),
    Execute(Identity(1, 0), ()),
    Execute(Identity(1, 5, 5), ()),
    Execute(ME, (Put("a", b""),)),
    Execute(ME, (Get("/a/"),)),
    Execute(ME, (Delete("/a/"),)),
    Execute(ME, (Delete("/b", "/a"),)),
    Execute(ME, (Put("/a", b"", -1),)),
    Execute(ME, (Put("/a", b""), Put("/a", b""))),
    Execute(ME, (Put("/a/x", b""), Delete("/a/", "/a0"))),
    Execute(ME, (Delete("/a", "/c"), Delete("/b", "/d"))),
    Execute(ME, (), (), (Put("/a", b""), Delete("/a"))),
    Execute(ME, (), (compare("a", CompareField.VALUE, b""),)),
    Execute(ME, (), (compare("/a", CompareField.VALUE, 1),)),
    Execute(ME, (), (compare("/a", CompareField.VERSION, b"1"),)),
    Execute(ME, (), (compare("/a", CompareField.TOKEN, 0),)),
    CommitTransaction(ME, -1, (), ()),
    CommitTransaction(ME, 0, (KeyRange("/b", "/a"),), ()),
    CommitTransaction(ME, 0, (), (Put("/", b""),)),
    OpenSession(ME, SESSION_TTL_US_MIN - 1, "", 0),
    OpenSession(ME, SESSION_TTL_US_MAX + 1, "", 0),
    Acquire(ME, 1, "/a/"),
    Release(ME, -1, "/a"),
    SetAcl(ME, "/a", ()),
    RaiseAlarm(NOBODY, -1, ""),
    ClearAlarm(ME, NUMBER_MAX + 1),
    SetAcl(ME, "/a/", (AclRule("", Grant.READ),)),
]

LARGE: list[Command] = [
    Execute(ME, numbered(OPERATIONS_MAX + 1)),
    Execute(ME, (Put("/a", b"x" * (VALUE_BYTES_MAX + 1)),)),
    Execute(ME, (), (compare("/a", CompareField.VERSION, 1),) * (COMPARES_MAX + 1)),
    CommitTransaction(ME, 0, (KeyRange("/a"),) * (READ_RANGES_MAX + 1), ()),
    CommitTransaction(ME, 0, (), numbered(OPERATIONS_MAX + 1)),
    OpenSession(ME, SESSION_TTL_US_MIN, "x" * (OWNER_CHARS_MAX + 1), 0),
    SetAcl(ME, "/", (AclRule("a", Grant.READ),) * (ACL_RULES_MAX + 1)),
]


@pytest.mark.parametrize("command", GOOD, ids=lambda command: type(command).__name__)
def test_what_may_be_proposed(command: Command) -> None:
    assert decode_command(checked_payload(command)) == command


@pytest.mark.parametrize("command", BAD, ids=lambda command: str(command)[:60])
def test_what_makes_no_sense(command: Command) -> None:
    with pytest.raises(InvalidArgument):
        checked_payload(command)


@pytest.mark.parametrize("command", LARGE, ids=lambda command: type(command).__name__)
def test_what_is_too_large(command: Command) -> None:
    with pytest.raises(LimitExceeded, match="the limit is"):
        checked_payload(command)


def test_the_error_names_the_key_that_is_written_twice() -> None:
    operations: tuple[Operation, ...] = (Put("/z", b""), Put("/a", b""), Put("/z", b""))
    with pytest.raises(InvalidArgument, match="/z is written twice"):
        checked_payload(Execute(ME, operations))
