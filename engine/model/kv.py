"""What a model keeps of a conversation: keys and values, or a mixer's running state, layer by layer.

Numbers are float32 where the weights came as floats, so that a reference can be met to the last digits, and float16
where the weights were quantised by us anyway: half the memory, half the reading. Sums over them are float32 always.
Memory is reserved for the whole context and taken from the system page by page as the conversation grows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..kernels.formats import F16, F32
from ..kernels.memory import Block
from .mixers import mixer_of
from .spec import ModelSpec

_PAGE = 4096

MARKS = 5
"""Copies of the running state that are kept to go back to, two a turn and one; the memory plan counts them."""


@dataclass(frozen=True, slots=True)
class LayerCache:
    """One layer's share: where it lies, for how many tokens, in which number format.

    scratch: address of the memory that mixers share while they compute.
    """

    address: int
    capacity: int
    fmt: int
    scratch: int


def kv_format(choice: str | None, packed: bool) -> int:
    """The cache's format: as chosen, else by the weights."""
    return {"f32": F32, "f16": F16, None: F16 if packed else F32}[choice]


def _layer_bytes(spec: ModelSpec, layer: int, capacity: int, fmt: int) -> int:
    return -(-mixer_of(spec, layer).cache_bytes(capacity, fmt) // _PAGE) * _PAGE


def kv_bytes(spec: ModelSpec, capacity: int, fmt: int) -> int:
    """Bytes for conversations of up to `capacity` tokens."""
    layers = range(len(spec.layers))
    scratch = max(mixer_of(spec, layer).context_scratch(capacity) for layer in layers)
    copies = MARKS * sum(mixer_of(spec, layer).state_bytes() for layer in layers)
    return sum(_layer_bytes(spec, layer, capacity, fmt) for layer in layers) + scratch + copies


class KVCache:
    """The memory of one conversation of up to `capacity` tokens.

    recurrent: whether some layers keep a running state.
    """

    def __init__(self, spec: ModelSpec, capacity: int, fmt: int) -> None:
        layers = range(len(spec.layers))
        sizes = [_layer_bytes(spec, layer, capacity, fmt) for layer in layers]
        shared = max(mixer_of(spec, layer).context_scratch(capacity) for layer in layers)
        self._block = Block(sum(sizes) + shared, huge=False)
        self.layers: list[LayerCache] = []
        self._states: list[npt.NDArray[np.uint8]] = []
        offset, scratch = 0, self._block.address + sum(sizes)
        for layer, size in enumerate(sizes):
            self.layers.append(LayerCache(self._block.address + offset, capacity, fmt, scratch))
            state = mixer_of(spec, layer).state_bytes()
            if state:
                self._states.append(self._block.array(offset, (state,), np.uint8))
            offset += size
        self.recurrent = bool(self._states)

    def save_state(self) -> list[npt.NDArray[np.uint8]]:
        """A copy of the running state of all layers."""
        return [state.copy() for state in self._states]

    def set_state(self, saved: list[npt.NDArray[np.uint8]] | None) -> None:
        """Set the running state to a copy, or to that before the first token."""
        for index, state in enumerate(self._states):
            state[:] = saved[index] if saved is not None else 0
