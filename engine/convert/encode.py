"""Encodes the tensors of a model as a container keeps them; the rule that decides how is in `choice`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt

from ..errors import EngineError
from ..experts.source import ExpertSource, Key
from ..kernels.formats import F16, F32, LAYOUT, itemsize, matrix_bytes
from ..kernels.packing import pack
from ..model.items import Packed, Read
from ..model.spec import ModelSpec
from ..model.storage import Shape, Stored
from ..model.tensors import PACKED_SUFFIX
from ..model.widening import Floats, dense_rows, dense_steps, expert_rows, part_shape, steps
from .choice import DEAR, FAILED, FREE, Bytes, Choice, Encoding, choose
from .container import HALF_LIMIT, Roles, merge

_SAMPLES: Final = 4
"""Pieces of a tensor that are looked at before its encoding is chosen."""

_SAMPLE: Final = 1 << 18
"""Values in each of them, about; of experts a quarter of that."""

ExpertEncodings = tuple[Encoding, Encoding]
"""Of gate and up, whose blocks alternate, and of down."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A dense tensor as the container will hold it. name: with the layout's tag. choice: if it could be packed."""

    name: str
    dtype: str
    shape: Shape
    encoding: Encoding
    nbytes: int
    choice: Choice | None

    @property
    def layout(self) -> str:
        """What `colibri.fmt` says of it."""
        return LAYOUT[self.encoding.fmt] if self.dtype == "U8" else self.dtype.lower()


class Encoder:
    """Decides for and encodes the dense tensors of one model; `groups`: sizes of int4 that they may have, if any."""

    def __init__(self, spec: ModelSpec, groups: Sequence[int], read: Read) -> None:
        self._roles, self._groups, self._read = Roles(spec), groups, read

    def packs(self, name: str, shape: Shape) -> bool:
        """Whether it is a matrix that could be packed."""
        return len(shape) == 2 and self._roles.is_matrix(name)

    def decide(self, name: str, shape: Shape, stored: Stored | Packed) -> Kept:
        """How the dense tensor of this hub name is kept."""
        if self.packs(name, shape):
            choice = choose(list(self._samples(stored)), self._groups, FREE)
            fmt = choice.encoding.fmt
            if choice.cost <= DEAR or not self._fits_half(stored):
                nbytes = matrix_bytes(fmt, *shape)
                return Kept(name + PACKED_SUFFIX[fmt], "U8", (nbytes,), choice.encoding, nbytes, choice)
            return _floats(name, shape, F16, choice)
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


def _floats(name: str, shape: Shape, fmt: int, choice: Choice | None = None) -> Kept:
    return Kept(name, "F16" if fmt == F16 else "F32", shape, Encoding(fmt), prod(shape) * itemsize(fmt), choice)


def expert_samples(source: ExpertSource, spec: ModelSpec, key: Key, slot: Bytes) -> tuple[list[Floats], list[Floats]]:
    """Some rows of the expert in a slot: of gate and up, and of down."""
    rows = []
    for part in range(3):
        shape = part_shape(spec, key[0], part)
        first, count = next(steps(*shape, _SAMPLE // 4))
        rows.append(expert_rows(source, key, part, shape, slot, first, count))
    return rows[:2], rows[2:]


def choose_experts(
    samples: Iterable[tuple[list[Floats], list[Floats]]], groups: Sequence[int]
) -> tuple[Choice, Choice]:
    """How a layer's experts are kept, by samples of some: gate and up, and down."""
    wide, high = (list(chain.from_iterable(rows)) for rows in zip(*samples, strict=True))
    return choose(wide, groups, FAILED), choose(high, groups, FAILED)


def encode_expert(
    source: ExpertSource,
    spec: ModelSpec,
    key: Key,
    slot: Bytes,
    encodings: ExpertEncodings,
    nbytes: int,
    told: Callable[[int, Floats, Encoding, Bytes], None] | None = None,
) -> bytes:
    """The expert in a slot as a container keeps it; `told` hears of its parts (0 gate, 1 up, 2 down) and the blocks
    they became."""
    parts = []
    for part in range(3):
        shape, encoding = part_shape(spec, key[0], part), encodings[part == 2]
        blocks = []
        for first, count in steps(*shape):
            values = expert_rows(source, key, part, shape, slot, first, count)
            try:
                packed = pack(encoding.fmt, values, encoding.divisors)
            except EngineError as error:
                raise EngineError(f"layer {key[0]}, expert {key[1]}: {error}") from None
            if told is not None:
                told(part, values, encoding, packed)
            blocks.append(packed)
        parts.append(np.concatenate(blocks))
    gate, up, down = parts
    return merge(gate, up, down, nbytes)
