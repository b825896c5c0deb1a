"""Point reads of the storage benchmark: hot and cold, one row and many, and a scan's first batch.

Hot means that both sides have everything in their caches. Cold means a store that was just opened
and whose files the kernel has forgotten: every read goes to the disk.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from bench.harness import Row, best_of, faster, seconds, slower
from bench.rocksdb_peer import RocksPeer, cell_key
from bench.storage_data import Batch, batches, row_numbers
from bench.storage_store import CACHE_BYTES, Options, Stele, drop_from_page_cache, to_arrow
from stele.model.predicates import CellSpec, ReadSpec, ScanSpec

HOT_GETS = 20_000
COLD_GETS_MAX = 200
COLD_GET_BATCHES = 6
"""Batches of the data for one cold get: each then finds its row in a block of its own."""
LIST_KEYS = 1_000
FRAGMENTS = 3
FIRST_TXN = 1_000_000
FIRST_BATCH_GROWTH_MAX = 2.0
FIRST_BATCH_SIZES = (16, 4, 1)
"""Tables of the whole number of cells divided by each."""


@dataclass(frozen=True)
class Keys:
    """The same rows for both sides: ours by their key, theirs by the key of one of their cells."""

    ours: list[bytes]
    theirs: list[bytes]

    @staticmethod
    def chosen(work: list[Batch], count: int, seed: int) -> Keys:
        dice = np.random.default_rng(seed)
        return Keys._of(work, dice.integers(0, len(work), count).tolist(), dice)

    @staticmethod
    def apart(work: list[Batch], seed: int) -> Keys:
        """Rows that are far from each other, in no order."""
        dice = np.random.default_rng(seed)
        count = min(COLD_GETS_MAX, len(work) // COLD_GET_BATCHES)
        places = dice.permutation(np.arange(count) * len(work) // count)
        return Keys._of(work, places.tolist(), dice)

    @staticmethod
    def _of(work: list[Batch], places: list[int], dice: np.random.Generator) -> Keys:
        ours, theirs = [], []
        for number in places:
            row = work[number].rows[int(dice.integers(0, work[number].cells // 4)) * 4]
            ours.append(row)
            theirs.append(cell_key(row, b"age", FIRST_TXN + number, FIRST_TXN + number))
        return Keys(ours, theirs)


def point_rows(options: Options) -> list[Row]:
    """All point reads."""
    numbers = row_numbers(options.cells // 4)
    work = list(batches(np.sort(numbers)))
    peer = _filled_peer(options.directory / "rocks-points-read", work)
    one, three = _filled_stores(options.directory, work)
    rows = _hot_rows(options, one, three, peer, work)
    peer.close()
    one.close()
    three.close()
    rows.append(_cold_row(options, one.directory, peer.path, work))
    return rows


def _filled_peer(path: Path, work: list[Batch]) -> RocksPeer:
    peer = RocksPeer(path, CACHE_BYTES)
    for number, batch in enumerate(work):
        peer.write_batch(batch, FIRST_TXN + number)
    peer.flush()
    peer.compact()
    peer.warm()
    return peer


def _filled_stores(directory: Path, work: list[Batch]) -> tuple[Stele, Stele]:
    """One fragment; and three over the same rows, with two batches in memory."""
    one = Stele(directory / "stele-one", background=False)
    one.write(map(to_arrow, work))
    one.table.compact()
    three = Stele(directory / "stele-three", background=False)
    for part in range(FRAGMENTS):
        three.write(map(to_arrow, work[part::FRAGMENTS]))
        three.table.flush()
    three.write(map(to_arrow, (work[0], work[-1])))
    return one, three


def _hot_rows(
    options: Options, one: Stele, three: Stele, peer: RocksPeer, work: list[Batch]
) -> list[Row]:
    keys, few = Keys.chosen(work, HOT_GETS, 5), Keys.chosen(work, LIST_KEYS, 6)
    spec, listed = CellSpec(), ReadSpec(rows=tuple(few.ours))

    def gets(store: Stele) -> None:
        for key in keys.ours:
            store.table.read_row(key, spec)

    def bare_gets() -> None:
        for key in keys.theirs:
            peer.get(key)

    for store in (one, three):
        gets(store)
        store.table.read_rows(listed)
    turns = options.rounds + 2
    own_one, own_three, bare = best_of(turns, partial(gets, one), partial(gets, three), bare_gets)
    many_one, many_three, lists = best_of(
        10 * turns,
        lambda: one.table.read_rows(listed),
        lambda: three.table.read_rows(listed),
        lambda: peer.get_list(few.theirs),
    )
    hot = "hot point get, a whole row against RocksDB's bare get,"
    many = f"get_many of {LIST_KEYS:,} random rows, hot, to Arrow,"
    return [
        _rates(f"{hot} 1 fragment", own_one / HOT_GETS, bare / HOT_GETS, "gets/s", 0.25),
        _rates(f"{hot} 3 fragments", own_three / HOT_GETS, bare / HOT_GETS, "gets/s", 0.25),
        _rates(f"{many} 1 fragment", many_one, lists, "calls/s", 1.3),
        _rates(f"{many} 3 fragments and memory", many_three, lists, "calls/s", 1.0),
    ]


def _rates(name: str, ours_s: float, theirs_s: float, unit: str, wanted: float) -> Row:
    return faster(name, 1 / ours_s, 1 / theirs_s, unit, wanted)


def _cold_row(options: Options, ours_at: Path, theirs_at: Path, work: list[Batch]) -> Row:
    """Medians of gets after opening; both sides open their files by a first get that is not timed.

    The best round of each counts.
    """
    ours, theirs = [], []
    spec = CellSpec()
    for turn in range(options.rounds):
        keys = Keys.apart(work, 7 + turn)
        drop_from_page_cache(theirs_at)
        peer = RocksPeer(theirs_at, CACHE_BYTES)
        theirs.append(_cold_median(peer.get, keys.theirs, theirs_at))
        peer.close()
        drop_from_page_cache(ours_at)
        store = Stele(ours_at, background=False)
        get = partial(store.table.read_row, spec=spec)
        ours.append(_cold_median(get, keys.ours, ours_at))
        store.close()
    return _rates("cold point get, from the disk", min(ours), min(theirs), "gets/s", 0.02)


def _cold_median(get: Callable[[bytes], object], keys: list[bytes], directory: Path) -> float:
    get(keys[0])
    drop_from_page_cache(directory)
    return statistics.median(seconds(partial(get, key)) for key in keys[1:])


def first_batch_rows(options: Options) -> list[Row]:
    """The first batch of a scan, of tables of several sizes whose files are open."""
    times = []
    for divisor in FIRST_BATCH_SIZES:
        path = options.directory / f"stele-first-{divisor}"
        store = Stele(path, background=False)
        numbers = row_numbers(options.cells // 4 // divisor)
        store.write(map(to_arrow, batches(np.sort(numbers))))
        store.table.compact()
        first = partial(_first_batch, store)
        first()
        times.append(best_of(20, first)[0] * 1e3)
        store.close()
    return [
        slower(
            f"first batch of a scan, table of {options.cells // divisor:,} cells against "
            f"{options.cells // FIRST_BATCH_SIZES[0]:,}",
            time_ms,
            times[0],
            "ms",
            FIRST_BATCH_GROWTH_MAX,
        )
        for divisor, time_ms in zip(FIRST_BATCH_SIZES[1:], times[1:], strict=True)
    ]


def _first_batch(store: Stele) -> None:
    scan = store.table.scan(ScanSpec())
    next(iter(scan))
    scan.close()
