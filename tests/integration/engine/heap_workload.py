"""What ``test_heap`` runs in a process of its own, whose heap is checked: writes, files, reads.

Kernels follow raw addresses. One that writes where it should not, or looks at memory that has been
given back, shows nothing as long as nobody else uses that place. So the process that runs this

* checks the heap whenever memory is given back (``MALLOC_CHECK_``, Arrow's debug pool);
* fills memory that is given back, and new memory, with a pattern (``MALLOC_PERTURB_``);
* spoils arenas when they go back (:func:`spoil_arenas`), which are Arrow's memory used again.

All that is read is compared with a dictionary of what was written, while threads read beside the
flushes and compactions that replace what they look at.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import random
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from stele.cluster.embedded import open_embedded
from stele.cluster.embedded_table import EmbeddedTable
from stele.kernels.arena import Arena
from stele.model.groups import Group
from stele.model.limits import ROW_BYTES_MAX
from stele.model.mutations import MutationBatch
from stele.model.predicates import CellSpec, ReadSpec, ScanSpec
from stele.model.row import Row
from stele.model.schema import Schema
from stele.tablet.options import EngineOptions

SPOILED = 0xDB

ROUNDS = 4
ROWS_PER_ROUND = 10_000
CELLS_PER_BATCH = 1_500
ERASED_PER_ROUND = 400
KEYS_AT_ONCE = 1_000
SINGLE_GETS = 150
LOOKS_MAX = 3
"""Scans beside the flush and the compaction of a round."""

Key = tuple[bytes, str, bytes]
Contents = dict[Key, bytes]

SCHEMA = Schema(
    [Group("typed", ["f"], block_cells=1_024), Group("rest", block_cells=512, compression="lz4")],
    {"f:n": "int64", "f:t": "string"},
)
"""Declared columns, so that compactions write both layouts."""

_given_back = Counter[str]()


def spoil_arenas() -> None:
    """Let nobody find in an arena what was there before it was given back."""
    give_back = Arena.__del__

    def spoiled(arena: Arena) -> None:
        ctypes.memset(arena.address, SPOILED, arena.size)
        _given_back["arenas"] += 1
        give_back(arena)

    Arena.__del__ = spoiled  # type: ignore[method-assign]


def odd_rows() -> list[bytes]:
    """Rows that are prefixes of each other, of the smallest and the largest bytes, very long."""
    grown = [b"p" * length for length in (1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 300)]
    zeros = [b"\x00" * length for length in (1, 7, 8, 9, 64)]
    highest = [b"\xff" * length for length in (1, 7, 8, 9, 64)]
    longest = [bytes([byte]) * ROW_BYTES_MAX for byte in (0, 112, 255)]
    return [*grown, *zeros, *highest, *longest, b"p\x00", b"p\xff", b"row-\x00", b"row-"]


def new_cells(dice: random.Random, round_: int) -> Iterator[tuple[Key, bytes]]:
    """The puts of a round, each key once."""
    rows = [b"row-%06d" % dice.randrange(40_000) for _ in range(ROWS_PER_ROUND)]
    for row in sorted({*rows, *odd_rows()}):
        yield (row, "f", b"n"), dice.randrange(-(1 << 63), 1 << 63).to_bytes(8, "big", signed=True)
        if dice.random() < 0.7:
            yield (row, "f", b"t"), b"text %d " % round_ * dice.randrange(8)
        if dice.random() < 0.7:
            yield (row, "g", dice.randbytes(dice.randrange(12))), dice.randbytes(dice.randrange(90))
    yield (b"row-020000", "g", b"large"), dice.randbytes(6 << 20)


def write_round(
    table: EmbeddedTable, dice: random.Random, round_: int, contents: Contents
) -> Contents:
    """Write and erase; what is there then."""
    after = dict(contents)
    batch = MutationBatch()
    for (row, family, qualifier), value in new_cells(dice, round_):
        batch.put(row, family, qualifier, value)
        after[row, family, qualifier] = value
        if len(batch) >= CELLS_PER_BATCH or (len(batch) >= 5 and dice.random() < 0.002):
            table.apply(batch).wait()
            batch = MutationBatch()
    table.apply(batch).wait()
    erased = {row for row, _, _ in dice.sample(sorted(after), ERASED_PER_ROUND)}
    batch = MutationBatch()
    for row in erased:
        batch.erase_row(row)
    table.apply(batch).wait()
    return {key: value for key, value in after.items() if key[0] not in erased}


def scanned(table: EmbeddedTable, spec: ScanSpec) -> Contents:
    found: Contents = {}
    for batch in table.scan(spec):
        found.update(contents_of(batch))
    return found


def contents_of(cells: pa.RecordBatch) -> Iterator[tuple[Key, bytes]]:
    names = ("row", "family", "qualifier", "value")
    columns = (cells.column(name).to_pylist() for name in names)
    for row, family, qualifier, value in zip(*columns, strict=True):
        yield (row, family, qualifier), value


def check_reads(
    table: EmbeddedTable, dice: random.Random, contents: Contents, counts: Counter[str]
) -> None:
    """Every way to read gives what was written."""
    counts["scanned"] += len(contents)
    assert scanned(table, ScanSpec()) == contents
    assert scanned(table, ScanSpec(reverse=True)) == contents
    rows = sorted({row for row, _, _ in contents})
    keys = [*dice.sample(rows, KEYS_AT_ONCE), *odd_rows(), b"row-", b"nothing"]
    wanted = set(keys)
    counts["looked up"] += len(keys)
    batch, _ = table.read_rows(ReadSpec(rows=tuple(keys)))
    assert dict(contents_of(batch)) == {
        key: value for key, value in contents.items() if key[0] in wanted
    }
    check_single(table, [*dice.sample(rows, SINGLE_GETS), *odd_rows()], contents, counts)


def check_single(
    table: EmbeddedTable, rows: Sequence[bytes], contents: Contents, counts: Counter[str]
) -> None:
    by_row: dict[bytes, Contents] = {row: {} for row in rows}
    for key, value in contents.items():
        if key[0] in by_row:
            by_row[key[0]][key] = value
    for row, expected in by_row.items():
        counts["got"] += 1
        cells, _ = table.read_row(row, CellSpec())
        found = () if cells is None else Row(row, cells).cells
        assert {(c.row, c.family, c.qualifier): c.value for c in found} == expected, row[:32]


class Bystander(threading.Thread):
    """Reads the past of one moment again and again, while files come and go."""

    def __init__(self, table: EmbeddedTable, txn: int, contents: Contents, counts: Counter[str]):
        super().__init__()
        self._table = table
        self._spec = ScanSpec(at=txn)
        self._contents = contents
        self._counts = counts
        self.over = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            for _ in range(LOOKS_MAX):
                if self.over.is_set():
                    break
                assert scanned(self._table, self._spec) == self._contents
                self._counts["looked beside"] += 1
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self.failure = error

    def end(self) -> None:
        self.over.set()
        self.join()
        if self.failure is not None:
            raise self.failure


def main(directory: str, seed: int) -> None:
    faulthandler.enable()
    spoil_arenas()
    dice, counts = random.Random(seed), Counter[str]()
    contents: Contents = {}
    backend = open_embedded(directory, EngineOptions(background=False, cache_bytes=4 << 20))
    table = backend.create_table("t", SCHEMA, [b"row-010000", b"row-030000"])
    for round_ in range(ROUNDS):
        contents = write_round(table, dice, round_, contents)
        beside = Bystander(table, table.durable_txn(), contents, counts)
        beside.start()
        table.flush()
        if round_ % 2:
            table.compact()
        check_reads(table, dice, contents, counts)
        beside.end()
    backend.close()
    backend = open_embedded(directory, EngineOptions(background=False))
    check_reads(backend.table("t"), dice, contents, counts)
    backend.close()
    counts["cells"] = len(contents)
    checked = "libc_malloc_debug" in Path("/proc/self/maps").read_text()
    sys.stdout.write(json.dumps({**counts, **_given_back, "checked": checked}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
