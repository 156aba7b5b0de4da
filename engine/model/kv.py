"""The key/value cache: [kv_heads, capacity, head_dim] for keys and for values of every layer.

Numbers are float32 where the weights came as floats, so that a reference can be met to the last digits, and float16 where
the weights were quantised by us anyway: half the memory, half the reading. Sums over them are float32 always. Memory is reserved for the whole context and taken from the system page by page as the conversation grows.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..kernels.formats import F16, F32, itemsize
from ..kernels.memory import Block
from .spec import ModelSpec

_PAGE = 4096


@dataclass(frozen=True, slots=True)
class LayerCache:
    """Addresses of one layer's keys and values."""

    keys: int
    values: int


def kv_format(choice: str | None, packed: bool) -> int:
    """The cache's format: as chosen, else by the weights."""
    return {"f32": F32, "f16": F16, None: F16 if packed else F32}[choice]


def kv_bytes_per_token(spec: ModelSpec, fmt: int) -> int:
    """Bytes of cache that a token takes over all layers."""
    return sum(2 * layer.attention.kv_heads * layer.attention.head_dim for layer in spec.layers) * itemsize(fmt)


class KVCache:
    """Keys and values of up to `capacity` tokens."""

    def __init__(self, spec: ModelSpec, capacity: int, fmt: int) -> None:
        self.capacity, self.fmt = capacity, fmt
        sizes = [
            -(-layer.attention.kv_heads * capacity * layer.attention.head_dim * itemsize(fmt) // _PAGE) * _PAGE
            for layer in spec.layers
        ]
        self._block = Block(2 * sum(sizes), huge=False)
        self.layers: list[LayerCache] = []
        address = self._block.address
        for size in sizes:
            self.layers.append(LayerCache(address, address + size))
            address += 2 * size
