"""q8 records of activations."""

from __future__ import annotations

import numpy as np
import pytest

from engine.kernels import quantize
from engine.kernels.quantize import q8_bytes

from . import native

COLUMNS = [1, 31, 32, 33, 63, 64, 65, 96, 128, 200]


def record(x: np.ndarray, quantize_q8=quantize.quantize_q8) -> np.ndarray:
    """The groups of the record of one row, [groups, 48] bytes; checks that nothing beyond it is written."""
    x = np.ascontiguousarray(x, np.float32)
    q = np.full(q8_bytes(len(x)) + 64, 0xAA, np.uint8)
    quantize_q8(x.ctypes.data, len(x), q.ctypes.data)
    assert (q[-64:] == 0xAA).all()
    return q[:-64].reshape(-1, 48)


def integers(groups: np.ndarray) -> np.ndarray:
    return groups[:, :32].view(np.int8).astype(np.int64)


def scales(groups: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(groups[:, 32:36]).view(np.float32)[:, 0]


def expected(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Integers [groups, 32] and scales [groups], in numpy."""
    padded = np.zeros(-(-len(x) // 64) * 64, np.float32)
    padded[: len(x)] = x
    groups = padded.reshape(-1, 32)
    peak = np.abs(groups).max(axis=1)
    inverse = np.divide(np.float32(127), peak, out=np.zeros_like(peak), where=peak >= 2.0**-120)
    scale = np.where(peak >= 2.0**-120, peak / np.float32(127), np.float32(0))
    return np.rint(groups * inverse[:, None]).astype(np.int64), scale


@pytest.mark.parametrize("k", COLUMNS)
def test_record_equals_numpy(k):
    x = np.random.default_rng(k).standard_normal(k).astype(np.float32) * 3
    groups = record(x)
    q, scale = expected(x)
    np.testing.assert_array_equal(integers(groups), q)
    np.testing.assert_array_equal(scales(groups), scale)
    sums = np.ascontiguousarray(groups[:, 36:48]).view(np.int32)
    np.testing.assert_array_equal(sums[:, 0], -8 * q.sum(axis=1))
    np.testing.assert_array_equal(sums[:, 1], -128 * q.sum(axis=1))
    assert not sums[:, 2].any()


@pytest.mark.parametrize("level", native.LEVELS)
def test_every_instruction_set_writes_the_same_bytes(level):
    rng = np.random.default_rng(7)
    for k in COLUMNS:
        x = (rng.standard_normal(k) * 10.0 ** rng.integers(-8, 8, k)).astype(np.float32)
        np.testing.assert_array_equal(record(x, native.kernels(level).quantize_q8), record(x))


def test_ties_go_to_the_even_integer():
    x = np.zeros(32, np.float32)
    x[:5] = [127, 0.5, 1.5, -0.5, -2.5]
    assert integers(record(x))[0, :5].tolist() == [127, 0, 2, 0, -2]


@pytest.mark.parametrize("size", [0.0, 1e-45, 1e-38])
def test_nothing_becomes_zero_without_nan(size):
    groups = record(np.full(40, size, np.float32))
    assert not groups.any()


@pytest.mark.parametrize("size", [1e-35, 1.0, 3e38])
def test_the_largest_magnitude_becomes_127(size):
    x = np.array([size, -size, size / 2, 0], np.float32)
    groups = record(x)
    assert integers(groups)[0, :3].tolist() in ([127, -127, 64], [127, -127, 63])
    assert scales(groups)[0] == np.float32(size) / np.float32(127)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_no_number_is_seen_in_the_scale_of_its_group(bad):
    x = np.ones(96, np.float32)
    x[40] = bad
    assert np.isfinite(scales(record(x))).tolist() == [True, False, True, True]


def test_size_covers_whole_units():
    assert [q8_bytes(k) for k in (1, 64, 65, 128)] == [96, 96, 192, 192]
