"""Kernels that are compiled once and called by name.

numba links the code of a jitted callee into every caller and generates machine code for it again each time. A large
kernel is therefore compiled as a C function, its address is registered under a symbol, and callers refer to the
symbol alone.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

import llvmlite.binding as llvm
from numba import cfunc, types
from numba.core import sigutils
from numba.extending import intrinsic

_compiled: list[Any] = []
"""Keeps the machine code behind the symbols alive."""


def emitted(signature: str, written: Callable[[Any], Any]) -> Any:
    """An intrinsic of this numba signature that calls an emitted function.

    written: returns the function of an LLVM module (`ir.function`), writing it there on first use.
    """
    arguments, result = sigutils.normalize_signature(signature)

    def call(typingctx: Any, *values: Any) -> Any:
        def codegen(context: Any, builder: Any, typed: Any, args: Any) -> Any:
            value = builder.call(written(builder.module), args)
            return context.get_dummy_value() if result == types.void else value

        return result(*arguments), codegen

    names = ["typingctx", *(f"argument{i}" for i in range(len(arguments)))]
    parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # numba wants to see each of them
    return intrinsic(call)


def kernel(signature: str) -> Callable[[Callable[..., Any]], Any]:
    """Compile the decorated function (or take it from numba's cache) and return a function for jitted callers.

    signature: numba's, as in "void(int64, int64)". The result cannot be called from plain Python.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        compiled = cfunc(signature, cache=True, error_model="numpy")(function)
        name = "colibri_" + function.__name__.lstrip("_")
        llvm.add_symbol(name, compiled.address)
        _compiled.append(compiled)
        arguments, result = sigutils.normalize_signature(signature)
        return types.ExternalFunction(name, result(*arguments))

    return decorate
