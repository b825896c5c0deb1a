from __future__ import annotations

from stele.raft.entries import ENTRY_OVERHEAD_BYTES, Entry, EntryKind
from stele.raft.progress import InflightWindow, Progress, ProgressState

OVERHEAD = ENTRY_OVERHEAD_BYTES


def entries(first: int, last: int) -> tuple[Entry, ...]:
    return tuple(Entry(1, index, EntryKind.DATA, b"") for index in range(first, last + 1))


def state_of(progress: Progress) -> ProgressState:
    """What the type checker must not remember from the line before."""
    return progress.state


def streaming(match: int = 4) -> Progress:
    progress = Progress(match + 1, 100 * OVERHEAD)
    progress.accept(match, 1)
    assert state_of(progress) is ProgressState.REPLICATE
    return progress


def test_the_window_is_full_at_its_bytes_and_frees_whole_messages() -> None:
    window = InflightWindow(3 * OVERHEAD)
    fullness = []
    for first in (1, 3):
        window.add(entries(first, first + 1))
        fullness.append(window.full)
    assert fullness == [False, True]
    window.free_to(1)
    assert window.bytes_total == 4 * OVERHEAD
    window.free_to(2)
    assert window.bytes_total == 2 * OVERHEAD
    window.clear()
    assert window.bytes_total == 0


def test_a_probe_waits_for_its_answer() -> None:
    progress = Progress(5, 1000)
    progress.note_sent(entries(5, 6), 3)
    assert progress.answer_due
    assert (progress.next, progress.commit_sent) == (5, 3)
    progress.note_alive(9)
    assert not progress.answer_due


def test_a_stream_runs_ahead_of_its_answers() -> None:
    progress = streaming(4)
    progress.note_sent(entries(5, 6), 4)
    progress.note_sent((), 4)
    assert (progress.match, progress.next) == (4, 7)
    assert progress.inflight.bytes_total == 2 * OVERHEAD
    assert progress.accept(6, 1)
    assert (progress.match, progress.next, progress.inflight.bytes_total) == (6, 7, 0)
    assert not progress.accept(6, 1)
    assert not progress.accept(5, 1)


def test_an_answer_to_a_heartbeat_asks_for_a_check_only_if_something_is_missing() -> None:
    progress = streaming(4)
    due = []
    for last_index in (4, 5):
        progress.note_alive(last_index)
        due.append(progress.check_due)
    progress.note_sent((), 0)
    assert [*due, progress.check_due] == [False, True, False]


def test_a_gap_in_the_stream_leads_back_to_probing() -> None:
    progress = streaming(4)
    progress.note_sent(entries(5, 9), 4)
    assert not progress.reject(4, 2)
    assert progress.reject(9, 7)
    assert (state_of(progress), progress.next) == (ProgressState.PROBE, 7)
    assert progress.inflight.bytes_total == 0


def test_a_rejection_never_leads_below_what_matches() -> None:
    progress = streaming(4)
    assert progress.reject(9, 2)
    assert progress.next == 5


def test_only_the_probe_that_is_out_can_be_rejected() -> None:
    progress = Progress(9, 1000)
    assert not progress.reject(7, 3)
    assert progress.reject(8, 3)
    assert progress.next == 3
    assert progress.reject(2, 9)
    assert progress.next == 2


def test_a_snapshot_stops_everything_until_it_is_reported_or_acknowledged() -> None:
    progress = Progress(3, 1000)
    progress.want_snapshot()
    progress.pending_snapshot = 8
    assert not progress.reject(2, 1)
    assert progress.accept(4, 7)
    assert state_of(progress) is ProgressState.SNAPSHOT
    progress.finish_snapshot(arrived=False)
    assert (state_of(progress), progress.next) == (ProgressState.PROBE, 5)
    progress.want_snapshot()
    progress.pending_snapshot = 8
    progress.finish_snapshot(arrived=True)
    assert progress.next == 9
    progress.want_snapshot()
    assert progress.accept(6, 7)
    assert state_of(progress) is ProgressState.REPLICATE
