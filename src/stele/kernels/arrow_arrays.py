"""Arrow arrays as kernels see them: the structs of the C data interface.

Asking pyarrow for the buffers of six columns makes two dozen objects of Python. Exporting the batch
makes none: Arrow fills in one struct, which leads to those of the columns, and a kernel follows the
addresses. Nothing is copied, and nothing may be kept: the export is given back when its ``with``
ends, and what it leads to belongs to the batch.

    ArrowArray    length, nulls (-1: not counted), offset, number of buffers, number of children,
                  address of the addresses of the buffers, of the children, of the dictionary,
                  how to release it, whose it is                                10 words of 64 bits
"""

from __future__ import annotations

import ctypes

import pyarrow as pa

from stele.kernels.jit import callee, inlined
from stele.kernels.memory import load_i64, load_u8

ARRAY_WORDS = 10

_LENGTH = 0
_NULLS = 8
_OFFSET = 16
_CHILD_COUNT = 32
_BUFFERS = 40
_CHILDREN = 48
_DICTIONARY = 56
_RELEASE_WORD = 8

_Release = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
"""Keeps the GIL: giving it up would take longer than what is called."""


class Exported:
    """A batch at the beginning of ``words``, while a ``with`` lasts."""

    __slots__ = ("_batch", "_words")

    def __init__(self, batch: pa.RecordBatch, words: ctypes.Array[ctypes.c_int64]):
        self._batch = batch
        self._words = words

    def __enter__(self) -> int:
        """Where the words are."""
        address = ctypes.addressof(self._words)
        self._batch._export_to_c(address)  # noqa: SLF001 (how pyarrow documents it)
        return address

    def __exit__(self, *_: object) -> None:
        _Release(self._words[_RELEASE_WORD])(ctypes.addressof(self._words))


@inlined
def array_length(array: int) -> int:
    """How many values an array has."""
    return load_i64(array + _LENGTH)


@inlined
def array_offset(array: int) -> int:
    """Which entry of its buffers an array begins with."""
    return load_i64(array + _OFFSET)


@inlined
def child_count(array: int) -> int:
    """How many columns a batch has."""
    return load_i64(array + _CHILD_COUNT)


@inlined
def child(array: int, index: int) -> int:
    """A column of a batch."""
    return load_i64(load_i64(array + _CHILDREN) + 8 * index)


@inlined
def dictionary(array: int) -> int:
    """The dictionary of a column."""
    return load_i64(array + _DICTIONARY)


@inlined
def entries(array: int, width: int) -> int:
    """Where an array's own values, or offsets, of a fixed width begin."""
    return load_i64(load_i64(array + _BUFFERS) + 8) + width * array_offset(array)


@inlined
def data(array: int) -> int:
    """What the offsets of an array of bytes count from."""
    return load_i64(load_i64(array + _BUFFERS) + 16)


@callee
def has_nulls(array: int) -> bool:
    """Whether a value is null; looks at all of them where Arrow has not counted."""
    nulls, bits = load_i64(array + _NULLS), load_i64(load_i64(array + _BUFFERS))
    if nulls == 0 or bits == 0:
        return False
    if nulls > 0:
        return True
    index = array_offset(array)
    end = index + array_length(array)
    while index < end:
        byte = load_u8(bits + (index >> 3))
        if index & 7 == 0 and end - index >= 8:
            if byte != 0xFF:
                return True
            index += 8
        elif (byte >> (index & 7)) & 1 == 0:
            return True
        else:
            index += 1
    return False
