"""Record buffers: what was appended is found, by row and as a whole."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from stele.model.cells import Cell, batch_to_cells
from stele.storage import memory_records
from stele.storage.memory_records import RECORD_OVERHEAD_BYTES, RecordBuffer
from tests.unit.storage.log_support import cell, record

ROWS = st.lists(st.sampled_from([b"a", b"b", b"\x00", b"long row key"]), max_size=30)


def filled(rows: list[bytes]) -> tuple[RecordBuffer, list[Cell]]:
    buffer = RecordBuffer()
    cells = [cell(txn, row) for txn, row in enumerate(rows, start=1)]
    for each in cells:
        buffer.append(each.row, record(each), each.txn)
    return buffer, cells


@given(ROWS)
def test_everything_is_there_in_order(rows: list[bytes]) -> None:
    buffer, cells = filled(rows)
    assert len(buffer) == len(cells)
    assert batch_to_cells(buffer.block.batch) == sorted(cells, key=Cell.key)
    assert (buffer.txn_min, buffer.txn_max) == ((1, len(cells)) if cells else (0, 0))
    assert buffer.size_bytes == sum(len(record(each)) + RECORD_OVERHEAD_BYTES for each in cells)


@given(ROWS, st.sampled_from([b"a", b"b", b"\x00", b"never"]))
def test_a_row_is_found_by_itself(rows: list[bytes], wanted: bytes) -> None:
    buffer, cells = filled(rows)
    block = buffer.row_block(wanted)
    found = [] if block is None else batch_to_cells(block.batch)
    assert found == sorted((each for each in cells if each.row == wanted), key=Cell.key)


@given(ROWS, st.integers(0, 30))
def test_later_commits_can_be_cut_off(rows: list[bytes], txn: int) -> None:
    buffer, cells = filled(rows)
    kept = buffer.up_to(txn)
    expected, _cells = filled(rows[:txn])
    assert batch_to_cells(kept.block.batch) == batch_to_cells(expected.block.batch)
    assert (kept.txn_min, kept.txn_max) == (expected.txn_min, expected.txn_max)
    assert kept.size_bytes == expected.size_bytes
    assert len(buffer) == len(cells)


def test_a_block_is_made_once_until_something_is_added() -> None:
    buffer, _cells = filled([b"a", b"b"])
    first = buffer.block
    assert buffer.block is first
    buffer.append(b"c", record(cell(3, b"c")), 3)
    assert buffer.block.count == 3
    assert first.count == 2


def test_a_buffer_is_full_by_records_or_by_bytes() -> None:
    many, _cells = filled([b"a"] * (memory_records.RECORDS_MAX - 2))
    last = memory_records.RECORDS_MAX
    assert not many.append(b"a", record(cell(last - 1, b"a")), last - 1)
    assert many.append(b"a", record(cell(last, b"a")), last)
    large = RecordBuffer()
    assert large.append(b"a", record(cell(1, value=bytes(memory_records.BYTES_MAX))), 1)


def test_readers_need_no_lock() -> None:
    buffer = RecordBuffer()
    wrong: list[int] = []
    done = threading.Event()

    def read() -> None:
        while not done.wait(0.0005):
            before = len(buffer)
            block = buffer.block
            row = buffer.row_block(b"row1")
            if block.count < before or (row is not None and row.row(0) != b"row1"):
                wrong.append(before)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for thread in readers:
        thread.start()
    for txn in range(1, 3_000):
        row = b"row%d" % (txn % 7)
        buffer.append(row, record(cell(txn, row)), txn)
    done.set()
    for thread in readers:
        thread.join(60)
    assert wrong == []
    assert buffer.block.count == 2_999
