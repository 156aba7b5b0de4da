"""From roles to bytes: which tensor serves which purpose, its format, and where the dense part lies in memory.

Nothing is read or allocated before every tensor has been found, its shape and dtype checked, and no tensor is left that
nobody asked for: a checkpoint either runs right or is refused with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..checkpoint.files import ModelFiles
from ..checkpoint.index import Checkpoint, TensorEntry
from ..errors import CheckpointError
from ..experts.source import ExpertSource, hub_source, merged_source
from ..kernels.formats import BF16, F16, F32, I4G, I8R, LAYOUT, block_bytes, matrix_bytes
from ..kernels.memory import Block
from .spec import Attention, DenseMlp, Layer, Mixture, ModelSpec, Role

FLOAT_FORMATS = {"F32": F32, "F16": F16, "BF16": BF16}
PACKED_SUFFIX = {fmt: f".{LAYOUT[fmt]}" for fmt in (I8R, I4G)}
"""What a container appends to the name of a tensor it keeps in a kernel's layout."""

_ALIGN = 64
_READ = 8 << 20


@dataclass(frozen=True, slots=True)
class Matrix:
    """A weight matrix in memory, [n, k]; `step` is the distance in bytes from a block of 16 rows to the next."""

    address: int
    fmt: int
    n: int
    k: int

    @property
    def step(self) -> int:
        """Bytes from one block of 16 rows to the next."""
        return block_bytes(self.fmt, self.k)


@dataclass(frozen=True, slots=True)
class _Item:
    """A dense tensor to be loaded: a matrix in its own format, or values widened to float32."""

    entry: TensorEntry
    fmt: int
    shape: tuple[int, ...]
    widen: bool

    @property
    def nbytes(self) -> int:
        if self.widen:
            return int(np.prod(self.shape)) * 4
        return matrix_bytes(self.fmt, *self.shape)


def widen(data: npt.NDArray[np.uint8], fmt: int) -> npt.NDArray[np.float32]:
    """Turn the bytes of a float tensor into float32, exactly."""
    if fmt == F32:
        return data.view(np.float32)
    if fmt == F16:
        return data.view(np.float16).astype(np.float32)
    return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


