"""Values of 4-bit codes: 16 entries by one shuffle instruction, or by integer operations where there is none."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from .ir import BYTE, FLOAT, WORD, Emitter, Value, lanes_of, vector

LANES = 16

INTEGERS: tuple[float, ...] = tuple(range(16))
"""Codes that stand for themselves."""

E2M1: tuple[float, ...] = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
"""Values of 4-bit floats (OCP MX, e2m1)."""

Scaling = Callable[[Value], Value]
"""What makes weights of values, as float32 lanes in and out: each lane by itself."""


class Lookup:
    """Turns codes into weights: scaling(table[code]).

    Where registers hold 16 floats the scaling is done once on the table itself; a code is then one shuffle.
    """

    def __init__(self, e: Emitter, table: tuple[float, ...], scaling: Scaling) -> None:
        self._e, self._table, self._scaling = e, table, scaling
        self._wide = e.target.vector == 512
        if self._wide:
            entries = [ir.Constant(FLOAT, float(entry)) for entry in table]
            self._scaled = scaling(ir.Constant(vector(FLOAT, LANES), entries))

    def low(self, codes: Value) -> Value:
        """Weights of the low halves of bytes, <16 x i8> -> <16 x float>."""
        e = self._e
        if self._wide:
            return self._permute(e.b.zext(codes, vector(WORD, LANES)))
        return self._scaling(self._values(e.b.and_(codes, e.constant(codes.type, 15))))

    def high(self, codes: Value) -> Value:
        """Weights of the high halves of bytes."""
        e = self._e
        if self._wide:
            words = vector(WORD, LANES)
            return self._permute(e.b.lshr(e.b.zext(codes, words), e.constant(words, 4)))
        return self._scaling(self._values(e.b.lshr(codes, e.constant(codes.type, 4))))

    def _permute(self, indices: Value) -> Value:
        """The entries named by the low four bits of each index."""
        return self._e.call("llvm.x86.avx512.permvar.sf.512", vector(FLOAT, LANES), [self._scaled, indices])

    def _values(self, codes: Value) -> Value:
        """Entries as floats; codes are 0..15."""
        e = self._e
        if self._table == INTEGERS:
            return e.b.uitofp(e.b.zext(codes, vector(WORD, LANES)), vector(FLOAT, LANES))
        floats = e.b.sitofp(e.b.sext(self._twice(codes), vector(WORD, LANES)), vector(FLOAT, LANES))
        return e.b.fmul(floats, e.constant(floats.type, 0.5))

    def _twice(self, codes: Value) -> Value:
        """Entries of E2M1 as signed bytes: twice their value."""
        e, isa = self._e, self._e.target.isa
        entries = [ir.Constant(BYTE, int(2 * entry)) for entry in self._table]
        table = ir.Constant(vector(BYTE, LANES), entries)
        if isa in ("avx2", "vnni256"):
            return e.call("llvm.x86.ssse3.pshuf.b.128", vector(BYTE, LANES), [table, codes])
        if isa == "neon":
            return e.call("llvm.aarch64.neon.tbl1.v16i8", vector(BYTE, LANES), [table, codes])
        return twice_e2m1(e, codes)


def twice_e2m1(e: Emitter, codes: Value) -> Value:
    """The same without a shuffle: v + max(v - 4, 0) + 2 max(v - 6, 0) for 0..7, and bit 3 negates."""
    lanes = lanes_of(codes)

    def above(limit: int) -> Value:
        return e.call(f"llvm.usub.sat.v{lanes}i8", codes.type, [size, e.constant(codes.type, limit)])

    size = e.b.and_(codes, e.constant(codes.type, 7))
    value = e.b.add(e.b.add(size, above(4)), e.b.shl(above(6), e.constant(codes.type, 1)))
    negative = e.b.icmp_unsigned(">", codes, e.constant(codes.type, 7))
    return e.b.select(negative, e.b.neg(value), value)
