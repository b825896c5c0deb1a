"""Decisions of updates, apart from any store."""

from __future__ import annotations

import pytest

from stele.client.encoder import Encoder
from stele.client.updates import append, condition_columns, conditional, increment
from stele.errors import InvalidArgument
from stele.model.cells import Cell, cells_to_batch
from stele.model.schema import Schema

ENCODER = Encoder(Schema(columns={"f:n": "int64"}))
FOUND = cells_to_batch([Cell(b"a", "f", b"n", 9, (5).to_bytes(8, "big")), Cell(b"a", "f", b"q", 1)])


@pytest.mark.parametrize(
    ("conditions", "holds"),
    [
        ({"f:n": 5}, True),
        ({"f:n": 6}, False),
        ({"f:n": None}, False),
        ({"f:q": b""}, True),
        ({"f:none": None, "f:n": 5}, True),
        ({"f:none": b""}, False),
    ],
)
def test_conditions_compare_values_and_absence(conditions: dict[str, object], holds: bool) -> None:
    decision = conditional(ENCODER, b"a", conditions, {"f:n": 1}, None)(FOUND)
    assert decision.answer is holds
    assert (decision.mutations is not None) is holds
    assert condition_columns(conditions).contains("f", b"n") is ("f:n" in conditions)


def test_conditions_need_something_to_compare_and_to_do() -> None:
    wrongs: tuple[object, ...] = ({}, None, ["f:n"])
    for wrong in wrongs:
        with pytest.raises(InvalidArgument, match="conditions"):
            condition_columns(wrong)
    with pytest.raises(InvalidArgument, match="put or to delete"):
        conditional(ENCODER, b"a", {"f:n": 1}, None, False)


def test_a_counter_begins_at_nothing() -> None:
    assert increment(ENCODER, b"a", "f:n", 3)(None).answer == 3
    assert increment(ENCODER, b"a", "f:n", -6)(FOUND).answer == -1
    with pytest.raises(InvalidArgument):
        increment(ENCODER, b"a", "f:n", 2**63)


def test_a_value_grows_at_its_end() -> None:
    assert append(ENCODER, b"a", "f:x", b"1")(None).answer == b"1"
    grown = append(ENCODER, b"a", "f:x", b"2")(cells_to_batch([Cell(b"a", "f", b"x", 1, b"1")]))
    assert grown.answer == b"12"
