"""Finding tensors: which tensor of a checkpoint serves which purpose, and in which format.

Nothing is read or allocated here. Every tensor that is asked for must be there with the right shape and a dtype that
can be computed with, and no tensor may be left that nobody asked for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

from ..checkpoint.files import same_bytes
from ..checkpoint.index import Checkpoint, TensorEntry
from ..errors import CheckpointError
from ..experts.source import MergedFormats
from ..kernels.formats import LAYOUT, PACKED, matrix_bytes
from . import storage
from .items import Alternating, Item, KeyUp, Matrix, Packed, ValueUp, Widened
from .spec import ModelSpec, Role
from .storage import Shape, Stored, expect
from .storage.base import PlainRows
from .unclaimed import Unclaimed

_SCALES = (".scales", "_scales", ".weight_scale", ".weight_scale_inv", ".qs")
"""What names of scales that belong to quantised weights end in."""

PACKED_SUFFIX = {fmt: f".{LAYOUT[fmt]}" for fmt in PACKED}
"""What a container appends to the name of a tensor it keeps in a kernel's layout."""

MERGED_LAYOUT: dict[MergedFormats, str] = {
    (wide, high): LAYOUT[wide] if wide == high else f"{LAYOUT[wide]}.{LAYOUT[high]}"
    for wide in PACKED
    for high in PACKED
}
"""Name of the layout of a container's expert: of gate and up, and of down where that is another."""


