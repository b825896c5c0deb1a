"""Copying runs of cells into new blocks: the only place where a merge moves data.

Column by column, because a run then touches one input and one output stream at a time, and each
run is one copy for each column. A column of variable length moves its bytes in one piece and
rewrites its offsets by a constant.

Offsets are 32-bit: when a column of the whole would not fit, the runs have to be cut into several
blocks, and :func:`measure_runs` says where.
"""

from __future__ import annotations

from stele.kernels.block import (
    FAMILY_CODES,
    OPS,
    QUALIFIER_BYTES,
    QUALIFIER_OFFSETS,
    ROW_BYTES,
    ROW_OFFSETS,
    TIMESTAMPS,
    TXNS,
    VALUE_BYTES,
    VALUE_OFFSETS,
    Ints,
)
from stele.kernels.jit import bulk, callee, inlined
from stele.kernels.memory import (
    LINE_BYTES,
    address_of,
    copy_bytes,
    load_i8,
    load_i16,
    load_i32,
    load_i64,
    prefetch,
    store_i8,
    store_i16,
    store_i32,
    store_i64,
)
from stele.kernels.runs import (
    QUALIFIER_SIZE,
    ROW_SIZE,
    RUN_BYTES,
    VALUE_SIZE,
    Runs,
    add_totals,
    span,
)
from stele.kernels.sources import FAMILY_MAP, SAME_CODES, SOURCE_WIDTH, SourceMatrix

COLUMN_BYTES_MAX = (1 << 31) - 1
"""What 32-bit offsets can reach."""

RUNS_AHEAD = 8
"""So many runs before its turn the memory of a run is asked for: where runs are short and far from
each other, waiting for memory is most of the work."""

ASKED_BYTES = 256
"""How much of a run is asked for: the processor itself fetches what follows."""

SHORT_COPY_MAX = 128
"""Up to here copying word by word is quicker than calling ``memcpy``."""


@inlined
def copy_run(target: int, source: int, length: int) -> None:
    """Copy bytes; short pieces word by word, the last word overlapping the one before."""
    if length > SHORT_COPY_MAX or length < 8:
        if length > 0:
            copy_bytes(target, source, length)
        return
    done = 0
    while done + 8 <= length:
        store_i64(target + done, load_i64(source + done))
        done += 8
    store_i64(target + length - 8, load_i64(source + length - 8))


@callee
def _gather_words(matrix: int, runs: int, count: int, column: int, target: int) -> None:
    """A column of int64."""
    for number in range(count):
        run = runs + RUN_BYTES * number
        length = load_i32(run + 8)
        source = load_i64(matrix + 8 * (SOURCE_WIDTH * load_i32(run) + column))
        source += 8 * load_i32(run + 4)
        if length > SHORT_COPY_MAX // 8:
            copy_bytes(target, source, 8 * length)
        else:
            for index in range(length):
                store_i64(target + 8 * index, load_i64(source + 8 * index))
        target += 8 * length


@callee
def _gather_families(matrix: int, runs: int, count: int, target: int) -> None:
    """Family codes, translated to the common ones."""
    for number in range(count):
        run = runs + RUN_BYTES * number
        length = load_i32(run + 8)
        source = matrix + 8 * SOURCE_WIDTH * load_i32(run)
        codes = load_i64(source + 8 * FAMILY_CODES) + 2 * load_i32(run + 4)
        if load_i64(source + 8 * SAME_CODES) != 0:
            if length > SHORT_COPY_MAX // 8:
                copy_bytes(target, codes, 2 * length)
            else:
                for index in range(length):
                    store_i16(target + 2 * index, load_i16(codes + 2 * index))
        else:
            entries = load_i64(source + 8 * FAMILY_MAP)
            for index in range(length):
                entry = load_i16(entries + 2 * load_i16(codes + 2 * index))
                store_i16(target + 2 * index, entry >> 1)
        target += 2 * length


