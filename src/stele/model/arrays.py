"""Arrow arrays as numpy sees them: the few bridges that vectorised code here is built on.

Everything honours the offset of a slice. Nothing copies what it can view, so views live no longer
than the array they came from.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stele.errors import LimitExceeded

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[Any]
Matrix = npt.NDArray[np.uint8]

OFFSET_MAX = (1 << 31) - 1
"""Arrow's offsets of binary arrays are 32 bits wide."""


def numbers(array: pa.Array, dtype: npt.DTypeLike) -> Ints:
    """A fixed-width Arrow array as numpy, without a copy; honours the offset of a slice."""
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return np.empty(0, dtype)
    start = array.offset * np.dtype(dtype).itemsize
    return np.frombuffer(data, dtype, count=len(array), offset=start)


def offsets(array: pa.Array) -> npt.NDArray[np.int32]:
    """The ``len + 1`` offsets of a binary or string array; honours the offset of a slice."""
    data = array.buffers()[1]
    if data is None or data.size == 0:
        return np.zeros(len(array) + 1, np.int32)
    return np.frombuffer(data, np.int32, count=len(array) + 1, offset=4 * array.offset)


_FEW = 128
"""Up to this many values, joining bytes in Python beats Arrow's conversion of a sequence."""


def binary_array(values: Sequence[bytes]) -> pa.Array:
    """Plain bytes as an Arrow array; what ``pa.array`` does, quicker for few values."""
    if len(values) > _FEW:
        return pa.array(values, pa.binary())
    ends = pa.py_buffer(array("i", accumulate(map(len, values), initial=0)))
    return pa.Array.from_buffers(
        pa.binary(), len(values), [None, ends, pa.py_buffer(b"".join(values))], 0
    )


def integer_array(values: Sequence[int], kind: pa.DataType, code: str) -> pa.Array:
    """Plain numbers as an Arrow array; ``code`` is their letter in :mod:`array`."""
    data = pa.py_buffer(array(code, values))
    return pa.Array.from_buffers(kind, len(values), [None, data], 0)


def valid_mask(array: pa.Array) -> Bools:
    """Which elements are not null."""
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    mask: Bools = array.is_valid().to_numpy(zero_copy_only=False)
    return mask


def binary_from_matrix(matrix: Matrix, valid: Bools | None = None) -> pa.Array:
    """Rows of bytes as a binary array, null where ``valid`` is false."""
    count, width = matrix.shape
    if count * width > OFFSET_MAX:
        raise LimitExceeded(f"{count} values of {width} bytes do not fit into one Arrow array")
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    data = pa.py_buffer(np.ascontiguousarray(matrix))
    array = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), data])
    if valid is None or valid.all():
        return array
    return pc.if_else(pa.array(valid), array, None)


def matrix_from_binary(array: pa.Array, width: int) -> tuple[Matrix, Bools]:
    """The elements of exactly ``width`` bytes as rows, zeros elsewhere; and which those are."""
    ends = offsets(array)
    fits: Bools = (np.diff(ends) == width) & valid_mask(array)
    content = array.buffers()[2]
    data = np.frombuffer(content, np.uint8) if content is not None else np.empty(0, np.uint8)
    if fits.all():
        return data[ends[0] : ends[-1]].reshape(len(array), width), fits
    matrix = np.zeros((len(array), width), np.uint8)
    matrix[fits] = data[ends[:-1][fits][:, None] + np.arange(width)]
    return matrix, fits


def gather(array: pa.Array, starts: Ints, lengths: Ints) -> pa.Array:
    """A part of each element of a binary array: ``lengths`` bytes from ``starts`` within it.

    ``starts`` and ``lengths`` must lie within the elements. The result has no nulls.
    """
    ends = np.zeros(len(array) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    base = offsets(array)[:-1].astype(np.int64) + starts
    positions = np.arange(int(ends[-1])) + np.repeat(base - ends[:-1], lengths)
    content = array.buffers()[2]
    data = np.frombuffer(content, np.uint8) if content is not None else np.empty(0, np.uint8)
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data[positions])]
    return pa.Array.from_buffers(pa.binary(), len(array), buffers)


def flatten(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One plain array: chunks joined, dictionaries and extension types resolved."""
    if not isinstance(array, pa.ChunkedArray):
        return _plain(array)
    if not array.num_chunks:
        return _plain(array.combine_chunks())
    chunks = [_plain(chunk) for chunk in array.chunks]  # dictionaries with nulls are not joined
    if len(chunks) == 1:
        return chunks[0]
    try:
        return pa.concat_arrays(chunks)
    except pa.ArrowInvalid as error:
        raise LimitExceeded(
            f"a column of {array.nbytes} bytes does not fit into one Arrow array"
        ) from error


_PLAIN_VIEWS = {pa.string_view(): pa.large_utf8(), pa.binary_view(): pa.large_binary()}
"""What Arrow can look up by code, for each type of which it cannot."""


def _plain(array: pa.Array) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if not pa.types.is_dictionary(array.type):
        return array
    values = array.dictionary
    if values.type in _PLAIN_VIEWS:
        values = values.cast(_PLAIN_VIEWS[values.type])
        array = pa.DictionaryArray.from_arrays(array.indices, values)
    return array.dictionary_decode()
