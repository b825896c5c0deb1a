from __future__ import annotations

from pathlib import Path

import pytest

from stele.errors import InvalidArgument, SnapshotTooOld, Unavailable
from stele.model.mutations import MutationBatch
from stele.model.predicates import ScanSpec
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from tests.oracles.model_backend import ModelBackend
from tests.unit.tserver.serving import remote

VALUE_BYTES = 200_000


def large_backend(rows: int = 60) -> ModelBackend:
    """More than fits into a window."""
    backend = ModelBackend()
    batch = MutationBatch()
    for number in range(rows):
        batch.put(b"%03d" % number, "f", b"q", bytes(VALUE_BYTES))
    backend.create_table("t", Schema()).apply(batch)
    return backend


def test_all_batches_come_in_order_and_then_what_it_took(tmp_path: Path) -> None:
    backend = large_backend()
    with remote(backend, tmp_path) as (client, _):
        scan = client.table("t").scan(ScanSpec(ranges=(RowRange(b"010"),)))
        assert scan.txn == backend.clock
        assert scan.explain() == {"batches": 0, "cells": 0}
        rows: list[bytes] = []
        for batch in scan:
            rows += batch.column("row").to_pylist()
        assert rows == [b"%03d" % number for number in range(10, 60)]
        assert scan.explain() == {"rows_left": 0}
        assert next(scan, None) is None
        scan.close()
        scan.close()


def test_a_slow_reader_holds_the_store_back(tmp_path: Path) -> None:
    backend = large_backend(200)
    with remote(backend, tmp_path) as (client, _):
        scan = client.table("t").scan(ScanSpec())
        next(scan)
        (running,) = backend.table("t").open_scans
        window_rows = 4 * (1 << 20) // VALUE_BYTES
        assert len(running.rows) > 200 - 3 * window_rows
        assert sum(batch.num_rows for batch in scan) == 200 - 3
        left = client.table("t").scan(ScanSpec())
        left.close()
        assert list(left) == []


def test_an_empty_scan_has_a_txn(tmp_path: Path) -> None:
    backend = large_backend()
    with remote(backend, tmp_path) as (client, _):
        scan = client.table("t").scan(ScanSpec(ranges=(RowRange(b"x"),)))
        assert scan.txn == backend.clock
        assert list(scan) == []


def test_a_refusal_is_raised_where_the_scan_is_asked_for(tmp_path: Path) -> None:
    backend = large_backend(3)
    backend.table("t").floor = 5
    with remote(backend, tmp_path) as (client, _), pytest.raises(SnapshotTooOld):
        client.table("t").scan(ScanSpec(at=4))
    with pytest.raises(InvalidArgument):
        ScanSpec(limit=0)


def test_a_scan_whose_store_goes_away_says_so(tmp_path: Path) -> None:
    backend = large_backend(200)
    with remote(backend, tmp_path) as (client, served):
        scan = client.table("t").scan(ScanSpec())
        next(scan)
        served.stop()
        with pytest.raises(Unavailable, match="explained"):
            list(scan)
        scan.close()
        served.start()
