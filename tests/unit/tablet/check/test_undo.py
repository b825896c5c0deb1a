"""The record of a repair takes it back."""

from __future__ import annotations

import msgspec
import pytest

from stele.errors import Corruption, UnsupportedFormat
from stele.tablet.check.plan import make_plan
from stele.tablet.check.undo import encode_undo, undo_edit, undo_record
from stele.tablet.check.verify import verify
from stele.tablet.config import ConfigEdit
from tests.unit.tablet.check.metas import info, split, store_of, tablet


def record_of_a_widening() -> tuple[bytes, ConfigEdit]:
    _, upper = split(tablet(1, b"c", None, info(1)), b"m", "t1.2")
    facts = store_of(tablet(0, b"", b"c"), upper)
    plan = make_plan(facts, verify(facts))
    (widened,) = plan.edit(of_meta=False).written
    return encode_undo(undo_record(plan, facts.tablets, 7)), ConfigEdit((widened,), (upper,))


def test_undo_puts_the_old_row_back() -> None:
    data, expected = record_of_a_widening()
    assert undo_edit(data, "repairs/x.json") == expected
    assert b'"gap"' in data, "it says why"


def test_undo_brings_deleted_rows_back() -> None:
    whole = tablet(1, b"", None, info(1))
    lower, _ = split(whole, b"m", "t1.2")
    facts = store_of(whole, lower)
    record = undo_record(make_plan(facts, verify(facts)), facts.tablets, 7)
    assert undo_edit(encode_undo(record), "f") == ConfigEdit(written=(lower,))


def test_other_files_are_refused_by_name() -> None:
    with pytest.raises(Corruption, match="repairs/x"):
        undo_edit(b"{}", "repairs/x")
    data, _ = record_of_a_widening()
    newer = {**msgspec.json.decode(data), "format_version": 2}
    with pytest.raises(UnsupportedFormat, match="version 2"):
        undo_edit(msgspec.json.encode(newer), "f")
