"""Bodies: what was committed comes back, with its table and txn; anything else is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.errors import Corruption, InvalidArgument, LimitExceeded
from stele.kernels.block import Block
from stele.kernels.requests import request_block
from stele.kernels.row_records import records_to_block
from stele.model.cells import (
    MUTATIONS,
    TIMESTAMP_MAX,
    Cell,
    Op,
    batch_to_cells,
    cells_to_batch,
)
from stele.storage import log_parts
from stele.storage.ipc_message import LOGGED
from stele.storage.log_parts import (
    JOIN_BYTES_MAX,
    Body,
    Commit,
    Part,
    PartKind,
    batch_commit,
    clock_commit,
    decode_batch,
    decode_body,
    decode_release,
    encode_block,
    encode_body,
    release_commit,
    released_file,
    rows_commit,
)
from tests.unit.storage.log_support import TABLE, batch, cell, record, rows


def bytes_of(body: Body) -> bytes:
    data = b"".join(bytes(buffer) for buffer in body.buffers)
    assert len(data) == body.size
    assert len(data) % 8 == 0
    return data


def parts_of(body: Body) -> list[Part]:
    return list(decode_body(memoryview(bytes_of(body))))


def test_small_commits_of_one_table_share_a_part() -> None:
    body = encode_body([rows(1), rows(2, "other"), rows(3, count=2)], 0)
    parts = parts_of(body)
    assert [(part.kind, part.table, part.txn) for part in parts] == [
        (PartKind.ROWS, TABLE, 3),
        (PartKind.ROWS, "other", 2),
    ]
    cells = batch_to_cells(records_to_block(parts[0].content).batch)
    assert [each.txn for each in cells] == [3, 1, 3]
    assert body.txns == (1, 3)
    assert body.commits == 3
    assert [(span.table, span.txn_min, span.txn_max) for span in body.spans] == [
        (TABLE, 1, 3),
        ("other", 2, 2),
    ]


def test_batches_clocks_and_releases_have_parts_of_their_own() -> None:
    body = encode_body([batch(4), clock_commit(5), release_commit(6, 9), batch(7, "other")], 0)
    parts = parts_of(body)
    assert [(part.kind, part.table, part.txn) for part in parts] == [
        (PartKind.BATCH, TABLE, 4),
        (PartKind.CLOCK, "", 5),
        (PartKind.RELEASE, "", 6),
        (PartKind.BATCH, "other", 7),
    ]
    assert decode_release(parts[2]) == 9
    assert body.has_release
    assert [span.table for span in body.spans] == [TABLE, "other"]


def test_an_entry_without_commits_has_the_clock() -> None:
    body = encode_body([], 42)
    assert (body.size, body.txns, body.commits, body.spans) == (0, (42, 42), 0, ())


def test_large_bodies_are_not_copied() -> None:
    value = bytes(JOIN_BYTES_MAX)
    body = encode_body([batch(1, value=value)], 0)
    assert len(body.buffers) > 1
    (part,) = parts_of(body)
    assert batch_to_cells(decode_batch(part).batch)[0].value == value


def decoded(commit: Commit) -> list[Cell]:
    (part,) = parts_of(encode_body([commit], 0))
    block = decode_batch(part)
    block.batch.validate(full=True)
    return batch_to_cells(block.batch)


def test_a_batch_comes_back_with_its_txn() -> None:
    cells = [
        Cell(b"a", "", b"", TIMESTAMP_MAX, op=Op.ERASE_ROW, txn=8),
        Cell(b"a", "f", b"", 5, op=Op.ERASE_FAMILY, txn=8),
        Cell(b"a", "f", b"q", 5, b"value", txn=8),
        Cell(b"b", "g", b"", -5, b"", txn=8),
    ]
    assert decoded(committed(8, cells)) == cells


def committed(txn: int, cells: list[Cell]) -> Commit:
    return batch_commit(TABLE, txn, encode_block(Block.from_batch(cells_to_batch(cells))))


def test_a_slice_of_a_batch_is_written_alone() -> None:
    cells = [cell(1, b"row%03d" % number) for number in range(500)]
    content = encode_block(Block.from_batch(cells_to_batch(cells).slice(100, 2)))
    assert sum(memoryview(buffer).nbytes for buffer in content) < 1_000
    assert decoded(batch_commit(TABLE, 1, content)) == cells[100:102]


def test_mutations_need_no_txn_column() -> None:
    cells = cells_to_batch([cell(3)])
    content = encode_block(request_block(cells.select(MUTATIONS.names)))
    assert decoded(batch_commit(TABLE, 3, content)) == [cell(3)]


def test_a_put_without_a_timestamp_gets_the_txn_and_its_place() -> None:
    future = Cell(b"r", "f", b"q", 500, b"future")
    unset = Cell(b"r", "f", b"q", TIMESTAMP_MAX, b"unset")
    content = encode_block(Block.from_batch(cells_to_batch([unset, future])))
    found = decoded(batch_commit(TABLE, 77, content))
    assert [(each.timestamp, each.value) for each in found] == [(500, b"future"), (77, b"unset")]


def test_an_erasure_without_a_bound_keeps_it() -> None:
    erasure = Cell(b"r", "f", b"", TIMESTAMP_MAX, op=Op.ERASE_FAMILY, txn=5)
    assert decoded(
        batch_commit(TABLE, 5, encode_block(Block.from_batch(cells_to_batch([erasure]))))
    ) == [erasure]


@given(
    st.lists(st.tuples(st.binary(max_size=9), st.sampled_from(["f", "ü", "z" * 255])), max_size=9)
)
def test_any_batch_comes_back(keys: list[tuple[bytes, str]]) -> None:
    cells = sorted({Cell(row, family, b"q", 1, row, txn=2) for row, family in keys}, key=Cell.key)
    assert decoded(committed(2, cells)) == cells


@pytest.mark.parametrize("table", ["", "t" * 256, "ü" * 128])
def test_a_table_id_that_cannot_be_written_down(table: str) -> None:
    with pytest.raises(InvalidArgument, match="table id"):
        rows_commit(table, 1, [record(cell(1))])


def test_a_commit_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_parts, "COMMIT_BYTES_MAX", 100)
    with pytest.raises(LimitExceeded, match="over the limit of 100 bytes"):
        rows_commit(TABLE, 1, [bytes(101)])


def test_a_release_says_which_file() -> None:
    assert released_file(release_commit(1, 12)) == 12


BODY = bytes_of(encode_body([rows(1, count=2), batch(2), clock_commit(3), release_commit(4, 1)], 0))


def read_everything(body: bytes) -> int:
    """Look at every part and every cell; how many cells there are."""
    cells = 0
    for part in decode_body(memoryview(body)):
        if part.kind in (PartKind.ROWS, PartKind.BATCH):
            rows_part = part.kind is PartKind.ROWS
            block = records_to_block(part.content) if rows_part else decode_batch(part)
            block.batch.validate(full=True)
            cells += len(batch_to_cells(block.batch))
        elif part.kind is PartKind.RELEASE:
            decode_release(part)
    return cells


def test_the_body_of_the_next_tests_is_sound() -> None:
    assert read_everything(BODY) == 5


@pytest.mark.parametrize("length", [1, 15, 17, 40, len(BODY) - 8])
def test_a_body_cut_short_is_corruption(length: int) -> None:
    with pytest.raises(Corruption):
        read_everything(BODY[:length])


@settings(max_examples=1_500)
@given(st.integers(0, len(BODY) - 1), st.integers(1, 255))
def test_any_changed_byte_is_read_or_corruption(position: int, change: int) -> None:
    """Checksums keep this from happening; the decoder must not need them to stay in its memory."""
    data = bytearray(BODY)
    data[position] ^= change
    try:
        cells = read_everything(bytes(data))
    except Corruption:
        cells = 0
    assert 0 <= cells <= 5


@pytest.mark.parametrize(
    ("column", "values", "reason"),
    [("op", pa.array([9], pa.int8()), "op"), ("family", pa.array([7], pa.int16()), "batch")],
)
def test_values_that_mean_nothing_are_corruption(
    column: str, values: pa.Array, reason: str
) -> None:
    head, *message = encode_block(Block.from_batch(cells_to_batch([cell(1)])))
    body = b"".join(bytes(memoryview(piece)) for piece in message)
    logged = pa.ipc.read_record_batch(pa.py_buffer(body), LOGGED)
    index = logged.schema.get_field_index(column)
    bad = logged.set_column(index, logged.schema.field(index), values).serialize()
    with pytest.raises(Corruption, match=reason):
        decoded(batch_commit(TABLE, 1, (head, bad)))
