"""Jobs: named, kept alive, given up; and sentences of ours that come back from Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

import stele
from stele.coordination.records import JobState
from stele.errors import InvalidCells, Unavailable
from stele.spark.jobs import begun_job, cause, raise_ours, said_by_us
from stele.spark.pinning import KEEPER

HOUR_US = 3_600_000_000


def test_a_job_is_kept_while_it_runs_and_given_up_if_it_fails(tmp_path: Path) -> None:
    with stele.open(tmp_path / "db") as db:
        table = db.create_table("t")

        def states() -> list[JobState]:
            store = table.core.backend._backend.store  # type: ignore[attr-defined]
            return [job.state for job in store.coordination.jobs()]

        tokens = []

        def fail() -> None:
            with begun_job(table, "j", HOUR_US) as ticket:
                tokens.append(ticket.token)
                assert f"import/{ticket.token}" in KEEPER.leases()
                assert states() == [JobState.RUNNING]
                raise RuntimeError("aborted: stele.errors.InvalidCells: row b'a' is there twice")

        with pytest.raises(InvalidCells, match="twice"):
            fail()
        assert f"import/{tokens[0]}" not in KEEPER.leases()
        assert states() == [JobState.ABORTED]
        with begun_job(table, "j", HOUR_US) as again:
            assert again.token != tokens[0]
            txn = table.core.backend.commit_import("j", again.token, ())
        with begun_job(table, "j", HOUR_US) as done:
            assert done.txn == txn
            assert not any(lease.startswith("import/") for lease in KEEPER.leases())


def test_our_sentence_comes_out_of_sparks() -> None:
    wrapped = RuntimeError("Job aborted\n  stele.errors.InvalidCells: row b'a' is there twice\n at")
    found = said_by_us(wrapped)
    assert isinstance(found, InvalidCells)
    assert str(found) == "row b'a' is there twice"
    raised = RuntimeError("[USER] stele.errors.InvalidArgument: key is null {} SQLSTATE: P0001")
    assert str(said_by_us(raised)) == "key is null {}"
    assert said_by_us(RuntimeError("stele.errors.NoSuch: x")) is None
    assert said_by_us(RuntimeError("boom")) is None
    assert said_by_us(Unavailable("ours already")) is None
    with pytest.raises(InvalidCells, match="twice"):
        raise_ours(wrapped)


def test_the_innermost_cause_is_what_happened() -> None:
    stack = "Job aborted\n at x\nCaused by: a.B: outer\n at y\nCaused by: c.D: inner\n at z"
    assert cause(stack) == "c.D: inner"
    assert cause("one line") == "one line"
