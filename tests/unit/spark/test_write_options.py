"""Options of writes, from text to values."""

from __future__ import annotations

import os
from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

import stele
from stele.errors import InvalidArgument
from stele.model.numbered_writes import NumberedWrite
from stele.spark.addresses import TableAddress
from stele.spark.write_options import WriteOptions, app_write

FIELDS = StructType([StructField("id", StringType()), StructField("info:age", LongType())])


def parse(**options: str) -> WriteOptions:
    return WriteOptions.parse({"db": "/data", "table": "users", **options})


def test_options_are_named_without_regard_to_case() -> None:
    options = parse(ROWCOLUMN="id", txnappid="daily", TxnVersion="7", Lease="1h")
    assert options.address == TableAddress("/data", "users")
    assert options.write == NumberedWrite("app daily", 7)
    assert options.lease_us == 3_600_000_000
    assert not options.truncates
    form = options.form(stele.Schema(columns={"info:age": "int64"}), FIELDS)
    assert form.key == ("id",)
    assert parse().write is None


def test_composite_keys_and_paths() -> None:
    schema = stele.Schema(key=[("tenant", "string"), ("day", "int64")])
    fields = StructType(
        [
            StructField("t", StringType()),
            StructField("d", LongType()),
            StructField("f:v", StringType()),
        ]
    )
    options = WriteOptions.parse({"path": "data#days", "rowColumn": "t, d"})
    assert options.address == TableAddress(os.path.abspath("data"), "days")
    assert options.form(schema, fields).key == ("t", "d")


def test_a_write_without_a_place_says_how_to_give_one() -> None:
    with pytest.raises(InvalidArgument, match=r"needs the option 'db': .*INSERT INTO t WITH \(db"):
        _ = WriteOptions.parse({"rowColumn": "id"}).address


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rowColum": "id"}, "no option 'rowColum'; did you mean 'rowColumn'"),
        ({"startRow": "a"}, "no option 'startRow'"),
        ({"txnAppId": "a"}, "'txnAppId' and 'txnVersion' belong together"),
        ({"path": "/a#b"}, "'path' and 'db' contradict"),
    ],
)
def test_options_that_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        parse(**options)


@pytest.mark.parametrize(
    ("options", "ask", "said"),
    [
        ({"txnAppId": "a", "txnVersion": "x"}, lambda o: o.write, "version of a write is a number"),
        ({"txnAppId": "a", "txnVersion": "-1"}, lambda o: o.write, "number of a write is 0 to"),
        ({"truncate": "yes"}, lambda o: o.truncates, "truncate is 'true' or 'false'"),
        ({"lease": "soon"}, lambda o: o.lease_us, "lease"),
        ({"rowColumn": "a,,b"}, lambda o: o.form(stele.Schema(), FIELDS), "is a list such as"),
        ({"shape": "x"}, lambda o: o.form(stele.Schema(), FIELDS), "shape is one of"),
        ({"rowColumn": "id"}, lambda o: o.form(stele.Schema(), FIELDS), "info:age"),
    ],
)
def test_values_that_are_refused(options: dict[str, str], ask: Any, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        ask(parse(**options))


def test_a_write_with_a_number() -> None:
    assert app_write("a", 3) == app_write("a", "3") == NumberedWrite("app a", 3)
    with pytest.raises(InvalidArgument, match="name of a writer"):
        app_write("a\nb", 3)
