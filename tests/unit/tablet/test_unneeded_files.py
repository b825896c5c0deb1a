"""The cache lets go of files that no tablet refers to (T9)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stele.cluster.embedded import EmbeddedBackend
from stele.cluster.embedded_table import EmbeddedTable
from stele.model.predicates import ScanSpec
from stele.model.ranges import RowRange
from tests.unit.tablet.engine_support import ONE_GROUP, get_many, memory_world, open_backend, put

ROWS = [b"row%03d" % number for number in range(20)]


def two_files() -> tuple[EmbeddedBackend, EmbeddedTable]:
    """A table of two files, both of them read."""
    backend = open_backend(memory_world())
    table = backend.create_table("t", ONE_GROUP)
    for _ in range(2):
        for row in ROWS:
            put(table, row)
        table.flush()
    assert len(get_many(table, ROWS)) == len(ROWS)
    return backend, table


def cached_bytes(backend: EmbeddedBackend) -> int:
    return backend.store.user.fragments.cache.used_bytes


@pytest.mark.parametrize("change", [EmbeddedTable.compact, EmbeddedTable.truncate])
def test_t9_what_a_change_took_from_a_tablet_leaves_the_cache(
    change: Callable[[EmbeddedTable], None],
) -> None:
    backend, table = two_files()
    assert cached_bytes(backend) > 0
    change(table)
    assert cached_bytes(backend) == 0


def test_t5_t9_what_another_tablet_or_a_clone_needs_stays() -> None:
    backend, table = two_files()
    before = cached_bytes(backend)
    assert before > 0
    table.split(ROWS[10])
    table.compact(RowRange(b"", ROWS[10]))
    assert cached_bytes(backend) == before
    backend.clone_table("t", "copy")
    table.compact()
    assert cached_bytes(backend) >= before
    backend.table("copy").compact()
    assert cached_bytes(backend) == 0


def test_t9_a_scan_goes_on_with_files_that_are_gone_from_the_cache() -> None:
    _, table = two_files()
    stream = table.scan(ScanSpec())
    first = next(iter(stream))
    table.compact()
    assert first.num_rows + sum(batch.num_rows for batch in stream) == len(ROWS)
