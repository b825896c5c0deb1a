"""References: nothing is lost, nothing is shown twice, whatever is done to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.errors import Corruption, InvalidArgument
from stele.kernels.sources import Facts
from stele.model.column_set import ColumnSet
from stele.model.ranges import RowRange
from stele.storage.fragment_format import Erasures, FragmentInfo, IndexPointer
from stele.storage.references import (
    Reference,
    decode_references,
    encode_references,
    file_references,
    regroup,
    restrict,
    split,
    unite,
    without,
)
from stele.storage.regions import EVERYWHERE, Region
from tests.unit.storage.region_cases import COLUMNS, FAMILIES, POINTS, REGION, row_range
from tests.unit.storage.test_fragment_format import summary


def info(number: int, *, txn: int = 5, **changes: object) -> FragmentInfo:
    fields = {
        "families": tuple(FAMILIES),
        "first_row": b"",
        "last_row": b"\xff\xff",
        "txn_min": txn,
        "txn_max": txn,
        "erasures": Erasures(),
    }
    return FragmentInfo(
        name=f"s-{number:08}.parquet",
        size=1_000,
        index=IndexPointer(100, 10, number),
        summary=summary(**{**fields, **changes}),
    )


def shown(references: Iterable[Reference]) -> Counter[tuple[str, int | None, bytes, str]]:
    """How often each cell of each file can be seen; a cell for each point of the small world."""
    return Counter(
        (reference.file.name, reference.txn, row, family)
        for reference in references
        for row, family in POINTS
        if Region(reference.rows, reference.columns).contains(row, family)
    )


TXNS = st.sampled_from([None, 3, 4])
REFERENCE = st.builds(
    lambda number, region, txn: Reference(info(number, txn=0), region.rows, region.columns, txn),
    st.integers(0, 2),
    REGION,
    TXNS,
)
REFERENCES = st.lists(REFERENCE, max_size=6)


@given(REFERENCES)
def test_normalising_shows_each_cell_once(references: list[Reference]) -> None:
    found = unite(references)
    assert shown(found) == Counter(shown(references).keys())
    assert unite(found) == found
    assert unite(reversed(found)) == found


@given(REFERENCES, st.sampled_from([b"a", b"b", b"c", b"\xff"]))
def test_split_and_join_give_back_the_whole(references: list[Reference], row: bytes) -> None:
    whole = unite(references)
    lower, upper = split(whole, row)
    assert all(reference.rows.end is not None for reference in lower)
    assert shown(lower) + shown(upper) == shown(whole)
    joined = unite([*lower, *upper])
    assert shown(joined) == shown(whole)
    assert unite([*upper, *lower]) == joined


def test_joined_halves_are_one_reference() -> None:
    whole = Reference(info(1))
    lower, upper = split([whole], b"m")
    assert unite([*lower, *upper]) == (whole,)
    assert unite([whole, whole]) == (whole,)


@given(REFERENCES, NAMES := st.sets(st.sampled_from(FAMILIES[:3])))
def test_regrouping_gives_each_cell_to_one_group(
    references: list[Reference], names: set[str]
) -> None:
    groups = {"named": ColumnSet.of(names), "rest": ColumnSet.all_but(names)}
    given_out = regroup(references, groups)
    assert shown(given_out["named"]) + shown(given_out["rest"]) == shown(unite(references))
    again = regroup([*given_out["named"], *given_out["rest"]], {"all": ColumnSet.all_but([])})
    assert shown(again["all"]) == shown(unite(references))


@given(REFERENCES, row_range(), COLUMNS)
def test_restricting(references: list[Reference], rows: RowRange, columns: ColumnSet) -> None:
    expected = Counter(
        {
            key: count
            for key, count in shown(references).items()
            if rows.contains(key[2]) and key[3] in columns
        }
    )
    assert shown(restrict(references, rows, columns)) == expected


@given(REFERENCES, REFERENCES, row_range())
def test_taking_away_what_is_shown(
    references: list[Reference], gone: list[Reference], rows: RowRange
) -> None:
    """Whatever way it is cut: all of it, or nothing happens."""
    whole, part = unite(references), unite(gone)
    for taken in (part, restrict(whole, rows)):
        left = without(whole, taken)
        if shown(taken) <= shown(whole):
            assert left is not None
            assert shown(left) == shown(whole) - shown(taken)
        else:
            assert left is None


def test_a_reference_that_shows_nothing_is_dropped() -> None:
    file = info(1, first_row=b"f", last_row=b"m", families=("a",))
    reference = Reference(file)
    assert restrict([reference], RowRange(b"", b"f")) == ()
    assert restrict([reference], RowRange(b"m\x00")) == ()
    assert restrict([reference], columns=ColumnSet.of("b")) == ()
    assert restrict([reference], columns=ColumnSet.of([])) == ()
    assert len(restrict([reference], RowRange(b"m"))) == 1
    assert len(restrict([reference], RowRange(b"", b"f\x00"))) == 1


def test_row_erasures_keep_a_reference_alive() -> None:
    """They erase families that the file itself has no cell of."""
    file = info(1, families=("", "a"), erasures=Erasures(row=1))
    (kept,) = restrict([Reference(file)], columns=ColumnSet.of("b"))
    assert kept.columns == ColumnSet.of("b")
    assert kept.families == ()


@pytest.mark.parametrize(
    ("region", "whole"),
    [
        (EVERYWHERE, True),
        (Region(RowRange(b"f", b"m\x00"), ColumnSet.of(["a", "b"])), True),
        (Region(RowRange(b"f", b"m")), False),
        (Region(RowRange(b"f\x00")), False),
        (Region(columns=ColumnSet.of("a")), False),
    ],
)
def test_whether_a_reference_shows_the_whole_file(region: Region, whole: bool) -> None:
    file = info(1, first_row=b"f", last_row=b"m", families=("", "a", "b"))
    assert Reference(file, region.rows, region.columns).shows_whole_file is whole


def test_what_a_merge_may_know() -> None:
    file = info(1, txn=0, erasures=Erasures(cell=1), versions_max=3)
    assert Reference(file, txn=77).facts == Facts(77, True, 3)
    assert Reference(info(1, txn=9)).facts == Facts(9, False, 2)


def test_a_companion_is_seen_through_the_same_fence() -> None:
    companion = info(2, txn=0, cells=9, erasures=Erasures(row=1))
    whole = msgspec.structs.replace(info(1, txn=0), layout="columns", companion=companion)
    reference = Reference(whole, RowRange(b"a", b"b"), ColumnSet.of(["f"]), 7)
    file, beside = reference.parts
    assert (file, beside.file) == (reference, companion)
    assert (beside.rows, beside.columns, beside.txn) == (file.rows, file.columns, 7)
    assert file.facts == Facts(7, erasures=False, versions_max=1), "of native cells alone"
    assert beside.facts.erasures
    plain = Reference(info(3))
    assert list(file_references([reference, plain])) == [file, beside, plain]
    stored = encode_references([reference])
    assert decode_references(stored, "META") == (reference,)
    lower, upper = split([Reference(whole)], b"m")
    assert unite([*upper, *lower]) == (Reference(whole),)


def test_only_a_file_without_txns_can_be_given_one() -> None:
    with pytest.raises(InvalidArgument, match=r"s-00000001\.parquet cannot be given a txn"):
        Reference(info(1, txn=5), txn=9)


def test_references_that_disagree_about_a_file_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"disagree about what file s-00000001\.parquet is"):
        unite([Reference(info(1)), Reference(info(1, txn=6))])


@settings(max_examples=50)
@given(REFERENCES)
def test_the_stored_form(references: list[Reference]) -> None:
    assert decode_references(encode_references(references), "META") == tuple(references)


def _stored(**changes: object) -> bytes:
    (record,) = msgspec.json.decode(encode_references([Reference(info(1))]))
    for path, value in changes.items():
        target = record
        *outer, last = path.split("__")
        for key in outer:
            target = target[key]
        target[last] = value
    return msgspec.json.encode([record])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[1]",
        b"\xff",
        _stored(file__name="../../etc/passwd"),
        _stored(file__name="s-1.parquet"),
        _stored(file__size=-1),
        _stored(file__index__crc=1 << 32),
        _stored(file__summary__cells=0),
        _stored(file__summary__txn_min=9),
        _stored(rows__start="!!"),
        _stored(rows__start="YQ==", rows__end="YQ=="),
        _stored(columns={"families": [], "complement": False}),
        _stored(columns={"families": ["x" * 256], "complement": True}),
        _stored(columns={"families": [f"f{n}" for n in range(2_000)], "complement": True}),
        _stored(rows__start="QUFB" * 30_000),
        _stored(txn=1 << 63),
        _stored(txn="1"),
        _stored(txn=9),
    ],
)
def test_stored_references_are_input(data: bytes) -> None:
    with pytest.raises(Corruption, match="META row x: not a list of references"):
        decode_references(data, "META row x")
