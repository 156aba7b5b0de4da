"""Drawing a token: softmax at a temperature, the nucleus, one random number (Holtzman et al. 2020).

A vocabulary of 150,000 logits is read a few times, in order. The nucleus is found without sorting: non-negative floats
are ordered as their bits are, so the weights are summed by their upper bits, and inside the sum that crosses the
nucleus' share by the next bits, until the smallest weight in the nucleus is known to the last one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from .activations import exp_sub_sum
from .compiled import inner
from .pointers import f32, u32

_STEPS = ((21, 11), (10, 11), (0, 10))
"""(shift, bits) of the digits of a weight's 32 bits, the highest first."""

_DIGITS = 1 << 11
"""Values of the longest of those digits."""


@inner
def _sum_from(weights: int, n: int, shift: int, bits: int, prefix: int, above: float, target: float, sums: Any) -> Any:
    """Add up the weights whose bits above this digit are `prefix`, by digit, from the highest digit down.

    Returns the digit at which the sum, begun with `above`, reaches the target (the lowest that occurs if none does),
    and the sum before it. sums: room for them, float64 [1 << bits].
    """
    patterns, values = u32(weights), f32(weights)
    mask = (1 << bits) - 1
    for digit in range(mask + 1):
        sums[digit] = 0.0
    for i in range(n):
        if patterns[i] >> (shift + bits) == prefix:
            sums[(patterns[i] >> shift) & mask] += values[i]
    lowest, below = mask, above
    for digit in range(mask, -1, -1):
        if sums[digit] > 0.0:
            lowest, below = digit, above
            above += sums[digit]
            if above >= target:
                break
    return lowest, below


@inner
def _nucleus(weights: int, n: int, target: float, sums: Any) -> Any:
    """The smallest weight in the nucleus as bits, the sum of the larger ones, and how many of the equal ones are in."""
    prefix, above = 0, 0.0
    for shift, bits in _STEPS:
        digit, above = _sum_from(weights, n, shift, bits, prefix, above, target, sums)
        prefix = (prefix << bits) | digit
    patterns, values = u32(weights), f32(weights)
    equal, sum_of_equal = 0, above
    for i in range(n):
        if patterns[i] == prefix:
            equal += 1
            sum_of_equal += values[i]
            if sum_of_equal >= target:
                break
    return prefix, above, equal, sum_of_equal


@njit(cache=True, nogil=True)
def draw(logits: int, n: int, best: float, temperature: float, nucleus: float, uniform: float) -> int:
    """Draw an index of float32[n] logits, which are overwritten.

    best: the largest logit, finite. temperature: above 0. nucleus: draw among the fewest largest that hold this share
    of the probability, the lower indices of equal ones; at least one. uniform: a random number in [0, 1).
    """
    values, patterns = f32(logits), u32(logits)
    peak, slope = np.float32(best), np.float32(1.0 / temperature)
    for i in range(n):
        values[i] = (values[i] - peak) * slope
    exp_sub_sum(logits, n, np.float32(0.0))
    total = 0.0
    for i in range(n):
        total += values[i]
    least, equal, kept = 1, n, total  # the smallest float above 0
    if nucleus < 1.0:
        least, _, equal, kept = _nucleus(logits, n, nucleus * total, np.zeros(_DIGITS, np.float64))
    target, running, last = uniform * kept, 0.0, 0
    for i in range(n):
        if patterns[i] < least:
            continue
        if patterns[i] == least:
            if equal == 0:
                continue
            equal -= 1
        running += values[i]
        last = i
        if running > target:
            break
    return last
