"""Frequencies of the rotary embedding and their extensions to longer contexts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import UnsupportedModelError
from .spec import Rope


def _number(scaling: Mapping[str, Any], key: str, default: float | None = None) -> float:
    """A positive number of the scaling's."""
    value = scaling.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e30:
        raise UnsupportedModelError(f"config.json: rope_scaling needs a positive number for {key}, not {value!r}")
    return float(value)


def inverse_frequencies(rope: Rope) -> tuple[npt.NDArray[np.float32], float]:
    """Return (float32 [dim / 2] frequencies, the factor that cos and sin are multiplied by)."""
    exponents = np.arange(0, rope.dim, 2, dtype=np.float32) / np.float32(rope.dim)
    plain = (1.0 / (np.float32(rope.theta) ** exponents)).astype(np.float32)
    kind = rope.scaling.get("rope_type", "default")
    if kind in ("default", "dynamic"):
        return plain, 1.0
    if kind == "linear":
        return (plain / np.float32(_number(rope.scaling, "factor"))).astype(np.float32), 1.0
    if kind == "proportional":
        # Like a head that is rotated whole, but for its slower dimensions, which do not move at all.
        turning = int(_number(rope.scaling, "share") * rope.dim // 2)
        kept = np.where(np.arange(len(plain)) < turning, plain, np.float32(0))
        return (kept / np.float32(_number(rope.scaling, "factor", 1.0))).astype(np.float32), 1.0
    if kind == "yarn":
        return _yarn(rope, plain)
    if kind == "llama3":
        return _llama3(rope, plain), 1.0
    if kind == "longrope":
        return _longrope(rope, plain)
    raise UnsupportedModelError(f"config.json: rope_scaling type {kind!r} is not supported")


def longest(rope: Rope) -> int | None:
    """The positions for which the frequencies hold; past them others hold for all positions. None: there is no end.

    What is in a conversation's cache would be wrong then, so that no context is longer than this.
    """
    scaling, kind = rope.scaling, rope.scaling.get("rope_type", "default")
    if kind == "dynamic":
        return int(_number(scaling, "max_position_embeddings"))
    # A model with factors for cos and sin of its own (Phi-3.5-MoE) changes them, and never its frequencies.
    change = ("short_mscale", "long_mscale") if "short_mscale" in scaling else ("short_factor", "long_factor")
    if kind != "longrope" or scaling.get(change[1]) in (None, scaling.get(change[0])):
        return None
    return max(int(_original(scaling)), 1)


def softmax_factor(rope: Rope) -> float:
    """What DeepSeek's latent attention multiplies its scores by under a scaled rope: mscale(factor)^2, else 1."""
    scaling = rope.scaling
    if scaling.get("rope_type", "default") == "default" or not scaling.get("mscale_all_dim"):
        return 1.0
    return _mscale(_number(scaling, "factor"), _number(scaling, "mscale_all_dim")) ** 2


def _original(scaling: Mapping[str, Any]) -> float:
    """The context that a model had before it was extended."""
    return _number(scaling, "original_max_position_embeddings", _number(scaling, "max_position_embeddings"))


def _mscale(factor: float, share: float) -> float:
    return 0.1 * share * math.log(factor) + 1.0 if factor > 1 else 1.0


def _yarn(rope: Rope, plain: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], float]:
    """YaRN (Peng et al. 2023, eq. 13-16): slow dimensions interpolated, fast ones kept, a ramp between."""
    scaling = rope.scaling
    original = _original(scaling)
    factor = _number(scaling, "factor", _number(scaling, "max_position_embeddings") / original)
    if rope.theta <= 1:
        raise UnsupportedModelError(f"config.json: rope_theta {rope.theta:g} is too small for yarn")

    def dimension(rotations: float) -> float:
        return rope.dim * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(rope.theta))

    low, high = dimension(_number(scaling, "beta_fast", 32)), dimension(_number(scaling, "beta_slow", 1))
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, rope.dim - 1)
    if low == high:
        high += 0.001
    ramp = np.clip((np.arange(rope.dim // 2, dtype=np.float32) - low) / (high - low), 0, 1)
    frequencies = plain / factor * ramp + plain * (1 - ramp)

    if "attention_factor" in scaling:
        attention = _number(scaling, "attention_factor")
    elif scaling.get("mscale") and scaling.get("mscale_all_dim"):
        attention = _mscale(factor, _number(scaling, "mscale")) / _mscale(factor, _number(scaling, "mscale_all_dim"))
    else:
        attention = _mscale(factor, 1.0)
    return frequencies.astype(np.float32), attention


def _llama3(rope: Rope, plain: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Llama 3.1: long wavelengths are divided by the factor, short ones kept, those between blended."""
    scaling = rope.scaling
    factor, original = _number(scaling, "factor"), _number(scaling, "original_max_position_embeddings")
    low, high = _number(scaling, "low_freq_factor"), _number(scaling, "high_freq_factor")
    if high <= low:
        raise UnsupportedModelError(f"config.json: llama3 rope needs low_freq_factor {low:g} below high_freq_factor")
    wavelength = 2 * math.pi / plain
    blend = (original / wavelength - low) / (high - low)
    blended = (1 - blend) * plain / factor + blend * plain
    scaled = np.where(wavelength > original / low, plain / factor, plain)
    between = (wavelength >= original / high) & (wavelength <= original / low)
    return np.where(between, blended, scaled).astype(np.float32)


def _longrope(rope: Rope, plain: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], float]:
    """LongRoPE within the original context: frequencies divided by the short factors.

    cos and sin are multiplied by `short_mscale` (Phi-3.5-MoE), else by what the extension's factor asks for.
    """
    scaling = rope.scaling
    factors = scaling.get("short_factor")
    if not isinstance(factors, tuple) or len(factors) != len(plain):
        raise UnsupportedModelError(f"config.json: longrope needs {len(plain)} short_factor values")
    frequencies = (plain / np.asarray(factors, np.float32)).astype(np.float32)
    for key in ("short_mscale", "attention_factor"):
        if key in scaling:
            return frequencies, _number(scaling, key)
    original = _original(scaling)
    factor = _number(scaling, "factor", _number(scaling, "max_position_embeddings") / original)
    if factor <= 1 or original <= 1:
        return frequencies, 1.0
    return frequencies, math.sqrt(1 + math.log(factor) / math.log(original))


class RopeTable:
    """cos and sin of a forward's rows, refilled in place: float32 [max_rows, dim / 2] each."""

    def __init__(self, rope: Rope, cos: npt.NDArray[np.float32], sin: npt.NDArray[np.float32]) -> None:
        self._frequencies, self._factor = inverse_frequencies(rope)
        self.cos, self.sin = cos, sin

    def fill(self, position: int, rows: int) -> None:
        """Rows 0..rows-1 stand at `position` and after. Angles are float32 products, as in the reference."""
        angles = np.arange(position, position + rows, dtype=np.float32)[:, None] * self._frequencies
        np.multiply(np.cos(angles), np.float32(self._factor), out=self.cos[:rows])
        np.multiply(np.sin(angles), np.float32(self._factor), out=self.sin[:rows])
