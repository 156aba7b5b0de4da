"""The key/value cache: float32 [kv_heads, capacity, head_dim] for keys and for values of every layer.

Memory is reserved for the whole context and taken from the system page by page as the conversation grows.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..kernels.memory import Block
from .spec import ModelSpec

_PAGE = 4096


@dataclass(frozen=True, slots=True)
class LayerCache:
    """Addresses of one layer's keys and values."""

    keys: int
    values: int


def kv_bytes_per_token(spec: ModelSpec) -> int:
    """Bytes of cache that a token takes over all layers."""
    return sum(2 * layer.attention.kv_heads * layer.attention.head_dim * 4 for layer in spec.layers)


class KVCache:
    """Keys and values of up to `capacity` tokens."""

    def __init__(self, spec: ModelSpec, capacity: int) -> None:
        self.capacity = capacity
        sizes = [
            -(-layer.attention.kv_heads * capacity * layer.attention.head_dim * 4 // _PAGE) * _PAGE
            for layer in spec.layers
        ]
        self._block = Block(2 * sum(sizes), huge=False)
        self.layers: list[LayerCache] = []
        address = self._block.address
        for size in sizes:
            self.layers.append(LayerCache(address, address + size))
            address += 2 * size
