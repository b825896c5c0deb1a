"""Operations are values: they travel, and do not change."""

from __future__ import annotations

import msgspec
import pytest

from stele.model.operations import Operation, OperationKind, OperationState

FLUSH = Operation(id=7, kind=OperationKind.FLUSH, table="users", started_us=1_000)


def test_an_operation_runs_until_something_else_is_said() -> None:
    assert (FLUSH.state, FLUSH.ended_us, FLUSH.error) == (OperationState.RUNNING, None, None)
    with pytest.raises(AttributeError):
        FLUSH.state = OperationState.DONE  # type: ignore[misc]


@pytest.mark.parametrize("kind", OperationKind)
def test_what_is_sent_is_what_arrives(kind: OperationKind) -> None:
    sent = msgspec.structs.replace(
        FLUSH, kind=kind, state=OperationState.FAILED, ended_us=2_000, error="no space left"
    )
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=Operation) == sent


def test_programs_read_plain_words() -> None:
    shown = msgspec.to_builtins(FLUSH)
    assert (shown["kind"], shown["state"]) == ("flush", "running")
