"""Reads that make no sense are refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from stele.errors import InvalidArgument
from stele.model.columns import ColumnSelection
from stele.model.predicates import ScanSpec
from stele.model.ranges import RowRange
from stele.spark.requests import ReadRequest
from tests.unit.spark.plans import SCHEMA


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"shape": "wide"}, "shape is one of rows, cells; not 'wide'"),
        ({"names": "short"}, "names is one of qualified, flat, nested"),
        ({"spec": ScanSpec(versions=2)}, "one version of each column"),
        ({"spec": ScanSpec(versions=None)}, "one version of each column"),
        ({"shape": "cells", "names": "flat"}, "names='flat' is for wide rows"),
        ({"shape": "cells", "undeclared": "others"}, "undeclared names a column of wide rows"),
        ({"undeclared": ""}, "undeclared names a column of wide rows"),
        ({"partitions": 0}, "partitions is a number from 1"),
        ({"partitions": 10**7}, "partitions is a number from 1"),
    ],
)
def test_nonsense_is_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        ReadRequest(**arguments)


def test_only_what_the_shape_shows_is_read() -> None:
    wide = ReadRequest(spec=ScanSpec(versions=1)).cell_spec(SCHEMA)
    assert wide.columns == ColumnSelection.parse(["info:age", "info:name"])
    everything = ReadRequest(undeclared="others").cell_spec(SCHEMA)
    assert everything.columns.is_everything
    cells = ReadRequest(shape="cells").cell_spec(SCHEMA)
    assert cells.columns.is_everything


def test_a_task_is_not_told_all_rows() -> None:
    whole = ReadRequest(spec=ScanSpec(ranges=(RowRange(b"a", b"b"),), versions=2), shape="cells")
    assert whole.of_a_task == ReadRequest(spec=ScanSpec(versions=2), shape="cells")
