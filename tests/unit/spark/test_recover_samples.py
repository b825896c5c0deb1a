"""Samples of a log: existing rows of the right tables, in order, as many as their share."""

from __future__ import annotations

import pytest

from stele.spark import recover_samples
from stele.spark.recover_samples import sample_log
from stele.storage.log_pieces import pieces_of
from stele.storage.log_seal import seal
from tests.unit.storage.log_support import DIRECTORY, rows, written


def test_rows_of_all_pieces_are_sampled() -> None:
    groups = [[rows(txn, "t", count=20), rows(txn, "u", count=5)] for txn in range(1, 30)]
    fs = written(groups, roll_bytes=4_096)
    pieces = pieces_of(fs, DIRECTORY, seal(fs, DIRECTORY, "test"))
    assert len(pieces) > 3
    found = sample_log(fs, pieces, ["t", "u", "v"])
    assert sorted(found) == ["t", "u"]
    for samples in found.values():
        assert [sample.row for sample in samples] == sorted(sample.row for sample in samples)
    assert {sample.row for sample in found["t"]} <= {b"row%d" % number for number in range(20)}
    total = sum(sample.size_bytes for samples in found.values() for sample in samples)
    whole = sum(piece.length for piece in pieces)
    assert 0.8 * whole <= total <= whole
    assert 2 * len(found["u"]) < len(found["t"])
    assert sorted(sample_log(fs, pieces, ["u"])) == ["u"]


def test_only_the_beginning_of_some_files_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recover_samples, "PIECES_MAX", 2)
    monkeypatch.setattr(recover_samples, "PIECE_BYTES", 1)
    fs = written([[rows(txn, value=bytes(400))] for txn in range(1, 20)], roll_bytes=1_024)
    pieces = pieces_of(fs, DIRECTORY, seal(fs, DIRECTORY, "test"))
    (samples,) = sample_log(fs, pieces, ["t00000001"]).values()
    assert len(samples) == 2, "one entry with one row of each of two files"
    assert sample_log(fs, (), ["t00000001"]) == {}
