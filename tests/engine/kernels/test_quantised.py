"""Rows of quantised weights: what they stand for, and that products with them are those of the float32 matrix."""

from __future__ import annotations

import ctypes
from functools import cache

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir

from engine.kernels import formats, isa, products
from engine.kernels.decoders import DECODERS
from engine.kernels.rows import E4M3, unpack_rows

from . import native
from .native import ARM, FUSED, LEVELS, assembly, given, guarded, library_calls
from .sample_rows import CUT, NAMES, draw, weight

every_format = pytest.mark.parametrize("fmt", NAMES.values(), ids=NAMES)
every_level = pytest.mark.parametrize("level", LEVELS)


def columns_of(fmt: int) -> list[int]:
    """Row lengths: one unit, several, and rows that end within one."""
    unit = formats.unit_columns(fmt)
    whole = [unit, 3 * unit]
    return [*whole, 8, unit + 2, 2 * unit + 30] if fmt in CUT else whole


def write_rows(target: isa.Target) -> ir.Module:
    """A module with everything that reads rows."""
    module = native.write_products(target, [formats.F32, *NAMES.values()])
    for fmt in NAMES.values():
        products.write_unpack(module, target, fmt).linkage = "external"
    return module


class RowKernels:
    """The kernels of one level, compiled for a processor that has no better one."""

    def __init__(self, level: str) -> None:
        cpu = native.PLAIN_CPU.get(level) if llvm.get_process_triple().startswith("x86_64") else None
        features = "" if cpu else llvm.get_host_cpu_features().flatten()
        tm = native.machine(llvm.get_process_triple(), cpu or llvm.get_host_cpu_name(), features)
        module = native.optimised(write_rows(isa.target(level, isa.FEATURES)), tm)
        self._engine = llvm.create_mcjit_compiler(module, tm)
        self._engine.finalize_object()

    def _call(self, name: str, *arguments: int) -> None:
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(arguments))
        kind(self._engine.get_function_address(name))(*arguments)

    def product16(self, fmt: int, w: int, rows: int, k: int, xs: int, s: int, out: int) -> None:
        self._call(f"colibri_product_{fmt}", w, rows, k, xs, s, out)

    def unpack(self, fmt: int, row: int, k: int, out: int) -> None:
        self._call(f"colibri_unpack_{fmt}", row, k, out)


@cache
def kernels(level: str) -> RowKernels:
    return RowKernels(level)


class Numba:
    """The product as other kernels call it."""

    product16 = staticmethod(products.product16)


def multiply(kernels, fmt: int, rows: np.ndarray, k: int, x: np.ndarray) -> np.ndarray:
    """float32 [s, n]; `rows` uint8 [n, row bytes], x float32 [s, k]."""
    n, x = len(rows), given(fmt, x)
    out = np.full((len(x) + 1, 16), 7.5, np.float32)
    xs = native.addresses(x)
    kernels.product16(fmt, rows.ctypes.data, n, k, xs.ctypes.data, len(x), out.ctypes.data)
    assert (out[len(x)] == 7.5).all()  # nothing beyond the last position
    assert (out[: len(x), n:] == 7.5).all()  # nor beyond the last row
    return out[: len(x), :n]


