from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest

from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.model.mutations import MutationBatch
from stele.model.numbered_writes import NumberedWrite
from stele.tablet.key_samples import even_keys, memory_samples
from stele.tablet.split_policy import RowSample
from stele.tablet.tablet_sizes import SAMPLES_PER_FILE_MAX
from tests.unit.tablet.engine_support import ONE_GROUP, erase_row, memory_world, open_backend, put

ROWS = 2_000


def new_table() -> tuple[EmbeddedBackend, EmbeddedTable]:
    backend = open_backend(memory_world())
    return backend, backend.create_table("t", ONE_GROUP)


def rows_between(first: int, last: int) -> pa.RecordBatch:
    batch = MutationBatch()
    for number in range(first, last):
        batch.put(b"%06d" % number, "f", b"q", b"v" * 20)
    return batch.to_arrow()


def check_even(keys: list[bytes]) -> None:
    borders = [0, *map(int, keys), ROWS]
    parts = [after - before for before, after in pairwise(borders)]
    assert len(parts) == 4
    assert max(parts) < ROWS // 2, parts


@pytest.mark.parametrize("small", [False, True])
def test_what_is_only_in_memory_is_sampled(small: bool) -> None:
    _, table = new_table()
    if small:
        for number in range(ROWS):
            table.apply(_one_put(number))
    else:
        table.apply(rows_between(0, ROWS)).wait()
    check_even(list(table.sample_keys(3)))
    samples = list(memory_samples(table._state.memory.version))
    assert len(samples) <= 2 * SAMPLES_PER_FILE_MAX


def _one_put(number: int) -> MutationBatch:
    batch = MutationBatch()
    batch.put(b"%06d" % number, "f", b"q", b"v")
    return batch


def test_files_and_memory_are_sampled_together() -> None:
    _, table = new_table()
    table.apply(rows_between(0, ROWS // 2)).wait()
    table.flush()
    table.apply(rows_between(ROWS // 2, ROWS)).wait()
    keys = list(table.sample_keys(100))
    assert min(keys) < b"%06d" % (ROWS // 2) < max(keys)
    assert keys == sorted(set(keys))


def test_rows_that_were_only_erased_are_no_samples() -> None:
    _, table = new_table()
    for number in range(20):
        erase_row(table, b"gone%02d" % number)
    assert table.sample_keys(3) == []
    table.flush()
    assert table.sample_keys(3) == []
    put(table, b"here")
    put(table, b"there")
    assert set(table.sample_keys(3)) <= {b"here", b"there"}


def test_rows_of_hidden_cells_are_no_samples() -> None:
    _, table = new_table()
    empty = rows_between(0, 0)
    for number in range(1, 20):
        table.apply_numbered(NumberedWrite(f"writer{number}", 1), empty)
    assert table.sample_keys(3) == []
    table.flush()
    assert table.sample_keys(3) == []


def test_keys_are_chosen_by_the_bytes_between_them() -> None:
    samples = [RowSample(b"a", 10), RowSample(b"b", 10), RowSample(b"c", 80), RowSample(b"d", 100)]
    assert even_keys(reversed(samples), 1) == [b"d"]
    assert even_keys(samples, 100) == [b"b", b"c", b"d"]
    assert even_keys([], 3) == []
