"""Plain requests: batches from outside that are nothing but legal puts in order.

Nearly all large requests are. A kernel follows the structs of the exported batch to its buffers and
another looks at every cell once: together they say that nothing is wrong, or that somebody else
should look. The checks of the model then know what to say about it.

Of ``RecordBatch.validate(full=True)`` only the part is left to Arrow that needs the sizes of the
buffers: they are as long as the first and last offsets say. That offsets rise in between, and that
family codes are those of a name, is checked here, before anything follows them.
"""

from __future__ import annotations

import ctypes
from ctypes import string_at
from functools import lru_cache
from itertools import compress, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stele.errors import SteleError
from stele.kernels.arrow_arrays import (
    ARRAY_WORDS,
    Exported,
    array_length,
    array_offset,
    child,
    child_count,
    data,
    dictionary,
    entries,
    has_nulls,
)
from stele.kernels.block import (
    COUNT,
    DESCRIPTOR_WIDTH,
    FAMILY_CODES,
    FAMILY_LISTS_KEPT,
    OPS,
    QUALIFIER_OFFSETS,
    ROW_OFFSETS,
    TIMESTAMPS,
    VALUE_OFFSETS,
    Block,
    Descriptor,
    Families,
)
from stele.kernels.jit import bulk, callee, quick
from stele.kernels.memory import address_of, load_i16, load_i32, load_i64, store_i16, store_i64
from stele.kernels.requests import QUICK_CELLS_MAX, are_plain_puts
from stele.model.cells import MUTATIONS
from stele.model.limits import BATCH_CELLS_MAX, FAMILIES_MAX, FAMILY_BYTES_MAX
from stele.model.validation import check_dictionary, has_text_names

NAME_BYTES_KEPT = 4 * 1024
"""Longer dictionaries are read anew each time, lest a few strange ones fill the memory."""

_COLUMNS = len(MUTATIONS)
_NAME_BYTES_MAX = FAMILIES_MAX * FAMILY_BYTES_MAX

# What a survey notes behind the exported struct: where the names of the dictionary are.
_NAME_COUNT = ARRAY_WORDS
_NAME_OFFSETS = _NAME_COUNT + 1
_NAME_BYTES = _NAME_OFFSETS + 1
_NAME_BYTES_SIZE = _NAME_BYTES + 1
_Words = ctypes.c_int64 * (_NAME_BYTES_SIZE + 1)

Codes = npt.NDArray[np.int16]
Marks = npt.NDArray[np.uint8]


class PlainRequest(NamedTuple):
    """A request without fault, over the memory of its batch."""

    block: Block
    families: list[str]
    """Those that cells are of."""


class _Names(NamedTuple):
    """A dictionary's names in order, and which of them each of its codes is."""

    families: Families
    translation: Codes
    are_in_order: bool


@callee
def _survey_column(batch: int, column: int, width: int, place: int) -> bool:
    """Note where the numbers of a column, or its offsets, are; whether it is whole."""
    array = child(batch, column)
    store_i64(place, entries(array, width))
    return array_length(array) == array_length(batch) and not has_nulls(array)


@callee
def _survey_bytes(batch: int, column: int, place: int) -> bool:
    """Note where offsets and bytes of a column are; whether it is whole."""
    store_i64(place + 8, data(child(batch, column)))
    return _survey_column(batch, column, 4, place)


@callee
def _survey_names(batch: int) -> bool:
    """Note where the dictionary of the families is; whether it can be read."""
    names = dictionary(child(batch, 1))
    count = array_length(names)
    if count <= 0 or count > FAMILIES_MAX or has_nulls(names):
        return False
    offsets = entries(names, 4)
    first = load_i32(offsets)
    size = load_i32(offsets + 4 * count) - first
    if not _do_rise(offsets, count) or size > _NAME_BYTES_MAX:
        return False
    store_i64(batch + 8 * _NAME_COUNT, count)
    store_i64(batch + 8 * _NAME_OFFSETS, offsets)
    store_i64(batch + 8 * _NAME_BYTES, data(names) + first)
    store_i64(batch + 8 * _NAME_BYTES_SIZE, size)
    return True


@quick
def _survey(batch: int, descriptor: Descriptor) -> bool:
    """Describe an exported ``MUTATIONS`` batch; False if nobody should look at its cells."""
    block, count = address_of(descriptor), array_length(batch)
    if count <= 0 or count > BATCH_CELLS_MAX or array_offset(batch) != 0:
        return False
    store_i64(block + 8 * COUNT, count)
    return (
        child_count(batch) == _COLUMNS
        and _survey_bytes(batch, 0, block + 8 * ROW_OFFSETS)
        and _survey_column(batch, 1, 2, block + 8 * FAMILY_CODES)
        and _survey_bytes(batch, 2, block + 8 * QUALIFIER_OFFSETS)
        and _survey_column(batch, 3, 8, block + 8 * TIMESTAMPS)
        and _survey_column(batch, 4, 1, block + 8 * OPS)
        and _survey_bytes(batch, 5, block + 8 * VALUE_OFFSETS)
        and _survey_names(batch)
    )