class Weights:
    """The tensors of one model by role: found and checked when constructed, read by `load`."""

    def __init__(self, checkpoint: Checkpoint, spec: ModelSpec) -> None:
        self._checkpoint, self._spec = checkpoint, spec
        self._left = dict(checkpoint.tensors)
        self._items: dict[tuple[Role, int], _Item] = {}
        self._block: Block | None = None
        self._addresses: dict[tuple[Role, int], int] = {}
        self._find_dense()
        self.experts = self._find_experts()
        self._refuse_leftovers()
        self.dense_bytes = sum(-(-item.nbytes // _ALIGN) * _ALIGN for item in self._items.values())

    # finding

    def _name(self, role: Role, layer: int) -> str:
        return self._spec.names[role].replace("{L}", str(layer))

    def _take(self, name: str) -> TensorEntry | None:
        return self._left.pop(name, None)

    def _missing(self, name: str) -> CheckpointError:
        return CheckpointError(
            f"{self._checkpoint.folder}: tensor {name} is missing; the download is not complete, or this is not "
            f"a {self._spec.family} checkpoint"
        )

    def _has_matrix(self, role: Role, layer: int) -> bool:
        name = self._name(role, layer)
        return name in self._left or any(name + suffix in self._left for suffix in PACKED_SUFFIX.values())

    def _matrix(self, role: Role, layer: int, n: int, k: int) -> None:
        name = self._name(role, layer)
        for fmt, suffix in PACKED_SUFFIX.items():
            entry = self._take(name + suffix)
            if entry is not None:
                _expect(entry, "U8", (matrix_bytes(fmt, n, k),))
                self._items[role, layer] = _Item(entry, fmt, (n, k), widen=False)
                return
        entry = self._take(name)
        if entry is None:
            raise self._missing(name)
        fmt = _float_format(entry)
        _expect(entry, entry.dtype, (n, k))
        self._items[role, layer] = _Item(entry, fmt, (n, k), widen=False)

    def _vector(self, role: Role, layer: int, *shape: int) -> None:
        entry = self._take(self._name(role, layer))
        if entry is None:
            raise self._missing(self._name(role, layer))
        _expect(entry, entry.dtype, shape)
        self._items[role, layer] = _Item(entry, _float_format(entry), shape, widen=True)

    def _find_dense(self) -> None:
        spec = self._spec
        self._matrix("embed", 0, spec.vocab, spec.hidden)
        # A head that is there although the config ties it is the one to use: it need not be a copy of the embedding.
        if not spec.tied or self._has_matrix("head", 0):
            self._matrix("head", 0, spec.vocab, spec.hidden)
        self._vector("final_norm", 0, spec.hidden)
        for index, layer in enumerate(spec.layers):
            self._find_layer(index, layer)

    def _find_layer(self, index: int, layer: Layer) -> None:
        hidden = self._spec.hidden
        self._vector("input_norm", index, hidden)
        self._vector("post_norm", index, hidden)
        self._find_attention(index, layer.attention)
        if isinstance(layer.mlp, DenseMlp):
            self._find_mlp(index, ("gate", "up", "down"), layer.mlp.width)
            return
        mixture = layer.mlp
        self._vector("router", index, mixture.experts, hidden)
        if mixture.router.correction_bias:
            self._vector("router_bias", index, mixture.experts)
        if mixture.shared_width:
            self._find_mlp(index, ("shared_gate", "shared_up", "shared_down"), mixture.shared_width)
        if mixture.shared_gated:
            self._vector("shared_expert_gate", index, 1, hidden)

    def _find_mlp(self, index: int, roles: tuple[Role, Role, Role], width: int) -> None:
        gate, up, down = roles
        self._matrix(gate, index, width, self._spec.hidden)
        self._matrix(up, index, width, self._spec.hidden)
        self._matrix(down, index, self._spec.hidden, width)

    def _find_attention(self, index: int, a: Attention) -> None:
        hidden, q, kv = self._spec.hidden, a.heads * a.head_dim, a.kv_heads * a.head_dim
        self._matrix("q", index, q, hidden)
        self._matrix("k", index, kv, hidden)
        self._matrix("v", index, kv, hidden)
        self._matrix("o", index, hidden, q)
        if a.qkv_bias:
            self._vector("q_bias", index, q)
            self._vector("k_bias", index, kv)
            self._vector("v_bias", index, kv)
        if a.out_bias:
            self._vector("o_bias", index, hidden)
        if a.qk_norm != "none":
            whole = a.qk_norm == "projection"
            self._vector("q_norm", index, q if whole else a.head_dim)
            self._vector("k_norm", index, kv if whole else a.head_dim)

    def _find_experts(self) -> ExpertSource:
        spec = self._spec
        layers = [(index, spec.mixture(index)) for index in spec.moe_layers]
        first, mixture = layers[0]
        for index, other in layers:
            if (other.experts, other.width) != (mixture.experts, mixture.width):
                raise CheckpointError(f"layer {index} has experts of another number or width than layer {first}")
        return (self._merged(mixture) or self._per_expert(mixture)) if not self._stacked_at(first) else (
            self._stacked(mixture)
        )

    def _merged(self, mixture: Mixture) -> ExpertSource | None:
        """Experts of a container: one tensor each, in a kernel's layout."""
        spec = self._spec
        for fmt, suffix in PACKED_SUFFIX.items():
            stem = merged_name(spec.names["expert_gate"]) + suffix
            if stem.replace("{L}", str(spec.moe_layers[0])).replace("{E}", "0") not in self._left:
                continue
            entries = {
                (layer, expert): self._need(stem.replace("{L}", str(layer)).replace("{E}", str(expert)))
                for layer in spec.moe_layers
                for expert in range(mixture.experts)
            }
            return merged_source(entries, fmt, spec.hidden, mixture.width, len(spec.layers), mixture.experts)
        return None

    def _need(self, name: str) -> TensorEntry:
        entry = self._take(name)
        if entry is None:
            raise self._missing(name)
        return entry

    def _per_expert(self, mixture: Mixture) -> ExpertSource:
        spec, parts = self._spec, {}
        roles: tuple[Role, Role, Role] = ("expert_gate", "expert_up", "expert_down")
        shapes = ((mixture.width, spec.hidden), (mixture.width, spec.hidden), (spec.hidden, mixture.width))
        dtype = ""
        for layer in spec.moe_layers:
            for part, (role, shape) in enumerate(zip(roles, shapes, strict=True)):
                stem = self._name(role, layer)
                for expert in range(mixture.experts):
                    entry = self._need(stem.replace("{E}", str(expert)))
                    _expect(entry, dtype or entry.dtype, shape)
                    dtype = entry.dtype
                    parts[layer, expert, part] = (entry, entry.offset)
        return self._hub(parts, mixture, dtype)

    def _stacked_at(self, layer: int) -> bool:
        return any(self._stacked_entry(role, layer) in self._left for role in _STACKED if role in self._spec.names)

    def _stacked_entry(self, role: Role, layer: int) -> str:
        name = self._name(role, layer)
        return name if name in self._left else name + ".weight"

    def _stacked(self, mixture: Mixture) -> ExpertSource:
        """Experts stacked in one tensor per projection [E, ...]; gate and up possibly in one, gate rows first."""
        spec, parts = self._spec, {}
        experts, width, hidden = mixture.experts, mixture.width, spec.hidden
        dtype = ""
        for layer in spec.moe_layers:
            fused = self._stacked_entry("stacked_gate_up", layer) in self._left
            plan: list[tuple[Role, tuple[int, ...], tuple[int, ...]]] = [
                ("stacked_down", (experts, hidden, width), (2,))
            ]
            if fused:
                plan.append(("stacked_gate_up", (experts, 2 * width, hidden), (0, 1)))
            else:
                plan.append(("stacked_gate", (experts, width, hidden), (0,)))
                plan.append(("stacked_up", (experts, width, hidden), (1,)))
            for role, shape, which in plan:
                entry = self._need(self._stacked_entry(role, layer))
                _expect(entry, dtype or entry.dtype, shape)
                dtype = entry.dtype
                share = entry.nbytes // (experts * len(which))
                for expert in range(experts):
                    for place, part in enumerate(which):
                        at = entry.offset + (expert * len(which) + place) * share
                        parts[layer, expert, part] = (entry, at)
        return self._hub(parts, mixture, dtype)

    def _hub(
        self, parts: dict[tuple[int, int, int], tuple[TensorEntry, int]], mixture: Mixture, dtype: str
    ) -> ExpertSource:
        entry = parts[self._spec.moe_layers[0], 0, 0][0]
        fmt = FLOAT_FORMATS.get(dtype)
        if fmt is None:
            raise CheckpointError(f"{entry.file.name}: tensor {entry.name} has dtype {dtype}, which experts cannot have")
        return hub_source(
            parts, fmt, self._spec.hidden, mixture.width, len(self._spec.layers), mixture.experts
        )

    def _refuse_leftovers(self) -> None:
        patterns = [re.compile(pattern) for pattern in self._spec.ignore]
        left = [name for name in self._left if not any(pattern.fullmatch(name) for pattern in patterns)]
        if left:
            more = f" and {len(left) - 3} more" if len(left) > 3 else ""
            raise CheckpointError(
                f"{self._checkpoint.folder}: {self._spec.family} has no use for tensor {', '.join(left[:3])}{more}; "
                "running without it would give wrong answers"
            )

    # loading

    def load(self, files: ModelFiles, progress: Callable[[int, int], None]) -> None:
        """Read the dense part into one block of memory. `progress(done, total)` in bytes."""
        self._block = Block(self.dense_bytes)
        done = offset = 0
        for key, item in self._items.items():
            target = self._block.view[offset : offset + item.nbytes]
            if item.widen:
                data = np.empty(item.entry.nbytes, np.uint8)
                files[files.number(item.entry.file)].read_into(item.entry.offset, data.data)
                np.frombuffer(target, np.float32)[:] = widen(data, item.fmt)
            else:
                for start in range(0, item.nbytes, _READ):
                    piece = target[start : start + _READ]
                    files[files.number(item.entry.file)].read_into(item.entry.offset + start, piece)
                    progress(done + start + len(piece), self.dense_bytes)
            self._addresses[key] = self._block.address + offset
            step = -(-item.nbytes // _ALIGN) * _ALIGN
            done += step
            offset += step
        progress(self.dense_bytes, self.dense_bytes)

    def matrix(self, role: Role, layer: int = 0) -> Matrix:
        """A loaded matrix; where there is no head of its own it is the embedding."""
        if role == "head" and (role, layer) not in self._items:
            role = "embed"
        item = self._items[role, layer]
        n, k = item.shape
        return Matrix(self._addresses[role, layer], F32 if item.widen else item.fmt, n, k)

    def vector(self, role: Role, layer: int = 0) -> int:
        """Address of a loaded float32 vector, 0 if the model has none."""
        return self._addresses.get((role, layer), 0)


_STACKED: tuple[Role, ...] = ("stacked_gate_up", "stacked_gate", "stacked_up", "stacked_down")


def merged_name(expert_gate: str) -> str:
    """A container's name for a whole expert, from the family's name of its gate."""
    return expert_gate[: expert_gate.index("{E}") + 3] + ".merged_weight"


def _float_format(entry: TensorEntry) -> int:
    fmt = FLOAT_FORMATS.get(entry.dtype)
    if fmt is None:
        raise CheckpointError(
            f"{entry.file.name}: tensor {entry.name} has dtype {entry.dtype}; only BF16, F16 and F32 are supported"
        )
    return fmt


def _expect(entry: TensorEntry, dtype: str, shape: tuple[int, ...]) -> None:
    if entry.dtype != dtype or entry.shape != shape:
        raise CheckpointError(
            f"{entry.file.name}: tensor {entry.name} is {entry.dtype} {list(entry.shape)}, the config calls for "
            f"{dtype} {list(shape)}"
        )