@callee
def _gather_ops(matrix: int, runs: int, count: int, target: int) -> None:
    for number in range(count):
        run = runs + RUN_BYTES * number
        length = load_i32(run + 8)
        source = load_i64(matrix + 8 * (SOURCE_WIDTH * load_i32(run) + OPS)) + load_i32(run + 4)
        if length > SHORT_COPY_MAX // 8:
            copy_bytes(target, source, length)
        else:
            for index in range(length):
                store_i8(target + index, load_i8(source + index))
        target += length


@inlined
def _ask_for_run(matrix: int, run: int, column: int, bytes_column: int) -> None:
    """Ask for the first bytes of a run in a column of variable length."""
    source = matrix + 8 * SOURCE_WIDTH * load_i32(run)
    offsets = load_i64(source + 8 * column) + 4 * load_i32(run + 4)
    begin = load_i64(source + 8 * bytes_column) + load_i32(offsets)
    for ahead in range(0, ASKED_BYTES, LINE_BYTES):
        prefetch(begin + ahead)


@callee
def _gather_binary(
    matrix: int, runs: int, count: int, column: int, bytes_column: int, offsets: int, data: int
) -> None:
    """A column of variable length: its bytes to ``data``, its offsets to ``offsets``."""
    reached = 0
    for number in range(count):
        run = runs + RUN_BYTES * number
        if number + RUNS_AHEAD < count:
            _ask_for_run(matrix, run + RUN_BYTES * RUNS_AHEAD, column, bytes_column)
        start, length = load_i32(run + 4), load_i32(run + 8)
        source = matrix + 8 * SOURCE_WIDTH * load_i32(run)
        own = load_i64(source + 8 * column) + 4 * start
        first = load_i32(own)
        size = load_i32(own + 4 * length) - first
        copy_run(data + reached, load_i64(source + 8 * bytes_column) + first, size)
        shift = reached - first
        for index in range(length):
            store_i32(offsets + 4 * index, load_i32(own + 4 * index) + shift)
        offsets += 4 * length
        reached += size
    store_i32(offsets, reached)


@bulk
def gather_runs(
    matrix_array: SourceMatrix, runs_array: Runs, first: int, stop: int, out: Ints
) -> None:
    """Copy the runs ``[first, stop)`` to the addresses of a descriptor."""
    matrix, runs, count = address_of(matrix_array), address_of(runs_array), stop - first
    runs += RUN_BYTES * first
    _gather_binary(matrix, runs, count, ROW_OFFSETS, ROW_BYTES, out[ROW_OFFSETS], out[ROW_BYTES])
    _gather_families(matrix, runs, count, out[FAMILY_CODES])
    _gather_binary(
        matrix,
        runs,
        count,
        QUALIFIER_OFFSETS,
        QUALIFIER_BYTES,
        out[QUALIFIER_OFFSETS],
        out[QUALIFIER_BYTES],
    )
    _gather_words(matrix, runs, count, TIMESTAMPS, out[TIMESTAMPS])
    _gather_words(matrix, runs, count, TXNS, out[TXNS])
    _gather_ops(matrix, runs, count, out[OPS])
    _gather_binary(
        matrix, runs, count, VALUE_OFFSETS, VALUE_BYTES, out[VALUE_OFFSETS], out[VALUE_BYTES]
    )


@bulk
def measure_runs(
    matrix: SourceMatrix, runs: Runs, first: int, count: int, bytes_max: int, totals: Ints
) -> int:
    """Total the runs from ``first`` on while each column stays within its limit.

    Returns where the next block has to begin. One run always fits: it comes from one block.
    """
    at, run, total = address_of(matrix), address_of(runs), address_of(totals)
    totals[:] = 0
    for number in range(first, count):
        source = at + 8 * SOURCE_WIDTH * load_i32(run + RUN_BYTES * number)
        start = load_i32(run + RUN_BYTES * number + 4)
        length = load_i32(run + RUN_BYTES * number + 8)
        if number > first:
            for column, reached in (
                (ROW_OFFSETS, ROW_SIZE),
                (QUALIFIER_OFFSETS, QUALIFIER_SIZE),
                (VALUE_OFFSETS, VALUE_SIZE),
            ):
                if load_i64(total + reached) + span(source, column, start, length) > bytes_max:
                    return number
        add_totals(at, run + RUN_BYTES * number, 1, total)
    return count