@callee
def _do_rise(offsets: int, count: int) -> bool:
    """Whether offsets are not below zero and never fall."""
    falls = load_i32(offsets) < 0
    for index in range(count):
        falls |= load_i32(offsets + 4 * index) > load_i32(offsets + 4 * index + 4)
    return not falls


@callee
def _translate(source: int, count: int, translation: int, names: int, target: int) -> bool:
    """Give codes the order of their names; whether all are codes of a name."""
    for index in range(count):
        code = load_i16(source + 2 * index)
        if code < 0 or code >= names:
            return False
        store_i16(target + 2 * index, load_i16(translation + 2 * code))
    return True


@callee
def _is_plain(block: int, translation: int, names: int, target: int, marks: int) -> bool:
    count, codes = load_i64(block + 8 * COUNT), load_i64(block + 8 * FAMILY_CODES)
    for column in (ROW_OFFSETS, QUALIFIER_OFFSETS, VALUE_OFFSETS):
        if not _do_rise(load_i64(block + 8 * column), count):
            return False
    if target != 0:
        if not _translate(codes, count, translation, names, target):
            return False
        store_i64(block + 8 * FAMILY_CODES, target)
    return are_plain_puts(block, marks, names)


@quick
def _is_plain_quick(descriptor: Descriptor, translation: Codes, target: int, used: Marks) -> bool:
    block, names = address_of(descriptor), len(translation)
    return _is_plain(block, address_of(translation), names, target, address_of(used))


@bulk
def _is_plain_bulk(descriptor: Descriptor, translation: Codes, target: int, used: Marks) -> bool:
    block, names = address_of(descriptor), len(translation)
    return _is_plain(block, address_of(translation), names, target, address_of(used))


def plain_request(batch: pa.RecordBatch) -> PlainRequest | None:
    """A batch of legal puts in order as a block without txns; ``None`` if it is anything else.

    Whether a table has its families is not looked at, nor are hidden ones told from others.
    """
    if not batch.schema.equals(MUTATIONS) or not has_text_names(batch):
        return None
    try:
        batch.validate()
    except pa.ArrowInvalid:
        return None
    words, descriptor = _Words(), np.zeros(DESCRIPTOR_WIDTH, np.int64)
    with Exported(batch, words) as address:
        names = _names(words) if _survey(address, descriptor) else None
    return None if names is None else _plain(batch, descriptor, names)


def _plain(batch: pa.RecordBatch, descriptor: Descriptor, names: _Names) -> PlainRequest | None:
    count = int(descriptor[COUNT])
    owner, target = batch, 0
    if not names.are_in_order:
        codes = pa.allocate_buffer(2 * count)
        owner, target = (batch, codes), codes.address
    used = np.zeros(len(names.families), np.uint8)
    is_plain = _is_plain_quick if count <= QUICK_CELLS_MAX else _is_plain_bulk
    if not is_plain(descriptor, names.translation, target, used):
        return None
    families = list(compress(names.families, used.tolist()))
    return PlainRequest(Block(descriptor, names.families, owner), families)


def _names(words: ctypes.Array[ctypes.c_int64]) -> _Names | None:
    size = words[_NAME_BYTES_SIZE]
    offsets = string_at(words[_NAME_OFFSETS], 4 * (words[_NAME_COUNT] + 1))
    text = string_at(words[_NAME_BYTES], size)
    return _known_names(offsets, text) if size <= NAME_BYTES_KEPT else _read_names(offsets, text)


def _read_names(offsets: bytes, text: bytes) -> _Names | None:
    """``None`` if the model has something against them; it says what when it is asked."""
    ends = np.frombuffer(offsets, np.int32)
    try:
        names = [text[a:b].decode() for a, b in pairwise((ends - ends[0]).tolist())]
        check_dictionary(pa.array(names, pa.utf8()))
    except (UnicodeDecodeError, SteleError):
        return None
    families = tuple(sorted(names))
    position = {name: code for code, name in enumerate(families)}
    translation = np.array([position[name] for name in names], np.int16)
    return _Names(families, translation, list(families) == names)


_known_names = lru_cache(FAMILY_LISTS_KEPT)(_read_names)
