"""``stele operations``."""

from __future__ import annotations

import stele
from stele.cli.operations import _words
from stele.model.operations import Operation, OperationKind, OperationState
from tests.unit.cli.tables_cli import Shell


def test_what_the_owner_has_done_is_listed(shell: Shell) -> None:
    with stele.open(shell.database) as database:
        users = database.table("users")
        users.flush()
        users.split(b"k")
        found = shell.json("operations")
        lines = shell.text("operations").splitlines()
        none_runs = shell.json("operations", "--running")
    assert [one["kind"] for one in found] == ["recovery", "split"]
    assert (found[1]["table"], found[1]["state"]) == ("users", "done")
    assert lines[0].split()[:4] == ["id", "operation", "of", "state"]
    assert lines[2].split()[:4] == ["2", "split", "users", "done"]
    assert lines[2].endswith("at b'k'")
    assert none_runs == []


def test_a_database_that_nobody_has_open(shell: Shell) -> None:
    (own,) = shell.json("operations")
    assert own["kind"] == "recovery"


def test_a_line_for_people() -> None:
    running = Operation(
        id=3, kind=OperationKind.COMPACTION, table="t", tablet="t1.2", started_us=0, bytes_in=2_500
    )
    failed = Operation(
        id=4,
        kind=OperationKind.COLLECTION,
        state=OperationState.FAILED,
        started_us=1_000_000,
        ended_us=2_500_000,
        detail="0 files",
        error="no",
    )
    started = "1970-01-01 00:00:00"
    assert _words(running) == (
        *("3", "compaction", "t t1.2", "running", started, "-", "2,500", "-", "-", ""),
    )
    assert _words(failed)[5:] == ("1.500 s", "-", "-", "-", "0 files: no")
