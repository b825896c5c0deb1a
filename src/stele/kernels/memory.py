"""Loads, stores and copies at raw addresses: what kernels are built from.

Nothing here checks bounds. Whoever makes an address from outside data validates it first, keeps
the owner of the buffer alive, and pads what wide loads may overrun.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
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


load_i64 = _loader(64, types.int64)
load_i32 = _loader(32, types.int64)
load_i16 = _loader(16, types.int64)
load_i8 = _loader(8, types.int64)
load_u32 = _loader(32, types.int64, unsigned=True)
load_u8 = _loader(8, types.int64, unsigned=True)
load_u64 = _loader(64, types.uint64)
load_u64_big_endian = _loader(64, types.uint64, big_endian=True)

store_i64 = _storer(64)
store_i32 = _storer(32)
store_i16 = _storer(16)
store_i8 = _storer(8)


@intrinsic  # type: ignore[untyped-decorator]
def copy_bytes(typingctx: Any, target: Any, source: Any, length: Any) -> Any:  # noqa: ARG001
    """``memcpy(target, source, length)``; the two must not overlap."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        byte_pointer = ir.IntType(8).as_pointer()
        cgutils.raw_memcpy(
            builder,
            builder.inttoptr(args[0], byte_pointer),
            builder.inttoptr(args[1], byte_pointer),
            args[2],
            1,
        )
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen
