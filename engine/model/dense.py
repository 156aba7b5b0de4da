"""The dense part of a model: all but the routed experts, in one block of memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from ..checkpoint.files import ModelFiles
from ..kernels.formats import block_bytes
from ..kernels.memory import Block
from .items import Item, reading
from .spec import Role

_ALIGN = 64


@dataclass(frozen=True, slots=True)
class Matrix:
    """A weight matrix in memory, [n, k]."""

    address: int
    fmt: int
    n: int
    k: int

    @property
    def step(self) -> int:
        """Bytes from one block of 16 rows to the next."""
        return block_bytes(self.fmt, self.k)


class DenseWeights:
    """Tensors by role and layer, read by `load`.

    dense_bytes: what they take in memory.
    """

    def __init__(self, items: Mapping[tuple[Role, int], Item]) -> None:
        self._items = items
        self.dense_bytes = sum(_padded(item.nbytes) for item in items.values())
        self._block: Block | None = None
        self._addresses: dict[tuple[Role, int], int] = {}

    def load(self, files: ModelFiles, progress: Callable[[int, int], None]) -> None:
        """Read the dense part into one block of memory. `progress(done, total)` in bytes."""
        self._block = Block(self.dense_bytes)
        read = reading(files)
        offset = 0
        for key, item in self._items.items():
            target = self._block.view[offset : offset + item.nbytes]
            item.load(read, target, partial(self._tell, progress, offset))
            self._addresses[key] = self._block.address + offset
            offset += _padded(item.nbytes)
        progress(self.dense_bytes, self.dense_bytes)

    def _tell(self, progress: Callable[[int, int], None], start: int, done: int) -> None:
        progress(start + done, self.dense_bytes)

    @property
    def memory(self) -> tuple[int, int]:
        """Address and bytes of what was read."""
        assert self._block is not None
        return self._block.address, self.dense_bytes

    def matrix(self, role: Role, layer: int = 0) -> Matrix:
        """A loaded matrix; the embedding is also the head where there is no other."""
        if role == "head" and (role, layer) not in self._items:
            role = "embed"
        item = self._items[role, layer]
        n, k = item.shape
        return Matrix(self._addresses[role, layer], item.fmt, n, k)

    def read_per_token(self) -> int:
        """Bytes of the dense part that a token reads: all but an embedding that is not the head as well."""
        return self.dense_bytes - (_padded(self._items["embed", 0].nbytes) if ("head", 0) in self._items else 0)

    def vector(self, role: Role, layer: int = 0) -> int:
        """Address of a loaded float32 vector, 0 if the model has none."""
        return self._addresses.get((role, layer), 0)


def _padded(nbytes: int) -> int:
    return -(-nbytes // _ALIGN) * _ALIGN
