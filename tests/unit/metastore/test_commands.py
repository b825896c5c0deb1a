"""Commands and answers keep their meaning through the log."""

from __future__ import annotations

import msgspec
import pytest

from stele.errors import Conflict, Corruption, LimitExceeded, SteleError, UnsupportedFormat
from stele.metastore.commands import (
    COMMAND_BYTES_MAX,
    NOBODY,
    AclRule,
    Acquire,
    AdvanceWaterline,
    Answer,
    CancelWait,
    ClearAlarm,
    CloseSession,
    Command,
    CommitTransaction,
    Done,
    Execute,
    Executed,
    ExpireSessions,
    Grant,
    LockAnswer,
    LockState,
    OpenSession,
    RaiseAlarm,
    Refused,
    Release,
    SessionOpened,
    SetAcl,
    SetQuota,
    SwitchAcl,
    WaterlineAt,
    decode_answer,
    decode_command,
    encode_answer,
    encode_command,
    raise_if_refused,
    refuse,
)
from stele.protocol.metastore_values import (
    Compare,
    CompareField,
    Delete,
    Get,
    Identity,
    KeyRange,
    KeyValue,
    Put,
    Relation,
)

ME = Identity(1, 2, 1)
COMPARE = Compare("/a", CompareField.VALUE, Relation.LESS, b"x")

COMMANDS: list[Command] = [
    Execute(ME, (Put("/a", b"1", 7), Delete("/b"), Delete("/c", "/d"), Get("/e")), (COMPARE,)),
    CommitTransaction(ME, 9, (KeyRange("/a"), KeyRange("/b", "/c")), (Put("/a", b""),)),
    OpenSession(ME, 10, "owner", 11),
    CloseSession(ME, 3),
    ExpireSessions(NOBODY, (3, 4), 5),
    Acquire(ME, 3, "/l", False, False),
    Release(ME, 3, "/l", 4),
    CancelWait(ME, 3, "/l", 4),
    SetAcl(ME, "/a/", (AclRule("ada", Grant.READ | Grant.LOCK),)),
    SwitchAcl(ME, True),
    AdvanceWaterline(NOBODY, 12),
    RaiseAlarm(NOBODY, 1, "full"),
    ClearAlarm(ME, 1),
    SetQuota(ME, 1 << 40),
]

ANSWERS: list[Answer] = [
    Executed(5, True, (1, None, KeyValue("/a", b"1", 2, 1, 2))),
    Done(5),
    SessionOpened(5),
    LockAnswer(LockState.GRANTED, 4, 5),
    WaterlineAt(5),
    Refused("Conflict", "no"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_a_command_through_the_log(command: Command) -> None:
    assert decode_command(encode_command(command)) == command


def test_the_format_of_a_put() -> None:
    # Written down, because logs of earlier versions have to be read.
    put = Execute(Identity(1, 2, 1, 7), (Put("/a", b"v"),))
    assert encode_command(put) == bytes.fromhex("0195019401020107919401a22f61c40176009090")
    unborn = Execute(Identity(1, 2, 1), (Put("/a", b"v"),))
    assert decode_command(bytes.fromhex("01950193010201919401a22f61c40176009090")) == unborn


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)
def test_an_answer_that_is_kept(answer: Answer) -> None:
    assert decode_answer(encode_answer(answer)) == answer


@pytest.mark.parametrize("data", [b"\x01", b"\x01\x90", b"\x01\x92\x63\x00", b"\x01\xff\xff"])
def test_damage_is_noticed(data: bytes) -> None:
    with pytest.raises(Corruption, match="cannot be read"):
        decode_command(data)


def test_damage_of_an_answer_is_noticed() -> None:
    with pytest.raises(Corruption, match="kept answer"):
        decode_answer(b"\x90")


@pytest.mark.parametrize("data", [b"", b"\x02\x90"])
def test_a_newer_format_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(UnsupportedFormat, match="run a newer release"):
        decode_command(data)


def test_a_command_has_a_largest_size() -> None:
    with pytest.raises(LimitExceeded, match=str(COMMAND_BYTES_MAX)):
        encode_command(Execute(ME, (Put("/a", b"x" * COMMAND_BYTES_MAX),)))


def test_a_refusal_is_the_error_it_stands_for() -> None:
    with pytest.raises(Conflict, match="read again"):
        raise_if_refused(refuse(Conflict("read again")))
    with pytest.raises(SteleError):
        raise_if_refused(Refused("NeverHeardOf", ""))
    assert raise_if_refused(Done(1)) == Done(1)


def test_every_command_has_a_tag_of_its_own() -> None:
    tags = [msgspec.inspect.type_info(type(command)).tag for command in COMMANDS]  # type: ignore[attr-defined]
    assert tags == list(range(1, len(COMMANDS) + 1)), "tags are the format: never change one"
