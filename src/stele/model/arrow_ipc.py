"""One batch of cells as Arrow IPC bytes, and back from bytes nobody can vouch for.

A message is an IPC *stream*: schema, one dictionary batch (the families), one record batch, end.
``RecordBatch.serialize`` would be shorter, but it leaves the dictionary out.

Decoding trusts nothing, in this order:

1. the size of the bytes, before they are parsed;
2. the messages: these kinds, this many, nothing behind them. What each would *decompress* to is
   read from the bytes, before any of it is decompressed: every compressed buffer begins with the
   size that Arrow is about to allocate;
3. the schema: exactly one of those allowed. That leaves no room for extension types or nesting;
4. ``validate(full=True)``, before anything else touches the batch. Arrow takes offsets, dictionary
   codes and counts as they come; reading a batch with one corrupted offset ends the process.

What comes out has consistent buffers and no nulls. Whether the cells mean anything is asked by
:mod:`stele.model.validation`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from stele.errors import InvalidCells, LimitExceeded
from stele.model.cells import CELLS, MUTATIONS
from stele.model.limits import BATCH_BYTES_MAX, BATCH_CELLS_MAX

CELL_OVERHEAD_BYTES = 48
"""What a cell takes in Arrow beside its bytes: offsets, codes, numbers, padding; rounded up."""


@dataclass(frozen=True, slots=True)
class IpcLimits:
    """What one message may cost. The defaults admit every batch within the limits on cells."""

    encoded_bytes_max: int = BATCH_BYTES_MAX + BATCH_CELLS_MAX * CELL_OVERHEAD_BYTES
    decoded_bytes_max: int = BATCH_BYTES_MAX + BATCH_CELLS_MAX * CELL_OVERHEAD_BYTES
    cells_max: int = BATCH_CELLS_MAX


DEFAULT_LIMITS = IpcLimits()

_SHOWN_CHARACTERS = 500
_FAMILY_INDEX = CELLS.get_field_index("family")

_MESSAGE_KINDS = ["schema", "dictionary", "record batch"]
_READ_OPTIONS = pa.ipc.IpcReadOptions(
    use_threads=False,
    # A sender may place buffers anywhere; kernels and numpy want numbers at their own alignment.
    ensure_alignment=pa.ipc.Alignment.DataTypeSpecific,
)


def encode_ipc(batch: pa.RecordBatch, compression: str | None = None) -> pa.Buffer:
    """``batch`` as one message; ``compression`` is ``None``, ``"lz4"`` or ``"zstd"``."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def decode_ipc(
    data: bytes | bytearray | memoryview | pa.Buffer,
    limits: IpcLimits = DEFAULT_LIMITS,
    schemas: Sequence[pa.Schema] = (MUTATIONS, CELLS),
) -> pa.RecordBatch:
    """The one batch in ``data``, structurally sound and of one of ``schemas``.

    Raises :class:`InvalidCells` or :class:`LimitExceeded`; the batch shares memory with ``data``.
    """
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
    if buffer.size > limits.encoded_bytes_max:
        raise LimitExceeded(
            f"Arrow message of {buffer.size} bytes is over the limit of "
            f"{limits.encoded_bytes_max} bytes"
        )
    try:
        _check_messages(buffer, limits)
        with pa.ipc.open_stream(buffer, options=_READ_OPTIONS) as reader:
            schema = _allowed(reader.schema, schemas)
            batch = reader.read_next_batch()
        batch.validate(full=True)
    except (pa.ArrowException, OSError, struct.error, UnicodeDecodeError) as error:
        raise InvalidCells(f"not a readable Arrow message: {error}") from error
    if batch.num_rows > limits.cells_max:
        raise LimitExceeded(
            f"batch of {batch.num_rows} cells is over the limit of {limits.cells_max}"
        )
    check_no_nulls(batch)
    if batch.schema.equals(schema, check_metadata=True):
        return batch
    # Schema and field metadata are the sender's and end here.
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def check_no_nulls(batch: pa.RecordBatch) -> None:
    """Refuse nulls in any column, and in the dictionary of the families."""
    for index, column in enumerate(batch.columns):
        if column.null_count:
            name = batch.schema.names[index]
            raise InvalidCells(f"column {name!r} has {column.null_count} nulls; cells have none")
        if index == _FAMILY_INDEX and column.dictionary.null_count:
            raise InvalidCells("the dictionary of column 'family' has a null")


def _allowed(schema: pa.Schema, schemas: Iterable[pa.Schema]) -> pa.Schema:
    """Which of ``schemas`` this is, field by field: names, exact types, nullability."""
    for candidate in schemas:
        if schema.equals(candidate, check_metadata=False):
            return candidate
    raise InvalidCells(
        f"unexpected Arrow schema: {describe(schema)}; cells have exactly {describe(CELLS)}"
    )


