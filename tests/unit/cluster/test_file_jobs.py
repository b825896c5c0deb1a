"""Jobs of files and changes of layout keep each other away, and neither starves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from stele.cluster.embedded import EmbeddedBackend, open_embedded
from stele.cluster.turns import Turn
from stele.errors import DeadlineExceeded
from stele.model.schema import Schema
from stele.tablet.table_state import TableState
from stele.tablet.waiting_line import WaitingLine
from tests.unit.tablet.engine_support import put


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[EmbeddedBackend]:
    opened = open_embedded(str(tmp_path / "data"))
    opened.create_table("t", Schema())
    yield opened
    opened.close()


def written(backend: EmbeddedBackend) -> TableState:
    table = backend.table("t")
    put(table, b"r", b"v")
    return backend.store.user.table(table.id)


def turn(backend: EmbeddedBackend, timeout_us: int) -> Turn:
    return Turn(backend.store.world.clock, timeout_us)


def test_a_flush_that_waits_goes_before_the_next_change_of_layout(backend: EmbeddedBackend) -> None:
    state = written(backend)
    flushed = threading.Thread(target=backend.jobs.flush_all, args=(state,))
    with backend.jobs.layout_changes(state):
        flushed.start()
        while not len(state.line):
            flushed.join(0.001)
        in_memory_meanwhile = state.memory.oldest_txn
    with backend.jobs.layout_changes(state):
        in_memory_then = state.memory.oldest_txn
    assert in_memory_meanwhile is not None, "alone means alone"
    assert in_memory_then is None, "the flush was there first"
    flushed.join()
    assert len(state.line) == 0


def test_who_comes_too_late_changed_nothing_and_is_forgotten(backend: EmbeddedBackend) -> None:
    state = written(backend)
    with backend.jobs.layout_changes(state):
        with (
            pytest.raises(DeadlineExceeded, match="nothing was changed"),
            backend.jobs.layout_changes(state, turn(backend, 1_000)),
        ):
            pytest.fail("two at once")
        with pytest.raises(DeadlineExceeded):
            backend.jobs.flush(state, turn(backend, 1_000))
    assert len(state.line) == 0
    backend.jobs.flush_all(state)
    assert state.memory.oldest_txn is None


def test_a_change_of_layout_is_not_kept_away_by_jobs_that_never_end(
    backend: EmbeddedBackend,
) -> None:
    state, stop = written(backend), threading.Event()
    table = backend.table("t")

    def keep_busy(row: bytes) -> None:
        while not stop.is_set():
            put(table, row, b"v")
            table.flush()
            table.compact()

    busy = [threading.Thread(target=keep_busy, args=(b"r%d" % number,)) for number in range(3)]
    for thread in busy:
        thread.start()
    try:
        for _ in range(20):
            with backend.jobs.layout_changes(state):
                assert not state.flushing
                assert not state.compacting
    finally:
        stop.set()
        for thread in busy:
            thread.join()


def test_while_a_compaction_is_in_the_way_flushes_go_on(backend: EmbeddedBackend) -> None:
    """Or commits would be refused for as long as it takes."""
    state = written(backend)
    ended = threading.Event()

    def change() -> None:
        with backend.jobs.layout_changes(state):
            ended.set()

    with backend.store.user.lock:
        state.compacting.add("somewhere")
    changing = threading.Thread(target=change)
    changing.start()
    while not state.line.layout_is_next:
        changing.join(0.001)
    backend.jobs.flush_all(state)
    assert state.memory.oldest_txn is None
    assert state.keeps_compactions_away("another"), "no further one begins"
    with backend.store.user.lock:
        assert not ended.is_set()
        state.compacting.clear()
        assert state.keeps_flushes_away, "it is a moment now"
        backend.store.user.work_ended.notify_all()
    changing.join()
    assert ended.is_set()
    assert not state.keeps_flushes_away


def test_an_interrupt_while_one_waits_leaves_nobody_in_the_line(backend: EmbeddedBackend) -> None:
    state = written(backend)

    def interrupted(*_: object) -> bool:
        raise KeyboardInterrupt

    with (
        backend.jobs.layout_changes(state),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(WaitingLine, "is_turn_of", interrupted)
        with pytest.raises(KeyboardInterrupt):
            backend.jobs.flush(state)
    assert len(state.line) == 0
    assert not state.changing_layout
    backend.jobs.flush_all(state)
