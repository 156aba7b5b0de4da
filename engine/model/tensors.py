"""Finding tensors: which tensor of a checkpoint serves which purpose, and in which format.

Nothing is read or allocated here. Every tensor that is asked for must be there with the right shape and a dtype that
can be computed with, and no tensor may be left that nobody asked for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..checkpoint.index import Checkpoint, TensorEntry
from ..errors import CheckpointError
from ..kernels.formats import BF16, F16, F32, I4G, I8R, LAYOUT, matrix_bytes
from .absorb import Heads
from .spec import ModelSpec, Role

FLOAT_FORMATS = {"F32": F32, "F16": F16, "BF16": BF16}
PACKED_SUFFIX = {fmt: f".{LAYOUT[fmt]}" for fmt in (I8R, I4G)}
"""What a container appends to the name of a tensor it keeps in a kernel's layout."""


@dataclass(frozen=True, slots=True)
class Item:
    """A dense tensor to be loaded: a matrix in its own format, or values widened to float32.

    shift is added to the values of a widened tensor: norms that are stored as w - 1. heads: how the rows of a matrix
    are arranged anew.
    """

    entry: TensorEntry
    fmt: int
    shape: tuple[int, ...]
    widen: bool
    shift: float = 0.0
    heads: Heads | None = None

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        if self.widen:
            return int(np.prod(self.shape)) * 4
        return matrix_bytes(self.fmt, *self.shape)


def widened(data: npt.NDArray[np.uint8], fmt: int) -> npt.NDArray[np.float32]:
    """Turn the bytes of a float tensor into float32, exactly."""
    if fmt == F32:
        return data.view(np.float32)
    if fmt == F16:
        return data.view(np.float16).astype(np.float32)
    return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


class Tensors:
    """A checkpoint's tensors while they are being asked for, by role and layer.

    items: what was found, in order; all dense tensors of the model once `Weights` has asked.
    """

    def __init__(self, checkpoint: Checkpoint, spec: ModelSpec) -> None:
        self.checkpoint, self.spec = checkpoint, spec
        self.items: dict[tuple[Role, int], Item] = {}
        self._left = dict(checkpoint.tensors)

    def name(self, role: Role, layer: int) -> str:
        """The name of a tensor; `{E}` stays for the expert."""
        return self.spec.names[role].replace("{L}", str(layer))

    def has(self, name: str) -> bool:
        """Whether a tensor is there and was not taken."""
        return name in self._left

    def has_matrix(self, role: Role, layer: int) -> bool:
        """Whether a weight matrix is there, in whichever format."""
        name = self.name(role, layer)
        return any(name + suffix in self._left for suffix in ("", *PACKED_SUFFIX.values()))

    def take(self, name: str) -> TensorEntry | None:
        """Take a tensor if it is there."""
        return self._left.pop(name, None)

    def need(self, name: str) -> TensorEntry:
        """Take a tensor that must be there."""
        entry = self._left.pop(name, None)
        if entry is None:
            raise CheckpointError(
                f"{self.checkpoint.folder}: tensor {name} is missing; the download is not complete, or this is not "
                f"a {self.spec.family} checkpoint"
            )
        return entry

    def matrix(self, role: Role, layer: int, n: int, k: int, stacked: int = 1) -> None:
        """Ask for a weight matrix [n, k], kept in its own format; `stacked`: on disk [stacked, n / stacked, k]."""
        name = self.name(role, layer)
        for fmt, suffix in PACKED_SUFFIX.items():
            entry = self.take(name + suffix)
            if entry is not None:
                expect(entry, "U8", (matrix_bytes(fmt, n, k),))
                self.items[role, layer] = Item(entry, fmt, (n, k), widen=False)
                return
        entry = self.need(name)
        expect(entry, entry.dtype, (n, k) if stacked == 1 else (stacked, n // stacked, k))
        self.items[role, layer] = Item(entry, float_format(entry), (n, k), widen=False)

    def vector(self, role: Role, layer: int, *shape: int, shift: float = 0.0) -> None:
        """Ask for a tensor that is kept as float32, with `shift` added."""
        entry = self.need(self.name(role, layer))
        if entry.shape != (1, *shape):  # some vectors are kept as a matrix of one row
            expect(entry, entry.dtype, shape)
        self.items[role, layer] = Item(entry, float_format(entry), shape, widen=True, shift=shift)

    def absorbed(self, role: Role, layer: int, heads: int, key: int, value: int, rank: int) -> None:
        """Ask for latent attention's kv_b, which is kept as two matrices a head (see `absorb`), in its own format."""
        entry, shape = self.need(self.name(role, layer)), (heads * (key + value), rank)
        expect(entry, entry.dtype, shape)
        self.items[role, layer] = Item(entry, float_format(entry), shape, widen=False, heads=Heads(key, value))

    def split(self, role: Role, layer: int, parts: Sequence[tuple[Role, int]], k: int) -> None:
        """Ask for a matrix that holds several: `parts` are (role, rows), one below the other, k columns each."""
        entry = self.need(self.name(role, layer))
        total = sum(rows for _, rows in parts)
        expect(entry, entry.dtype, (total, k))
        offset = entry.offset
        for part, rows in parts:
            nbytes = entry.nbytes // total * rows
            piece = TensorEntry(entry.name, entry.file, offset, nbytes, entry.dtype, (rows, k))
            self.items[part, layer] = Item(piece, float_format(entry), (rows, k), widen=False)
            offset += nbytes

    def refuse_leftovers(self) -> None:
        """Stop if a tensor is left that the family does not know to be unneeded."""
        patterns = [re.compile(pattern) for pattern in self.spec.ignore]
        left = [name for name in self._left if not any(pattern.fullmatch(name) for pattern in patterns)]
        if left:
            more = f" and {len(left) - 3} more" if len(left) > 3 else ""
            raise CheckpointError(
                f"{self.checkpoint.folder}: {self.spec.family} has no use for tensor {', '.join(left[:3])}{more}; "
                "running without it would give wrong answers"
            )


def float_format(entry: TensorEntry) -> int:
    """The kernels' format of a float tensor."""
    fmt = FLOAT_FORMATS.get(entry.dtype)
    if fmt is None:
        raise CheckpointError(
            f"{entry.file.name}: tensor {entry.name} has dtype {entry.dtype}; only BF16, F16 and F32 are supported"
        )
    return fmt


def expect(entry: TensorEntry, dtype: str, shape: tuple[int, ...]) -> None:
    """Refuse a tensor of another dtype or shape."""
    if entry.dtype != dtype or entry.shape != shape:
        raise CheckpointError(
            f"{entry.file.name}: tensor {entry.name} is {entry.dtype} {list(entry.shape)}, the config calls for "
            f"{dtype} {list(shape)}"
        )
