"""Records survive their JSON form."""

import msgspec
import pytest

from stele.coordination.records import LeaseRecord, State, TableRecord, TableState


def test_a_state_survives_its_json_form() -> None:
    state = State(
        last_id=9,
        tables=(TableRecord("t1", "users", "{}", 3, 17, TableState.DROPPED, 18),),
        horizons={"t1": 5},
        leases=(LeaseRecord("before", "t1", 7, 8, None, 9),),
    )
    assert msgspec.json.decode(msgspec.json.encode(state), type=State) == state


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="surprise"):
        msgspec.json.decode(b'{"surprise":1}', type=State)