class Tensors(Unclaimed):
    """A checkpoint's tensors while they are being asked for, by role and layer.

    items: what was found, in order; all dense tensors of the model once `Weights` has asked. dense: the same by hub
    name, with the shape it has there, as it is stored.
    """

    def __init__(self, checkpoint: Checkpoint, spec: ModelSpec) -> None:
        super().__init__(checkpoint, spec)
        self.items: dict[tuple[Role, int], Item] = {}
        self.dense: dict[str, tuple[Shape, Stored | Packed]] = {}

    def name(self, role: Role, layer: int) -> str:
        """The name of a tensor; `{E}` stays for the expert."""
        return self.spec.names[role].replace("{L}", str(layer))

    def has_matrix(self, role: Role, layer: int) -> bool:
        """Whether a weight matrix is there, in whichever format."""
        name = self.name(role, layer)
        return storage.present(self, name) or any(name + suffix in self.left for suffix in PACKED_SUFFIX.values())

    def stored(self, name: str, shape: Shape) -> Stored:
        """Take the matrix of that hub name, in whichever layout."""
        return storage.find(self, name, shape)

    def _dense(self, name: str, shape: Shape) -> Stored:
        """The same, of the dense part."""
        stored = self.stored(name, shape if len(shape) > 1 else (1, *shape))
        self.dense[name] = shape, stored
        return stored

    def matrix(self, role: Role, layer: int, n: int, k: int, stacked: int = 1) -> None:
        """Ask for a weight matrix [n, k], kept in its own format; `stacked`: on disk [stacked, n / stacked, k]."""
        name = self.name(role, layer)
        for fmt, suffix in PACKED_SUFFIX.items():
            entry = self.take(name + suffix)
            if entry is not None:
                expect(entry, "U8", (matrix_bytes(fmt, n, k),))
                self.items[role, layer] = packed = Packed(entry, fmt, (n, k))
                self.dense[name] = (n, k), packed
                return
        stored = self._dense(name, (n, k) if stacked == 1 else (stacked, n // stacked, k))
        self.items[role, layer] = Matrix(stored, 0, n)

    def vector(self, role: Role, layer: int, *shape: int, shift: float = 0.0) -> None:
        """Ask for a tensor that is kept as float32, with `shift` added."""
        name = self.name(role, layer)
        entry = self.left.get(name)
        if len(shape) == 2 and (entry is None or entry.dtype not in storage.FLOAT_FORMATS):
            stored = self._dense(name, shape)
        else:
            entry = self.need(name)
            if role != "router_bias" or entry.shape != (1, *shape):  # ERNIE keeps it as a matrix of one row
                expect(entry, entry.dtype, shape)
            stored = PlainRows(float_format(entry), 1, prod(shape), entry)
            self.dense[name] = shape, stored
        self.items[role, layer] = Widened(stored, shape, shift)

    def alternating(self, role: Role, layer: int, parts: tuple[Role, Role], n: int, k: int) -> None:
        """Ask for a tensor [n, 2 k], kept as float32, that may lie in two, `parts`, whose columns alternate in it."""
        names = self.spec.names
        if self.has(self.name(role, layer)) or parts[0] not in names or not self.has(self.name(parts[0], layer)):
            self.vector(role, layer, n, 2 * k)
            return
        first, second = (self._dense(self.name(part, layer), (n, k)) for part in parts)
        self.items[role, layer] = Alternating(first, second)

    def absorbed(self, layer: int, heads: int, key: int, value: int, rank: int) -> None:
        """Ask for latent attention's kv_b [heads (key + value), rank] as two matrices: key_up [heads rank, key], of
        each head the transposed key rows, and value_up [heads value, rank]. GGUF keeps these two instead.

        Neither is ever multiplied out: queries are carried into the latent's space and what heads gather out of it.
        """
        name = self.name("kv_b", layer)
        if not storage.present(self, name) and self.has(self.name("key_up", layer)):
            halves: tuple[tuple[Role, int, int], ...] = (("key_up", rank, key), ("value_up", value, rank))
            for role, n, k in halves:
                self.items[role, layer] = Matrix(self._dense(self.name(role, layer), (heads, n, k)), 0, heads * n)
            return
        stored = self._dense(name, (heads * (key + value), rank))
        self.items["key_up", layer] = KeyUp(stored, heads, key)
        self.items["value_up", layer] = ValueUp(stored, heads, value)

    def split(self, role: Role, layer: int, parts: Sequence[tuple[Role, int]], k: int) -> None:
        """Ask for a matrix that holds several: `parts` are (role, rows), one below the other, k columns each."""
        stored = self._dense(self.name(role, layer), (sum(rows for _, rows in parts), k))
        first = 0
        for part, rows in parts:
            self.items[part, layer] = Matrix(stored, first, rows)
            first += rows

    def drop_copy(self, role: Role, original: Role) -> bool:
        """Take a tensor that holds what another does, byte for byte; say whether it does."""
        one, other = self.left.get(self.name(role, 0)), self.checkpoint.tensors.get(self.name(original, 0))
        if one is None or other is None or (one.dtype, one.shape) != (other.dtype, other.shape):
            return False
        same = same_bytes((one.file, one.offset), (other.file, other.offset), one.nbytes)
        if same:
            del self.left[one.name]
        return same

    def refuse_mixed_floats(self) -> None:
        """Stop if a weight has another 16-bit float type than the rest: its bytes would be read as other numbers.

        Scales may: they belong to a method of quantisation, not to the model. GGUF files mix types by intention.
        """
        if self.checkpoint.metadata:
            return
        by_type: dict[str, list[TensorEntry]] = {"BF16": [], "F16": []}
        for entry in self.checkpoint.tensors.values():
            if entry.dtype in by_type and not entry.name.endswith(_SCALES):
                by_type[entry.dtype].append(entry)
        few, many = sorted(by_type.values(), key=len)
        if few:
            raise CheckpointError(
                f"{few[0].file.name}: tensor {few[0].name} is {few[0].dtype}, {len(many):,} others are "
                f"{many[0].dtype}; one of them is labelled wrong, download it again"
            )

    def refuse_leftovers(self) -> None:
        """Stop if a tensor is left that the family does not know to be unneeded."""
        patterns = [re.compile(pattern) for pattern in self.spec.ignore]
        left = [name for name in self.left if not any(pattern.fullmatch(name) for pattern in patterns)]
        if left:
            more = f" and {len(left) - 3} more" if len(left) > 3 else ""
            raise CheckpointError(
                f"{self.checkpoint.folder}: {self.spec.family} has no use for tensor {', '.join(left[:3])}{more}; "
                "running without it would give wrong answers"
            )


def float_format(entry: TensorEntry) -> int:
    """The kernels' format of a float tensor."""
    fmt = storage.FLOAT_FORMATS.get(entry.dtype)
    if fmt is None:
        raise CheckpointError(
            f"{entry.file.name}: tensor {entry.name} has dtype {entry.dtype}; only BF16, F16 and F32 are supported"
        )
    return fmt
