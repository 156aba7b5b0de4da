"""What every token mixer offers."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ..spec import Rope
from ..strips import LayerCache, Strip
from ..tensors import Tensors
from ..writer import Writer


class Mixer(ABC):
    """The token mixer of one layer."""

    @abstractmethod
    def find(self, tensors: Tensors) -> None:
        """Ask for the tensors of this layer."""

    @abstractmethod
    def buffers(self, rows: int) -> dict[str, int]:
        """Name -> bytes of the buffers it works in; mixers share a name where they can share the memory."""

    @abstractmethod
    def scratch(self) -> int:
        """Bytes of scratch that each thread needs."""

    def strips(self, capacity: int, fmt: int) -> tuple[Strip, ...]:
        """What it keeps of a conversation of up to `capacity` tokens by position, in the cache's number format."""
        return ()

    def cache_bytes(self, capacity: int, fmt: int) -> int:
        """Bytes it keeps of a conversation of up to `capacity` tokens: the running state, then the strips."""
        return self.state_bytes() + sum(strip.nbytes for strip in self.strips(capacity, fmt))

    def context_scratch(self, capacity: int) -> int:
        """Bytes it works in that grow with the context; one piece of memory serves all layers."""
        return 0

    def state_bytes(self) -> int:
        """Bytes at the start of its cache that are a running state: not addressed by position, changed in place."""
        return 0

    @abstractmethod
    def ropes(self) -> tuple[Rope, ...]:
        """The rotary embeddings it uses."""

    @abstractmethod
    def widest_input(self) -> int:
        """Columns of the widest activation it multiplies a matrix with."""

    @abstractmethod
    def emit(self, writer: Writer, cache: LayerCache) -> None:
        """Emit the operations: the normed rows in, the result added to the residual."""
