"""Which files hold wide rows as they are, by what they say of themselves."""

from __future__ import annotations

import msgspec
import pytest

from stele.model import filters
from stele.model.columns import ColumnSelection
from stele.model.predicates import ScanSpec
from stele.model.schema import Schema
from stele.spark.native_rows import NativeRows, native_part, native_rows, quoted
from stele.spark.requests import ReadRequest
from stele.storage.fragment_columns_format import NativeColumn, NativePart
from stele.storage.fragment_format import COLUMNS_LAYOUT, Erasures, FragmentInfo
from tests.unit.spark.plans import SCHEMA, file
from tests.unit.storage.test_fragment_format import summary

COMPANION = msgspec.structs.replace(
    file(2, b"a", b"b"), summary=summary(cells=1, rows=1, erasures=Erasures())
)


def columns_file(**changes: object) -> FragmentInfo:
    return msgspec.structs.replace(file(1, b"a", b"z"), layout=COLUMNS_LAYOUT, **changes)


def part(*names: str, complete: bool = True, **types: str) -> NativePart:
    return NativePart(
        columns=tuple(
            NativeColumn(
                id=16 + number,
                family="info",
                qualifier=name.encode(),
                type=types.get(name, {"age": "int64", "name": "string"}.get(name, "int64")),
                own_stamps=False,
            )
            for number, name in enumerate(sorted(names))
        ),
        cells=10,
        rows=5,
        first_row=b"a",
        last_row=b"z",
        complete=complete,
    )


def rows_of(
    found: NativePart, columns: list[str] | None = None, schema: Schema = SCHEMA
) -> NativeRows:
    spec = ScanSpec(columns=ColumnSelection.parse(columns))
    shape = ReadRequest(spec=spec).converter(schema)
    rows = native_rows(shape, spec, lambda _: found)
    assert rows is not None
    return rows


def test_a_file_with_the_columns_of_the_read_holds_its_lines() -> None:
    assert rows_of(part("age", "name")).holds_lines(columns_file())
    assert rows_of(part("age", "name")).holds_lines(columns_file(companion=COMPANION))
    assert rows_of(part("age")).holds_lines(columns_file()), "what it lacks is null"


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (part("age", "name"), file(1, b"a", b"z")),
        (part("age", "name", complete=False), columns_file()),
        (part("age", "name", age="string"), columns_file()),
        (part("age", "name", age="uint64"), columns_file()),
        (part("age"), columns_file(companion=COMPANION)),
        (part("age", "name", "Age"), columns_file()),
        (part("Age", "name"), columns_file()),
    ],
)
def test_other_files_do_not(found: NativePart, what: FragmentInfo) -> None:
    assert not rows_of(found).holds_lines(what)


@pytest.mark.parametrize("former", ["int8", "int32", "uint8", "uint32"])
def test_spark_widens_what_a_file_has_of_a_former_type(former: str) -> None:
    assert rows_of(part("age", "name", age=former)).holds_lines(columns_file())
    anew = part("age", "name", "other", age=former)
    redeclared = msgspec.structs.replace(
        anew, columns=tuple(msgspec.structs.replace(c, id=c.id + 10) for c in anew.columns)
    )
    assert not rows_of(redeclared).holds_lines(columns_file()), "it is another column of that name"


def test_rows_without_a_column_of_the_read_are_left_out() -> None:
    whole, some = rows_of(part("age", "name")), rows_of(part("age", "name"), ["info:age"])
    for rows in (whole, some):
        assert rows.holds_lines(columns_file())
    assert whole._presence([columns_file()]) is None
    assert some._presence([columns_file()]) == "`info:age` IS NOT NULL"


@pytest.mark.parametrize(
    ("schema", "request_"),
    [
        (SCHEMA, ReadRequest(shape="cells")),
        (SCHEMA, ReadRequest(spec=ScanSpec(time_start=5))),
        (SCHEMA, ReadRequest(spec=ScanSpec(filters=(filters.prefix("row", b"a"),)))),
        (SCHEMA, ReadRequest(spec=ScanSpec(columns=ColumnSelection.parse(["anchor:"])))),
        (SCHEMA, ReadRequest(spec=ScanSpec(columns=ColumnSelection.parse(["info:age", "a:b"])))),
        (Schema(columns={"a:b": "int64"}, key="int64"), ReadRequest()),
        (Schema(columns={"a:b": "int64", "a:B": "int64"}), ReadRequest()),
    ],
)
def test_some_reads_are_never_native(schema: Schema, request_: ReadRequest) -> None:
    shape = request_.converter(schema)
    assert native_rows(shape, request_.spec, lambda _: part("age")) is None


def test_names_are_quoted() -> None:
    assert quoted("info:a`b") == "`info:a``b`"
    with pytest.raises(AssertionError):
        native_part(type("Metadata", (), {"native": msgspec.UNSET}))
