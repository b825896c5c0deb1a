"""The checker agrees with hand-made histories, with brute force, and with planted lies."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.sim.checkers.history import Operation
from stele.sim.checkers.serializability import Report, check_list_append, check_register_writes
from tests.unit.sim.checkers import brute_force, generated_transactions, notation, tiny
from tests.unit.sim.checkers.generated import Workload
from tests.unit.sim.checkers.generated_transactions import (
    Cells,
    Lists,
    Plant,
    plant_aborted_read,
    plant_circle,
    plant_lost_update,
    plant_stale_cell,
    plant_stale_list,
    plant_write_skew,
)

Check = Callable[[Iterable[Operation]], Report]

CHECKS: dict[str, Check] = {
    "list_append": check_list_append,
    "register_writes": check_register_writes,
}

HAND_MADE = [(name, *entry) for name in CHECKS for entry in notation.catalogue(name)]


@pytest.mark.parametrize(
    ("name", "found", "text"),
    [(name, found, text) for name, found, _, text in HAND_MADE],
    ids=[f"{name}-{title}" for name, _, title, _ in HAND_MADE],
)
def test_hand_made_histories(name: str, found: str, text: str) -> None:
    operations = notation.operations(text)
    report = CHECKS[name](operations)
    assert set(report.counts) == (set() if found == "valid" else set(found.split("+"))), report
    assert report.ok is (found == "valid")
    assert brute_force.strictly_serializable(operations) is report.ok, "the history is wrong"


def test_every_name_has_a_hand_made_history() -> None:
    names = {name for _, found, _, _ in HAND_MADE for name in found.split("+")}
    assert names >= {"G0", "G1a", "G1b", "G1c", "G-single", "G2-item", "lost update", "internal"}
    assert names >= {f"{name}-realtime" for name in ("G0", "G1c", "G-single", "G2-item")}


@settings(max_examples=500)
@given(operations=tiny.transactions_on("append", with_last_read=True))
def test_tiny_lists_that_are_read_in_the_end_against_every_permutation(
    operations: list[Operation],
) -> None:
    """The last read shows the order of everything, so the checker misses nothing."""
    report = check_list_append(operations)
    assert report.ok is brute_force.strictly_serializable(operations), report


@pytest.mark.slow
@settings(max_examples=5_000)
@given(operations=tiny.transactions_on("append", with_last_read=True))
def test_many_tiny_lists_that_are_read_in_the_end(operations: list[Operation]) -> None:
    assert check_list_append(operations).ok is brute_force.strictly_serializable(operations)


@pytest.mark.slow
@settings(max_examples=5_000)
@given(operations=tiny.transactions_on("write", with_last_read=False))
def test_many_tiny_registers_raise_no_false_alarm(operations: list[Operation]) -> None:
    report = check_register_writes(operations)
    assert report.ok or not brute_force.strictly_serializable(operations), report


@pytest.mark.parametrize("write", ["append", "write"])
@settings(max_examples=300)
@given(data=st.data())
def test_tiny_histories_raise_no_false_alarm(write: str, data: st.DataObject) -> None:
    operations = data.draw(tiny.transactions_on(write, with_last_read=False))
    check = check_list_append if write == "append" else check_register_writes
    report = check(operations)
    assert report.ok or not brute_force.strictly_serializable(operations), report


STORES = [(Lists, check_list_append), (Cells, check_register_writes)]


@pytest.mark.parametrize("unknown", [0.0, 0.1])
@pytest.mark.parametrize(("store", "check"), STORES)
def test_what_a_working_store_did_is_fine(store: type[Lists], check: Check, unknown: float) -> None:
    for seed in range(10):
        operations = Workload(store(), seed, clients=8, unknown=unknown).run(300)
        report = check(operations)
        assert report.ok, report
        assert str(report) == "300 transactions: no anomaly"


LIES: list[tuple[str, type[Lists], Check, str, Plant]] = [
    ("stale list", Lists, check_list_append, "stale", plant_stale_list),
    ("aborted list", Lists, check_list_append, "G1a", plant_aborted_read),
    ("lost append", Lists, check_list_append, "lost update", plant_lost_update("append", ())),
    ("skewed lists", Lists, check_list_append, "G2-item", plant_write_skew("append", ())),
    ("list circle", Lists, check_list_append, "G1c", plant_circle("append", lambda v: (v,))),
    ("stale cell", Cells, check_register_writes, "stale", plant_stale_cell),
    ("aborted cell", Cells, check_register_writes, "G1a", plant_aborted_read),
    ("lost write", Cells, check_register_writes, "lost update", plant_lost_update("write", None)),
    ("skewed cells", Cells, check_register_writes, "G2-item", plant_write_skew("write", None)),
    ("cell circle", Cells, check_register_writes, "G1c", plant_circle("write", lambda v: v)),
]


@pytest.mark.parametrize(
    ("store", "check", "name", "plant"), [lie[1:] for lie in LIES], ids=[lie[0] for lie in LIES]
)
def test_every_planted_lie_is_found(
    store: type[Lists], check: Check, name: str, plant: Plant
) -> None:
    for seed in range(25):
        operations = Workload(store(), seed, clients=5, unknown=0.02).run(150)
        report = check(plant(operations, random.Random(seed)))
        assert not report.ok, seed
        # A stale read has many names, after what else the reader did.
        assert name in report.counts or name == "stale", report


def test_a_lie_in_a_long_history_is_explained_briefly() -> None:
    operations = Workload(Lists(), 1, clients=10).run(3_000)
    report = check_list_append(plant_write_skew("append", ())(operations, random.Random(1)))
    assert report.counts == {"G2-item": 1}
    assert str(report.anomalies[0]).splitlines()[3:] == [
        "  T1 before T2 (rw): T1 read p as [], without -2 of T2",
        "  T2 before T1 (rw): T2 read q as [], without -1 of T1",
    ]


def test_a_stale_read_behind_a_long_history_is_explained_briefly() -> None:
    """The knot has thousands of transactions; the cycle has two."""
    operations = Workload(Lists(appends_max=10**6), 1, clients=10).run(2_000)
    place = generated_transactions.last_place(operations) + 1
    stale = generated_transactions.committed(99, place, ("read", "a0", ()))
    report = check_list_append([*operations, stale])
    assert report.counts == {"G-single-realtime": 1}
    assert len(report.anomalies[0].transactions) == 2
