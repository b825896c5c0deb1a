"""The block cache: what it keeps, what it drops first, and what threads see."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from stele.errors import InvalidArgument, TransientIoError
from stele.kernels.block import Block
from stele.model.cells import Cell
from stele.storage.block_cache import BlockCache, FragmentBlocks
from stele.storage.cache_priority import Priority
from stele.telemetry.registry import Registry
from tests.unit.storage.fragment_cases import to_blocks

UNIT = 100
(BLOCK,) = to_blocks([Cell(b"r", "f", b"q", 0, b"v")])


def new_block() -> Block:
    return BLOCK.slice(0, 1)


class Loads:
    """A loader that counts, and can be made to fail."""

    def __init__(self) -> None:
        self.groups: list[int] = []
        self.error: Exception | None = None

    def __call__(self, group: int) -> Block:
        self.groups.append(group)
        if self.error is not None:
            raise self.error
        return new_block()


def attach(
    cache: BlockCache, name: str = "f", groups: int = 1_000, priority: int = 4
) -> tuple[FragmentBlocks, Loads]:
    loads = Loads()
    return cache.attach(name, [UNIT] * groups, loads, Priority(priority)), loads


def kept(fragment: FragmentBlocks) -> list[int]:
    return [group for group, block in enumerate(fragment.blocks) if block is not None]


def get_all(fragment: FragmentBlocks, groups: range | list[int]) -> None:
    for group in groups:
        fragment.get(group)


def test_a_block_is_loaded_once() -> None:
    cache = BlockCache(10 * UNIT)
    fragment, loads = attach(cache)
    first = fragment.get(3)
    assert fragment.get(3) is first
    assert loads.groups == [3]
    assert fragment.hits == 1
    assert cache.used_bytes == UNIT
    cache.check_invariants()


def test_kernels_see_the_same_blocks() -> None:
    cache = BlockCache(2 * UNIT)
    fragment, _ = attach(cache, groups=4)
    assert not fragment.matrix.any()
    blocks = [fragment.get(group) for group in range(4)]
    for group, block in enumerate(blocks):
        present = fragment.blocks[group] is not None
        expected = block.descriptor if present else np.zeros_like(block.descriptor)
        assert (fragment.matrix[group] == expected).all()
    assert len(kept(fragment)) == 2


def test_what_is_used_stays() -> None:
    cache = BlockCache(20 * UNIT)
    fragment, loads = attach(cache)
    get_all(fragment, range(10))
    get_all(fragment, range(10))
    get_all(fragment, range(100, 1_000))
    assert set(range(10)) <= set(kept(fragment)), "a scan emptied the cache"
    assert len(loads.groups) == 10 + 900
    cache.check_invariants()


def test_a_byte_set_by_a_kernel_counts_as_a_use() -> None:
    cache = BlockCache(20 * UNIT)
    fragment, _ = attach(cache)
    get_all(fragment, range(5))
    fragment.used[:5] = 1
    get_all(fragment, range(100, 500))
    assert set(range(5)) <= set(kept(fragment))


def test_a_block_that_comes_back_is_kept() -> None:
    """It was dropped too early: the second time it goes to the main queue at once."""
    cache = BlockCache(20 * UNIT)
    fragment, _ = attach(cache)
    get_all(fragment, range(30))
    dropped = min(set(range(30)) - set(kept(fragment)))
    fragment.get(dropped)
    get_all(fragment, range(100, 115))
    assert dropped in kept(fragment)


def test_what_was_used_long_ago_goes_in_the_end() -> None:
    cache = BlockCache(20 * UNIT)
    fragment, _ = attach(cache)
    get_all(fragment, range(10))
    get_all(fragment, range(10))
    for start in range(100, 900, 10):
        get_all(fragment, range(start, start + 10))
        get_all(fragment, range(start, start + 10))
    assert not set(range(10)) & set(kept(fragment))
    cache.check_invariants()


def test_blocks_of_lower_priority_go_first() -> None:
    cache = BlockCache(40 * UNIT)
    fragments = {p: attach(cache, f"f{p}", priority=p)[0] for p in (1, 2, 3, 4)}
    for fragment in fragments.values():
        get_all(fragment, range(10))
    assert [len(kept(fragments[p])) for p in (1, 2, 3, 4)] == [10, 10, 10, 10]
    get_all(fragments[1], range(10, 20))
    assert [len(kept(fragments[p])) for p in (1, 2, 3, 4)] == [20, 10, 8, 2]
    get_all(fragments[2], range(10, 20))
    assert [len(kept(fragments[p])) for p in (1, 2, 3, 4)] == [20, 18, 0, 2]
    get_all(fragments[1], range(20, 60))
    assert [len(kept(fragments[p])) for p in (1, 2, 3, 4)] == [38, 0, 0, 2]
    get_all(fragments[3], range(10))
    assert [len(kept(fragments[p])) for p in (1, 2, 3, 4)] == [38, 0, 0, 2]
    assert cache.usage() == {
        Priority.ONE_GROUP: 38 * UNIT,
        Priority.SEVERAL_GROUPS: 0,
        Priority.SOME_COLUMNS: 0,
        Priority.ON_DEMAND: 2 * UNIT,
    }
    cache.check_invariants()


def test_blocks_on_demand_never_push_out_others() -> None:
    cache = BlockCache(20 * UNIT)
    first, _ = attach(cache, "one", priority=3)
    other, _ = attach(cache, "four", priority=4)
    get_all(first, range(15))
    get_all(other, range(500))
    get_all(other, range(500))
    assert len(kept(first)) == 15
    assert len(kept(other)) == 5


def test_in_memory_blocks_that_do_not_fit_take_turns() -> None:
    cache = BlockCache(16 * UNIT)
    fragment, _ = attach(cache, priority=1)
    get_all(fragment, range(100))
    assert len(kept(fragment)) == 16
    hot = kept(fragment)[:4]
    for start in range(100, 200, 4):
        get_all(fragment, hot)
        get_all(fragment, range(start, start + 4))
    assert set(hot) <= set(kept(fragment))


def test_a_block_larger_than_the_cache_is_served_and_not_kept() -> None:
    cache = BlockCache(UNIT - 1)
    fragment, loads = attach(cache)
    assert fragment.get(0).count == 1
    assert fragment.get(0).count == 1
    assert loads.groups == [0, 0]
    assert cache.used_bytes == 0


def test_a_cache_of_nothing_works() -> None:
    fragment, _ = attach(BlockCache(0))
    assert fragment.get(0).count == 1
    with pytest.raises(InvalidArgument, match="-1 bytes"):
        BlockCache(-1)


def test_users_of_one_file_share_its_blocks() -> None:
    cache = BlockCache(10 * UNIT)
    one, loads = attach(cache, priority=4)
    two, _ = attach(cache, priority=2)
    assert one is two
    assert one.priority is Priority.SEVERAL_GROUPS
    one.get(0)
    cache.detach(one)
    assert two.get(0).count == 1
    assert loads.groups == [0]
    cache.detach(two)
    assert cache.used_bytes == 0
    assert not one.matrix.any()
    with pytest.raises(AssertionError, match="detached too often"):
        cache.detach(two)
    cache.check_invariants()


def test_an_evicted_block_lives_while_it_is_held() -> None:
    class Owner:
        """Stands for the memory of a block."""

    cache = BlockCache(UNIT)
    owners: list[weakref.ref[Owner]] = []

    def load(group: int) -> Block:
        owner = Owner()
        owners.append(weakref.ref(owner))
        return Block(BLOCK.descriptor, BLOCK.families, owner)

    fragment = cache.attach("f", [UNIT] * 3, load, Priority.ON_DEMAND)
    held = fragment.get(0)
    fragment.get(1)
    gc.collect()
    assert kept(fragment) == [1]
    assert owners[0]() is held.owner
    del held
    gc.collect()
    assert owners[0]() is None
    assert owners[1]() is not None


def test_the_priority_of_a_file_can_change() -> None:
    cache = BlockCache(20 * UNIT)
    fragment, _ = attach(cache, priority=4)
    other, _ = attach(cache, "other", priority=4)
    get_all(fragment, range(10))
    cache.set_priority(fragment, Priority.ONE_GROUP)
    get_all(other, range(200))
    assert kept(fragment) == list(range(10))
    cache.set_priority(fragment, Priority.ON_DEMAND)
    get_all(other, range(200, 400))
    assert kept(fragment) == []
    cache.check_invariants()


def test_a_smaller_cache_keeps_less() -> None:
    cache = BlockCache(20 * UNIT)
    fragment, _ = attach(cache)
    get_all(fragment, range(20))
    cache.resize(5 * UNIT)
    assert len(kept(fragment)) == 5
    assert cache.capacity_bytes == 5 * UNIT
    cache.check_invariants()


def test_metrics() -> None:
    registry = Registry()
    cache = BlockCache(10 * UNIT, registry)
    fragment, _ = attach(cache)
    get_all(fragment, range(15))
    assert registry.counter("block_cache_loads_total", "Blocks read and decoded").value == 15
    assert registry.counter("block_cache_evictions_total", "Blocks dropped").value == 5
    assert registry.gauge("block_cache_bytes", "Memory of the blocks in the cache").value == 1_000


# Threads.


def in_threads(count: int, work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_one_load_for_all_who_miss_a_block() -> None:
    cache = BlockCache(10 * UNIT)
    started, release = threading.Barrier(9), threading.Event()
    loads: list[int] = []

    def load(group: int) -> Block:
        loads.append(group)
        release.wait()
        return new_block()

    fragment = cache.attach("f", [UNIT], load, Priority.ON_DEMAND)
    found: list[Block] = []

    def work() -> None:
        started.wait()
        found.append(fragment.get(0))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    started.wait()
    release.set()
    for thread in threads:
        thread.join()
    assert loads == [0]
    assert len(found) == 8
    assert len({id(block) for block in found}) == 1


def test_a_failed_load_fails_all_who_wait_and_is_tried_again_later() -> None:
    cache = BlockCache(10 * UNIT)
    release = threading.Event()
    fails = True

    def load(group: int) -> Block:
        release.wait()
        if fails:
            raise TransientIoError("the disk is busy")
        return new_block()

    fragment = cache.attach("f", [UNIT], load, Priority.ON_DEMAND)
    errors: list[str] = []

    def work() -> None:
        try:
            fragment.get(0)
        except TransientIoError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    release.set()
    for thread in threads:
        thread.join()
    assert errors == ["the disk is busy"] * 4
    fails = False
    assert fragment.get(0).count == 1
    cache.check_invariants()


def test_a_file_closed_during_a_load_keeps_nothing() -> None:
    cache = BlockCache(10 * UNIT)
    fragment: FragmentBlocks

    def load(group: int) -> Block:
        cache.detach(fragment)
        return new_block()

    fragment = cache.attach("f", [UNIT], load, Priority.ON_DEMAND)
    assert fragment.get(0).count == 1
    assert cache.used_bytes == 0
    cache.check_invariants()


def test_many_threads_with_too_little_room() -> None:
    cache = BlockCache(8 * UNIT)
    fragments = [attach(cache, f"f{at}", groups=16, priority=at % 4 + 1)[0] for at in range(8)]
    wrong: list[int] = []
    numbers = iter(range(100))

    def work() -> None:
        dice = np.random.default_rng(next(numbers))
        for _ in range(300):
            block = fragments[int(dice.integers(8))].get(int(dice.integers(16)))
            if block.row(0) != b"r":
                wrong.append(1)

    in_threads(6, work)
    assert not wrong
    cache.check_invariants()


class CacheMachine(RuleBasedStateMachine):
    """Any sequence of calls: the bounds hold, and a hit gives what was loaded last."""

    @initialize(capacity=st.integers(0, 12))
    def start(self, capacity: int) -> None:
        self.cache = BlockCache(capacity * UNIT)
        self.fragments: dict[str, FragmentBlocks] = {}
        self.last: dict[tuple[str, int], Block] = {}

    def _load(self, name: str) -> Callable[[int], Block]:
        def load(group: int) -> Block:
            block = new_block()
            self.last[name, group] = block
            return block

        return load

    @rule(name=st.sampled_from("abc"), priority=st.sampled_from(Priority))
    def open(self, name: str, priority: Priority) -> None:
        if name not in self.fragments:
            sizes = [UNIT * (1 + at % 3) for at in range(6)]
            self.fragments[name] = self.cache.attach(name, sizes, self._load(name), priority)

    @rule(name=st.sampled_from("abc"), group=st.integers(0, 5))
    def get(self, name: str, group: int) -> None:
        if name in self.fragments:
            block = self.fragments[name].get(group)
            assert block is self.last[name, group]

    @rule(name=st.sampled_from("abc"))
    def close(self, name: str) -> None:
        if name in self.fragments:
            self.cache.detach(self.fragments.pop(name))

    @rule(name=st.sampled_from("abc"), priority=st.sampled_from(Priority))
    def change_priority(self, name: str, priority: Priority) -> None:
        if name in self.fragments:
            self.cache.set_priority(self.fragments[name], priority)

    @rule(capacity=st.integers(0, 12))
    def resize(self, capacity: int) -> None:
        self.cache.resize(capacity * UNIT)

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "cache"):
            self.cache.check_invariants()


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_who_waits_for_a_load_that_was_interrupted_loads_by_itself() -> None:
    cache = BlockCache(10 * UNIT)
    loads: list[int] = []
    found: list[Block] = []
    waiter = threading.Thread(target=lambda: found.append(fragment.get(0)), daemon=True)

    def load(group: int) -> Block:
        loads.append(group)
        if len(loads) > 1:
            return new_block()
        waiter.start()
        (flight,) = cache._flights.values()
        while not flight.landed._cond._waiters:  # type: ignore[attr-defined]
            waiter.join(0.001)
        raise KeyboardInterrupt

    fragment = cache.attach("f", [UNIT], load, Priority.ON_DEMAND)
    with pytest.raises(KeyboardInterrupt):
        fragment.get(0)
    waiter.join(60)
    assert len(found) == 1
    assert loads == [0, 0]
    cache.check_invariants()
