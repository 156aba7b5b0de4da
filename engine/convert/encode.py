"""How a tensor is kept in a container, decided by what rounding it would cost.

The cost is the root of the mean squared error over the size of a typical weight: of normal weights, their standard
deviation. It is taken from the mean magnitude, since a few huge weights would hide what the others suffer. Normal
weights cost about 0.01 as int8 and 0.08 as int4, weights that were rounded to 4 bits before cost nothing when the old
scale is found again, and rows with a few very large values cost so much as int8 that they are kept as float16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import pi, prod, sqrt
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import EngineError
from ..experts.source import ExpertSource, Key
from ..kernels.formats import F16, F32, I4G, I8R, LAYOUT, itemsize, matrix_bytes
from ..kernels.packing import DIVISORS, WHOLE_DIVISORS, pack, unpack
from ..model.items import Packed, Read
from ..model.spec import ModelSpec
from ..model.storage import Shape, Stored
from ..model.tensors import PACKED_SUFFIX
from ..model.widening import Floats, dense_rows, dense_steps, expert_rows, part_shape, steps
from .container import HALF_LIMIT, Roles, merge

Bytes = npt.NDArray[np.uint8]
FREE: Final = 0.01
"""A dense matrix becomes int4 when that costs at most so much: where its weights were 4-bit integers before."""

DEAR: Final = 0.02
"""A dense matrix stays float16 when int8 costs more."""

_SAMPLES: Final = 4
"""Pieces of a tensor that are looked at before its encoding is chosen."""

_SAMPLE: Final = 1 << 18
"""Values in each of them, about."""


class Encoding(NamedTuple):
    """A format, and for int4 the divisors of its scales."""

    fmt: int
    divisors: tuple[float, ...] = DIVISORS


INT8: Final = Encoding(I8R)
INT4: Final = (Encoding(I4G), Encoding(I4G, WHOLE_DIVISORS))
"""Two ways to find an int4 group's scale: for weights at large, and for those rounded to 4 bits before."""


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


@dataclass(frozen=True, slots=True)
class Kept:
    """A dense tensor as the container will hold it. name: with the layout's tag. cost: by samples, 0 for floats."""

    name: str
    dtype: str
    shape: Shape
    encoding: Encoding
    nbytes: int
    cost: float

    @property
    def layout(self) -> str:
        """What `colibri.fmt` says of it."""
        return LAYOUT[self.encoding.fmt] if self.dtype == "U8" else self.dtype.lower()


class Encoder:
    """Decides for and encodes the tensors of one model; `int4`: whether dense matrices may become that."""

    def __init__(self, spec: ModelSpec, int4: bool, read: Read) -> None:
        self._roles, self._int4, self._read = Roles(spec), int4, read

    def packs(self, name: str, shape: Shape) -> bool:
        """Whether it is a matrix that could be packed."""
        return len(shape) == 2 and self._roles.is_matrix(name)

    def decide(self, name: str, shape: Shape, stored: Stored | Packed) -> Kept:
        """How the dense tensor of this hub name is kept."""
        if self.packs(name, shape):
            samples = list(self._samples(stored))
            found = [(cost(samples, one), one) for one in INT4] if self._int4 else []
            cheapest = min(found, default=(1.0, INT8), key=lambda pair: pair[0])
            if cheapest[0] > FREE:
                cheapest = cost(samples, INT8), INT8
            if cheapest[0] <= DEAR or not self._fits_half(stored):
                price, encoding = cheapest
                nbytes = matrix_bytes(encoding.fmt, *shape)
                return Kept(name + PACKED_SUFFIX[encoding.fmt], "U8", (nbytes,), encoding, nbytes, price)
            return _floats(name, shape, F16)
        half = self._roles.is_half(name) and self._fits_half(stored)
        return _floats(name, shape, F16 if half else F32)

    def encoded(self, kept: Kept, stored: Stored | Packed) -> Iterator[memoryview]:
        """The bytes of a dense tensor, piece after piece."""
        for first, count in dense_steps(stored):
            values = dense_rows(stored, self._read, first, count)
            if kept.dtype == "U8":
                data: npt.NDArray[np.generic] = pack(kept.encoding.fmt, values, kept.encoding.divisors)
            else:
                data = values.astype(np.float16 if kept.dtype == "F16" else np.float32)
            yield np.ascontiguousarray(data).view(np.uint8).reshape(-1).data

    def _samples(self, stored: Stored | Packed) -> Iterator[Floats]:
        pieces = list(dense_steps(stored, _SAMPLE))
        for first, count in pieces[:: -(-len(pieces) // _SAMPLES)]:
            yield dense_rows(stored, self._read, first, count)

    def _fits_half(self, stored: Stored | Packed) -> bool:
        peaks = [np.abs(dense_rows(stored, self._read, *piece)).max() for piece in dense_steps(stored)]
        return bool(max(peaks) < HALF_LIMIT)


def _floats(name: str, shape: Shape, fmt: int) -> Kept:
    return Kept(name, "F16" if fmt == F16 else "F32", shape, Encoding(fmt), prod(shape) * itemsize(fmt), 0.0)


def choose_int4(source: ExpertSource, spec: ModelSpec, key: Key, slot: Bytes) -> Encoding:
    """The better way to find the scales of a layer's experts, by samples of the one in the slot."""
    samples = []
    for part in range(3):
        shape = part_shape(spec, key[0], part)
        first, count = next(steps(*shape, _SAMPLE))
        samples.append(expert_rows(source, key, part, shape, slot, first, count))
    return min(INT4, key=lambda one: cost(samples, one))


def encode_expert(
    source: ExpertSource,
    spec: ModelSpec,
    key: Key,
    slot: Bytes,
    encoding: Encoding,
    nbytes: int,
    told: Callable[[Floats, Encoding, Bytes], None] | None = None,
) -> bytes:
    """The expert in a slot as a container keeps it; `told` hears of values and the blocks they became."""
    parts = []
    for part in range(3):
        shape = part_shape(spec, key[0], part)
        blocks = []
        for first, count in steps(*shape):
            values = expert_rows(source, key, part, shape, slot, first, count)
            try:
                packed = pack(encoding.fmt, values, encoding.divisors)
            except EngineError as error:
                raise EngineError(f"layer {key[0]}, expert {key[1]}: {error}") from None
            if told is not None:
                told(values, encoding, packed)
            blocks.append(packed)
        parts.append(np.concatenate(blocks))
    gate, up, down = parts
    return merge(gate, up, down, nbytes)
