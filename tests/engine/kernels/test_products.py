"""Products of weight blocks: right, the same for every batch, and nothing read that is not there."""

from __future__ import annotations

import ctypes
import dataclasses
import re

import numpy as np
import pytest
from numba import njit

from engine.kernels import isa, products, quantize
from engine.kernels.packing import pack_i8r, pack_int4

from . import native
from .native import ARM, FORMATS, FUSED, LEVELS, PACKED, assembly, guarded, library_calls

COLUMNS = [1, 5, 16, 31, 32, 33, 64, 65, 96, 100, 160, 257, 448]
GUARD = 7.5


def multiply(kernels, fmt: int, w: np.ndarray, rows: int, k: int, x: np.ndarray) -> np.ndarray:
    """float32 [s, rows] from activation rows (or q8 records) `x`."""
    out = np.full((len(x) + 1, 16), GUARD, np.float32)
    xs = native.addresses(x)
    kernels.product16(fmt, w.ctypes.data, rows, k, xs.ctypes.data, len(x), out.ctypes.data)
    assert (out[len(x)] == GUARD).all()  # nothing beyond the last position
    if fmt not in PACKED:
        assert (out[: len(x), rows:] == GUARD).all()  # nor beyond the last row
    return out[: len(x), :rows]


class Numba:
    """The product as other kernels call it."""

    quantize_q8 = staticmethod(quantize.quantize_q8)
    product16 = staticmethod(products.product16)


def example(fmt: int, rows: int, k: int, s: int, shift: int = 0, kernels=Numba):
    rng = np.random.default_rng(k * 100 + s)
    w, weights = native.store(fmt, rng.standard_normal((rows, k)).astype(np.float32), shift)
    x = rng.standard_normal((s, k)).astype(np.float32)
    if fmt in PACKED:
        x, activations = native.records(kernels.quantize_q8, x)
    else:
        activations = x
    return w, x, activations.astype(np.float64) @ weights.astype(np.float64).T


@pytest.mark.parametrize("k", COLUMNS)
@pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS)
def test_product_equals_numpy(fmt, k):
    w, x, expected = example(fmt, 16, k, 3)
    got = multiply(Numba, fmt, w, 16, k, x)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("k", [5, 32, 64, 96, 449])
@pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS)
def test_every_instruction_set_equals_numpy(fmt, k, level):
    kernels = native.kernels(level)
    w, x, expected = example(fmt, 16, k, 7, kernels=kernels)
    got = multiply(kernels, fmt, w, 16, k, x)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("k", [33, 64, 100, 448])
@pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS)
def test_a_position_gets_the_same_bits_in_every_batch(fmt, k, level):
    kernels = native.kernels(level)
    w, x, _ = example(fmt, 16, k, 29, kernels=kernels)
    alone = np.concatenate([multiply(kernels, fmt, w, 16, k, x[j : j + 1]) for j in range(len(x))])
    for s in (2, 3, 4, 5, 8, 9, 12, 13, 16, 29):
        np.testing.assert_array_equal(multiply(kernels, fmt, w, 16, k, x[:s]), alone[:s])
    np.testing.assert_array_equal(multiply(kernels, fmt, w, 16, k, x[::-1]), alone[::-1])


@pytest.mark.parametrize("k", [7, 64, 100])
@pytest.mark.parametrize("fmt", [fmt for fmt in FORMATS.values() if fmt not in PACKED])
def test_a_row_gets_the_same_bits_in_every_block(fmt, k):
    w, x, _ = example(fmt, 16, k, 5)
    whole = multiply(Numba, fmt, w, 16, k, x)
    row_bytes = len(w) // 16
    for first, rows in [(0, 1), (0, 15), (3, 2), (5, 7), (15, 1)]:
        part = np.ascontiguousarray(w[first * row_bytes : (first + rows) * row_bytes])
        np.testing.assert_array_equal(multiply(Numba, fmt, part, rows, k, x), whole[:, first : first + rows])


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS)
def test_instruction_sets_with_fused_multiply_add_agree_to_the_last_bit(fmt):
    results = []
    for level in FUSED:
        kernels = native.kernels(level)
        w, x, _ = example(fmt, 16, 200, 6, kernels=kernels)
        results.append(multiply(kernels, fmt, w, 16, 200, x))
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


@pytest.mark.parametrize("shift", [1, 2, 3, 6, 13])
@pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS)
def test_weights_may_lie_at_any_address(fmt, shift):
    w, x, _ = example(fmt, 16, 80, 5)
    moved, _, _ = example(fmt, 16, 80, 5, shift)
    assert moved.ctypes.data % 64 == shift
    np.testing.assert_array_equal(multiply(Numba, fmt, moved, 16, 80, x), multiply(Numba, fmt, w, 16, 80, x))


@pytest.mark.parametrize("fmt", PACKED)
def test_rows_beyond_a_packed_matrix_count_as_zero(fmt):
    rng = np.random.default_rng(0)
    blocks, _ = native.store(fmt, rng.standard_normal((5, 70)).astype(np.float32))
    _, x, _ = example(fmt, 16, 70, 2)
    got = multiply(Numba, fmt, blocks, 16, 70, x)
    assert got[:, :5].all()
    assert not got[:, 5:].any()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("fmt", PACKED)
