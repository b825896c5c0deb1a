"""The block cache of a server: decoded blocks of all its fragments, within a number of bytes.

**Lookups take no lock.** Each open fragment has a ``FragmentBlocks``: the blocks that are in memory
as a list, for Python, and their descriptors as a matrix, for kernels. A hit reads one entry and
sets a byte that says the block was used. Only loading and evicting take the lock of the cache.

**Who goes first** (policy: ``cache_priority``). Blocks of priority 4 go before those of 3, 2 and 1,
in that order, except for a small share of the memory that in-memory groups may not take from the
rest. Within a priority the oldest goes first, unless it was used since it was last looked at: then
it goes to the end of the queue once more.

**A scan does not empty the cache.** Blocks of priority 4 begin in a small queue and are moved to
the main one only if they were used again before they came to its end; a scan uses each block once.
A block that is loaded again soon after it was dropped goes to the main queue at once.

**One load for all.** Threads that miss the same block wait for the one that loads it.

An evicted block lives on while somebody holds it. A kernel that keeps the GIL may use addresses
from the matrix, since nothing can be evicted meanwhile; one that gives it up must hold the blocks.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from stele.errors import InvalidArgument
from stele.kernels.block import DESCRIPTOR_WIDTH, Block
from stele.storage.cache_priority import IN_MEMORY, Priority
from stele.telemetry.registry import Registry

ON_DEMAND_SHARE = 16
"""One part in this many is never taken from blocks of priority 4 by in-memory groups."""

SMALL_QUEUE_SHARE = 10
"""One part in this many of the memory is for blocks that have been used once."""

GHOSTS_MIN = 64
"""How many dropped blocks are remembered, at least; else as many as there are in the main queue."""

Loader = Callable[[int], Block]
Slot = tuple["FragmentBlocks", int]


class FragmentBlocks:
    """The blocks of one fragment file that are in memory. Made by ``BlockCache.attach``."""

    def __init__(
        self, cache: BlockCache, name: str, sizes: Sequence[int], load: Loader, priority: Priority
    ):
        self.name = name
        self.priority = priority
        self.sizes = sizes
        self.load = load
        self.users = 0
        self.blocks: list[Block | None] = [None] * len(sizes)
        self.matrix = np.zeros((len(sizes), DESCRIPTOR_WIDTH), np.int64)
        """A descriptor for each row group; all zero for one that is not in memory."""
        self.used = np.zeros(len(sizes), np.uint8)
        """Whoever uses a block, also a kernel, sets its byte to 1."""
        self.hits = 0
        """Hits from Python, about: threads may lose a count, and kernels do not count."""
        self._cache = cache

    def get(self, group: int) -> Block:
        """The block of a row group, loaded if it is not in memory."""
        block = self.blocks[group]
        if block is None:
            return self._cache.load(self, group)
        self.used[group] = 1
        self.hits += 1
        return block

    def put(self, group: int, block: Block) -> None:
        """Only for the cache."""
        self.used[group] = 0
        self.blocks[group] = block
        self.matrix[group] = block.descriptor

    def drop(self, group: int) -> None:
        """Only for the cache."""
        self.matrix[group] = 0
        self.blocks[group] = None


class _Queue:
    """Blocks in the order in which they are considered for eviction."""

    def __init__(self) -> None:
        self.slots: OrderedDict[Slot, int] = OrderedDict()
        self.size_bytes = 0

    def push(self, slot: Slot, size: int) -> None:
        self.slots[slot] = size
        self.size_bytes += size

    def pop_oldest(self) -> tuple[Slot, int]:
        slot, size = self.slots.popitem(last=False)
        self.size_bytes -= size
        return slot, size

    def discard(self, slot: Slot) -> int | None:
        """Remove a slot, wherever it stands; its size, or None if it is not here."""
        size = self.slots.pop(slot, None)
        self.size_bytes -= size or 0
        return size

    def pop_unused(self) -> Slot:
        """Remove the oldest block that was not used since it was last looked at."""
        for _ in range(len(self.slots)):
            slot, size = self.pop_oldest()
            if not _take_used(slot):
                return slot
            self.push(slot, size)
        return self.pop_oldest()[0]


def _take_used(slot: Slot) -> bool:
    """Whether a block was used since the last call."""
    fragment, group = slot
    used = bool(fragment.used[group])
    fragment.used[group] = 0
    return used


class _Flight:
    """A load that others wait for."""

    def __init__(self) -> None:
        self.landed = threading.Event()
        self.block: Block | None = None
        self.error: BaseException | None = None


class BlockCache:
    """Threads share it. ``capacity_bytes`` bounds what it keeps, not what readers hold."""

    def __init__(self, capacity_bytes: int, registry: Registry | None = None):
        if capacity_bytes < 0:
            raise InvalidArgument(f"a block cache of {capacity_bytes} bytes")
        registry = registry or Registry()
        self._loads = registry.counter("block_cache_loads_total", "Blocks read and decoded")
        self._evictions = registry.counter("block_cache_evictions_total", "Blocks dropped")
        self._bytes = registry.gauge("block_cache_bytes", "Memory of the blocks in the cache")
        self._capacity_bytes = capacity_bytes
        self._lock = threading.Lock()
        self._fragments: dict[str, FragmentBlocks] = {}
        self._flights: dict[Slot, _Flight] = {}
        self._small = _Queue()
        self._main = _Queue()
        self._ghosts: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._in_memory = {priority: _Queue() for priority in IN_MEMORY}

    @property
    def capacity_bytes(self) -> int:
        return self._capacity_bytes

    @property
    def used_bytes(self) -> int:
        """Memory of all blocks in the cache."""
        return sum(queue.size_bytes for queue in self._queues())

    def usage(self) -> dict[Priority, int]:
        """Memory of the blocks of each priority."""
        with self._lock:
            usage = {priority: queue.size_bytes for priority, queue in self._in_memory.items()}
            usage[Priority.ON_DEMAND] = self._small.size_bytes + self._main.size_bytes
            return usage

    def attach(
        self, name: str, sizes: Sequence[int], load: Loader, priority: Priority
    ) -> FragmentBlocks:
        """The blocks of a file; one object for all who use the file, until the last detaches.

        ``sizes`` is the memory of each row group once decoded, ``load`` reads one: the file stays
        open until the last user has detached.
        """
        with self._lock:
            fragment = self._fragments.get(name)
            if fragment is None:
                fragment = FragmentBlocks(self, name, sizes, load, priority)
                self._fragments[name] = fragment
            fragment.users += 1
        self.set_priority(fragment, min(priority, fragment.priority))
        return fragment

    def detach(self, fragment: FragmentBlocks) -> None:
        """One user less; with the last one the blocks leave the cache."""
        with self._lock:
            fragment.users -= 1
            assert fragment.users >= 0, f"{fragment.name} was detached too often"
            if fragment.users:
                return
            del self._fragments[fragment.name]
            for group in range(len(fragment.sizes)):
                if fragment.blocks[group] is not None:
                    self._remove((fragment, group))
                    fragment.drop(group)
            self._bytes.set(self.used_bytes)

    def set_priority(self, fragment: FragmentBlocks, priority: Priority) -> None:
        """Change how long the blocks of a file are kept: the schema has changed."""
        with self._lock:
            if priority is fragment.priority:
                return
            fragment.priority = priority
            for group, block in enumerate(fragment.blocks):
                if block is not None:
                    size = self._remove((fragment, group))
                    self._enqueue((fragment, group), size)
            self._make_room()

    def resize(self, capacity_bytes: int) -> None:
        """Change the bound; drops what is over it."""
        with self._lock:
            self._capacity_bytes = capacity_bytes
            self._make_room()

    def load(self, fragment: FragmentBlocks, group: int) -> Block:
        """Read a block that was not there, or wait for whoever is reading it."""
        slot = (fragment, group)
        with self._lock:
            block = fragment.blocks[group]
            if block is not None:
                return block
            flight = self._flights.get(slot)
            mine = flight is None
            if flight is None:
                flight = self._flights[slot] = _Flight()
        if not mine:
            return _wait_for(flight) or self.load(fragment, group)
        try:
            flight.block = fragment.load(group)
            self._loads.add()
            return flight.block
        except BaseException as error:
            flight.error = error
            raise
        finally:
            with self._lock:
                del self._flights[slot]
                if flight.block is not None and fragment.users:
                    self._admit(slot, flight.block)
            flight.landed.set()

    def check_invariants(self) -> None:
        """What holds whenever no call is under way. For tests."""
        with self._lock:
            assert self.used_bytes <= self._capacity_bytes
            seen: set[Slot] = set()
            for queue in self._queues():
                assert queue.size_bytes == sum(queue.slots.values())
                assert not seen & queue.slots.keys(), "a block is in two queues"
                seen |= queue.slots.keys()
            for fragment, group in seen:
                assert fragment.blocks[group] is not None
                assert fragment.matrix[group].any()
            held = sum(
                block is not None
                for fragment in self._fragments.values()
                for block in fragment.blocks
            )
            assert held == len(seen), "a block is in memory but in no queue"

    # All that follows is called with the lock held.

    def _queues(self) -> Iterator[_Queue]:
        yield self._small
        yield self._main
        yield from self._in_memory.values()

    def _admit(self, slot: Slot, block: Block) -> None:
        fragment, group = slot
        size = fragment.sizes[group]
        if size > self._capacity_bytes:
            return
        fragment.put(group, block)
        self._enqueue(slot, size)
        self._make_room()

    def _enqueue(self, slot: Slot, size: int) -> None:
        fragment, group = slot
        if fragment.priority is not Priority.ON_DEMAND:
            self._in_memory[fragment.priority].push(slot, size)
        elif (fragment.name, group) in self._ghosts:
            del self._ghosts[fragment.name, group]
            self._main.push(slot, size)
        else:
            self._small.push(slot, size)

    def _remove(self, slot: Slot) -> int:
        for queue in self._queues():
            size = queue.discard(slot)
            if size is not None:
                return size
        raise AssertionError("a block in memory is in no queue")

    def _make_room(self) -> None:
        while self.used_bytes > self._capacity_bytes:
            fragment, group = self._choose_victim()
            fragment.drop(group)
            self._evictions.add()
        self._bytes.set(self.used_bytes)

    def _choose_victim(self) -> Slot:
        on_demand = self._small.size_bytes + self._main.size_bytes
        kept = [queue for queue in self._in_memory.values() if queue.slots]
        if on_demand > self._capacity_bytes // ON_DEMAND_SHARE or not kept:
            return self._choose_on_demand()
        return kept[-1].pop_unused()

    def _choose_on_demand(self) -> Slot:
        small_bytes_max = self._capacity_bytes // SMALL_QUEUE_SHARE
        while self._small.slots and (
            self._small.size_bytes > small_bytes_max or not self._main.slots
        ):
            slot, size = self._small.pop_oldest()
            if not _take_used(slot):
                self._remember(slot)
                return slot
            self._main.push(slot, size)
        return self._main.pop_unused()

    def _remember(self, slot: Slot) -> None:
        fragment, group = slot
        self._ghosts[fragment.name, group] = None
        while len(self._ghosts) > max(GHOSTS_MIN, len(self._main.slots)):
            self._ghosts.popitem(last=False)


def _wait_for(flight: _Flight) -> Block | None:
    """What somebody else has loaded; ``None`` if that one was interrupted, which is not for us."""
    flight.landed.wait()
    if isinstance(flight.error, Exception):
        raise flight.error
    return flight.block
