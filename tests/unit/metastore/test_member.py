"""A member's directory."""

from __future__ import annotations

import pytest

from stele.env.memory import SeededRandom
from stele.env.memory_fs import MemoryFileSystem
from stele.errors import AlreadyExists, NotFound
from stele.metastore.kv_memory import MemoryKeyValues
from stele.metastore.member import (
    MemberOptions,
    draw_node_id,
    enter_group,
    found_group,
    is_member,
    open_member,
)
from stele.metastore.state.machine import StateMachine

OPTIONS = MemberOptions()


def test_s39_a_group_is_founded_once() -> None:
    files, random = MemoryFileSystem(), SeededRandom(1)
    assert not is_member(files)
    identity = found_group(files, random, "a:1", OPTIONS)
    assert is_member(files)
    with pytest.raises(AlreadyExists):
        found_group(files, random, "a:1", OPTIONS)
    with pytest.raises(AlreadyExists):
        enter_group(files, random, "other", OPTIONS)
    member = open_member(files, random, StateMachine(MemoryKeyValues()), OPTIONS)
    assert member.identity == identity
    assert member.node.core.membership.addresses == {identity.node: "a:1"}


def test_s39_neither_founding_nor_joining_is_possible_over_data() -> None:
    files, random = MemoryFileSystem(), SeededRandom(1)
    files.mkdir("state")
    files.write_atomic("state/CURRENT", b"x")
    with pytest.raises(AlreadyExists, match="without its log"):
        found_group(files, random, "a:1", OPTIONS)


def test_a_newcomer_knows_nobody() -> None:
    files, random = MemoryFileSystem(), SeededRandom(1)
    identity = enter_group(files, random, "cluster", OPTIONS)
    member = open_member(files, random, StateMachine(MemoryKeyValues()), OPTIONS)
    assert member.identity == identity
    assert identity.cluster == "cluster"
    assert member.node.core.membership.members == ()


def test_an_empty_directory_is_nobodys_home() -> None:
    with pytest.raises(NotFound):
        open_member(MemoryFileSystem(), SeededRandom(1), StateMachine(MemoryKeyValues()), OPTIONS)


def test_node_ids_are_positive_and_differ() -> None:
    random = SeededRandom(1)
    drawn = {draw_node_id(random) for _ in range(200)}
    assert len(drawn) == 200
    assert min(drawn) > 0
