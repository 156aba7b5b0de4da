"""Tensors of the demo's base model as float32: a GGUF file with three types of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.checkpoint.gguf import Gguf
from engine.errors import CheckpointError

Floats = npt.NDArray[np.float32]

_BLOCK = 32
"""Weights that share a scale."""

_Q4_1 = np.dtype([("scale", "<f2"), ("least", "<f2"), ("quants", "u1", _BLOCK // 2)])
_Q8_0 = np.dtype([("scale", "<f2"), ("quants", "i1", _BLOCK)])


def _f32(data: npt.NDArray[Any]) -> Floats:
    return data.astype(np.float32)


def _q4_1(blocks: npt.NDArray[Any]) -> Floats:
    """value = quant * scale + least; a byte holds quant i in its low and quant i + 16 in its high half."""
    values = np.empty((len(blocks), _BLOCK), np.float32)
    values[:, : _BLOCK // 2] = blocks["quants"] & 15
    values[:, _BLOCK // 2 :] = blocks["quants"] >> 4
    values *= blocks["scale"].astype(np.float32)[:, None]
    values += blocks["least"].astype(np.float32)[:, None]
    return values


def _q8_0(blocks: npt.NDArray[Any]) -> Floats:
    """value = quant * scale."""
    return blocks["quants"].astype(np.float32) * blocks["scale"].astype(np.float32)[:, None]


_TYPES: dict[int, tuple[np.dtype[Any], Callable[[npt.NDArray[Any]], Floats]]] = {
    0: (np.dtype("<f4"), _f32),
    3: (_Q4_1, _q4_1),
    8: (_Q8_0, _q8_0),
}
"""ggml type -> (block, how blocks become float32)."""


class BaseModel(Gguf):
    """An open GGUF file and its tensors."""

    def __init__(self, data: memoryview, origin: str) -> None:
        super().__init__(data, origin)
        self._data = data

    def tensor(self, name: str) -> Floats:
        """Return a tensor as float32, slowest dimension first. The array is the caller's own.

        Raises CheckpointError when it is absent, of a type that is not read, or not wholly in the file.
        """
        where = f"{self.origin}: tensor {name!r}"
        if name not in self.tensors:
            raise CheckpointError(f"{where} is missing")
        tensor = self.tensors[name]
        if tensor.kind not in _TYPES:
            raise CheckpointError(f"{where} has ggml type {tensor.kind}; only F32, Q4_1 and Q8_0 are read")
        block, to_float = _TYPES[tensor.kind]
        blocks = np.frombuffer(self._data, block, self.nbytes(name) // block.itemsize, tensor.offset)
        return to_float(blocks).reshape(tensor.shape)