def describe(schema: pa.Schema) -> str:
    """A schema for an error message; ``str`` copes with names that are not text."""
    text = ", ".join(str(field).removeprefix("pyarrow.Field<").rstrip(">") for field in schema)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


def _check_messages(buffer: pa.Buffer, limits: IpcLimits) -> None:
    source = pa.BufferReader(buffer)
    kinds = []
    decoded_bytes = 0
    for message in pa.ipc.MessageReader.open_stream(source):
        kinds.append(message.type)
        if kinds != _MESSAGE_KINDS[: len(kinds)]:
            break
        if message.type != "schema":
            decoded_bytes += _decoded_size(message.metadata, message.body)
    if kinds != _MESSAGE_KINDS:
        raise InvalidCells(f"Arrow message holds {kinds}; expected is {_MESSAGE_KINDS}")
    if source.tell() != buffer.size:
        raise InvalidCells(f"{buffer.size - source.tell()} bytes stand behind the Arrow message")
    if decoded_bytes > limits.decoded_bytes_max:
        raise LimitExceeded(
            f"Arrow message would decompress to {decoded_bytes} bytes; the limit is "
            f"{limits.decoded_bytes_max} bytes"
        )


# Arrow does not say how a message is compressed, so its metadata is read here. It is a flatbuffer:
# a table begins with the (signed, backward) distance to its vtable, which holds two sizes and then
# for each field its position within the table, 0 if absent. Positions of the fields we need, from
# Arrow's Message.fbs; `_decoded_size` is their only user.

_MESSAGE_HEADER_TYPE, _MESSAGE_HEADER = 1, 2
_HEADER_DICTIONARY_BATCH = 2
_DICTIONARY_DATA = 1
_BATCH_BUFFERS, _BATCH_COMPRESSION = 2, 3
_BUFFER_STRUCT = struct.Struct("<qq")
_COMPRESSED_SIZE = struct.Struct("<q")
_NOT_COMPRESSED = -1


def _decoded_size(metadata: pa.Buffer, body: pa.Buffer) -> int:
    """Bytes that Arrow will hold after decoding a message's body, as the message declares it."""
    table = memoryview(metadata)
    message = _follow(table, 0)
    header = _follow(table, _field(table, message, _MESSAGE_HEADER))
    (kind,) = struct.unpack_from("<B", table, _field(table, message, _MESSAGE_HEADER_TYPE))
    if kind == _HEADER_DICTIONARY_BATCH:
        header = _follow(table, _field(table, header, _DICTIONARY_DATA))
    if not _field(table, header, _BATCH_COMPRESSION, required=False):
        return int(body.size)
    vector = _follow(table, _field(table, header, _BATCH_BUFFERS))
    (count,) = struct.unpack_from("<I", table, vector)
    content = memoryview(body)
    total = 0
    for index in range(count):
        offset, length = _unpack(_BUFFER_STRUCT, table, vector + 4 + index * _BUFFER_STRUCT.size)
        if length > 0:
            (size,) = _unpack(_COMPRESSED_SIZE, content, offset)
            if size < _NOT_COMPRESSED:
                raise InvalidCells(f"Arrow buffer declares an uncompressed size of {size}")
            total += length if size == _NOT_COMPRESSED else size
    return total


def _unpack(layout: struct.Struct, data: memoryview, position: int) -> tuple[int, ...]:
    """Like ``unpack_from``, but a negative position is out of bounds and not "from the end"."""
    if position < 0:
        raise InvalidCells(f"Arrow message points to {position}, before its own beginning")
    return layout.unpack_from(data, position)


def _follow(table: memoryview, position: int) -> int:
    """Where the forward reference at ``position`` leads."""
    (distance,) = struct.unpack_from("<I", table, position)
    return position + int(distance)


def _field(table: memoryview, start: int, number: int, *, required: bool = True) -> int:
    """Position of a field of the table at ``start``; 0 when absent and not required."""
    (distance,) = struct.unpack_from("<i", table, start)
    vtable = start - distance
    if vtable < 0:
        raise InvalidCells(f"Arrow message points to {vtable}, before its own beginning")
    (vtable_bytes,) = struct.unpack_from("<H", table, vtable)
    entry = 4 + 2 * number
    relative = 0
    if entry < vtable_bytes:
        (relative,) = struct.unpack_from("<H", table, vtable + entry)
    if relative:
        return start + int(relative)
    if required:
        raise InvalidCells(f"Arrow message lacks field {number} of its header")
    return 0
