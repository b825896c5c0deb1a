"""Work in parts: everything is gathered, and one error is enough."""

from __future__ import annotations

import threading

from stele.env.memory import MemoryClock, MemoryTasks
from stele.env.real import ThreadTasks
from stele.errors import OutOfSpace, SteleError
from stele.model.ranges import EVERYTHING, RowRange
from stele.storage.fragment_format import Erasures, FragmentInfo, FragmentSummary, IndexPointer
from stele.storage.references import Reference, References
from stele.tablet.parallel import PART_CELLS_MIN, PARTS_MAX, cut, write_parts


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
    assert done.wait(10)
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
