"""The error tree is the one that is drawn, and its messages name what they should."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Iterator

import pytest

from stele import errors
from stele.errors import Corruption, NotLeader, SteleError

CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]


def drawn_tree() -> Iterator[tuple[int, str]]:
    """Depth and name of each line of the drawing in the module's docstring."""
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"^    ((?:[│ ]   )*(?:[├└]── )?)([A-Z]\w+)", line)
        if found:
            yield len(found.group(1)) // 4, found.group(2)


def real_tree(kind: type[SteleError], depth: int = 0) -> Iterator[tuple[int, str]]:
    """Depth and name of a class and, below it in the order of the file, of its descendants."""
    yield depth, kind.__name__
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from real_tree(child, depth + 1)


def test_the_drawing_is_the_tree() -> None:
    assert sorted(drawn_tree()) == sorted(real_tree(SteleError))


def test_parents_are_drawn_above_their_children() -> None:
    path: list[str] = []
    for depth, name in drawn_tree():
        path = [*path[:depth], name]
        bases = [base.__name__ for base in getattr(errors, name).__mro__]
        assert bases[: depth + 1] == path[::-1]


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_says_when_it_is_raised(kind: type[SteleError]) -> None:
    assert issubclass(kind, SteleError)
    assert kind.__doc__


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_can_be_made_of_one_sentence_and_copied(kind: type[SteleError]) -> None:
    error = kind("the disk is full")
    assert str(error) == "the disk is full"
    assert str(copy.copy(error)) == "the disk is full"


def test_corruption_names_the_place() -> None:
    error = Corruption("bad checksum", file="log/000001.log", offset=4096)
    assert str(error) == "log/000001.log: bad checksum at offset 4096"
    assert (error.reason, error.file, error.offset) == ("bad checksum", "log/000001.log", 4096)


def test_the_leader_is_named_when_it_is_known() -> None:
    assert str(NotLeader()) == "this node is not the leader"
    error = NotLeader(leader="10.0.0.2:7420")
    assert str(error) == "this node is not the leader; ask 10.0.0.2:7420"
    assert error.leader == "10.0.0.2:7420"
