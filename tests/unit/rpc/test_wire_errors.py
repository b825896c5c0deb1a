"""Errors cross the wire by name, and a reader that does not know a name falls back."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stele.errors
from stele.errors import (
    Conflict,
    Corruption,
    GiveUp,
    NotLeader,
    RetryLater,
    SteleError,
)
from stele.rpc import wire_errors
from stele.rpc.wire_errors import MESSAGE_CHARS_MAX, decode_error, encode_error
from stele.rpc.wire_format import ErrorBody

TREE = [
    found
    for found in vars(stele.errors).values()
    if isinstance(found, type) and issubclass(found, SteleError)
]


@pytest.mark.parametrize("cls", TREE, ids=lambda cls: cls.__name__)
def test_every_error_of_the_tree_crosses(cls: type[SteleError]) -> None:
    sent = cls("the reason")
    found = decode_error(encode_error(sent))
    assert type(found) is cls
    assert str(found) == str(sent)
    assert vars(found) == vars(sent)


def test_the_hint_of_the_leader_crosses() -> None:
    found = decode_error(encode_error(NotLeader(leader="10.0.0.7:7420")))
    assert isinstance(found, NotLeader)
    assert found.leader == "10.0.0.7:7420"
    assert str(found).count("10.0.0.7:7420") == 1


def test_the_place_of_a_corruption_crosses() -> None:
    found = decode_error(encode_error(Corruption("bad page", file="f.parquet", offset=4096)))
    assert isinstance(found, Corruption)
    assert (found.file, found.offset) == ("f.parquet", 4096)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("StaleLease", "Conflict", "GiveUp", "SteleError"), Conflict),
        (("TooHot", "RetryLater", "SteleError"), RetryLater),
        (("Novelty", "GiveUp", "SteleError"), GiveUp),
        (("Alien",), SteleError),
        ((), SteleError),
        (("KeyboardInterrupt", "SystemExit"), SteleError),
    ],
)
def test_an_unknown_error_degrades(names: tuple[str, ...], expected: type) -> None:
    body = msgspec.msgpack.encode(ErrorBody(names, "new", {"stranger": 1}))
    found = decode_error(body)
    assert type(found) is expected
    assert not hasattr(found, "stranger")


def test_a_bug_does_not_leak() -> None:
    found = decode_error(encode_error(KeyError("row of user 4711")))
    assert type(found) is SteleError
    assert "4711" not in str(found)


def test_an_error_defined_elsewhere_is_not_made_by_name() -> None:
    class Local(SteleError):
        pass

    assert type(decode_error(encode_error(Local("x")))) is SteleError


@given(st.text(min_size=MESSAGE_CHARS_MAX))
def test_a_message_is_bounded(text: str) -> None:
    sent = encode_error(NotLeader(text, leader=text))
    assert len(sent) < 8192
    found = decode_error(sent)
    assert isinstance(found, NotLeader)
    assert len(str(found)) <= MESSAGE_CHARS_MAX
    assert len(found.leader or "") <= wire_errors.FIELD_CHARS_MAX


def test_text_that_is_not_unicode_crosses() -> None:
    assert str(decode_error(encode_error(SteleError("a\udcffb")))) == "a?b"


def test_attributes_that_are_not_short_scalars_stay_here() -> None:
    error = Corruption("x")
    error.offset = 1 << 70
    error.file = None
    found = decode_error(encode_error(error))
    assert isinstance(found, Corruption)
    assert found.offset is None


@given(st.binary(max_size=60))
def test_garbage_is_corruption(body: bytes) -> None:
    try:
        found = decode_error(body)
    except Corruption:
        return
    assert isinstance(found, SteleError)
