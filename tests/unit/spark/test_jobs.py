"""Jobs: named, kept alive, given up; and sentences of ours that come back from Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkRuntimeError

import stele
from stele.coordination.records import JobState
from stele.errors import InvalidArgument, InvalidCells, TableNotFound, Unavailable
from stele.spark.jobs import begun_job, cause, said_by_us, told
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
        with pytest.raises(KeyboardInterrupt), begun_job(table, "j", HOUR_US):
            raise KeyboardInterrupt
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
    for sentence in ("it is 'put' or 'delete'", 'no column "x"', "the table's"):
        for quote in ("", "'", '"'):
            given = RuntimeError(f"failed: {quote}stele.errors.InvalidCells: {sentence}{quote}")
            assert str(said_by_us(given)) == sentence
    assert said_by_us(RuntimeError("stele.errors.NoSuch: x")) is None
    assert said_by_us(RuntimeError("boom")) is None
    assert said_by_us(Unavailable("ours already")) is None
    with pytest.raises(InvalidCells, match="twice"), told("nothing is done"):
        raise wrapped


def test_what_spark_says_is_one_sentence_of_ours() -> None:
    stack = "Job aborted\n at x\nCaused by: a.B: a worker is gone\n at y"
    said = "nothing is done, and can be run again: Spark says a.B: a worker is gone"
    with pytest.raises(Unavailable) as found, told("nothing is done"):
        raise PySparkRuntimeError(stack)
    assert str(found.value) == said
    with pytest.raises(Unavailable, match="ours already"), told("nothing is done"):
        raise Unavailable("ours already")
    with pytest.raises(ZeroDivisionError), told("nothing is done"):
        raise ZeroDivisionError("a mistake of ours stays one")


def test_what_spark_cannot_make_sense_of_will_not_work_the_next_time() -> None:
    with pytest.raises(InvalidArgument) as found, told("nothing is done"):
        raise AnalysisException("[AMBIGUOUS_REFERENCE] Reference `x` is ambiguous")
    assert str(found.value).startswith("nothing is done: Spark cannot make sense of the DataFrame:")
    assert "Reference `x` is ambiguous" in str(found.value)


def test_a_table_that_is_dropped_is_named(tmp_path: Path) -> None:
    with stele.open(tmp_path / "db") as db:
        table = db.create_table("people")

        def drop() -> None:
            with begun_job(table, "j", HOUR_US) as ticket:
                db.drop_table("people")
                table.core.backend.commit_import("j", ticket.token, ())

        sentence = r"^table 'people' was dropped, and job 'j' cannot go on: .*undrop_table"
        with pytest.raises(TableNotFound, match=sentence):
            drop()


def test_the_innermost_cause_is_what_happened() -> None:
    stack = "Job aborted\n at x\nCaused by: a.B: outer\n at y\nCaused by: c.D: inner\n at z"
    assert cause(stack) == "c.D: inner"
    assert cause("one line") == "one line"
    python = "Job aborted\nCaused by: a.B: Traceback (most recent call last):\n  File x\n    y()\n"
    assert cause(f"{python}ValueError: no\n\n\tat org.x\n") == "ValueError: no"
