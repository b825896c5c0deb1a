"""The tables of a connection's life are complete, and the format page shows them."""

from __future__ import annotations

from pathlib import Path

from stele.rpc import wire_format as wire
from stele.rpc.connection_states import ACCEPTED, TRANSITIONS, Side, State, Turn

PAGE = Path(__file__).parents[3] / "docs" / "formats" / "rpc.md"


def test_every_state_but_the_last_can_fail_and_nothing_leaves_the_last() -> None:
    for state in State:
        if state is State.CLOSED:
            assert not [key for key in TRANSITIONS if key[0] is state]
        else:
            assert TRANSITIONS[state, Turn.FAILED] is State.CLOSED


def test_every_side_says_what_it_accepts_in_every_state() -> None:
    assert set(ACCEPTED) == {(side, state) for side in Side for state in State}
    assert ACCEPTED[Side.SERVER, State.GREETING] == {wire.HELLO}
    taken = ACCEPTED[Side.CLIENT, State.OPEN] | ACCEPTED[Side.SERVER, State.OPEN]
    assert taken == set(wire.KIND_NAMES) - {wire.HELLO}


def test_the_page_shows_exactly_these_transitions() -> None:
    shown = [
        line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| from ")
    ]
    assert shown == [
        f"| from {state.value} | {turn.value} | {after.value} |"
        for (state, turn), after in TRANSITIONS.items()
    ]
