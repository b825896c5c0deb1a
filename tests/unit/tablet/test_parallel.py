"""Work in parts: everything is gathered, and one error is enough."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from stele.env.memory import MemoryClock, MemoryTasks
from stele.env.real import ThreadTasks
from stele.errors import OutOfSpace, SteleError
from stele.kernels.block import Block
from stele.model.cells import Cell, cells_to_batch
from stele.model.ranges import EVERYTHING, RowRange
from stele.storage.fragment_format import Erasures, FragmentInfo, FragmentSummary, IndexPointer
from stele.storage.references import Reference, References
from stele.tablet import parallel
from stele.tablet.parallel import PART_CELLS_MIN, PARTS_MAX, cut, halves, write_parts


def reference(name: str) -> Reference:
    summary = FragmentSummary(
        cells=1,
        rows=1,
        first_row=b"a",
        last_row=b"a",
        families=("f",),
        txn_min=1,
        txn_max=1,
        put_timestamps=(1, 1),
        erasures=Erasures(),
        versions_max=1,
    )
    info = FragmentInfo(name=name, size=1, index=IndexPointer(0, 1, 0), summary=summary)
    return Reference(info)


def test_all_parts_are_gathered() -> None:
    answers: list[References | SteleError] = []
    done = threading.Event()

    def answered(answer: References | SteleError) -> None:
        answers.append(answer)
        done.set()

    one, two = reference("s-00000001.parquet"), reference("s-00000002.parquet")
    write_parts(ThreadTasks(), "test", [lambda: (one,), lambda: (two,)], answered)
    assert done.wait(60)
    (answer,) = answers
    assert not isinstance(answer, SteleError)
    assert set(answer) == {one, two}


def test_one_error_is_the_answer_once_all_parts_have_ended() -> None:
    answers: list[References | SteleError] = []
    ended: list[str] = []
    tasks = MemoryTasks(MemoryClock())

    def full() -> References:
        ended.append("full")
        raise OutOfSpace("no room")

    def fine() -> References:
        ended.append("fine")
        return (reference("s-00000001.parquet"),)

    write_parts(tasks, "test", [full, fine], answers.append)
    assert (ended, answers) == (["fine"], [])
    tasks.run_ready()
    assert ended == ["fine", "full"]
    assert isinstance(answers[0], OutOfSpace)


def test_only_what_is_large_enough_is_cut() -> None:
    enough = PARTS_MAX * PART_CELLS_MIN
    assert cut(enough - 1, b"m") == (EVERYTHING,)
    assert cut(enough, None) == (EVERYTHING,)
    assert cut(enough, b"m") == (RowRange(b"", b"m"), RowRange(b"m"))


def block_of(rows: Sequence[bytes]) -> Block:
    return Block.from_batch(cells_to_batch([Cell(row, "f", b"q", 1) for row in rows]))


@pytest.mark.parametrize("shared", [True, False])
def test_halves_have_about_as_many_cells(shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "PART_CELLS_MIN", 1)
    rows = [b"%04d" % number for number in range(1_000)]
    parts = [rows] * 4 if shared else [rows[at : at + 100] for at in range(0, 1_000, 100)]
    low, high = halves([block_of(part) for part in parts])
    assert low.end == high.start
    inside = sum(low.contains(row) for part in parts for row in part)
    assert 0.4 <= inside / sum(map(len, parts)) <= 0.6


def test_little_is_not_cut_in_halves() -> None:
    assert halves([block_of([b"a", b"b"])]) == (EVERYTHING,)
