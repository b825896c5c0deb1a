"""``ss.delete`` without Spark: what is refused before it is asked; ``tests/spark`` runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stele
from stele import spark as ss
from stele.errors import InvalidArgument


class Columns:
    """A DataFrame whose lines nobody may ask for."""

    dtypes = (("id", "string"), ("age", "bigint"))


@pytest.mark.parametrize(
    ("what", "arguments", "said"),
    [
        (Columns(), {}, "no column 'row'; it has id, age"),
        (Columns(), {"row": "id", "columns": []}, "names no columns"),
        (Columns(), {"row": "id", "columns": ["age"]}, "no colon"),
        (Columns(), {"row": "id", "version": 1}, "belong together"),
        ("age > 3", {"row": "id"}, "a condition has none"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(
    tmp_path: Path, what: Any, arguments: dict[str, Any], said: str
) -> None:
    with stele.open(tmp_path / "db") as database:
        table = database.create_table("people", stele.Schema())
        with pytest.raises(InvalidArgument, match=said):
            ss.delete(what, table, **arguments)
