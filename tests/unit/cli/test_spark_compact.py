"""``stele spark compact``, as far as it goes without Spark; ``tests/spark`` has the rest."""

from __future__ import annotations

import io
from argparse import ArgumentParser

from stele.cli.output import Output
from stele.cli.spark_compact import _as_json, _text, configure_compact
from stele.model.ranges import RowRange
from stele.spark.compacting import CompactReport, Lost


def test_what_a_compaction_takes() -> None:
    parser = ArgumentParser()
    configure_compact(parser)
    found = parser.parse_args(["t", "--start", "a", "--job-id", "j", "--retries", "0"])
    assert (found.table, found.start, found.end) == ("t", "a", None)
    assert (found.job_id, found.retries) == ("j", 0)


def test_what_it_says() -> None:
    lost = Lost(RowRange(b"\xff"), "hot", "t.1 no longer shows all that was merged")
    report = CompactReport("j", tablets=3, swapped=2, lost=(lost,), bytes_in=10, bytes_out=4)
    assert "3 tablets, 2 swapped; 10 bytes became 4" in _text(report)
    assert "not changed: group hot" in _text(report)
    assert _as_json(report)["lost"] == [
        {"start": "\\xff", "end": None, "group": "hot", "reason": lost.reason}
    ]
    assert _text(CompactReport("j", done_before=True)) == "j was done before"


def test_progress_is_for_people() -> None:
    for as_json, said in ((False, "half\n"), (True, "")):
        out, err = io.StringIO(), io.StringIO()
        Output(out, err, as_json=as_json).progress("half")
        assert (out.getvalue(), err.getvalue()) == ("", said)
