"""``ss.write`` without Spark: what is refused before it is asked. ``tests/spark`` runs the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stele
from stele import spark as ss
from stele.errors import InvalidArgument
from stele.model.numbered_writes import NumberedWrite
from stele.spark.write_form import write_form
from stele.spark.writing import numbered_write, write_task


@pytest.fixture
def table(tmp_path: Path) -> Iterator[stele.Table]:
    with stele.open(tmp_path / "db") as database:
        yield database.create_table("people", stele.Schema(columns={"info:age": "int64"}))


class Columns:
    """A DataFrame whose lines nobody may ask for."""

    mapInArrow = None  # noqa: N815 -- Spark's name

    def __init__(self, **types: str):
        self.dtypes = list(types.items())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"app_id": "a"}, "app_id and version belong together"),
        ({"version": 1}, "app_id and version belong together"),
        ({"app_id": "a", "version": "x"}, "version of a write is a number"),
        ({"app_id": "", "version": 1}, "an app id is a text of at least one letter"),
        ({"app_id": 7, "version": 1}, "an app id is a text of at least one letter, .* not 7"),
        ({"shape": "tall"}, "shape is one of rows, cells"),
        ({"row": "key"}, "no column 'key'; it has id, age"),
        ({"row": "id"}, "says no family"),
        ({"row": "id", "nulls": "keep"}, "nulls is 'skip' or 'delete'"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(
    table: stele.Table, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidArgument, match=said):
        ss.write(Columns(id="string", age="bigint"), table, **arguments)


def test_a_write_may_have_a_number() -> None:
    assert numbered_write(None, None) is None
    assert numbered_write("a", 2) == NumberedWrite("app a", 2)


def test_tasks_know_the_table_as_it_was(table: stele.Table) -> None:
    form = write_form(table.schema, {"row": "string", "info:age": "bigint"})
    task = write_task(table, form, table.core.backend.begin_import("job", 60_000_000))
    assert (task.table, task.schema, task.form) == ("people", table.schema, form)
