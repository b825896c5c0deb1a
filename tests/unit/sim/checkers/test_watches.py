"""What watches promise, by hand and by planted lies."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from stele.env.memory import MemoryClock
from stele.sim.checkers.history import Recorder
from stele.sim.checkers.watches import (
    Changes,
    Commit,
    Watch,
    check_history,
    check_watches,
    commits_of,
    deliveries_as_commits,
    watches_of,
)

LOG = [
    Commit(3, (("/a/x", "1"), ("/b/y", "1"))),
    Commit(5, (("/b/y", "2"),)),
    Commit(8, (("/a/x", None), ("/a/z", "1"))),
    Commit(9, (("/a/x", "3"),)),
]

A3: Changes = (("/a/x", "1"),)
A8: Changes = (("/a/z", "1"), ("/a/x", None))
A9: Changes = (("/a/x", "3"),)


def watch(*deliveries: Commit, first: int = 0, told: int = 0, prefix: str = "/a/") -> Watch:
    return Watch("w", prefix, first, deliveries=list(deliveries), told_up_to=told)


GOOD = [
    watch(Commit(3, A3), Commit(8, A8), Commit(9, A9)),
    watch(Commit(3, A3)),
    watch(Commit(8, A8), Commit(9, A9), first=4),
    watch(Commit(3, A3), Commit(8, A8), Commit(9, A9), told=100),
    watch(),
    watch(told=2),
    watch(*LOG, prefix=""),
    watch(prefix="/c/", told=9),
    Watch("w", "/a/x", 0, exact=True, deliveries=[Commit(3, A3), Commit(8, (("/a/x", None),))]),
]


@pytest.mark.parametrize("good", GOOD)
def test_watchers_that_were_told_everything(good: Watch) -> None:
    report = check_watches([good], LOG)
    assert report.ok, report


BAD: list[tuple[str, Watch]] = [
    ("no gap", watch(Commit(3, A3), Commit(9, A9))),
    ("no gap", watch(Commit(8, A8), Commit(9, A9))),
    ("no gap", watch(Commit(3, A3), Commit(8, A8), told=9)),
    ("no gap", watch(told=3)),
    ("no duplicate", watch(Commit(3, A3), Commit(3, A3), Commit(8, A8))),
    ("no duplicate", watch(Commit(3, A3), Commit(8, A8), Commit(3, A3))),
    ("order", watch(Commit(3, A3), Commit(9, A9), Commit(8, A8))),
    ("order", watch(Commit(3, A3), Commit(8, A8), first=4)),
    ("whole transactions", watch(Commit(3, A3), Commit(8, A8[:1]))),
    ("whole transactions", watch(Commit(3, A3), Commit(8, A8[:1]), Commit(8, A8[1:]))),
    ("truth", watch(Commit(3, A3), Commit(4, (("/a/q", "1"),)))),
    ("truth", watch(Commit(3, (("/a/x", "2"),)))),
    ("truth", watch(Commit(3, LOG[0].changes))),
    ("truth", watch(Commit(3, ()))),
    ("truth", watch(Commit(3, A3), Commit(5, LOG[1].changes))),
]


@pytest.mark.parametrize(("promise", "bad"), BAD)
def test_watchers_that_were_not(promise: str, bad: Watch) -> None:
    report = check_watches([bad], LOG)
    assert set(report.counts) == {promise}, report


def test_a_violation_tells_what_is_missing() -> None:
    report = check_watches([watch(Commit(3, A3), Commit(9, A9))], LOG)
    assert str(report.violations[0]) == ("no gap, w: index 8 is missing: [[/a/x nil] [/a/z 1]]")


def generated_log(seed: int) -> list[Commit]:
    dice = random.Random(seed)
    log, index = [], 0
    for _ in range(60):
        index += dice.randint(1, 3)
        keys = dice.sample([f"/{folder}/{name}" for folder in "ab" for name in "xyz"], 3)
        changes = [(key, dice.choice(["1", "2", None])) for key in keys[: dice.randint(1, 3)]]
        log.append(Commit(index, tuple(changes)))
    return log


def told_all(log: list[Commit], prefix: str, first: int) -> Watch:
    found = Watch("w", prefix, first, told_up_to=log[-1].index)
    for commit in log:
        changes = found.shown(commit.changes)
        if changes and commit.index >= first:
            found.deliveries.append(Commit(commit.index, changes))
    return found


def drop(found: Watch, place: int) -> None:
    del found.deliveries[place]


def double(found: Watch, place: int) -> None:
    found.deliveries.insert(place, found.deliveries[place])


def swap(found: Watch, place: int) -> None:
    pair = found.deliveries[place : place + 2]
    found.deliveries[place : place + 2] = pair[::-1]


def halve(found: Watch, place: int) -> None:
    delivery = found.deliveries[place]
    half = max(1, len(delivery.changes) - 1)
    parts = [delivery.changes[:half], delivery.changes[half:] or delivery.changes[:half]]
    found.deliveries[place : place + 1] = [Commit(delivery.index, part) for part in parts]


def alter(found: Watch, place: int) -> None:
    delivery = found.deliveries[place]
    (key, _), *rest = delivery.changes
    found.deliveries[place] = Commit(delivery.index, ((key, "other"), *rest))


def invent(found: Watch, place: int) -> None:
    found.deliveries.insert(place, Commit(10_000 + place, (("/a/x", "1"),)))


@pytest.mark.parametrize("plant", [drop, double, swap, halve, alter, invent])
def test_every_planted_lie_is_found(plant: Callable[[Watch, int], None]) -> None:
    for seed in range(60):
        log = generated_log(seed)
        honest = told_all(log, "/a/", seed % 20)
        assert check_watches([honest], log).ok
        plant(honest, random.Random(seed).randrange(len(honest.deliveries) - 1))
        assert not check_watches([honest], log).ok, seed


def test_a_history_of_watchers_and_commits() -> None:
    recorder = Recorder(MemoryClock())
    for commit in LOG:
        recorder.note(0, "commit", "", commit.index, commit.changes)
    recorder.note(1, "watch", "/a/", 4)
    recorder.note(1, "deliver", "/a/", 8, A8)
    recorder.note(1, "watch", "/a/", 9)  # resumed elsewhere
    recorder.note(1, "deliver", "/a/", 9, A9)
    recorder.note(1, "progress", "/a/", 20)
    recorder.note(2, "watch_key", "/a/x", 0)
    recorder.note(2, "deliver", "/a/x", 3, A3)
    recorder.note(3, "deliver", "/b/", 3, [("/b/y", "1")])
    recorder.invoke(4, "watch", "/a/", 0)
    recorder.failed(4)
    operations = recorder.history().operations()
    assert commits_of(operations) == LOG
    assert [found.name for found in watches_of(operations)] == [
        "watcher 1 of '/a/'", "watcher 2 of '/a/x'", "watcher 3 of '/b/'"
    ]  # fmt: skip
    report = check_history(operations)
    assert report.ok, report
    assert report.checked == {"watches": 3, "deliveries": 4}


def test_commits_of_one_index_are_one_transaction() -> None:
    recorder = Recorder(MemoryClock())
    recorder.note(0, "commit", "", 3, [("/a", "1")])
    recorder.note(0, "commit", "", 3, [("/b", "1")])
    recorder.note(0, "commit", "", 2)
    assert commits_of(recorder.history().operations()) == [
        Commit(2, ()), Commit(3, (("/a", "1"), ("/b", "1")))
    ]  # fmt: skip


def test_one_watcher_of_everything_stands_for_the_log() -> None:
    everything = watch(*LOG, first=3, prefix="")
    known = [Commit(5, LOG[1].changes), Commit(8, (("/a/z", "1"),)), Commit(1, (("/old", "1"),))]
    assert deliveries_as_commits(everything, known).ok
    lost = [Commit(7, (("/a/x", "7"),)), Commit(8, (("/a/z", "2"),))]
    report = deliveries_as_commits(everything, [*known, *lost])
    assert report.counts == {"no gap": 2}
    assert report.checked == {"acknowledged": 5}
