"""Activations as integers of 24 bits in three planes of bytes."""

from __future__ import annotations

import numpy as np
import pytest

from engine.kernels import planes
from engine.kernels.planes import MOST, SCALES, SUMS16, SUMS32, UNIT_BYTES

from . import native
from .native import LEVELS

every_level = pytest.mark.parametrize("level", LEVELS)


def record(level: str, x: np.ndarray) -> np.ndarray:
    """uint8 [units, UNIT_BYTES]."""
    out = np.full(planes.planes_bytes(len(x)) + 1, 0xAA, np.uint8)
    native.kernels(level).quantize_planes(x.ctypes.data, len(x), out.ctypes.data)
    assert out[-1] == 0xAA
    return out[:-1].reshape(-1, UNIT_BYTES)


def floats(units: np.ndarray, start: int, stop: int) -> np.ndarray:
    return np.ascontiguousarray(units[:, start:stop]).view(np.float32).reshape(-1)


def integers(units: np.ndarray) -> np.ndarray:
    """int64 [groups, 32]."""
    digits = units[:, :SCALES].reshape(-1, 3, 32).view(np.int8).astype(np.int64)
    return digits[:, 0] + 256 * digits[:, 1] + 65536 * digits[:, 2]


def activations() -> np.ndarray:
    rng = np.random.default_rng(5)
    x = rng.standard_normal(1024).astype(np.float32)
    x[64:96] = 0
    x[96:128] *= 1e-33  # no scale could be told from zero
    x[128:160] *= 1e30
    x[160:192] *= 1e-20
    x[200] = -3000
    return x


@every_level
def test_integers_and_scales_stand_for_the_activations_to_24_bits(level):
    x = activations()
    units = record(level, x)
    q, scales, groups = integers(units), floats(units, SCALES, SUMS32), x.reshape(-1, 32).astype(np.float64)
    peaks = np.abs(groups).max(axis=1)
    assert MOST - 1 <= np.abs(q).max() <= MOST + 1
    assert (scales[[2, 3]] == 0).all()
    kept = np.arange(len(scales)) != 3
    assert (np.abs(q * scales[:, None].astype(np.float64) - groups).max(axis=1)[kept] <= 2e-7 * peaks[kept]).all()


@every_level
def test_sums_are_those_of_the_integers(level):
    units = record(level, activations())
    q, scales = integers(units), floats(units, SCALES, SUMS32)
    np.testing.assert_array_equal(floats(units, SUMS32, SUMS16), q.sum(axis=1).astype(np.float32) * -scales)
    halves = q.reshape(-1, 16).sum(axis=1).astype(np.float32)
    np.testing.assert_array_equal(floats(units, SUMS16, UNIT_BYTES), halves * -np.repeat(scales, 2))


def test_every_instruction_set_gives_the_same_bytes():
    first, *others = (record(level, activations()) for level in LEVELS)
    for other in others:
        np.testing.assert_array_equal(other, first)


@every_level
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_makes_the_scale_so(value, level):
    x = np.ones(256, np.float32)
    x[40] = value
    scales = floats(record(level, x), SCALES, SUMS32)
    assert not np.isfinite(scales[1])
    assert np.isfinite(np.delete(scales, 1)).all()


def test_a_record_may_be_written_where_its_activations_lie():
    x = activations()
    expected = record(LEVELS[0], x)
    planes.quantize_planes(x.ctypes.data, len(x), x.ctypes.data)
    np.testing.assert_array_equal(x.view(np.uint8)[: expected.size], expected.reshape(-1))
