"""Loads and stores at raw addresses, for jitted code.

`load_f32(address)` and its like take an int64 byte address of any alignment (tensors in a safetensors file
lie where the header ends) and check nothing. Small integers are widened to int64 by loads and truncated by
stores.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

Codegen = tuple[Any, Any]


def _load(value: Any, stored: ir.Type, widen: str = "") -> Codegen:
    """Signature and body of a load of `stored`; `widen` ("zext" or "sext") extends it to int64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], stored.as_pointer())
        loaded = builder.load(pointer, align=1)
        return getattr(builder, widen)(loaded, ir.IntType(64)) if widen else loaded

    return value(types.int64), codegen


def _store(value: Any, stored: ir.Type, narrow: bool = False) -> Codegen:
    """Signature and body of a store of `stored`; `narrow` truncates an int64 to it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], stored.as_pointer())
        builder.store(builder.trunc(args[1], stored) if narrow else args[1], pointer, align=1)
        return context.get_dummy_value()

    return types.void(types.int64, value), codegen


@intrinsic
def load_f32(typingctx: Any, address: Any) -> Codegen:
    """The float32 at `address`."""
    return _load(types.float32, ir.FloatType())


@intrinsic
def load_i32(typingctx: Any, address: Any) -> Codegen:
    """The int32 at `address`, as int64."""
    return _load(types.int64, ir.IntType(32), "sext")


@intrinsic
def load_i64(typingctx: Any, address: Any) -> Codegen:
    """The int64 at `address`."""
    return _load(types.int64, ir.IntType(64))


@intrinsic
def load_u8(typingctx: Any, address: Any) -> Codegen:
    """The byte at `address`, as int64 0..255."""
    return _load(types.int64, ir.IntType(8), "zext")


@intrinsic
def load_u16(typingctx: Any, address: Any) -> Codegen:
    """The 16-bit word at `address`, as int64 0..65535."""
    return _load(types.int64, ir.IntType(16), "zext")


@intrinsic
def store_f32(typingctx: Any, address: Any, value: Any) -> Codegen:
    """Write a float32."""
    return _store(types.float32, ir.FloatType())


@intrinsic
def store_i32(typingctx: Any, address: Any, value: Any) -> Codegen:
    """Write the low 32 bits of an int64."""
    return _store(types.int64, ir.IntType(32), narrow=True)


@intrinsic
def store_i64(typingctx: Any, address: Any, value: Any) -> Codegen:
    """Write an int64."""
    return _store(types.int64, ir.IntType(64))


@intrinsic
def store_u8(typingctx: Any, address: Any, value: Any) -> Codegen:
    """Write the low byte of an int64."""
    return _store(types.int64, ir.IntType(8), narrow=True)


@intrinsic
def store_u16(typingctx: Any, address: Any, value: Any) -> Codegen:
    """Write the low 16 bits of an int64."""
    return _store(types.int64, ir.IntType(16), narrow=True)
