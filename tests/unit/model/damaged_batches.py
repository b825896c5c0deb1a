"""Run by its test in a process of its own: decode a message with each byte damaged in many ways.

A crash ends this process and so fails the test, which also reads the counters printed at the end.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pyarrow as pa

from stele.errors import InvalidArgument
from stele.model.arrow_ipc import decode_ipc, encode_ipc
from stele.model.cells import MUTATIONS, Cell, Op, cells_to_batch
from stele.model.schema import Schema
from stele.model.validation import validate_mutations

CELLS = [
    Cell(b"a", "", b"", 7, op=Op.ERASE_ROW),
    Cell(b"a", "f", b"q", 5, b"value"),
    Cell(b"b", "f", b"", 3, b""),
    Cell(b"b", "g", b"\x00\xff", 3, b"x" * 40),
]


def message(compression: str | None) -> bytes:
    batch = cells_to_batch(CELLS).select(MUTATIONS.names)
    data: bytes = encode_ipc(batch, compression).to_pybytes()
    return data


def damaged(data: bytes) -> Iterator[bytes]:
    for position, byte in enumerate(data):
        for changed in {byte ^ (1 << bit) for bit in range(8)} | {0x00, 0x7F, 0xFF}:
            yield data[:position] + bytes([changed]) + data[position + 1 :]
    for end in range(len(data)):
        yield data[:end]


def use(batch: pa.RecordBatch) -> None:
    """Touch every byte, as careless code would."""
    batch.to_pylist()
    batch.equals(batch.take(pa.array(range(batch.num_rows)[::-1], pa.int64())))


def run(compression: str | None) -> dict[str, int]:
    counts = {"accepted": 0, "refused": 0, "valid": 0}
    schema = Schema()
    for data in damaged(message(compression)):
        try:
            batch = decode_ipc(data)
            use(batch)
            counts["accepted"] += 1
            validate_mutations(batch, schema)
            counts["valid"] += 1
        except InvalidArgument:
            counts["refused"] += 1
    return counts


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1] if sys.argv[1] != "none" else None)))
