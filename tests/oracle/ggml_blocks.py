"""ggml's blocks of quantised weights, written here from their definitions, and what they stand for.

The quantisers are the plainest there are: what is tested is how blocks are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .quantised import mxfp4
from .safetensors_file import rounded, stored

Floats = npt.NDArray[np.float32]
Blocks = npt.NDArray[np.uint8]
Quantised = tuple[Blocks, Floats]
"""Blocks [rows, units, bytes], and the values [rows, units, columns of a unit]."""


def _bytes(*parts: npt.NDArray[Any]) -> Blocks:
    """The fields of blocks, one behind another: arrays [rows, units, ...]."""
    flat = [np.ascontiguousarray(part).reshape(*part.shape[:2], -1).view(np.uint8) for part in parts]
    return np.concatenate(flat, axis=2)


def _halves(values: npt.NDArray[Any]) -> npt.NDArray[np.float16]:
    """float16 scales, none of them zero."""
    return np.maximum(values, 1e-4).astype(np.float16)


def _symmetric(w: Floats, bits: int) -> tuple[npt.NDArray[np.float16], npt.NDArray[np.int64], Floats]:
    """A scale for a block, integers around zero, and what they stand for."""
    most = (1 << bits - 1) - 1
    scales = _halves(np.abs(w).max(2, keepdims=True) / most)
    q = np.clip(np.rint(w / scales.astype(np.float32)), -most - 1, most).astype(np.int64)
    return scales, q, q * scales.astype(np.float32)


def _in_halves(q: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """The low four bits of 32 integers in 16 bytes: the first half in the low nibbles, the second in the high."""
    low, high = q[..., :16] & 15, q[..., 16:] & 15
    return (low | high << 4).astype(np.uint8)


def _q8_0(w: Floats) -> Quantised:
    scales, q, values = _symmetric(w, 8)
    return _bytes(scales, q.astype(np.int8)), values


def _q4_0(w: Floats) -> Quantised:
    scales, q, values = _symmetric(w, 4)
    return _bytes(scales, _in_halves(q + 8)), values


def _q5_0(w: Floats) -> Quantised:
    scales, q, values = _symmetric(w, 5)
    fifth = ((q + 16 >> 4) << np.arange(32)).sum(2, keepdims=True).astype(np.uint32)
    return _bytes(scales, fifth, _in_halves(q + 16)), values


def _mxfp4(w: Floats) -> Quantised:
    codes, exponents, values = mxfp4(w)
    pairs = codes[..., 0, :]  # pairs of neighbours, where ggml has pairs of halves
    q = np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(w.shape).astype(np.int64)
    return _bytes(exponents, _in_halves(q)), values


def _k(w: Floats, bits: int) -> tuple[Blocks, npt.NDArray[np.int64], Floats]:
    """Q4_K and Q5_K: head of the block, integers [rows, units, 8, 32], values. A group has a scale and a minimum."""
    groups = w.reshape(*w.shape[:2], 8, 32)
    low, high = np.minimum(groups.min(3), 0), np.maximum(groups.max(3), 0)
    most = (1 << bits) - 1

    def six_bits(sizes: Floats) -> tuple[npt.NDArray[np.float16], npt.NDArray[np.int64], Floats]:
        step = _halves(sizes.max(2, keepdims=True) / 63)
        q = np.clip(np.ceil(sizes / step.astype(np.float32)), 1, 63).astype(np.int64)
        return step, q, (q * step.astype(np.float32))[..., None]

    scale_step, scale_q, scales = six_bits((high - low) / most)
    least_step, least_q, least = six_bits(-low)
    q = np.clip(np.rint((groups + least) / scales), 0, most).astype(np.int64)
    packed = np.concatenate(
        [
            scale_q[..., :4] | scale_q[..., 4:] >> 4 << 6,
            least_q[..., :4] | least_q[..., 4:] >> 4 << 6,
            scale_q[..., 4:] & 15 | (least_q[..., 4:] & 15) << 4,
        ],
        axis=2,
    ).astype(np.uint8)
    values = (q * scales - least).astype(np.float32)
    return _bytes(scale_step, least_step, packed), q, values.reshape(w.shape)


def _nibbles(q: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Low four bits of 8 groups of 32: two groups share 32 bytes."""
    return (q[..., ::2, :] & 15 | (q[..., 1::2, :] & 15) << 4).astype(np.uint8)


def _q4_k(w: Floats) -> Quantised:
    head, q, values = _k(w, 4)
    return _bytes(head, _nibbles(q)), values


def _q5_k(w: Floats) -> Quantised:
    head, q, values = _k(w, 5)
    fifth = ((q >> 4) << np.arange(8)[:, None]).sum(2).astype(np.uint8)
    return _bytes(head, fifth, _nibbles(q)), values


def _q6_k(w: Floats) -> Quantised:
    groups = w.reshape(*w.shape[:2], 16, 16)
    sizes = np.abs(groups).max(3) / 31
    step = _halves(sizes.max(2, keepdims=True) / 127)
    scale_q = np.clip(np.ceil(sizes / step.astype(np.float32)), 1, 127).astype(np.int8)
    scales = (scale_q * step.astype(np.float32))[..., None]
    q = np.clip(np.rint(groups / scales), -32, 31).astype(np.int64)
    values = (q * scales).astype(np.float32).reshape(w.shape)
    quarters = (q + 32).reshape(*w.shape[:2], 2, 4, 32)  # of each half of a block
    low = quarters[..., :2, :] & 15 | (quarters[..., 2:, :] & 15) << 4
    high = ((quarters >> 4) << 2 * np.arange(4)[:, None]).sum(3)
    return _bytes(low.astype(np.uint8), high.astype(np.uint8), scale_q, step), values


KINDS: dict[str, tuple[int, int, Callable[[Floats], Quantised]]] = {
    "Q8_0": (8, 32, _q8_0), "Q4_0": (2, 32, _q4_0), "Q5_0": (6, 32, _q5_0), "MXFP4": (39, 32, _mxfp4),
    "Q4_K": (12, 256, _q4_k), "Q5_K": (13, 256, _q5_k), "Q6_K": (14, 256, _q6_k),
}  # fmt: skip
"""Name -> number in files, weights of a block, quantiser."""

PLAIN = {"F32": 0, "F16": 1, "BF16": 30}


def quantise(kind: str, w: Floats) -> tuple[int, bytes, Floats]:
    """A tensor of whole blocks as the type of a file: its number there, the data, and what they stand for."""
    if kind in PLAIN:
        values = rounded(w, kind)
        return PLAIN[kind], stored(values, kind).data, values
    number, columns, quantiser = KINDS[kind]
    blocks, values = quantiser(w.reshape(-1, w.shape[-1] // columns, columns))
    return number, blocks.tobytes(), values.reshape(w.shape).astype(np.float32)
