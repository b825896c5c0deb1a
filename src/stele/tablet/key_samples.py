"""Row keys that cut a table into even parts, from what is known of its files and its memory.

Of files only the indexes are looked at, so a row that was erased may be among their keys until a
compaction has dropped it. Of memory only rows that something was put into are taken. Nobody is
shown the rows of hidden cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from stele.kernels.block import Block
from stele.model.cells import Op
from stele.model.columns import HIDDEN_COLUMNS, HIDDEN_FAMILIES
from stele.storage.memory_table import MemoryVersion
from stele.tablet.fragment_store import FragmentStore
from stele.tablet.split_policy import RowSample
from stele.tablet.table_state import TableLayout, TableView
from stele.tablet.tablet_sizes import SAMPLES_PER_FILE_MAX, row_samples


def sample_keys(store: FragmentStore, view: TableView, count: int) -> list[bytes]:
    """At most so many keys of a table, in order."""
    return even_keys([*file_samples(store, view.layout), *memory_samples(view.memory)], count)


def file_samples(store: FragmentStore, layout: TableLayout) -> Iterator[RowSample]:
    """Rows of the files that something was put into."""
    for config in layout.tablets:
        for reference in config.references:
            has_puts = reference.file.summary.put_timestamps is not None
            if has_puts and not HIDDEN_COLUMNS.covers(reference.columns):
                yield from row_samples(store, reference)


def memory_samples(memory: MemoryVersion) -> Iterator[RowSample]:
    """Rows of each run that something was put into, with the bytes that follow each."""
    for run in memory.runs():
        block = run.block
        puts = _puts(block)
        chosen = puts[:: max(len(puts) // SAMPLES_PER_FILE_MAX, 1)]
        for place in chosen:
            yield RowSample(block.row(int(place)), run.size_bytes // len(chosen))


def _puts(block: Block) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """The places of cells that users have put."""
    family, ops = block.batch.column(1), block.batch.column("op")
    shown = np.array([name not in HIDDEN_FAMILIES for name in block.families], np.bool_)
    return np.flatnonzero((ops.to_numpy() == Op.PUT) & shown[family.indices.to_numpy()])


def even_keys(samples: Iterable[RowSample], count: int) -> list[bytes]:
    """At most so many of the samples, with about the same number of bytes between them."""
    ordered = sorted(samples, key=lambda sample: sample.row)
    total = sum(sample.size_bytes for sample in ordered)
    keys: list[bytes] = []
    passed = 0
    for sample in ordered:
        if passed * (count + 1) >= total * (len(keys) + 1) and sample.row not in keys[-1:]:
            keys.append(sample.row)
        passed += sample.size_bytes
    return keys[:count]
