"""What is refused before Spark is asked for anything; reads themselves are in ``tests/spark``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException

import stele
from stele.errors import InvalidArgument, SnapshotTooOld
from stele.spark.pinning import KEEPER
from stele.spark.reading import opened, read, table_name, view


@pytest.fixture
def users(tmp_path: Path) -> Any:
    with stele.open(tmp_path) as db:
        yield db.create_table("users", stele.Schema(columns={"info:age": "int64"}))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"shape": "wide"}, "shape is one of"),
        ({"versions": 2}, "one version of each column"),
        ({"names": "x"}, "names is one of"),
        ({"columns": ["age"]}, "no colon"),
        ({"rows": b"a"}, "rows is a pair"),
        ({"lease": "never"}, "lease 'never'"),
        ({"lease": "1ms"}, "a pin lives for"),
        ({"partitions": -1}, "partitions is a number"),
        ({"columns": ["x:age", "info:age"], "names": "flat"}, "named 'age'"),
        ({"time_range": (5, 5)}, "time range is empty"),
    ],
)
def test_nonsense_is_refused_and_nothing_is_pinned(
    users: stele.Table, arguments: dict[str, Any], said: str
) -> None:
    before = KEEPER.leases()
    with pytest.raises(InvalidArgument, match=said):
        read(None, users, **arguments)
    assert KEEPER.leases() == before
    assert users.core.backend.renew_pin is not None


def test_a_read_that_spark_refuses_holds_nothing(users: stele.Table) -> None:
    class Session:
        def createDataFrame(self, *_: object) -> Any:  # noqa: N802 -- of Spark
            return self

        def where(self, condition: str) -> Any:
            raise AnalysisException(f"[PARSE_SYNTAX_ERROR] {condition}")

    before = KEEPER.leases()
    with pytest.raises(InvalidArgument, match="refuses the condition 'age <'"):
        read(Session(), users, where="age <")
    assert KEEPER.leases() == before


@pytest.mark.parametrize(
    ("name", "said"),
    [("users", "`users`"), ("page-views", "`page-views`"), ("`page-views`", "`page-views`")],
)
def test_a_view_may_have_any_name(
    users: stele.Table, name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []

    class Frame:
        def createOrReplaceTempView(self, name: str) -> None:  # noqa: N802 -- of Spark
            names.append(name)

    monkeypatch.setattr("stele.spark.reading.read_pinned", lambda *_, **__: (Frame(), "pin"))
    view(None, users, name)
    assert names == [said]


def test_the_past_that_is_given_up_cannot_be_read(users: stele.Table) -> None:
    users.put(b"a", {"info:age": 1})
    users.truncate()
    with pytest.raises(SnapshotTooOld):
        read(None, users, at=1)


def test_a_table_is_a_handle_or_a_text(users: stele.Table, tmp_path: Path) -> None:
    with opened(users) as (handle, address):
        assert handle is users
        assert address is None
    assert table_name(users) == table_name("./x#users") == "users"
    with pytest.raises(InvalidArgument, match=r"a stele\.Table or a text"), opened(17):  # type: ignore[arg-type]
        pass


class Named:
    """A session that only gives names to what it is asked for."""

    def createDataFrame(self, *_: object) -> Any:  # noqa: N802 -- of Spark
        return self

    def createOrReplaceTempView(self, name: str) -> None:  # noqa: N802 -- of Spark
        self.name = name


def test_a_view_is_refreshed_with_what_it_was_made_with(users: stele.Table) -> None:
    session = Named()
    with pytest.raises(InvalidArgument, match="no view 'users' in this session to refresh"):
        view(session, users, refresh=True)
    with pytest.raises(TypeError, match=r"view\(\) got an unexpected keyword argument 'zap'"):
        view(session, users, zap=1)
    view(session, users, columns=["info:age"], lease="2h")
    before = KEEPER.leases()
    with pytest.raises(InvalidArgument, match="leave out columns"):
        view(session, users, refresh=True, columns=["info:age"])
    view(session, users, refresh=True)
    after = KEEPER.leases()
    assert len(after) == len(before)
    assert set(after) != set(before), "a new snapshot instead of the old one"
