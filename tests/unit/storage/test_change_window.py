"""Windows of txns: bounded, complete up to their end, sorted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stele.model.cells import Cell, batch_to_cells, cells_to_batch
from stele.storage.change_window import ChangeWindow, joined


def mutation(txn: int, row: int) -> Cell:
    return Cell(b"%06d" % row, "f", b"q", 1, b"v" * 10, txn=txn)


def taken(window: ChangeWindow) -> list[tuple[int, bytes]]:
    return [(cell.txn, cell.row) for batch in window.batches() for cell in batch_to_cells(batch)]


@given(
    st.lists(st.lists(st.integers(1, 8), min_size=1, max_size=12), max_size=8), st.integers(1, 20)
)
def test_a_window_has_everything_up_to_its_end(parts: list[list[int]], cells_max: int) -> None:
    window = ChangeWindow(cells_max)
    window.open(7)
    row, everything = 0, []
    for part in parts:
        cells = [mutation(txn, row := row + 1) for txn in part]
        everything += cells
        window.add(cells_to_batch(cells))
    expected = sorted(
        (cell.txn, cell.row) for cell in everything if cell.txn <= min(window.until, 7)
    )
    assert taken(window) == expected
    assert len(expected) <= cells_max


def test_the_end_moves_down_to_the_middle() -> None:
    window = ChangeWindow(cells_max=4)
    window.open(100)
    window.add(cells_to_batch([mutation(txn, txn) for txn in (5, 1, 4, 2)]))
    assert window.until == 100
    window.add(cells_to_batch([mutation(txn, txn) for txn in (3, 6)]))
    assert window.until == 4
    window.add(cells_to_batch([mutation(9, 9)]))
    assert taken(window) == [(txn, b"%06d" % txn) for txn in (1, 2, 3, 4)]


def test_bytes_count_as_well_as_cells() -> None:
    window = ChangeWindow(bytes_max=200)
    window.open(100)
    for txn in (2, 1, 3):
        window.add(cells_to_batch([mutation(txn, txn) for _ in range(2)]))
    assert window.until < 3


def test_a_commit_that_is_too_large_is_left_to_the_caller() -> None:
    window = ChangeWindow(cells_max=3)
    window.open(100)
    window.add(cells_to_batch([mutation(7, row) for row in range(5)]))
    assert window.until == 6
    assert taken(window) == []


def test_nothing_is_one_batch_too() -> None:
    assert joined([]).num_rows == 0
