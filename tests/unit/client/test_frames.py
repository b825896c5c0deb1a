"""Tables of other libraries, which are optional."""

from __future__ import annotations

import sys

import pyarrow as pa
import pytest

from stele.client.frames import to_pandas, to_polars
from stele.errors import InvalidArgument

TABLE = pa.table({"n": [1, None], "d": pa.array(["x", "x"]).dictionary_encode()})


def test_frames_hold_what_the_table_holds() -> None:
    assert to_pandas(TABLE)["d"].tolist() == ["x", "x"]
    assert to_polars(TABLE).to_dict(as_series=False) == {"n": [1, None], "d": ["x", "x"]}


@pytest.mark.parametrize(("name", "convert"), [("pandas", to_pandas), ("polars", to_polars)])
def test_a_missing_library_is_named(
    name: str, convert: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InvalidArgument, match=f"pip install {name}"):
        convert(TABLE)  # type: ignore[operator]
