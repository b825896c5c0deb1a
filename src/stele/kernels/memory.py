"""Loads, stores and copies at raw addresses: what kernels are built from.

Nothing here checks bounds. Whoever makes an address from outside data validates it first, keeps
the owner of the buffer alive, and pads what wide loads may overrun.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.types.common import Buffer
from numba.extending import intrinsic

# Each intrinsic below is a pair: the Python body states the type, the nested function emits the
# instructions. Alignment is 1 throughout, because page bytes start wherever they start.


def _loader(bits: int, result: Any, *, big_endian: bool = False, unsigned: bool = False) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]
    def load(typingctx: Any, address: Any) -> Any:  # noqa: ARG001
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
            word = ir.IntType(bits)
            pointer = builder.inttoptr(args[0], word.as_pointer())
            value = builder.load(pointer, align=1)
            if big_endian:
                value = builder.bswap(value)
            if bits == 64:
                return value
            extend = builder.zext if unsigned else builder.sext
            return extend(value, ir.IntType(64))

        return result(types.int64), codegen

    return load


def _storer(bits: int) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]
    def store(typingctx: Any, address: Any, value: Any) -> Any:  # noqa: ARG001
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word = ir.IntType(bits)
            pointer = builder.inttoptr(args[0], word.as_pointer())
            value = context.cast(builder, args[1], signature.args[1], types.int64)
            if bits < 64:
                value = builder.trunc(value, word)
            builder.store(value, pointer, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, value), codegen

    return store


def _copier(emit: Any) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]
    def copy(typingctx: Any, target: Any, source: Any, length: Any) -> Any:  # noqa: ARG001
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
            byte_pointer = ir.IntType(8).as_pointer()
            target, source = (builder.inttoptr(args[i], byte_pointer) for i in (0, 1))
            emit(builder, target, source, args[2], 1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), codegen

    return copy


@intrinsic  # type: ignore[untyped-decorator]
def _address_of(typingctx: Any, buffer: Any) -> Any:  # noqa: ARG001
    if not isinstance(buffer, Buffer):
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        return builder.ptrtoint(array.data, ir.IntType(64))

    return types.int64(buffer), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _prefetch(typingctx: Any, address: Any) -> Any:  # noqa: ARG001
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        signature = ir.FunctionType(ir.VoidType(), [pointer, flag, flag, flag])
        function = cgutils.get_or_insert_function(builder.module, signature, "llvm.prefetch.p0")
        read, keep, data = ir.Constant(flag, 0), ir.Constant(flag, 3), ir.Constant(flag, 1)
        builder.call(function, [builder.inttoptr(args[0], pointer), read, keep, data])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


LINE_BYTES = 64
"""Memory comes in pieces of this size."""

# For the type checker every number of a kernel is an int, whatever its width and sign.
Number = int | np.integer[Any]
Word = Any
"""An unsigned number of 64 bits. Mixing it with signed ones makes numba compute in floats."""
Load = Callable[[Number], int]
Store = Callable[[Number, Number], None]
Copy = Callable[[Number, Number, Number], None]

load_i64: Load = _loader(64, types.int64)
load_i32: Load = _loader(32, types.int64)
load_i16: Load = _loader(16, types.int64)
load_i8: Load = _loader(8, types.int64)
load_u32: Load = _loader(32, types.int64, unsigned=True)
load_u8: Load = _loader(8, types.int64, unsigned=True)
load_u64: Load = _loader(64, types.uint64)
load_u64_big_endian: Load = _loader(64, types.uint64, big_endian=True)
load_u32_big_endian: Load = _loader(32, types.uint64, big_endian=True, unsigned=True)
load_u16_big_endian: Load = _loader(16, types.uint64, big_endian=True, unsigned=True)

store_i64: Store = _storer(64)
store_i32: Store = _storer(32)
store_i16: Store = _storer(16)
store_i8: Store = _storer(8)

copy_bytes: Copy = _copier(cgutils.raw_memcpy)
"""``copy_bytes(target, source, length)``: the two must not overlap."""

move_bytes: Copy = _copier(cgutils.raw_memmove)
"""``move_bytes(target, source, length)``: the two may overlap."""

address_of: Callable[[Any], int] = _address_of
"""Where the data of an array or of ``bytes`` lies. The caller keeps the object alive."""

prefetch: Callable[[Number], None] = _prefetch
"""Ask for the cache line at an address that will soon be read; any address is allowed."""
