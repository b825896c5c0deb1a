"""Arrow messages: what is written is read; what is damaged, foreign or a bomb is refused."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stele.errors import InvalidArgument, InvalidCells, LimitExceeded
from stele.model.arrow_ipc import (
    IpcLimits,
    _decoded_size,
    check_no_nulls,
    decode_ipc,
    describe,
    encode_ipc,
)
from stele.model.cells import CELLS, MUTATIONS, Cell, cells_to_batch
from tests.unit.model.strategies import mutations

ROOT = Path(__file__).resolve().parents[3]
ONE = cells_to_batch([Cell(b"row", "family", b"qualifier", 1, b"value")])


def stream(schema: pa.Schema, *batches: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


@given(st.lists(mutations(), max_size=20), st.sampled_from([None, "lz4", "zstd"]))
@settings(max_examples=50)
def test_round_trip(cells: list[Cell], compression: str | None) -> None:
    for batch in (cells_to_batch(cells), cells_to_batch(cells).select(MUTATIONS.names)):
        for part in (batch, batch.slice(1), batch.slice(0, 1)):
            encoded = encode_ipc(part, compression)
            assert decode_ipc(encoded).equals(part)
            assert decode_ipc(encoded.to_pybytes()).equals(part)
            assert decode_ipc(memoryview(b"!" + encoded.to_pybytes())[1:]).equals(part)


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_every_damaged_byte_is_refused_or_harmless(compression: str) -> None:
    child = subprocess.run(
        [
            sys.executable,
            "-X",
            "faulthandler",
            "-m",
            "tests.unit.model.damaged_batches",
            compression,
        ],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    counts = json.loads(child.stdout)
    assert counts["refused"] > 2_000, "too few were refused: was anything damaged at all?"
    assert counts["accepted"] > 100, "paddings, values and names may be changed harmlessly"
    assert 0 < counts["valid"] <= counts["accepted"]


@given(st.binary(max_size=300))
def test_t89_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidArgument):
        decode_ipc(data)


def test_t89_a_corrupted_offset_is_refused() -> None:
    data = encode_ipc(ONE).to_pybytes()
    position = data.index(b"row" + bytes(5))
    assert data[position - 8 : position] == struct.pack("<ii", 0, 3)
    for at in range(position - 8, position):
        with pytest.raises(InvalidCells, match=r"[Oo]ffset"):
            decode_ipc(data[:at] + b"\x7f" + data[at + 1 :])


def test_sizes_are_checked_before_parsing() -> None:
    data = encode_ipc(ONE).to_pybytes()
    assert decode_ipc(data, IpcLimits(encoded_bytes_max=len(data))).num_rows == 1
    with pytest.raises(LimitExceeded, match=f"{len(data)} bytes is over the limit of 10"):
        decode_ipc(data, IpcLimits(encoded_bytes_max=10))
    two = encode_ipc(pa.concat_batches([ONE, ONE]))
    with pytest.raises(LimitExceeded, match="2 cells is over the limit of 1"):
        decode_ipc(two, IpcLimits(cells_max=1))


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_bomb_is_refused_before_it_is_decompressed(compression: str) -> None:
    bomb = encode_ipc(cells_to_batch([Cell(b"r", "f", b"q", 1, bytes(10 << 20))]), compression)
    assert bomb.size < 100_000
    assert decode_ipc(bomb).num_rows == 1
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(
        LimitExceeded, match=r"would decompress to 10485\d+ bytes; the limit is 1048576"
    ):
        decode_ipc(bomb, IpcLimits(decoded_bytes_max=1 << 20))
    assert pa.default_memory_pool().max_memory() == before


def test_a_lying_size_is_refused() -> None:
    batch = cells_to_batch([Cell(b"r", "f", b"q", 1, bytes(5000))])
    data = bytearray(encode_ipc(batch, "zstd").to_pybytes())
    position = bytes(data).rindex((5000).to_bytes(8, "little"))
    for lie in (2**62, -1, -2, -(2**63), 0, 4999, 5001):
        data[position : position + 8] = lie.to_bytes(8, "little", signed=True)
        with pytest.raises(InvalidArgument):
            decode_ipc(bytes(data))


def test_only_one_batch_and_nothing_behind_it() -> None:
    data = encode_ipc(ONE).to_pybytes()
    with pytest.raises(InvalidCells, match="stand behind"):
        decode_ipc(data + b"\x00")
    for wrong in (b"", stream(CELLS), stream(CELLS, ONE, ONE)):
        with pytest.raises(InvalidCells):
            decode_ipc(wrong)


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema([]),
        CELLS.set(0, pa.field("row", pa.large_binary(), nullable=False)),
        CELLS.set(0, pa.field("row", pa.binary())),
        CELLS.set(0, pa.field("key", pa.binary(), nullable=False)),
        CELLS.set(1, pa.field("family", pa.utf8(), nullable=False)),
        CELLS.set(3, pa.field("timestamp", pa.timestamp("us"), nullable=False)),
        CELLS.append(pa.field("more", pa.int8())),
        CELLS.set(6, pa.field("value", pa.uuid(), nullable=False)),
        CELLS.set(6, pa.field("value", pa.list_(pa.list_(pa.int8())), nullable=False)),
    ],
)
def test_foreign_schemas_are_refused(schema: pa.Schema) -> None:
    arrays = [pa.array([], field.type) for field in schema]
    with pytest.raises(InvalidCells):
        decode_ipc(stream(schema, pa.RecordBatch.from_arrays(arrays, schema=schema)))


def test_the_allowed_schemas_are_a_choice() -> None:
    with pytest.raises(InvalidCells, match="unexpected Arrow schema"):
        decode_ipc(encode_ipc(ONE), schemas=[MUTATIONS])


def test_metadata_of_the_sender_ends_here() -> None:
    noisy = ONE.replace_schema_metadata({"pandas": "{}"})
    assert decode_ipc(encode_ipc(noisy)).schema.equals(CELLS, check_metadata=True)


def test_nulls_are_refused() -> None:
    columns = ONE.columns
    nullable = pa.schema([field.with_nullable(True) for field in CELLS])
    for index, field in enumerate(nullable):
        holes = [pa.nulls(1, field.type) if at == index else columns[at] for at in range(7)]
        batch = pa.RecordBatch.from_arrays(holes, schema=nullable)
        with pytest.raises(InvalidCells, match=f"'{field.name}' has 1 null"):
            check_no_nulls(batch)
    empty_name = pa.DictionaryArray.from_arrays(
        pa.array([0], pa.int16()), pa.array([None], pa.utf8())
    )
    with pytest.raises(InvalidCells, match="null"):
        check_no_nulls(ONE.set_column(1, nullable.field(1), empty_name))


@pytest.mark.parametrize("kind", ["dictionary", "record batch"])
def test_the_declared_size_is_found_without_trusting_any_pointer(kind: str) -> None:
    messages = pa.ipc.MessageReader.open_stream(encode_ipc(ONE, "zstd"))
    message = next(one for one in messages if one.type == kind)
    metadata = message.metadata.to_pybytes()
    honest = _decoded_size(message.metadata, message.body)
    assert honest > 0
    refused = 0
    for position in range(len(metadata)):
        for damage in (b"\x00", b"\x80", b"\xff"):
            damaged = metadata[:position] + damage + metadata[position + 1 :]
            try:
                assert _decoded_size(pa.py_buffer(damaged), message.body) >= 0
            except (InvalidCells, struct.error):
                refused += 1
    assert refused > 50


def test_names_that_are_no_text_are_described() -> None:
    data = encode_ipc(ONE).to_pybytes().replace(b"qualifier", b"qualif\xff\xfer", 1)
    with pytest.raises(InvalidCells, match=r"unexpected Arrow schema.*qualif\ufffd"):
        decode_ipc(data)
    long = pa.schema([pa.field("n" * 600, pa.int8())])
    assert describe(long).endswith("...")
    assert describe(CELLS).startswith("row: binary not null, family: dictionary<values=string")
