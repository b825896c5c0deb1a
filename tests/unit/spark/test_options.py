"""Options of the data source: each is checked by itself, and against the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stele
from stele.errors import InvalidArgument, NotFound
from stele.model.columns import ColumnSelection
from stele.model.ranges import RowRange
from stele.spark.options import METADATA_KEY, ReadOptions, from_metadata, overlaid

TABLE = {"db": "/data", "table": "users"}


def parse(**options: str) -> ReadOptions:
    return ReadOptions.parse(TABLE | options)


def test_names_are_compared_without_case() -> None:
    options = ReadOptions.parse({"DB": "/data", "tAbLe": "users", "startrow": "a", "ENDROW": "c"})
    assert options.address.table == "users"
    assert options.request().spec.ranges == (RowRange(b"a", b"c"),)


def test_a_path_names_both() -> None:
    assert ReadOptions.parse({"path": "/data#users"}).address == parse().address


def test_what_a_catalog_adds_is_overlooked() -> None:
    given = TABLE | {"option.db": "/data", "option.startRow": "a", "owner": "me", "provider": "x"}
    assert ReadOptions.parse(given).given == TABLE | {"startRow": "a"}


def test_everything_can_be_said() -> None:
    request = parse(
        shape="cells",
        columns="info:age, anchor:",
        startRow="00ff",
        rowEncoding="hex",
        versions="3",
        minTimestamp="5",
        maxTimestamp="2026-01-31T12:00:00Z",
        partitions="7",
        lease="5m",
    ).request()
    spec = request.spec
    assert request.shape == "cells"
    assert request.partitions == 7
    assert spec.ranges == (RowRange(b"\x00\xff"),)
    assert spec.columns == ColumnSelection.parse(["info:age", "anchor:"])
    assert (spec.versions, spec.time_start, spec.time_end) == (3, 5, 1_769_860_800_000_000)
    assert parse(lease="5m").lease_us == 300_000_000
    assert parse(shape="cells", versions="all").request().spec.versions is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startKey": "a"}, r"no option 'startKey'; did you mean 'startRow'\?"),
        ({"xyzzy": "a"}, r"no option 'xyzzy'. It reads db, table"),
        ({"path": "/data#users"}, "'path' and 'db' contradict"),
        ({"versionAsOf": "1", "timestampAsOf": "2"}, "contradict"),
        ({"rowEncoding": "hex"}, "is for 'startRow' and 'endRow'"),
        ({"startRow": "a", "rowEncoding": "latin"}, "utf8, hex; not 'latin'"),
        ({"startRow": "zz", "rowEncoding": "hex"}, "not a row in hex"),
        ({"startRow": "b", "endRow": "a"}, "row range is empty"),
        ({"columns": "info:age,,"}, "is a list such as"),
        ({"columns": "age"}, "has no colon"),
        ({"versions": "many"}, "versions is a whole number"),
        ({"versions": "2"}, "one version of each column"),
        ({"shape": "tall"}, "shape is one of rows, cells"),
        ({"partitions": "x"}, "partitions is a whole number"),
        ({"minTimestamp": "yesterday"}, "minTimestamp is a number of µs or a time such as"),
        ({"minTimestamp": "2026-01-31T12:00:00"}, "no time zone"),
        ({"minTimestamp": "9", "maxTimestamp": "9"}, "time range is empty"),
        ({"lease": "soon"}, "lease 'soon'"),
    ],
)
def test_nonsense_is_refused_by_name(options: dict[str, str], said: str) -> None:
    def use() -> int:
        parsed = parse(**options)
        parsed.request()
        return parsed.lease_us

    with pytest.raises(InvalidArgument, match=said):
        use()


@pytest.mark.parametrize("missing", ["db", "table"])
def test_a_table_has_to_be_named(missing: str) -> None:
    options = ReadOptions.parse({name: "x" for name in TABLE if name != missing})
    with pytest.raises(InvalidArgument, match=f"needs the option '{missing}'"):
        _ = options.address


def test_options_survive_in_metadata_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ReadOptions.parse({"db": "data", "table": "users", "shape": "cells", "token": "s"})
    kept = from_metadata(options.metadata())
    assert kept == {"db": str(tmp_path / "data"), "table": "users", "shape": "cells"}
    by_path = ReadOptions.parse({"path": "data#users"}).metadata()
    assert ReadOptions.parse(from_metadata(by_path)).address.db == str(tmp_path / "data")
    assert from_metadata({}) == {}


def test_given_options_replace_kept_ones_and_what_contradicts_them() -> None:
    kept = {"db": "/a", "table": "t", "versionAsOf": "1", "shape": "cells"}
    assert overlaid(kept, {}) == kept
    assert overlaid(kept, {"SHAPE": "rows"}) == {
        "db": "/a",
        "table": "t",
        "versionAsOf": "1",
        "SHAPE": "rows",
    }
    assert overlaid(kept, {"path": "/b#t", "timestampasof": "5"}) == {
        "shape": "cells",
        "path": "/b#t",
        "timestampasof": "5",
    }


@pytest.mark.parametrize("damaged", ["", "[1]", "nonsense", json.dumps("x")])
def test_damaged_metadata_is_refused(damaged: str) -> None:
    with pytest.raises(InvalidArgument, match="damaged"):
        from_metadata({METADATA_KEY: damaged})


def test_versions_are_txns_or_snapshots_and_times_are_txns(tmp_path: Path) -> None:
    with stele.open(tmp_path) as db:
        users = db.create_table("users")
        txn = users.snapshot("before")
        assert parse().at(users) is None
        assert parse(versionAsOf=str(txn)).at(users) == txn
        assert parse(versionAsOf="before").at(users) == txn
        assert parse(timestampAsOf="1970-01-01T00:00:01+00:00").at(users) == 1_000_000
        with pytest.raises(NotFound, match="no snapshot 'after'"):
            parse(versionAsOf="after").at(users)
