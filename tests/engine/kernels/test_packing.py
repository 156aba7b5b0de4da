"""Quantising weights, and the byte layouts of packed blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import EngineError
from engine.kernels import packing
from engine.kernels.formats import (
    BF16,
    F16,
    F32,
    I4G,
    I4G64,
    I4G128,
    I8R,
    INT4,
    LAYOUT,
    PACKED,
    block_bytes,
    itemsize,
    matrix_bytes,
    padded,
)

groups = st.sampled_from(list(INT4))
shapes = st.tuples(st.integers(1, 40), st.integers(1, 400))
seeds = st.integers(0, 2**32 - 1)


@given(shapes, seeds)
@settings(deadline=None, max_examples=40)
def test_int8_integers_survive_packing_exactly(shape, seed):
    rng = np.random.default_rng(seed)
    q = rng.integers(-128, 128, shape).astype(np.int8)
    scales = rng.standard_normal(shape[0]).astype(np.float32)
    blocks = packing.pack_i8r(q, scales)
    assert blocks.shape == (-(-shape[0] // 16), block_bytes(I8R, shape[1]))
    np.testing.assert_array_equal(packing.unpack(I8R, blocks, *shape), q * scales[:, None])


@given(shapes, seeds, groups)
@settings(deadline=None, max_examples=60)
def test_int4_integers_survive_packing_exactly(shape, seed, group):
    rng = np.random.default_rng(seed)
    n, k = shape
    q = rng.integers(-8, 8, shape).astype(np.int8)
    scales = rng.standard_normal((n, -(-k // group))).astype(np.float16)
    blocks = packing.pack_int4(INT4[group], q, scales)
    assert blocks.shape == (-(-n // 16), block_bytes(INT4[group], k))
    by_column = np.repeat(scales.astype(np.float32), group, axis=1)[:, :k]
    np.testing.assert_array_equal(packing.unpack(INT4[group], blocks, n, k), q * by_column)


def test_int8_layout_to_the_byte():
    q = np.arange(18 * 36, dtype=np.int64).reshape(18, 36).astype(np.int8)
    scales = np.arange(1, 19, dtype=np.float32)
    blocks = packing.pack_i8r(q, scales)
    assert blocks.shape == (2, 64 + 16 * 64)
    np.testing.assert_array_equal(blocks[0, :64].view(np.float32), scales[:16])
    np.testing.assert_array_equal(blocks[1, :64].view(np.float32), [17, 18] + [0] * 14)
    for row, column in [(0, 0), (5, 3), (15, 35), (16, 7), (17, 30)]:
        at = 64 + column // 4 * 64 + row % 16 * 4 + column % 4
        assert blocks[row // 16, at] == int(q[row, column]) + 128
    assert blocks[0, 64 + 9 * 64] == 128  # columns beyond k are stored zeros
    assert blocks[1, 64 + 2 * 4] == 128  # rows beyond n too


def test_int4_layout_to_the_byte():
    rng = np.random.default_rng(0)
    q = rng.integers(-8, 8, (17, 100)).astype(np.int8)
    scales = rng.random((17, 4)).astype(np.float16)
    blocks = packing.pack_int4(I4G, q, scales)
    assert blocks.shape == (2, 2 * 576)
    for row, column in [(0, 0), (3, 5), (15, 63), (16, 64), (16, 99), (9, 31), (9, 32)]:
        unit = blocks[row // 16, column // 64 * 576 :]
        byte = unit[64 + column % 64 // 8 * 64 + row % 16 * 4 + column % 4]
        nibble = byte >> 4 if column % 8 >= 4 else byte & 15
        assert nibble == q[row, column] + 8
        stored = unit[column % 64 // 32 * 32 + row % 16 * 2 :][:2].view(np.float16)[0]
        assert stored == scales[row, column // 32]
    assert not blocks[1, 2:32].any()  # scales of rows beyond n
    assert (blocks[1, 64 + 4 : 128] == 0x88).all()  # their weights: stored zeros


def test_layout_of_larger_groups_to_the_byte():
    rng = np.random.default_rng(0)
    q = rng.integers(-8, 8, (17, 300)).astype(np.int8)
    scales = rng.random((17, 3)).astype(np.float16)
    blocks = packing.pack_int4(I4G128, q, scales)
    unit = 64 + 32 * 64  # of 256 columns
    assert blocks.shape == (2, unit + 64 + 8 * 64)
    for row, column in [(0, 0), (5, 13), (15, 255), (16, 130), (3, 256), (16, 299)]:
        start, inside = column // 256 * unit, column % 256
        byte = blocks[row // 16, start + 64 + inside // 8 * 64 + row % 16 * 4 + column % 4]
        assert (byte >> 4 if column % 8 >= 4 else byte & 15) == int(q[row, column]) + 8
        at = start + inside // 128 * 32 + row % 16 * 2
        assert blocks[row // 16, at : at + 2].view(np.float16)[0] == scales[row, column // 128]


def test_int8_rule():
    w = np.array([[1.0, -0.5, 0.25], [0.0, 0.0, 0.0], [-2.54, 0.02, 0.03]], np.float32)
    q, scales = packing.quantize_i8r(w)
    np.testing.assert_array_equal(scales, np.maximum(np.abs(w).max(axis=1), np.float32(1e-12)) / np.float32(127))
    np.testing.assert_array_equal(q, np.rint(w / scales[:, None]))
    assert q.dtype == np.int8


def test_int8_error_is_at_most_half_a_step():
    w = np.random.default_rng(0).standard_normal((50, 300)).astype(np.float32)
    q, scales = packing.quantize_i8r(w)
    assert (np.abs(q * scales[:, None] - w) <= scales[:, None] * 0.501).all()


def squared_error(w: np.ndarray, values: np.ndarray) -> float:
    return float(((w - values).astype(np.float64) ** 2).sum())


@pytest.mark.parametrize("draw", ["standard_normal", "laplace"])
def test_int4_scales_beat_the_usual_rules(draw):
    w = getattr(np.random.default_rng(0), draw)(size=(64, 256)).astype(np.float32)
    groups = w.reshape(-1, 32)
    peak = np.take_along_axis(groups, np.abs(groups).argmax(axis=1)[:, None], axis=1)
    ours = squared_error(w, packing.unpack(I4G, packing.pack(I4G, w), 64, 256))
    for scale in (peak / -8, np.abs(peak) / 7):
        rounded = np.clip(np.rint(groups / scale), -8, 7) * scale
        assert ours < 0.95 * squared_error(groups, rounded)


def test_int4_values_that_fit_the_grid_are_kept_exactly():
    rng = np.random.default_rng(0)
    q = rng.integers(-8, 8, (16, 64)).astype(np.float32)
    q[:, ::32] = -8
    w = q * 0.25
    np.testing.assert_array_equal(packing.unpack(I4G, packing.pack(I4G, w), 16, 64), w)


@given(shapes, seeds, groups)
@settings(deadline=None, max_examples=60)
def test_int4_rounding_equals_numpy(shape, seed, group):
    n, k = shape
    w = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    w.flags.writeable = False
    padded_w = np.zeros((n, -(-k // group) * group), np.float32)
    padded_w[:, :k] = w
    groups = padded_w.reshape(-1, group)
    peak = np.take_along_axis(groups, np.abs(groups).argmax(axis=1)[:, None], axis=1)
    candidates = [(peak / np.float32(-divisor)).astype(np.float16) for divisor in packing.DIVISORS]
    rounded = [np.clip(np.rint(groups * (1 / scale.astype(np.float32))), -8, 7) for scale in candidates]
    errors = [((q * s.astype(np.float32) - groups) ** 2).sum(axis=1) for q, s in zip(rounded, candidates, strict=True)]
    best = np.argmin(errors, axis=0)
    q, scales = packing.quantize_int4(w, group)
    each = np.arange(len(groups))
    chosen = np.stack(candidates)[best, each].reshape(n, -1)
    agree = chosen == scales  # sums of errors taken in another order may choose another of two equally good ones
    assert agree.mean() > 0.99
    expected = np.stack(rounded)[best, each].reshape(n, -1)
    every = np.repeat(agree, group, axis=1)[:, :k]
    np.testing.assert_array_equal(q[every], expected[:, :k][every])


@pytest.mark.parametrize("fmt", PACKED)
def test_zeros_and_tiny_weights(fmt):
    w = np.zeros((3, 40), np.float32)
    w[1] = 1e-30
    w[2] = 1e-6
    values = packing.unpack(fmt, packing.pack(fmt, w), 3, 40)
    assert not values[0].any()
    np.testing.assert_allclose(values, w, atol=1e-7)


def test_int4_weights_beyond_half_precision_saturate():
    w = np.full((1, 32), 1e7, np.float32)
    values = packing.unpack(I4G, packing.pack(I4G, w), 1, 32)
    assert np.isfinite(values).all()
    assert (values > 4e5).all()


@pytest.mark.parametrize("fmt", PACKED)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_weights_that_are_no_numbers_are_refused(fmt, bad):
    w = np.ones((20, 70), np.float32)
    w[13, 69] = bad
    with pytest.raises(EngineError, match="NaN or infinite"):
        packing.pack(fmt, w)


@pytest.mark.parametrize("fmt", [F32, F16, BF16])
def test_float_formats_are_not_packed(fmt):
    with pytest.raises(ValueError, match="is not packed"):
        packing.pack(fmt, np.ones((16, 32), np.float32))
    with pytest.raises(ValueError, match="is not packed"):
        packing.unpack(fmt, np.zeros((1, 64), np.uint8), 16, 32)


@pytest.mark.parametrize(
    ("fmt", "k", "columns", "block"),
    [
        (F32, 33, 33, 16 * 33 * 4),
        (F16, 33, 33, 16 * 33 * 2),
        (BF16, 33, 33, 16 * 33 * 2),
        (I8R, 32, 32, 64 + 16 * 32),
        (I8R, 33, 64, 64 + 16 * 64),
        (I4G, 64, 64, 576),
        (I4G, 65, 128, 2 * 576),
        (I4G64, 64, 64, 64 + 512),
        (I4G64, 128, 128, 64 + 2 * 512),
        (I4G64, 129, 192, 2 * 64 + 3 * 512),
        (I4G128, 256, 256, 64 + 4 * 512),
        (I4G128, 300, 320, 2 * 64 + 5 * 512),
    ],
)
def test_sizes(fmt, k, columns, block):
    assert padded(fmt, k) == columns
    assert block_bytes(fmt, k) == block
    rows_of_17 = 2 * block if fmt in PACKED else 17 * k * itemsize(fmt)
    assert matrix_bytes(fmt, 17, k) == rows_of_17


def test_layout_tags_are_distinct():
    assert len(set(LAYOUT.values())) == len(LAYOUT) == 7
