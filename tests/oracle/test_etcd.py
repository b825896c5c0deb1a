"""Random operations give the same answers as a real etcd, where the semantics coincide.

Where they do not: a compare of the value of a key that is missing is false in etcd and compares
with an empty value here; locks, interactive transactions and retries have no counterpart.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from stele.protocol.metastore_values import (
    Compare,
    CompareField,
    Delete,
    Get,
    KeyRange,
    Operation,
    Put,
    Relation,
)
from tests.oracle.etcd_server import find_etcd, running_etcd
from tests.oracle.pair import Pair

COURSES = int(os.environ.get("STELE_ORACLE_COURSES", "3"))
STEPS = int(os.environ.get("STELE_ORACLE_STEPS", "150"))
SEED = int(os.environ.get("STELE_ORACLE_SEED", "1"))

KEYS = ["/a", "/a/1", "/a/2", "/a/2/x", "/ab", "/b", "/b/1"]
RANGES = [KeyRange(key) for key in KEYS[:3]]
RANGES += [KeyRange("/a/", "/a0"), KeyRange("/", "0"), KeyRange("/a/1", "/b\0")]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    program = find_etcd()
    if program is None:
        pytest.skip("etcd is not here: scripts/install_etcd.sh, or make oracle, puts it into .etcd")
    with running_etcd(program, tmp_path / "etcd") as etcd:
        yield Pair(etcd)


class Course:
    """One random course of steps."""

    def __init__(self, pair: Pair, dice: Random):
        self.pair = pair
        self.dice = dice
        self.sessions = [0]
        self.waterline = 0

    def step(self) -> None:
        choice = self.dice.randrange(20)
        if choice == 0:
            self.sessions.append(self.pair.open_session())
        elif choice == 1 and len(self.sessions) > 1:
            ended = self.sessions.pop(self.dice.randrange(1, len(self.sessions)))
            self.pair.end_session(ended)
        elif choice == 2:
            self.compact()
        elif choice < 7:
            self.read()
        else:
            self.write()

    def compact(self) -> None:
        known = sorted(index for index in self.pair.revision_of if index > self.waterline)
        if len(known) > 20:
            self.waterline = self.dice.choice(known[:-15])
            self.pair.forget(self.waterline)

    def read(self) -> None:
        index = None
        if self.pair.revision_of and self.dice.random() < 0.6:
            index = self.dice.choice(list(self.pair.revision_of))
        limit = self.dice.choice([0, 0, 1, 3])
        ours, theirs = self.pair.contents(self.dice.choice(RANGES), index, limit)
        assert ours == theirs

    def write(self) -> None:
        compares = [self.compare() for _ in range(self.dice.choice([0, 0, 1, 1, 2]))]
        ours, theirs = self.pair.execute(compares, self.operations(), self.operations())
        assert ours == theirs

    def compare(self) -> Compare:
        key = self.dice.choice(KEYS)
        item = self.pair.replica.machine.get(key)
        relation = self.dice.choice(list(Relation))
        fields = [CompareField.VERSION, CompareField.CREATED, CompareField.INDEX]
        field = self.dice.choice([*fields, CompareField.VALUE] if item else fields)
        match field:
            case CompareField.VALUE:
                return Compare(key, field, relation, self.value())
            case CompareField.VERSION:
                return Compare(key, field, relation, self.dice.randrange(4))
        near = {
            CompareField.CREATED: item.created if item else 0,
            CompareField.INDEX: item.index if item else 0,
        }[field]
        known = [0, near, *list(self.pair.revision_of)[-5:]]
        return Compare(key, field, relation, self.dice.choice(known))

    def operations(self) -> list[Operation]:
        chosen = self.dice.sample(KEYS, self.dice.choice([0, 1, 1, 1, 2, 3]))
        if self.dice.random() < 0.1:
            selected = self.dice.choice(RANGES[3:])
            return [Delete(selected.start, selected.end)]
        return [self.operation(key) for key in chosen]

    def operation(self, key: str) -> Operation:
        match self.dice.randrange(6):
            case 0:
                return Delete(key)
            case 1:
                return Get(key)
            case _:
                return Put(key, self.value(), self.dice.choice(self.sessions))

    def value(self) -> bytes:
        return self.dice.choice([b"", b"a", b"b", b"\x00\xff"])


@pytest.mark.parametrize("number", range(COURSES))
def test_a_random_course_of_operations(pair: Pair, number: int) -> None:
    seed = SEED + number
    course = Course(pair, Random(seed))
    try:
        pair.execute([], [Put("/start", b"")], [])
        for _ in range(STEPS):
            course.step()
        for selected in RANGES:
            ours, theirs = pair.contents(selected, None, 0)
            assert ours == theirs
        ours_told, theirs_told = pair.histories(max(course.waterline, min(pair.revision_of)))
        assert ours_told == theirs_told
    except AssertionError as error:
        error.add_note(
            f"make oracle ORACLE_SEED={seed} ORACLE_COURSES=1 ORACLE_STEPS={STEPS} repeats it"
        )
        raise
