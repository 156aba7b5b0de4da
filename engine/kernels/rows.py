"""What rows of the row-major weight formats stand for, in numpy.

`unpack_rows` gives the very values the kernels compute with, to the last bit. It serves conversion and tensors that are
kept as float32; nothing here runs while a model answers. The formats are described in `hub_rows` and `gguf_rows`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .formats import (
    BF16,
    F8,
    F16,
    F32,
    I4S,
    I4Z32,
    I4Z128,
    I8S,
    MX4,
    MXFP4,
    Q4_0,
    Q4_K,
    Q5_0,
    Q5_K,
    Q6_K,
    Q8_0,
    unit_bytes,
    unit_columns,
)

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
"""Values of 4-bit floats by code."""


def _e4m3() -> Floats:
    """Values of 8-bit floats by code; NaN's two codes as the kernels read them."""
    code = np.arange(256)
    exponent, fraction = code >> 3 & 15, code & 7
    size = np.where(exponent == 0, fraction / 8 * 2.0**-6, (1 + fraction / 8) * 2.0 ** (exponent - 7.0))
    return np.where(code & 128, -size, size).astype(np.float32)


E4M3 = _e4m3()


def float_of_bf16(bits: npt.NDArray[np.uint16]) -> Floats:
    """float32 from the bits of bfloat16."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def power_of_two(exponents: Bytes) -> Floats:
    """2^(e - 127), 0 for e = 0."""
    return (exponents.astype(np.uint32) << 23).view(np.float32)


def _view(part: Bytes, dtype: Any) -> npt.NDArray[Any]:
    return np.ascontiguousarray(part).view(dtype)


def _pairs(codes: Bytes) -> Bytes:
    """[..., b] bytes -> [..., 2 b] codes, low halves first."""
    return np.stack((codes & 15, codes >> 4), axis=-1).reshape(*codes.shape[:-1], -1)


def _halves(codes: Bytes) -> Bytes:
    """[..., b] bytes -> [..., 2 b] codes: all low halves, then all high ones."""
    return np.concatenate((codes & 15, codes >> 4), axis=-1)


def _f8(codes: Bytes, scales: Bytes) -> Floats:
    return E4M3[codes] * scales.view(np.float32)[..., None]


def _mx4(codes: Bytes, scales: Bytes) -> Floats:
    return E2M1[_pairs(codes)] * power_of_two(scales)[..., None]


def _i4s(codes: Bytes, scales: Bytes) -> Floats:
    return (_pairs(codes) - np.float32(8)) * float_of_bf16(scales.view(np.uint16))[..., None]


def _i4z(codes: Bytes, scales: Bytes) -> Floats:
    units = scales.shape[1] // 5
    factors, zeros = _view(scales[:, : 4 * units], np.float32), scales[:, 4 * units :]
    return (_pairs(codes).astype(np.float32) - zeros[..., None]) * factors[..., None]


def _i8s(codes: Bytes, scales: Bytes) -> Floats:
    return codes.view(np.int8) * scales.view(np.float32)[..., None]


_CODES_THEN_SCALES: dict[int, tuple[int, Callable[[Bytes, Bytes], Floats]]] = {
    F8: (128, _f8), MX4: (16, _mx4), I4S: (16, _i4s), I4Z32: (16, _i4z), I4Z128: (64, _i4z), I8S: (32, _i8s),
}  # fmt: skip
"""Bytes of a unit's codes; (codes [n, units, bytes], scales [n, bytes]) -> [n, units, columns]."""


def _scale(block: Bytes, at: int = 0) -> Floats:
    return _view(block[..., at : at + 2], np.float16).astype(np.float32)


def _q8_0(block: Bytes) -> Floats:
    return block[..., 2:].view(np.int8).astype(np.float32) * _scale(block)


def _q4_0(block: Bytes) -> Floats:
    return (_halves(block[..., 2:]) - np.float32(8)) * _scale(block)


def _q5_0(block: Bytes) -> Floats:
    fifth = np.unpackbits(block[..., 2:6], axis=-1, bitorder="little")
    return ((_halves(block[..., 6:]) | fifth << 4) - np.float32(16)) * _scale(block)


def _mxfp4(block: Bytes) -> Floats:
    return E2M1[_halves(block[..., 1:])] * power_of_two(block[..., :1])


def _k_scales(block: Bytes) -> tuple[Floats, Floats]:
    """Scales and minimums of the 8 groups of a unit, [..., 8, 1]."""
    first, second, third = (block[..., 4 + 4 * i : 8 + 4 * i] for i in range(3))
    scale = np.concatenate((first & 63, third & 15 | first >> 6 << 4), axis=-1).astype(np.float32)
    least = np.concatenate((second & 63, third >> 4 | second >> 6 << 4), axis=-1).astype(np.float32)
    return (scale * _scale(block))[..., None], (least * _scale(block, 2))[..., None]


def _q4_k(block: Bytes) -> Floats:
    scale, least = _k_scales(block)
    codes = _halves(block[..., 16:].reshape(*block.shape[:-1], 4, 32)).reshape(*block.shape[:-1], 8, 32)
    return codes * scale - least


def _q5_k(block: Bytes) -> Floats:
    scale, least = _k_scales(block)
    codes = _halves(block[..., 48:].reshape(*block.shape[:-1], 4, 32)).reshape(*block.shape[:-1], 8, 32)
    fifth = block[..., None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    return (codes | fifth << 4) * scale - least


def _q6_k(block: Bytes) -> Floats:
    shape = block.shape[:-1]
    low = _halves(block[..., :128].reshape(*shape, 2, 64)).reshape(*shape, 2, 4, 32)
    high = block[..., 128:192].reshape(*shape, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    codes = (low | high << 4).astype(np.int8) - np.int8(32)
    scales = block[..., 192:208].view(np.int8).astype(np.float32) * _scale(block, 208)
    return codes.reshape(*shape, 16, 16) * scales[..., None]


_BLOCKS: dict[int, Callable[[Bytes], Floats]] = {
    Q8_0: _q8_0, Q4_0: _q4_0, Q5_0: _q5_0, MXFP4: _mxfp4, Q4_K: _q4_k, Q5_K: _q5_k, Q6_K: _q6_k,
}  # fmt: skip
"""GGUF's: [n, units, bytes] -> [n, units, ...columns]."""


def unpack_rows(fmt: int, rows: Bytes, k: int) -> Floats:
    """The float32 [n, k] that uint8 [n, row bytes] of a row-major format stand for."""
    n, columns = len(rows), unit_columns(fmt)
    units = -(-k // columns)
    rows = np.ascontiguousarray(rows)
    if fmt == F32:
        return rows.view(np.float32)
    if fmt == F16:
        return rows.view(np.float16).astype(np.float32)
    if fmt == BF16:
        return float_of_bf16(rows.view(np.uint16))
    if fmt in _CODES_THEN_SCALES:
        size, unpack = _CODES_THEN_SCALES[fmt]
        codes = rows[:, : units * size].reshape(n, units, size)
        values = unpack(codes, np.ascontiguousarray(rows[:, units * size :]))
    else:
        values = _BLOCKS[fmt](rows.reshape(n, units, unit_bytes(fmt)))
    return np.ascontiguousarray(values.reshape(n, units * columns)[:, :k])
