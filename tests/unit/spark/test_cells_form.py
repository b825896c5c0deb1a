"""Which DataFrames are cells, and which arguments say nothing about them."""

from __future__ import annotations

import pytest

from stele.errors import InvalidArgument
from stele.spark.cells_form import check_cells

CELLS = {"row": "binary", "family": "string", "qualifier": "binary", "value": "binary"}


def test_cells_have_columns_of_their_own() -> None:
    check_cells(CELLS)
    check_cells(CELLS | {"timestamp": "bigint", "op": "string", "txn": "bigint"}, row=None)
    with pytest.raises(InvalidArgument, match="'ops' is not one of them"):
        check_cells(CELLS | {"ops": "string"})
    with pytest.raises(InvalidArgument, match="'family' is missing"):
        check_cells({name: kind for name, kind in CELLS.items() if name != "family"})


@pytest.mark.parametrize("name", ["row", "family", "timestamp", "op", "nulls"])
def test_an_argument_of_wide_rows_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{name} says .*leave {name} out, or give shape="):
        check_cells(CELLS, **{name: "x"})
