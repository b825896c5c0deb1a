"""Arrow messages off the wire: decoding, then everything a server does before it trusts them."""

from __future__ import annotations

import pyarrow as pa

from stele.model.arrow_ipc import decode_ipc, encode_ipc
from stele.model.cells import (
    CELLS,
    MUTATIONS,
    TIMESTAMP_MAX,
    Cell,
    Op,
    batch_to_cells,
    cells_to_batch,
)
from stele.model.groups import Group
from stele.model.mutations import stamp
from stele.model.schema import Schema
from stele.model.validation import validate_cells, validate_mutations

SCHEMA = Schema([Group("one", ["f", "info"]), Group("rest")], removed=["gone"])
TXN = 1_700_000_000_000_000

_CELLS = [
    Cell(b"a", "", b"", TIMESTAMP_MAX, op=Op.ERASE_ROW),
    Cell(b"a", "f", b"", 9, op=Op.ERASE_FAMILY),
    Cell(b"a", "f", b"q", 9, op=Op.ERASE_COLUMN),
    Cell(b"a", "f", b"q", 5, op=Op.ERASE_CELL),
    Cell(b"a", "f", b"q", 5, b"value"),
    Cell(b"b", "info", b"", TIMESTAMP_MAX, b""),
    Cell(b"b\x00", "info", b"\xff", TXN + 1, b"x" * 40),
]


def _seeds() -> list[bytes]:
    mutations = cells_to_batch(_CELLS).select(MUTATIONS.names)
    batches = [mutations, mutations.slice(4, 1), mutations.slice(0, 0), stamp(mutations, TXN)]
    return [
        encode_ipc(batch, compression).to_pybytes()
        for batch in batches
        for compression in (None, "lz4", "zstd")
    ]


SEEDS = _seeds()


def TestOneInput(data: bytes) -> None:
    """Whatever is decoded can be read in full; whatever is valid can be committed and sent on."""
    batch = decode_ipc(data)
    batch.to_pylist()
    batch.take(pa.array(range(batch.num_rows)[::-1], pa.int64())).validate(full=True)
    if batch.schema.equals(CELLS):
        validate_cells(batch, SCHEMA)
    else:
        validate_mutations(batch, SCHEMA)
        batch = stamp(batch, TXN)
        validate_cells(batch, SCHEMA)
    cells = batch_to_cells(batch)
    assert cells == sorted(cells, key=Cell.key)
    assert batch_to_cells(decode_ipc(encode_ipc(batch))) == cells
