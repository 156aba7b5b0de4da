"""What rounding a tensor would cost, and the one rule by which that decides how it is kept.

The cost is the root of the mean squared error over the size of a typical weight: of normal weights, their standard
deviation. It is taken from the mean magnitude, since a few huge weights would hide what the others suffer. Normal
weights cost about 0.01 as int8, 0.08 as int4 in groups of 32 and 0.10 in groups of 128; weights that were rounded to
4 bits before cost nothing when the old scale is found again; rows with a few very large values cost so much as int8
that a dense matrix is kept as float16.

The rule. Among int4's group sizes the largest one that makes the tensor smaller and costs at most SLACK times what
groups of 32 cost (the smallest size, if others are asked for); int8, if even that costs more than a limit; and float16
for dense matrices, if int8 costs more than DEAR.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import pi, sqrt
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..kernels.formats import I8R, INT4, block_bytes
from ..kernels.packing import DIVISORS, WHOLE_DIVISORS, pack, unpack

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

GROUPS: Final = tuple(INT4)
"""Group sizes of int4, ascending."""

SLACK: Final = 1.05
"""A larger group may cost so many times what the smallest one costs. Normal weights cost 1.11 times as much in groups
of 64 and stay in groups of 32; evenly spread ones, and those that another program rounded in larger groups, do not."""

NOTHING: Final = 0.001
"""Costs that differ by less are the same."""

FREE: Final = 0.01
"""A dense matrix becomes int4 when that costs at most so much: where its weights were 4-bit integers before."""

FAILED: Final = 0.2
"""Experts become int8 in a container of int4 when int4 costs more: a few large weights leave nothing of the rest."""

DEAR: Final = 0.02
"""A dense matrix stays float16 when int8 costs more."""


class Encoding(NamedTuple):
    """A packed format, and for int4 the divisors of its scales."""

    fmt: int
    divisors: tuple[float, ...] = DIVISORS

    @property
    def title(self) -> str:
        """How a record calls it."""
        return "int8" if self.fmt == I8R else f"int4/{next(group for group, fmt in INT4.items() if fmt == self.fmt)}"


INT8: Final = Encoding(I8R)


class Choice(NamedTuple):
    """cost: of the encoding. tried: the cost of each that was measured, by its title."""

    encoding: Encoding
    cost: float
    tried: Mapping[str, float]


class Cost:
    """What rounding cost, over all values that were added."""

    def __init__(self) -> None:
        self._error = self._magnitude = 0.0
        self._count = 0

    def add(self, values: Floats, encoding: Encoding, packed: Bytes) -> None:
        """Add float32 [n, k] and the blocks they became."""
        miss = unpack(encoding.fmt, packed, *values.shape)
        miss -= values
        self._error += float(np.vdot(miss, miss))
        self._magnitude += float(np.abs(values).sum())
        self._count += values.size

    @property
    def value(self) -> float:
        """Error relative to a typical weight; 0 where there is no weight but zero."""
        if not self._magnitude:
            return 0.0
        return sqrt(self._error / self._count) / (self._magnitude / self._count * sqrt(pi / 2))


def cost(samples: Iterable[Floats], encoding: Encoding) -> float:
    """What an encoding costs, by samples."""
    measured = Cost()
    for values in samples:
        measured.add(values, encoding, pack(encoding.fmt, values, encoding.divisors))
    return measured.value


def choose(samples: Sequence[Floats], groups: Sequence[int], limit: float) -> Choice:
    """How a tensor is kept, by samples of its rows, float32 [count, k].

    groups: sizes of int4 that may be taken, ascending; none: only int8. limit: what int4 may cost at most.
    """
    tried: dict[str, float] = {}
    best: Choice | None = None
    for group in groups:
        if best is not None and not _smaller(INT4[group], best.encoding.fmt, samples[0].shape[1]):
            continue
        # Two ways to find the scale: for weights at large, and for those rounded to 4 bits before.
        ways = [Encoding(INT4[group], divisors) for divisors in (DIVISORS, WHOLE_DIVISORS)]
        price, encoding = min(((cost(samples, way), way) for way in ways), key=lambda pair: pair[0])
        tried[encoding.title] = price
        if best is None:
            if price > limit:
                break
            limit = min(limit, price * SLACK + NOTHING)
        if price <= limit:
            best = Choice(encoding, price, tried)
    if best is None:
        tried[INT8.title] = price = cost(samples, INT8)
        return Choice(INT8, price, tried)
    return best


def _smaller(fmt: int, other: int, k: int) -> bool:
    return block_bytes(fmt, k) < block_bytes(other, k)
