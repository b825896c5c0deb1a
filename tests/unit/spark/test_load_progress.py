"""Progress of a load: who is told, and what the line looks like."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import Any

import pytest

from stele.errors import InvalidArgument
from stele.spark import load_progress
from stele.spark.load_progress import (
    Bar,
    LoadProgress,
    Watch,
    chosen_show,
    drawn,
    readable,
    row_counter,
    written_bytes,
)
from stele.storage.import_files import ImportTicket


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Counter:
    value = 250


def test_who_is_told() -> None:
    assert chosen_show(None, io.StringIO()) is None
    assert isinstance(chosen_show(None, Terminal()), Bar)
    assert isinstance(chosen_show(True, io.StringIO()), Bar)
    assert chosen_show(False, Terminal()) is None
    told: list[LoadProgress] = []
    assert chosen_show(told.append) == told.append
    with pytest.raises(InvalidArgument, match="progress is True, False or a function"):
        chosen_show("yes")  # type: ignore[arg-type]


def test_a_notebook_has_somebody_who_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(load_progress.sys.modules, "ipykernel", io)  # type: ignore[attr-defined]
    assert isinstance(chosen_show(None, io.StringIO()), Bar)


def test_a_line_covers_the_one_before() -> None:
    stream = io.StringIO()
    bar = Bar(stream)
    bar(LoadProgress("loading", 1_000, 4_000, 2_500_000, 3.0))
    bar(LoadProgress("done", 4_000, 4_000, 12, 4.0))
    first, second = stream.getvalue().split("\r")[1:]
    assert "25 %" in first
    assert "1,000 of 4,000 rows" in first
    assert "2.5 MB" in first
    assert "100 %" in second
    assert second.endswith("\n")
    assert len(second) > len(first.rstrip()), "what was longer is covered"


def test_without_a_total_there_is_no_share() -> None:
    assert "%" not in drawn(LoadProgress("loading", 0, None, 0, 0.0))
    assert [readable(size) for size in (0, 999, 1_000, 10**16)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "10.0 PB",
    ]


def test_a_watch_tells_the_newest_until_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_progress, "PERIOD_SECONDS", 0.001)
    ticket = ImportTicket(job="j", token="i1", location=str(tmp_path), table="t", timestamp=1)
    (tmp_path / "i1.0.0-1").write_bytes(b"12345")
    (tmp_path / "i2.0.0-1").write_bytes(b"another attempt")
    seen: list[LoadProgress] = []
    twice = threading.Event()

    def show(progress: LoadProgress) -> None:
        seen.append(progress)
        if len(seen) > 1:
            twice.set()

    with Watch(show, ticket, Counter()).shown() as watch:
        assert watch.now().phase == "sampling"
        watch.loading(200)
        assert twice.wait(30)
        watch.publishing()
        watch.done()
    last = seen[-1]
    assert (last.phase, last.rows, last.rows_total, last.size_bytes) == ("done", 200, 200, 5)


def test_nobody_watches_and_no_counter() -> None:
    ticket = ImportTicket(job="j", token="i1", location="/nowhere", table="t", timestamp=1)
    with Watch(None, ticket, None).shown() as watch:
        watch.loading(None)
    assert (watch.now().rows, watch.now().size_bytes) == (0, 0)
    assert written_bytes("/nowhere", "i1") == 0
    assert row_counter(object()) is None
    context: Any = type("Context", (), {"accumulator": lambda _self, start: start})()
    assert row_counter(type("Session", (), {"_sc": context})()) == 0
