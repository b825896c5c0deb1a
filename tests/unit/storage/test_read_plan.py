"""Read plans survive their bytes; what is no plan, or one of another format, is refused."""

from __future__ import annotations

import msgspec
import pytest

from stele.errors import Corruption, UnsupportedFormat
from stele.model.column_set import ColumnSet
from stele.model.groups import Group
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from stele.model.schema_json import schema_to_json
from stele.storage.read_plan import KeySample, ReadPlan, TabletPlan, decode_plan, encode_plan
from stele.storage.references import Reference
from tests.unit.storage.test_references import info

SCHEMA = Schema([Group("hot", ["info"]), Group("rest")], columns={"info:age": "int64"})

PLAN = ReadPlan(
    location="/data/fragments",
    table="t1",
    name="users",
    schema_json=schema_to_json(SCHEMA).decode(),
    txn=17,
    lease="pin/t1/x",
    expires_us=99,
    tablets=(
        TabletPlan(
            RowRange(b"", b"\xff\x00"),
            (Reference(info(1), RowRange(b"a", b"b"), ColumnSet.of(["info"])),),
            (KeySample(b"\x00\xff", 100), KeySample(b"b", 7)),
        ),
        TabletPlan(RowRange(b"\xff\x00"), (Reference(info(2, txn=0), txn=12),)),
    ),
)


def test_a_plan_survives_its_bytes() -> None:
    found = decode_plan(encode_plan(PLAN))
    assert found == PLAN
    assert found.schema == SCHEMA


def test_another_format_is_refused_by_number() -> None:
    newer = msgspec.structs.replace(PLAN, format=2)
    with pytest.raises(UnsupportedFormat, match="format 2"):
        decode_plan(encode_plan(newer))


@pytest.mark.parametrize("damage", [b"", b"\xc1", encode_plan(PLAN)[:-3], b"\x81\xa6format\x01"])
def test_what_is_no_plan_is_refused(damage: bytes) -> None:
    with pytest.raises(Corruption, match="not a read plan"):
        decode_plan(damage)
