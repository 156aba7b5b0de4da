"""Writing LLVM IR: vectors, loops and functions, for kernels that the compiler would not vectorise by itself.

A kernel is an internal function of plain int64 arguments, written by an `Emitter`. No fast-math flags are set
anywhere: what is emitted is the order in which numbers are added, on every processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from llvmlite import ir

from .isa import Target

BIT = ir.IntType(1)
BYTE = ir.IntType(8)
WORD = ir.IntType(32)
LONG = ir.IntType(64)
HALF = ir.HalfType()
FLOAT = ir.FloatType()
VOID = ir.VoidType()

Value = Any
"""An llvmlite value."""

ROUND = 12582912.0
"""1.5 * 2**23: adding it to |x| < 2**22 leaves the nearest integer (ties to even) in the low mantissa bits."""

ROUND_BITS = 0x4B400000


def vector(element: Any, lanes: int) -> Any:
    """<lanes x element>, or the scalar itself for one lane, so that the same code writes bodies and tails."""
    return element if lanes == 1 else ir.VectorType(element, lanes)


def lanes_of(value: Value) -> int:
    """Lanes of a vector value, 1 for a scalar."""
    return value.type.count if isinstance(value.type, ir.VectorType) else 1


def mask(lanes: Iterable[int]) -> Value:
    """The lanes that a shuffle takes."""
    chosen = [ir.Constant(WORD, lane) for lane in lanes]
    return ir.Constant(vector(WORD, len(chosen)), chosen)


class Emitter:
    """An IRBuilder `b` with the operations kernels are made of."""

    def __init__(self, builder: ir.IRBuilder, target: Target) -> None:
        self.b = builder
        self.target = target

    def long(self, value: int) -> Value:
        """An int64 constant."""
        return ir.Constant(LONG, value)

    def offset(self, base: Value, index: Value | int, scale: int = 1) -> Value:
        """The address base + index * scale."""
        if isinstance(index, int):
            return self.b.add(base, self.long(index * scale)) if index * scale else base
        return self.b.add(base, index if scale == 1 else self.b.mul(index, self.long(scale)))

    def load(self, kind: Any, address: Value) -> Value:
        """A value of type `kind` at an address of any alignment."""
        return self.b.load(self.b.inttoptr(address, kind.as_pointer()), align=1)

    def store(self, value: Value, address: Value) -> None:
        """Write `value` at an address of any alignment."""
        self.b.store(value, self.b.inttoptr(address, value.type.as_pointer()), align=1)

    def constant(self, kind: Any, value: float) -> Value:
        """A scalar, or a vector with `value` in every lane."""
        if isinstance(kind, ir.VectorType):
            return ir.Constant(kind, [ir.Constant(kind.element, value)] * kind.count)
        return ir.Constant(kind, value)

    def room(self, floats: int) -> Value:
        """The address of float32[floats] on the stack, a multiple of 64, for as long as the function runs; asked for
        outside of loops."""
        place = self.b.alloca(ir.ArrayType(FLOAT, floats))
        place.align = 64
        return self.b.ptrtoint(place, LONG)

    def copy(self, source: Value, target: Value, size: int) -> None:
        """Copy a few bytes."""
        at = 0
        while at < size:
            lanes = next(lanes for lanes in (16, 8, 4, 2, 1) if lanes <= size - at)
            self.store(self.load(vector(BYTE, lanes), self.offset(source, at)), self.offset(target, at))
            at += lanes

    def splat(self, value: Value, lanes: int) -> Value:
        """`value` in every lane."""
        if lanes == 1:
            return value
        kind = vector(value.type, lanes)
        first = self.b.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(WORD, 0))
        return self.pick(first, [0] * lanes)

    def pick(self, value: Value, lanes: Sequence[int]) -> Value:
        """The named lanes of a vector, as a vector."""
        return self.b.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), mask(lanes))

    def call(self, name: str, kind: Any, arguments: Sequence[Value]) -> Value:
        """Call the LLVM intrinsic `name`, declaring it on first use."""
        module = self.b.module
        if name in module.globals:
            function = module.globals[name]
        else:
            signature = ir.FunctionType(kind, [argument.type for argument in arguments])
            function = ir.Function(module, signature, name)
        return self.b.call(function, arguments)

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        """x * y + z, fused where the processor can, else rounded twice."""
        if not self.target.fma:
            return self.b.fadd(self.b.fmul(x, y), z)
        suffix = f"v{lanes_of(x)}f32" if lanes_of(x) > 1 else "f32"
        return self.call(f"llvm.fma.{suffix}", x.type, [x, y, z])

    def half_to_float(self, bits: Value) -> Value:
        """float32 from the bits of float16, by instruction or by integer operations; exact, subnormals too."""
        lanes = lanes_of(bits)
        kind, word = vector(FLOAT, lanes), vector(WORD, lanes)
        if self.target.f16:
            return self.b.fpext(self.b.bitcast(bits, vector(HALF, lanes)), kind)
        wide = self.b.zext(bits, word)
        magnitude = self.b.shl(self.b.and_(wide, self.constant(word, 0x7FFF)), self.constant(word, 13))
        sign = self.b.shl(self.b.and_(wide, self.constant(word, 0x8000)), self.constant(word, 16))
        # Shifted into place the exponent is 112 too small, for subnormals as well; a product with 2**112 is exact.
        scaled = self.b.fmul(self.b.bitcast(magnitude, kind), self.constant(kind, 2.0**112))
        special = self.b.icmp_unsigned(">=", magnitude, self.constant(word, 0x7C00 << 13))
        infinite = self.b.or_(magnitude, self.constant(word, 0x7F800000))
        value = self.b.select(special, infinite, self.b.bitcast(scaled, word))
        return self.b.bitcast(self.b.or_(value, sign), kind)

    def sum_lanes(self, value: Value) -> Value:
        """The sum of the lanes of a float vector: upper half onto lower half until one is left."""
        lanes = lanes_of(value)
        if lanes == 1:
            return value
        while lanes > 2:
            lanes //= 2
            value = self.b.fadd(self.pick(value, range(lanes)), self.pick(value, range(lanes, 2 * lanes)))
        first, second = (self.b.extract_element(value, ir.Constant(WORD, lane)) for lane in (0, 1))
        return self.b.fadd(first, second)

    def prefetch(self, address: Value) -> None:
        """Ask for the cache line at `address`, which need not be mapped.

        Only as far as the second-level cache: the first has few lines on their way at a time, and loads need them.
        Asked into both, weights come a fifth slower.
        """
        pointer = self.b.inttoptr(address, BYTE.as_pointer())
        flags = [ir.Constant(WORD, flag) for flag in (0, 2, 1)]  # to read, into the second-level cache, data
        name = "llvm.prefetch.p0i8"  # the spelling of older LLVM, which newer ones upgrade while parsing
        if name not in self.b.module.globals:
            kinds = [BYTE.as_pointer(), WORD, WORD, WORD]
            ir.Function(self.b.module, ir.FunctionType(VOID, kinds), name)
        self.b.call(self.b.module.globals[name], [pointer, *flags])

    def minimum(self, x: Value, limit: Value) -> Value:
        """The smaller of two int64."""
        return self.b.select(self.b.icmp_signed("<", x, limit), x, limit)

    def loop(
        self,
        start: Value,
        stop: Value,
        step: int,
        carried: Sequence[Value],
        body: Callable[[Value, list[Value]], Sequence[Value]],
    ) -> list[Value]:
        """for i in range(start, stop, step): carried = body(i, carried). Returns what is carried out."""
        before = self.b.block
        head = self.b.append_basic_block("head")
        inside = self.b.append_basic_block("body")
        after = self.b.append_basic_block("after")
        self.b.branch(head)
        self.b.position_at_end(head)
        index = self.b.phi(LONG)
        index.add_incoming(start, before)
        phis = [self.b.phi(value.type) for value in carried]
        for phi, value in zip(phis, carried, strict=True):
            phi.add_incoming(value, before)
        self.b.cbranch(self.b.icmp_signed("<", index, stop), inside, after)
        self.b.position_at_end(inside)
        results = body(index, list(phis))
        end = self.b.block
        index.add_incoming(self.b.add(index, self.long(step)), end)
        for phi, value in zip(phis, results, strict=True):
            phi.add_incoming(value, end)
        self.b.branch(head)
        self.b.position_at_end(after)
        return list(phis)


def function(
    module: ir.Module,
    target: Target,
    name: str,
    arguments: int | Sequence[Any],
    result: Any,
    write: Callable[..., Value | None],
) -> Any:
    """The internal function `name`, written on first use by `write(emitter, *arguments)`.

    The name must be none of the C library's: other modules that call that would find this one.

    arguments: their types, or how many int64 there are. `write` returns the value to return, None for a void function.
    """
    if name in module.globals:
        return module.globals[name]
    kinds = [LONG] * arguments if isinstance(arguments, int) else arguments
    written = ir.Function(module, ir.FunctionType(result, kinds), name)
    written.linkage = "internal"
    written.attributes.add("noinline")
    written.attributes.add("nounwind")
    builder = ir.IRBuilder(written.append_basic_block("entry"))
    value = write(Emitter(builder, target), *written.args)
    if value is None:
        builder.ret_void()
    else:
        builder.ret(value)
    return written
