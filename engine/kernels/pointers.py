"""Addresses as typed pointers: `f32(address)[i]` reads and writes like an array, without bounds.

Kernels take plain int64 addresses, because that is what an arena of slots, a KV cache and a workspace have in common;
these intrinsics say what lies there.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic


def pointer_to(pointee: Any) -> Any:
    """Return the intrinsic that makes an address a pointer to a type."""
    pointer = types.CPointer(pointee)

    @intrinsic
    def cast(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(pointer))

        return pointer(types.int64), codegen

    return cast


f32 = pointer_to(types.float32)
i64 = pointer_to(types.int64)
i32 = pointer_to(types.int32)
u32 = pointer_to(types.uint32)
u16 = pointer_to(types.uint16)
u8 = pointer_to(types.uint8)
