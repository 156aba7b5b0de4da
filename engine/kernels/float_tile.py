"""Products of up to 16 row-major rows of float weights with a fixed number of positions.

A row and position own 16 accumulators (one vector of 16 float32); column k goes to accumulator k % 16 up to the last
multiple of 16, the lanes are added by halves, the last columns follow one by one. That order is the same for every
number of rows and positions, and on every processor with fused multiply-add.
"""

from __future__ import annotations

from collections.abc import Callable

from .dot import SHORT
from .formats import BF16, F16, F32, ROWS, itemsize
from .ir import FLOAT, LONG, WORD, Emitter, Value, vector

LANES = 16


def _weight(e: Emitter, fmt: int, address: Value, lanes: int) -> Value:
    """`lanes` weights as float32."""
    if fmt == F32:
        return e.load(vector(FLOAT, lanes), address)
    bits = e.load(vector(SHORT, lanes), address)
    if fmt == F16:
        return e.half_to_float(bits)
    words = vector(WORD, lanes)
    return e.b.bitcast(e.b.shl(e.b.zext(bits, words), e.constant(words, 16)), vector(FLOAT, lanes))


def float_tile(
    e: Emitter, fmt: int, together: int, positions: int, w: Value, rows: Value, k: Value, xs: Value, out: Value
) -> None:
    """out[j * 16 + r] = sum_k W[r, k] * x_j[k] for r < rows; other entries of `out` are left alone.

    w: address of row 0. xs: address of int64[positions], the addresses of float32[k]. `together` rows are computed
    at a time, so that the latency of an fma is hidden.
    """
    x = [e.load(LONG, e.offset(xs, 8 * j)) for j in range(positions)]
    stride = e.b.mul(k, e.long(itemsize(fmt)))
    last = e.b.sub(rows, e.long(1))
    whole = e.b.and_(k, e.long(-LANES))

    def some_rows(first: Value, _: list[Value]) -> list[Value]:
        # Past the last row the last row is computed again: nothing is read or written outside.
        index = [e.minimum(e.offset(first, i), last) for i in range(together)]
        row = [e.b.add(w, e.b.mul(i, stride)) for i in index]

        def columns(lanes: int) -> Callable[[Value, list[Value]], list[Value]]:
            def body(c: Value, sums: list[Value]) -> list[Value]:
                weights = [_weight(e, fmt, e.offset(r, c, itemsize(fmt)), lanes) for r in row]
                result = []
                for j, address in enumerate(x):
                    value = e.load(vector(FLOAT, lanes), e.offset(address, c, 4))
                    result += [
                        e.fma(weight, value, sums[j * together + i]) for i, weight in enumerate(weights)
                    ]
                return result

            return body

        zero = e.constant(vector(FLOAT, LANES), 0.0)
        wide = e.loop(e.long(0), whole, LANES, [zero] * (together * positions), columns(LANES))
        sums = e.loop(whole, k, 1, [e.sum_lanes(value) for value in wide], columns(1))
        for j in range(positions):
            for i in range(together):
                e.store(sums[j * together + i], e.offset(out, e.offset(index[i], ROWS * j), 4))
        return []

    e.loop(e.long(0), rows, together, [], some_rows)
