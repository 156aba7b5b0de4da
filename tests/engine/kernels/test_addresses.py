"""Raw loads and stores."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from engine.kernels import addresses as raw


@njit
def copy_f32(source: int, target: int) -> None:
    raw.store_f32(target, raw.load_f32(source))


@njit
def copy_i32(source: int, target: int) -> int:
    value = raw.load_i32(source)
    raw.store_i32(target, value)
    return value


@njit
def copy_i64(source: int, target: int) -> int:
    value = raw.load_i64(source)
    raw.store_i64(target, value)
    return value


@njit
def copy_u16(source: int, target: int) -> int:
    value = raw.load_u16(source)
    raw.store_u16(target, value)
    return value


@njit
def copy_u8(source: int, target: int) -> int:
    value = raw.load_u8(source)
    raw.store_u8(target, value)
    return value


@pytest.mark.parametrize("shift", [0, 1, 3])
@pytest.mark.parametrize(
    ("copy", "dtype", "value"),
    [
        (copy_i32, np.int32, -5),
        (copy_i64, np.int64, -(2**40)),
        (copy_u16, np.uint16, 65535),
        (copy_u8, np.uint8, 200),
    ],
)
def test_integers_round_trip_at_any_alignment(copy, dtype, value, shift):
    size = np.dtype(dtype).itemsize
    source, target = np.zeros(32, np.uint8), np.zeros(32, np.uint8)
    source[shift : shift + size] = np.array([value], dtype).view(np.uint8)
    assert copy(source.ctypes.data + shift, target.ctypes.data + shift) == value
    np.testing.assert_array_equal(source, target)  # nothing beside the value was written


def test_floats_keep_every_bit():
    source = np.array([np.nan, -0.0, 1e-45, 3.5], np.float32)
    target = np.zeros_like(source)
    for offset in range(0, source.nbytes, 4):
        copy_f32(source.ctypes.data + offset, target.ctypes.data + offset)
    np.testing.assert_array_equal(source.view(np.uint32), target.view(np.uint32))
