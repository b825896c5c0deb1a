"""Work of a compaction survives its bytes; what is none, or of another format, is refused."""

from __future__ import annotations

import msgspec
import pytest

from stele.errors import Corruption, UnsupportedFormat
from stele.kernels.compact import CompactionPlan
from stele.model.column_set import ALL_COLUMNS, ColumnSet
from stele.model.groups import Group
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from stele.model.schema_json import schema_to_json
from stele.storage.compaction_work import (
    CompactedUnit,
    CompactionUnit,
    CompactionWork,
    decode_compacted,
    decode_work,
    encode_compacted,
    encode_work,
)
from stele.storage.read_plan import KeySample
from stele.storage.references import Reference
from tests.unit.storage.test_references import info

SCHEMA = Schema([Group("hot", ["info"]), Group("rest")])
INPUTS = (Reference(info(1), RowRange(b"a", b"b"), ColumnSet.of(["info"])),)
UNIT = CompactionUnit(
    rows=RowRange(b"a", b"b"),
    group="hot",
    columns=ColumnSet.of(["info"]),
    inputs=INPUTS,
    horizon=17,
    rooted=True,
    clauses=((3, 1 << 62), (0, -5)),
    samples=(KeySample(b"a", 100), KeySample(b"aa", 7)),
)
WORK = CompactionWork(
    location="/data/fragments",
    table="t1",
    name="users",
    schema_json=schema_to_json(SCHEMA).decode(),
    lease="pin/t1/compact-1",
    units=(UNIT,),
    tablets=3,
    next_row=b"b",
)


def test_work_survives_its_bytes() -> None:
    found = decode_work(encode_work(WORK))
    assert found == WORK
    assert found.schema == SCHEMA
    assert found.units[0].size_bytes == 107
    assert found.units[0].plan == CompactionPlan(17, rooted=True, clauses=((3, 1 << 62), (0, -5)))


def test_another_format_is_refused_by_number() -> None:
    newer = msgspec.structs.replace(WORK, format=2)
    with pytest.raises(UnsupportedFormat, match="format 2"):
        decode_work(encode_work(newer))


def test_finished_units_survive_their_bytes() -> None:
    units = (
        CompactedUnit(RowRange(b"a"), ALL_COLUMNS, INPUTS, (info(2), info(3))),
        CompactedUnit(RowRange(b"", b"a"), ALL_COLUMNS, INPUTS, ()),
    )
    assert decode_compacted(encode_compacted(units)) == units


@pytest.mark.parametrize("damage", [b"", b"\xc1", encode_work(WORK)[:-3], b"\x81\xa6format\x01"])
def test_what_is_no_work_is_refused(damage: bytes) -> None:
    with pytest.raises(Corruption, match="not the work of a compaction"):
        decode_work(damage)
    with pytest.raises(Corruption, match="not the units of a compaction"):
        decode_compacted(damage)
