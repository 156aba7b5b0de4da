"""Rows of the quantised formats: drawn at random, and read one weight at a time, as their definitions say."""

from __future__ import annotations

import struct

import numpy as np

from engine.kernels import formats as f

NAMES = {
    "f8": f.F8, "i8s": f.I8S, "mx4": f.MX4, "i4s": f.I4S, "i4z32": f.I4Z32, "i4z128": f.I4Z128, "q8_0": f.Q8_0,
    "q4_0": f.Q4_0, "q5_0": f.Q5_0, "mxfp4": f.MXFP4, "q4_k": f.Q4_K, "q5_k": f.Q5_K, "q6_k": f.Q6_K,
}  # fmt: skip
CUT = (f.F8, f.I8S, f.I4S, f.I4Z32, f.I4Z128)
"""Formats whose rows may end within a unit."""

_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def draw(fmt: int, n: int, k: int, rng: np.random.Generator) -> np.ndarray:
    """uint8 [n, row bytes]: any codes, with scales that make weights of about 1."""
    rows = rng.integers(0, 256, (n, f.row_bytes(fmt, k)), dtype=np.uint8)
    units = -(-k // f.unit_columns(fmt))

    def floats(*shape: int) -> np.ndarray:
        return (rng.uniform(0.05, 0.2, shape) * rng.choice([-1, 1], shape)).astype(np.float32)

    def halves(*shape: int) -> np.ndarray:
        less = {f.Q4_K: 30, f.Q5_K: 60, f.Q6_K: 100, f.Q8_0: 10}.get(fmt, 1)
        return (floats(*shape) / less).astype(np.float16).view(np.uint8).reshape(*shape, 2)

    codes = {f.F8: 128, f.MX4: 16, f.I4S: 16, f.I4Z32: 16, f.I4Z128: 64}.get(fmt, 0) * units
    match fmt:
        case f.F8:
            rows[:, :codes][rows[:, :codes] & 127 == 127] = 1  # NaN
            rows[:, codes:] = (floats(n, units) / 10).view(np.uint8)
        case f.I8S:
            rows[:, -4:] = (floats(n, 1) / 10).view(np.uint8)
        case f.MX4:
            rows[:, codes:] = rng.integers(122, 128, (n, units))
        case f.I4S:
            rows[:, codes:] = (floats(n, units).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
        case f.I4Z32 | f.I4Z128:
            rows[:, codes : codes + 4 * units] = floats(n, units).view(np.uint8)
            rows[:, codes + 4 * units :] = rng.integers(0, 16, (n, units))
        case f.MXFP4:
            rows.reshape(n, units, -1)[..., 0] = rng.integers(122, 128, (n, units))
        case f.Q6_K:
            rows.reshape(n, units, -1)[..., 208:] = halves(n, units)
        case _:
            for place in range(2 if fmt in (f.Q4_K, f.Q5_K) else 1):
                rows.reshape(n, units, -1)[..., 2 * place : 2 * place + 2] = halves(n, units)
    return rows


def _float(data: bytes, at: int) -> np.float32:
    return np.frombuffer(data[at : at + 4], np.float32)[0]


def _half(data: bytes, at: int) -> np.float32:
    return np.float32(struct.unpack_from("<e", data, at)[0])


def _nibble(byte: int, high: bool) -> int:
    return byte >> 4 if high else byte & 15


def _e2m1(code: int) -> float:
    return -_E2M1[code & 7] if code & 8 else _E2M1[code]


def _e4m3(code: int) -> float:
    exponent, fraction = code >> 3 & 15, code & 7
    size = fraction * 2.0**-9 if exponent == 0 else (8 + fraction) * 2.0 ** (exponent - 10)
    return -size if code & 128 else size


def _k_scale(block: bytes, group: int) -> tuple[int, int]:
    """The 6-bit scale and minimum of a group of a K-quant."""
    packed = block[4:16]
    if group < 4:
        return packed[group] & 63, packed[group + 4] & 63
    low = packed[group + 4]
    return low & 15 | packed[group - 4] >> 6 << 4, low >> 4 | packed[group] >> 6 << 4


def weight(fmt: int, row: bytes, k: int, column: int) -> np.float32:
    """One weight of a row of k columns."""
    columns = f.unit_columns(fmt)
    units, unit, c = -(-k // columns), column // columns, column % columns
    match fmt:
        case f.F8:
            return np.float32(_e4m3(row[column])) * _float(row, 128 * units + 4 * unit)
        case f.I8S:
            return np.float32(np.int8(np.uint8(row[column]))) * _float(row, len(row) - 4)
        case f.MX4:
            value = _e2m1(_nibble(row[column // 2], column % 2 == 1))
            return np.float32(value) * np.float32(2.0 ** (row[16 * units + unit] - 127))
        case f.I4S:
            scale = _float(bytes(2) + row[16 * units + 2 * unit : 16 * units + 2 * unit + 2], 0)
            return np.float32(_nibble(row[column // 2], column % 2 == 1) - 8) * scale
        case f.I4Z32 | f.I4Z128:
            scales = columns // 2 * units
            zero = row[scales + 4 * units + unit]
            return np.float32(_nibble(row[column // 2], column % 2 == 1) - zero) * _float(row, scales + 4 * unit)
    size = f.unit_bytes(fmt)
    block = row[unit * size : (unit + 1) * size]
    match fmt:
        case f.Q8_0:
            return np.float32(np.int8(np.uint8(block[2 + c]))) * _half(block, 0)
        case f.Q4_0:
            return np.float32(_nibble(block[2 + c % 16], c >= 16) - 8) * _half(block, 0)
        case f.Q5_0:
            fifth = struct.unpack_from("<I", block, 2)[0] >> c & 1
            return np.float32((_nibble(block[6 + c % 16], c >= 16) | fifth << 4) - 16) * _half(block, 0)
        case f.MXFP4:
            return np.float32(_e2m1(_nibble(block[1 + c % 16], c >= 16))) * np.float32(2.0 ** (block[0] - 127))
        case f.Q6_K:
            half, i = c // 128, c % 128
            low = _nibble(block[64 * half + i % 64], i >= 64)
            high = block[128 + 32 * half + i % 32] >> i // 32 * 2 & 3
            scale = np.float32(np.int8(np.uint8(block[192 + c // 16]))) * _half(block, 208)
            return np.float32((low | high << 4) - 32) * scale
    group, i = c // 32, c % 32
    scale, least = _k_scale(block, group)
    codes = 16 if fmt == f.Q4_K else 48
    value = _nibble(block[codes + group // 2 * 32 + i], group % 2 == 1)
    if fmt == f.Q5_K:
        value |= (block[16 + i] >> group & 1) << 4
    return np.float32(value) * (np.float32(scale) * _half(block, 0)) - np.float32(least) * _half(block, 2)
