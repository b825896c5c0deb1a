"""The order of cells over whole Arrow batches: checking it, sorting by it.

Vectorised with Arrow and numpy, one pass for each part of the key. The kernels do the same in one
pass over the buffers; whoever has them passes theirs in where an :data:`OrderCheck` is asked for.

All functions expect batches whose structure has been validated: exact schema, no nulls.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stele.model.arrays import Bools, Ints, numbers
from stele.model.cells import Op

OrderCheck = Callable[[pa.RecordBatch], int]
"""Index of the first cell that is not above the one before it; -1 when there is none."""


def family_ranks(family: pa.DictionaryArray) -> Ints:
    """For each cell the position of its family among the sorted names of the dictionary."""
    codes = numbers(family.indices, np.int16)
    names = family.dictionary.to_pylist()
    order = sorted(range(len(names)), key=names.__getitem__)
    if order == list(range(len(names))):
        return codes
    rank = np.empty(len(names), np.int16)
    rank[order] = np.arange(len(names), dtype=np.int16)
    return rank[codes]


def _bools(array: pa.BooleanArray) -> Bools:
    result: Bools = array.to_numpy(zero_copy_only=False)
    return result


def _neighbours(array: pa.Array) -> tuple[Bools, Bools]:
    """For each pair of neighbours: whether it ascends, and whether it is equal."""
    before, after = array.slice(0, len(array) - 1), array.slice(1)
    return _bools(pc.less(before, after)), _bools(pc.equal(before, after))


def first_disorder(batch: pa.RecordBatch) -> int:
    """The plain :data:`OrderCheck`, for ``CELLS`` and ``MUTATIONS`` batches.

    It compares from the least significant part of the key to the most: ``rising`` always holds
    whether the parts seen so far ascend strictly.
    """
    if batch.num_rows < 2:
        return -1
    ops = numbers(batch.column("op"), np.int8)
    rising: Bools = ops[:-1] < ops[1:]
    for name in ("txn", "timestamp"):
        if name in batch.schema.names:
            column = numbers(batch.column(name), np.int64)
            rising = (column[:-1] > column[1:]) | ((column[:-1] == column[1:]) & rising)
    less, equal = _neighbours(batch.column("qualifier"))
    rising = less | (equal & rising)
    classes = np.minimum(ops, Op.ERASE_COLUMN)
    ranks = family_ranks(batch.column("family"))
    for part in (classes, ranks):
        rising = (part[:-1] < part[1:]) | ((part[:-1] == part[1:]) & rising)
    less, equal = _neighbours(batch.column("row"))
    rising = less | (equal & rising)
    wrong = np.flatnonzero(~rising)
    return int(wrong[0]) + 1 if len(wrong) else -1


def sort_cells(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same cells in cell order. Stable: equal cells keep the order they came in."""
    ops = numbers(batch.column("op"), np.int8)
    keys = {
        "row": (batch.column("row"), "ascending"),
        "family": (pa.array(family_ranks(batch.column("family"))), "ascending"),
        "class": (pa.array(np.minimum(ops, Op.ERASE_COLUMN)), "ascending"),
        "qualifier": (batch.column("qualifier"), "ascending"),
        "timestamp": (batch.column("timestamp"), "descending"),
        "op": (batch.column("op"), "ascending"),
    }
    if "txn" in batch.schema.names:
        last = keys.pop("op")
        keys |= {"txn": (batch.column("txn"), "descending"), "op": last}
    table = pa.table({name: column for name, (column, _) in keys.items()})
    order = pc.sort_indices(table, sort_keys=[(name, way) for name, (_, way) in keys.items()])
    return batch.take(order)