def test_integers_at_the_ends_of_their_ranges_do_not_saturate(fmt, level):
    k, (low, high) = 64, (-128, 127) if fmt == native.I8R else (-8, 7)
    kernels = native.kernels(level)
    x = np.ones((2, k), np.float32)
    x[1, ::2] = -1
    q, activations = native.records(kernels.quantize_q8, x)
    integers = np.full((16, k), low, np.int8)
    integers[4:] = high
    integers[8:, ::2] = low
    integers[12:, 1::2] = low
    if fmt == native.I8R:
        blocks = pack_i8r(integers, np.ones(16, np.float32))
    else:
        blocks = pack_int4(fmt, integers, np.ones((16, 2), np.float16))
    got = multiply(kernels, fmt, blocks, 16, k, q)
    np.testing.assert_allclose(got, activations.astype(np.float64) @ integers.T, rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 3, 16])
@pytest.mark.parametrize("k", [1, 17, 48, 63])
@pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS)
def test_nothing_is_read_beyond_weights_and_activations(fmt, k, rows):
    w, x, expected = example(fmt, rows, k, 5)
    memory, address = guarded(len(w))
    ctypes.memmove(address, w.ctypes.data, len(w))
    line = x[4].view(np.uint8)
    activations, last = guarded(len(line))
    ctypes.memmove(last, line.ctypes.data, len(line))
    out = np.zeros((5, 16), np.float32)
    xs = native.addresses(x)
    xs[4] = last
    products.product16(fmt, address, rows, k, xs.ctypes.data, 5, out.ctypes.data)
    np.testing.assert_allclose(out[:, :rows], expected, rtol=1e-5, atol=2e-5)
    del memory, activations


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("k", [33, 64, 448])
def test_embed_row_gives_the_stored_row(fmt, k):
    rng = np.random.default_rng(1)
    w, weights = native.store(fmt, rng.standard_normal((37, k)).astype(np.float32), 0 if fmt in PACKED else 1)
    out = np.zeros(k, np.float32)
    for row in (0, 15, 16, 36):
        products.embed_row(fmt, w.ctypes.data, row, k, out.ctypes.data)
        np.testing.assert_array_equal(out, weights[row])


def test_half_precision_is_exact_for_every_bit_pattern():
    """Subnormals, infinities and signed zeros too, by instruction and by integer operations."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    values = bits.view(np.float16).astype(np.float32)
    number = ~np.isnan(values)
    one = np.ones((1, 1), np.float32)
    for level in LEVELS:
        kernels = native.kernels(level)
        got = np.concatenate(
            [multiply(kernels, native.F16, bits[i : i + 16], 16, 1, one)[0] for i in range(0, len(bits), 16)]
        )
        np.testing.assert_array_equal(got[number], values[number])
        assert np.isnan(got[~number]).all()


@njit
def product_of_blocks(fmt: int, w: int, n: int, k: int, xs: int, out: int) -> int:
    """As another kernel would walk a matrix: addresses and sizes from jitted code."""
    size = products.block_bytes(fmt, k)
    for block in range((n + 15) // 16):
        rows = min(16, n - block * 16)
        products.product16(fmt, w + block * size, rows, k, xs, 1, out + block * 64)
    return products.matrix_bytes(fmt, n, k)


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS)
def test_a_matrix_is_walked_block_by_block(fmt):
    n, k = 41, 72
    w, x, expected = example(fmt, n, k, 1)
    out = np.zeros(48, np.float32)
    xs = native.addresses(x)
    assert product_of_blocks(fmt, w.ctypes.data, n, k, xs.ctypes.data, out.ctypes.data) == len(w)
    np.testing.assert_allclose(out[:n], expected[0], rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize(("triple", "cpu"), ARM.items())
def test_arm_code_uses_the_dot_product_instruction(triple, cpu):
    text = assembly(native.write_all(isa.target("neon", {"neon", "dotprod"})), triple, cpu)
    assert text.count("sdot") >= 64
    assert text.count("fmla") >= 64
    assert library_calls(text) == set()


@pytest.mark.parametrize(("level", "cpu"), [("vnni512", "icelake-server"), ("vnni256", "alderlake")])
def test_packed_products_keep_their_sums_in_registers(level, cpu):
    target = isa.target(level, frozenset())
    text = assembly(native.write_products(target, PACKED), "x86_64-unknown-linux-gnu", cpu)
    for fmt in PACKED:
        for positions in products.tile_positions(target, fmt):
            body = re.search(rf"^colibri_tile_{fmt}_{positions}:(.*?)^\.Lfunc_end", text, re.M | re.S)
            spilled = re.findall(r"%[yz]mm\d+, -?\d*\(%rsp\)", body[1])
            assert len(spilled) <= 2


def test_code_without_special_instructions_calls_no_library():
    """A missing conversion or multiply-add would become a call of a function that no one provides."""
    triple, cpu = "x86_64-unknown-linux-gnu", "x86-64"
    generic = isa.target("generic", frozenset())
    assert library_calls(assembly(native.write_all(generic), triple, cpu)) == set()
    for claim in ({"f16": True}, {"fma": True}):  # the check would see such a call
        wrong = dataclasses.replace(generic, **claim)
        assert library_calls(assembly(native.write_products(wrong, [native.F16]), triple, cpu))
