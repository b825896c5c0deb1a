"""Keys, values and ranges as users write them become what is stored."""

from __future__ import annotations

import pytest

from stele.client.encoder import NAME_LENGTH_MAX, PLACES_MAX, Encoder
from stele.errors import InvalidArgument
from stele.model.cells import Op
from stele.model.columns import Column, FamilySelection
from stele.model.mutations import MutationBatch
from stele.model.ranges import EVERYTHING, RowRange
from stele.model.schema import Schema


def test_raw_keys_are_bytes_and_typed_keys_either() -> None:
    assert Encoder(Schema()).row(b"a") == b"a"
    typed = Encoder(Schema(key="int64"))
    assert typed.row(1) == typed.row(typed.row(1)) == bytes.fromhex("8000000000000001")
    for wrong in (b"short", "1", None):
        with pytest.raises(InvalidArgument):
            typed.row(wrong)


def test_values_are_encoded_by_their_column() -> None:
    encoder = Encoder(Schema(columns={"f:n": "int16"}))
    assert encoder.value("f:n", 258) == b"\x01\x02"
    assert encoder.value("f:raw", bytearray(b"x")) == encoder.value("f:raw", memoryview(b"x"))
    for name, value in (("f:n", b"12"), ("f:n", 2**15), ("f:raw", "x"), (Column("f", b"z"), 1)):
        with pytest.raises(InvalidArgument, match=r"column 'f:(n|raw|z)'"):
            encoder.value(name, value)


def test_names_are_remembered_within_bounds() -> None:
    encoder = Encoder(Schema())
    assert encoder.place("f:q") is encoder.place("f:q")
    long = "f:" + "q" * (NAME_LENGTH_MAX + 1)
    assert encoder.place(long) is not encoder.place(long)
    for number in range(PLACES_MAX + 10):
        encoder.place(f"g:{number}")
    assert encoder.place(f"g:{PLACES_MAX + 5}") == ("g", b"%d" % (PLACES_MAX + 5), None)


def test_deletes_become_the_erasure_they_mean() -> None:
    encoder = Encoder(Schema())
    batch = MutationBatch()
    encoder.delete(batch, b"a")
    encoder.delete(batch, b"b", ["f:", "g:q", Column("h", b"")], until=7)
    encoder.delete(batch, b"c", "g:q", timestamp=7)
    encoder.delete(batch, b"d", FamilySelection("f"))
    assert [(cell.row, cell.op, cell.column) for cell in batch.cells()] == [
        (b"a", Op.ERASE_ROW, ":"),
        (b"b", Op.ERASE_FAMILY, "f:"),
        (b"b", Op.ERASE_COLUMN, "g:q"),
        (b"b", Op.ERASE_COLUMN, "h:"),
        (b"c", Op.ERASE_CELL, "g:q"),
        (b"d", Op.ERASE_FAMILY, "f:"),
    ]


def test_ranges_in_every_form() -> None:
    encoder = Encoder(Schema(key="string"))
    assert encoder.ranges() == (EVERYTHING,)
    assert encoder.ranges(("a", b"b")) == (RowRange(b"a", b"b"),)
    assert encoder.ranges([(None, "b"), ("x", None)]) == (RowRange(b"", b"b"), RowRange(b"x"))
    assert encoder.ranges(prefix=b"a") == (RowRange(b"a", b"b"),)
    assert encoder.ranges(prefix="a") == (RowRange(b"a", b"b"),)
    assert encoder.ranges(prefix="") == (EVERYTHING,)
    composite = Encoder(Schema(key=[("a", "string"), ("b", "int8")]))
    assert composite.ranges(prefix=("a",))[0].contains(composite.row(("a", 3)))
    assert not composite.ranges(prefix=("a",))[0].contains(composite.row(("ab", 3)))
    with pytest.raises(InvalidArgument, match="not a value"):
        encoder.ranges(prefix="\ud800")
    for odd in (RowRange("a", "b"), RowRange(5)):  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="of bytes"):
            encoder.ranges(odd)
    for wrong in ("a", b"a", 3, ["a"], ("a", "b", "c")):
        with pytest.raises(InvalidArgument, match="pair"):
            encoder.ranges(wrong)
    with pytest.raises(InvalidArgument, match="not both"):
        encoder.ranges(("a", "b"), prefix="a")


def test_borders_may_be_partial_keys_but_not_empty() -> None:
    encoder = Encoder(Schema(key=[("a", "string"), ("b", "int8")]))
    assert encoder.border(("x",)) < encoder.border(("x", 3))
    assert encoder.border(b"raw") == b"raw"
    with pytest.raises(InvalidArgument):
        encoder.border(b"")