def example(fmt: int, n: int, k: int, s: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, what they stand for, activations."""
    rng = np.random.default_rng(1000 * fmt + k)
    rows = draw(fmt, n, k, rng)
    return rows, unpack_rows(fmt, rows, k), rng.standard_normal((s, k)).astype(np.float32)


@every_format
def test_what_a_row_stands_for(fmt):
    for k in columns_of(fmt):
        rows, values, _ = example(fmt, 3, k, 1)
        expected = [[weight(fmt, row.tobytes(), k, column) for column in range(k)] for row in rows]
        np.testing.assert_array_equal(values, expected)
        assert 0.1 < np.abs(values).mean() < 10


def test_every_8_bit_float():
    """All 256 codes, the smallest too, and one block with the largest scale."""
    row = np.zeros((1, formats.row_bytes(formats.F8, 256)), np.uint8)
    row[0, :256] = np.arange(256)
    row[0, 256:] = np.array([1.0, 3e35], np.float32).view(np.uint8)
    values = unpack_rows(formats.F8, row, 256)
    np.testing.assert_array_equal(values[0, :128], E4M3[:128])
    assert E4M3[1] == 2.0**-9
    assert E4M3[126] == 448.0
    one = np.zeros((256, 256), np.float32)
    np.fill_diagonal(one, 1)
    for level in LEVELS:
        got = multiply(kernels(level), formats.F8, row, 256, one)
        np.testing.assert_array_equal(got[:, 0], values[0])


@every_level
@every_format
def test_every_instruction_set_equals_numpy(fmt, level):
    for k in columns_of(fmt):
        rows, values, x = example(fmt, 16, k, 7)
        sizes = np.abs(x).astype(np.float64) @ np.abs(values).T
        error = multiply(kernels(level), fmt, rows, k, x) - x.astype(np.float64) @ values.T.astype(np.float64)
        assert (np.abs(error) <= 1e-6 * sizes).all()


@every_level
@pytest.mark.parametrize("fmt", [fmt for fmt in NAMES.values() if fmt not in formats.K_QUANTS])
def test_a_product_is_that_of_the_float32_matrix_to_the_last_bit(fmt, level):
    """With columns in the order in which the format has them at hand."""
    unit, parts = formats.unit_columns(fmt), DECODERS[fmt].parts
    in_unit = np.concatenate([part.first + part.step * np.arange(16) for part in parts])
    assert sorted(in_unit) == list(range(unit))
    order = np.concatenate([in_unit + start for start in range(0, 3 * unit, unit)])
    rows, values, x = example(fmt, 16, 3 * unit, 5)
    dense = np.ascontiguousarray(values[:, order]).view(np.uint8)
    np.testing.assert_array_equal(
        multiply(kernels(level), fmt, rows, 3 * unit, x),
        multiply(kernels(level), formats.F32, dense, 3 * unit, np.ascontiguousarray(x[:, order])),
    )


@every_level
@pytest.mark.parametrize("fmt", formats.K_QUANTS)
def test_products_with_k_quants_are_as_exact_as_those_of_the_float32_matrix(fmt, level):
    """Also where one activation is a hundred times as large as the others."""
    k = 2048
    rows, values, x = example(fmt, 16, k, 6)
    x[3:, ::97] *= 100
    right = x.astype(np.float64) @ values.T.astype(np.float64)
    dense = multiply(kernels(level), formats.F32, values.view(np.uint8), k, x)
    error, usual = (
        np.square(got - right).mean(axis=1) ** 0.5 for got in (multiply(kernels(level), fmt, rows, k, x), dense)
    )
    assert (error <= 2.5 * usual).all()


@every_level
@every_format
def test_a_position_and_a_row_get_the_same_bits_in_every_company(fmt, level):
    for k in columns_of(fmt):
        rows, _, x = example(fmt, 16, k, 13)
        alone = np.concatenate([multiply(kernels(level), fmt, rows, k, x[j : j + 1]) for j in range(len(x))])
        for s in (2, 4, 5, 8, 11, 13):
            np.testing.assert_array_equal(multiply(kernels(level), fmt, rows, k, x[:s]), alone[:s])
        for first, count in ((0, 1), (3, 2), (5, 7), (15, 1)):
            some = np.ascontiguousarray(rows[first : first + count])
            np.testing.assert_array_equal(multiply(kernels(level), fmt, some, k, x), alone[:, first : first + count])


@every_format
def test_instruction_sets_with_fused_multiply_add_agree_to_the_last_bit(fmt):
    for k in columns_of(fmt):
        rows, _, x = example(fmt, 16, k, 6)
        first, *others = (multiply(kernels(level), fmt, rows, k, x) for level in FUSED)
        for other in others:
            np.testing.assert_array_equal(other, first)


@every_level
@every_format
def test_a_row_is_unpacked_as_in_numpy(fmt, level):
    for k in columns_of(fmt):
        rows, values, _ = example(fmt, 2, k, 1)
        out = np.full(k + 1, 7.5, np.float32)
        kernels(level).unpack(fmt, rows[1].ctypes.data, k, out.ctypes.data)
        np.testing.assert_array_equal(out[:k], values[1])
        assert out[k] == 7.5


@every_format
def test_an_embedding_in_any_format(fmt):
    k = columns_of(fmt)[-1]
    rows, values, _ = example(fmt, 37, k, 1)
    out = np.zeros(k, np.float32)
    for row in (0, 15, 16, 36):
        products.embed_row(fmt, rows.ctypes.data, row, k, out.ctypes.data)
        np.testing.assert_array_equal(out, values[row])


@every_format
def test_weights_may_lie_at_any_address(fmt):
    k = columns_of(fmt)[-1]
    rows, _, x = example(fmt, 16, k, 5)
    expected = multiply(Numba, fmt, rows, k, x)
    for shift in (1, 2, 7):
        memory = np.zeros(rows.size + 64, np.uint8)
        start = -memory.ctypes.data % 64 + shift
        moved = memory[start : start + rows.size].reshape(rows.shape)
        moved[:] = rows
        np.testing.assert_array_equal(multiply(Numba, fmt, moved, k, x), expected)


@pytest.mark.parametrize("n", [1, 3, 16])
@every_format
def test_nothing_is_read_beyond_weights_and_activations(fmt, n):
    for k in columns_of(fmt):
        rows, _, x = example(fmt, n, k, 5)
        expected = multiply(Numba, fmt, rows, k, x)
        memory, address = guarded(rows.size)
        ctypes.memmove(address, rows.ctypes.data, rows.size)
        x = given(fmt, x)
        activations, last = guarded(x[4].nbytes)
        ctypes.memmove(last, x[4].ctypes.data, x[4].nbytes)
        out = np.zeros((5, 16), np.float32)
        xs = native.addresses(x)
        xs[4] = last
        products.product16(fmt, address, n, k, xs.ctypes.data, 5, out.ctypes.data)
        np.testing.assert_array_equal(out[:, :n], expected)
        del memory, activations


def test_arm_code_looks_values_up_and_calls_no_library():
    triple, cpu = next(iter(ARM.items()))
    text = assembly(write_rows(isa.target("neon", {"neon", "dotprod"})), triple, cpu)
    assert text.count("tbl") >= 4
    assert library_calls(text) == set()


def test_code_without_special_instructions_calls_no_library():
    text = assembly(write_rows(isa.target("generic", frozenset())), "x86_64-unknown-linux-gnu", "x86-64")
    assert library_calls(text) == set()
