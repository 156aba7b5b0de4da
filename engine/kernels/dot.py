"""The 4-way integer dot product, for every instruction set.

A step covers 4 columns. Weights arrive as unsigned bytes (stored value = weight + offset), `rows` x 4 of them to a
vector; activations as signed bytes in -127..127. `group_dots` adds up the 8 steps of a group of 32 columns for
several positions at once: integers, so every instruction set gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from .formats import Q8_SUM8, Q8_SUM128
from .ir import BYTE, WORD, Emitter, Value, vector

STEPS = 8
"""Steps of 4 columns in a group of 32."""

SHORT = ir.IntType(16)

Weights = Callable[[int], Value]
"""step -> the stored bytes, <rows * 4 x i8>; asked in ascending order."""

Group = tuple[Weights, Sequence[Value]]
"""A group of 32 columns: its weights, and the address of the q8 group of each position."""


def group_dots(e: Emitter, groups: Sequence[Group], offset: int, rows: int) -> list[list[Value]]:
    """sum over 32 columns of (stored - offset) * q, as <rows x i32>, for each group and position.

    offset: 8 or 128, what was added to the weights.
    """
    if e.target.isa.startswith("vnni"):  # the independent sums of all groups at once hide the latency
        return _vnni(e, groups, offset, rows)
    if e.target.isa == "avx2":
        one = _avx2_signed if offset == 128 else _avx2_small
    else:
        one = _neon if e.target.isa == "neon" else _generic
    return [one(e, weights, offset, x, rows) for weights, x in groups]


def _bias(e: Emitter, offset: int, x: Value, rows: int) -> Value:
    """-offset * sum(q): an accumulator that starts there ends without the offset."""
    where = Q8_SUM8 if offset == 8 else Q8_SUM128
    return e.splat(e.load(WORD, e.offset(x, where)), rows)


def _step_of(e: Emitter, x: Value, step: int, rows: int) -> Value:
    """The 4 activations of a step repeated for every row, <rows x i32>."""
    return e.splat(e.load(WORD, e.offset(x, 4 * step)), rows)


def _vnni(e: Emitter, groups: Sequence[Group], offset: int, rows: int) -> list[list[Value]]:
    words = vector(WORD, rows)
    name = f"llvm.x86.avx512.vpdpbusd.{rows * 32}"
    sums = [[_bias(e, offset, address, rows) for address in x] for _, x in groups]
    for step in range(STEPS):
        for group, (weights, x) in enumerate(groups):
            stored = e.b.bitcast(weights(step), words)
            for j, address in enumerate(x):
                # Operands of 32-bit lanes: the spelling of older LLVM, which newer ones upgrade while parsing.
                arguments = [sums[group][j], stored, _step_of(e, address, step, rows)]
                sums[group][j] = e.call(name, words, arguments)
    return sums


def _pair_sums(e: Emitter, unsigned: Value, signed: Value) -> Value:
    """u8 * s8 products added in pairs, with saturation to 16 bits: <32 x i8> twice -> <16 x i16>."""
    return e.call("llvm.x86.avx2.pmadd.ub.sw", vector(SHORT, 16), [unsigned, signed])


def _add_pairs(e: Emitter, pairs: Value, sums: Value) -> Value:
    """sums + adjacent 16-bit pairs: <16 x i16>, <8 x i32> -> <8 x i32>."""
    ones = e.constant(vector(SHORT, 16), 1)
    return e.b.add(sums, e.call("llvm.x86.avx2.pmadd.wd", vector(WORD, 8), [pairs, ones]))


def _avx2_signed(e: Emitter, weights: Weights, _: int, x: Sequence[Value], rows: int) -> list[Value]:
    """int8: |w| * (x with the sign of w), because 255 * 127 * 2 does not fit 16 bits and 128 * 127 * 2 does."""
    bytes_ = vector(BYTE, 4 * rows)
    sums = [e.constant(vector(WORD, rows), 0)] * len(x)
    for step in range(STEPS):
        signed = e.b.xor(weights(step), e.constant(bytes_, -128))
        magnitude = e.call("llvm.abs.v32i8", bytes_, [signed, ir.Constant(ir.IntType(1), 0)])
        for j, address in enumerate(x):
            q = e.b.bitcast(_step_of(e, address, step, rows), bytes_)
            turned = e.call("llvm.x86.avx2.psign.b", bytes_, [q, signed])
            sums[j] = _add_pairs(e, _pair_sums(e, magnitude, turned), sums[j])
    return sums


def _avx2_small(e: Emitter, weights: Weights, offset: int, x: Sequence[Value], rows: int) -> list[Value]:
    """int4: 16 products of at most 15 * 127 fit 16 bits, so the whole group is added there first."""
    bytes_ = vector(BYTE, 4 * rows)
    pairs: list[Value] = [None] * len(x)
    for step in range(STEPS):
        stored = weights(step)
        for j, address in enumerate(x):
            q = e.b.bitcast(_step_of(e, address, step, rows), bytes_)
            product = _pair_sums(e, stored, q)
            pairs[j] = product if step == 0 else e.b.add(pairs[j], product)
    return [_add_pairs(e, pairs[j], _bias(e, offset, address, rows)) for j, address in enumerate(x)]


def _neon(e: Emitter, weights: Weights, offset: int, x: Sequence[Value], rows: int) -> list[Value]:
    words, bytes_ = vector(WORD, rows), vector(BYTE, 4 * rows)
    if offset == 8:  # 0..15 are signed bytes already
        sums = [_bias(e, offset, address, rows) for address in x]
    else:
        sums = [e.constant(words, 0)] * len(x)
    quads: list[Value] = [None] * len(x)
    for step in range(STEPS):
        stored = weights(step)
        signed = stored if offset == 8 else e.b.xor(stored, e.constant(bytes_, -128))
        for j, address in enumerate(x):
            if step % 4 == 0:
                quads[j] = e.load(words, e.offset(address, 4 * step))
            q = e.b.bitcast(e.pick(quads[j], [step % 4] * rows), bytes_)  # becomes sdot by element
            sums[j] = e.call("llvm.aarch64.neon.sdot.v4i32.v16i8", words, [sums[j], signed, q])
    return sums


def _generic(e: Emitter, weights: Weights, offset: int, x: Sequence[Value], rows: int) -> list[Value]:
    """Plain multiplies in a shape that x86 compilers recognise as pmaddwd."""
    shorts, wide = vector(SHORT, 4 * rows), vector(WORD, 4 * rows)
    halves: list[Value] = [None] * len(x)
    for step in range(STEPS):
        stored = e.b.zext(e.b.zext(weights(step), shorts), wide)
        for j, address in enumerate(x):
            q = e.b.bitcast(_step_of(e, address, step, rows), vector(BYTE, 4 * rows))
            product = _fold(e, e.b.mul(stored, e.b.sext(e.b.sext(q, shorts), wide)))
            halves[j] = product if step == 0 else e.b.add(halves[j], product)
    return [e.b.add(_fold(e, half), _bias(e, offset, at, rows)) for half, at in zip(halves, x, strict=True)]


def _fold(e: Emitter, value: Value) -> Value:
    """Add neighbouring lanes."""
    lanes = value.type.count
    return e.b.add(e.pick(value, range(0, lanes, 2)), e.pick(value, range(1, lanes, 2)))


def no_dot(e: Emitter, rows: int) -> Value:
    """The sums that `add_dot` begins with, and `dot_sums` ends."""
    return e.constant(vector(WORD, 2 * rows if e.target.isa == "generic" else rows), 0)


def add_dot(e: Emitter, sums: Value, codes: Value, x: Value) -> Value:
    """sums + the 4-way dot products of codes in 0..63, <4 rows x i8>, and signed bytes, <rows x i32>."""
    words, isa = x.type, e.target.isa
    if isa.startswith("vnni"):
        return e.call(f"llvm.x86.avx512.vpdpbusd.{words.count * 32}", words, [sums, e.b.bitcast(codes, words), x])
    signed = e.b.bitcast(x, codes.type)
    if isa == "avx2":
        return _add_pairs(e, _pair_sums(e, codes, signed), sums)
    if isa == "neon":
        return e.call("llvm.aarch64.neon.sdot.v4i32.v16i8", words, [sums, codes, signed])
    shorts, wide = vector(SHORT, codes.type.count), vector(WORD, codes.type.count)
    products = e.b.mul(e.b.zext(e.b.zext(codes, shorts), wide), e.b.sext(e.b.sext(signed, shorts), wide))
    return e.b.add(sums, _fold(e, products))


def dot_sums(e: Emitter, sums: Value) -> Value:
    """<rows x i32> from what `add_dot` returned."""
    return _fold(e, sums) if e.target.isa == "generic" else sums
