"""Plans made by hand for the tests of what is decided about them."""

from __future__ import annotations

from collections.abc import Sequence

from stele.model.column_set import ALL_COLUMNS, ColumnSet
from stele.model.groups import Group
from stele.model.ranges import RowRange
from stele.model.schema import Schema
from stele.model.schema_json import schema_to_json
from stele.storage.fragment_format import Erasures, FragmentInfo
from stele.storage.read_plan import KeySample, ReadPlan, TabletPlan
from stele.storage.references import Reference
from tests.unit.storage.test_references import info

TXN = 100

SCHEMA = Schema(
    [Group("hot", ["info"]), Group("rest")],
    columns={"info:age": "int64", "info:name": "string"},
)


def file(
    number: int,
    first: bytes,
    last: bytes,
    *,
    families: Sequence[str] = ("info",),
    txn: int = 5,
    clean: bool = True,
) -> FragmentInfo:
    """A file that is described but not written."""
    return info(
        number,
        txn=txn,
        first_row=first,
        last_row=last,
        families=tuple(families),
        versions_max=1 if clean else 2,
        erasures=Erasures(),
    )


def shown(
    what: FragmentInfo, rows: RowRange | None = None, columns: ColumnSet = ALL_COLUMNS
) -> Reference:
    return Reference(what, rows or RowRange(), columns)


def plan_of(*tablets: TabletPlan, schema: Schema = SCHEMA) -> ReadPlan:
    return ReadPlan(
        location="/data/fragments",
        table="t1",
        name="users",
        schema_json=schema_to_json(schema).decode(),
        txn=TXN,
        lease="pin/t1/x",
        expires_us=1,
        tablets=tablets,
    )


def tablet(
    rows: RowRange, *references: Reference, samples: Sequence[tuple[bytes, int]] = ()
) -> TabletPlan:
    return TabletPlan(rows, references, tuple(KeySample(*sample) for sample in samples))
