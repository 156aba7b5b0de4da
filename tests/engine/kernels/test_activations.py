"""exp, silu, gelu, tanh and the softmax's sum."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from engine.kernels import activations

from . import native

SIZES = [0, 1, 15, 16, 17, 33, 160]


def multiplied(gate: np.ndarray, up: np.ndarray, function) -> np.ndarray:
    out = np.full(len(gate) + 1, 9, np.float32)
    function(gate.ctypes.data, up.ctypes.data, len(gate), out.ctypes.data)
    assert out[-1] == 9
    return out[:-1]


def silu_mul(gate: np.ndarray, up: np.ndarray, function=activations.silu_mul) -> np.ndarray:
    return multiplied(gate, up, function)


def exp_sub_sum(x: np.ndarray, m: float) -> tuple[np.ndarray, float]:
    out = np.append(x, np.float32(9)).astype(np.float32)
    total = activations.exp_sub_sum(out.ctypes.data, len(x), m)
    assert out[-1] == 9
    return out[:-1], total


def ulps(got: np.ndarray, exact: np.ndarray) -> float:
    return float(np.max(np.abs(got - exact) / exact))


def test_exp_is_within_two_tenths_of_a_millionth():
    x = np.linspace(-87, 88, 1_000_003).astype(np.float32)
    got, _ = exp_sub_sum(x, 0.0)
    assert ulps(got.astype(np.float64), np.exp(x.astype(np.float64))) < 2e-7


def test_exp_at_the_ends():
    x = np.array([-np.inf, -1e30, -88, -104, 0, 89, np.inf], np.float32)
    got, _ = exp_sub_sum(x, 0.0)
    assert got[:4].tolist() == [0, 0, 0, 0]
    assert got[4] == 1
    assert np.isfinite(got).all()
    assert (got[5:] > 2e38).all()


@pytest.mark.parametrize("n", SIZES)
def test_exp_sub_sum_equals_numpy(n):
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32) * 5
    m = float(x.max()) if n else 0.0
    got, total = exp_sub_sum(x, m)
    exact = np.exp((x - np.float32(m)).astype(np.float64))
    np.testing.assert_allclose(got, exact, rtol=3e-7)
    np.testing.assert_allclose(total, exact.sum(), rtol=1e-6)


def test_an_element_gets_the_same_bits_wherever_it_stands():
    x = np.random.default_rng(1).standard_normal(40).astype(np.float32)
    whole, _ = exp_sub_sum(x, 0.5)
    for first in (1, 7, 16, 30):
        part, _ = exp_sub_sum(x[first:], 0.5)
        np.testing.assert_array_equal(part, whole[first:])
    up = np.ones_like(x)
    assert silu_mul(x, up)[39] == silu_mul(x[39:], up[39:])[0]


@pytest.mark.parametrize("level", native.LEVELS)
@pytest.mark.parametrize("n", SIZES)
def test_silu_mul_equals_numpy(n, level):
    rng = np.random.default_rng(n)
    gate, up = rng.standard_normal((2, n)).astype(np.float32) * 8
    exact = up.astype(np.float64) * gate / (1 + np.exp(-gate.astype(np.float64)))
    got = silu_mul(gate, up, native.kernels(level).silu_mul)
    np.testing.assert_allclose(got, exact, rtol=5e-7, atol=1e-30)


@pytest.mark.parametrize("level", native.LEVELS)
@pytest.mark.parametrize("n", SIZES)
def test_gelu_mul_equals_numpy(n, level):
    rng = np.random.default_rng(n)
    gate, up = rng.standard_normal((2, n)).astype(np.float32) * 3
    x = gate.astype(np.float64)
    exact = up * 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    got = multiplied(gate, up, native.kernels(level).gelu_mul)
    np.testing.assert_allclose(got, exact, rtol=3e-6, atol=1e-7)
    np.testing.assert_array_equal(multiplied(gate, up, activations.gelu_mul)[-1:], got[-1:])


def test_gelu_mul_of_huge_values_is_finite():
    gate = np.array([-1e15, -1e4, -20, 20, 1e4, 1e15], np.float32)
    got = multiplied(gate, np.ones_like(gate), activations.gelu_mul)
    np.testing.assert_allclose(got, np.maximum(gate, 0), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("limit", [0.5, 30.0])
def test_soft_cap_equals_numpy(limit):
    x = np.append(np.random.default_rng(0).standard_normal(101) * 40, [0, 1e30, -1e30, 9]).astype(np.float32)
    got = x.copy()
    activations.soft_cap(got.ctypes.data, len(x) - 1, limit)
    assert got[-1] == 9
    np.testing.assert_allclose(got[:-1], limit * np.tanh(x[:-1].astype(np.float64) / limit), rtol=0, atol=2e-7 * limit)
    alone = x[57:58].copy()
    activations.soft_cap(alone.ctypes.data, 1, limit)
    assert alone[0] == got[57]


def test_silu_mul_of_huge_values_is_finite():
    gate = np.array([-1e30, -200, -90, 90, 200, 1e30], np.float32)
    got = silu_mul(gate, np.ones_like(gate))
    np.testing.assert_allclose(got, np.maximum(gate, 0), rtol=1e-6, atol=1e-6)


def test_silu_mul_in_place():
    rng = np.random.default_rng(0)
    gate, up = rng.standard_normal((2, 35)).astype(np.float32)
    expected = silu_mul(gate, up)
    over_gate, over_up = gate.copy(), up.copy()
    activations.silu_mul(over_gate.ctypes.data, up.ctypes.data, 35, over_gate.ctypes.data)
    activations.silu_mul(gate.ctypes.data, over_up.ctypes.data, 35, over_up.ctypes.data)
    np.testing.assert_array_equal(over_gate, expected)
    np.testing.assert_array_equal(over_up, expected)


def test_nan_stays_nan():
    x = np.full(17, np.nan, np.float32)
    assert np.isnan(silu_mul(x, np.ones_like(x))).all()
    got, total = exp_sub_sum(x, 0.0)
    assert np.isnan(got).all()
    assert np.isnan(total)


@njit
def exp_of(x: float) -> float:
    return activations.exp32(x)


def test_exp32_gives_the_bits_of_the_vector_code():
    x = np.random.default_rng(3).standard_normal(50).astype(np.float32) * 20
    got, _ = exp_sub_sum(x, 0.0)
    assert [np.float32(exp_of(value)) for value in x] == got.tolist()
