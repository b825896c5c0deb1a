"""What a call says that nobody answered, and when it stops trying."""

from __future__ import annotations

import pytest

from stele.client.metastore_attempts import CUTS_MAX, Attempts
from stele.errors import (
    DeadlineExceeded,
    NotLeader,
    SteleError,
    Unauthenticated,
    Unavailable,
    Unreachable,
)

ADDRESS = "127.0.0.1:7420"


def told(*failures: tuple[str, SteleError]) -> str:
    attempts = Attempts()
    for address, error in failures:
        attempts.note(address, error)
    return str(attempts.late("metastore.get", 30))


def test_a_refusal_goes_before_everything_else() -> None:
    text = told(
        ("m1:1", Unavailable("node 4 has not caught up")),
        ("m2:1", NotLeader("node 2 does not lead", leader="m1:1")),
        ("m3:1", Unreachable("nothing listens at m3:1", "m3:1")),
    )
    assert text == "metastore.get was not answered within 30 s; at last: node 4 has not caught up"


def test_who_is_named_as_leader_is_told_with_who_cannot_be_reached() -> None:
    text = told(
        ("m2:1", NotLeader("node 2 does not lead", leader="m1:1")),
        ("m1:1", Unreachable("nothing listens at m1:1", "m1:1")),
    )
    assert text.endswith("node 2 does not lead; ask m1:1; nothing listens at m1:1")


def test_silence_is_told_with_the_address() -> None:
    assert told(("m1:1", DeadlineExceeded("no answer"))).endswith("at last: m1:1 gave no answer")


def test_an_address_that_answers_is_not_told_as_missed() -> None:
    text = told(
        ("m1:1", Unreachable("nothing listens at m1:1", "m1:1")),
        ("m1:1", NotLeader("node 1 does not lead")),
    )
    assert text.endswith("at last: node 1 does not lead")


def test_what_a_node_could_not_reach_is_its_answer() -> None:
    """It was asked to pass the request on, and its own connection is what failed."""
    attempts = Attempts()
    passed_on = Unreachable("nothing listens at m9:1", "m9:1", cuts=CUTS_MAX)
    attempts.note("m1:1", passed_on)
    assert attempts.is_heard
    attempts.give_up_if_unwanted("m1:1", passed_on)


def test_a_row_of_connections_cut_without_a_word_ends_the_call() -> None:
    attempts = Attempts()
    for cuts in range(1, CUTS_MAX):
        attempts.give_up_if_unwanted(ADDRESS, Unreachable("cut", ADDRESS, cuts))
    with pytest.raises(Unauthenticated, match="cut"):
        attempts.give_up_if_unwanted(ADDRESS, Unreachable("cut", ADDRESS, CUTS_MAX))


def test_a_call_goes_on_while_another_node_answers() -> None:
    attempts = Attempts()
    attempts.note("m2:1", NotLeader("node 2 does not lead"))
    attempts.give_up_if_unwanted(ADDRESS, Unreachable("cut", ADDRESS, CUTS_MAX))
    assert attempts.is_heard
