"""The weights of a model: found and checked first, then the dense part is read into one block of memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ..checkpoint.files import ModelFiles
from ..checkpoint.index import Checkpoint
from ..kernels.formats import block_bytes
from ..kernels.memory import Block
from .expert_layouts import find_experts
from .items import Item, reading
from .mixers import mixer_of
from .spec import NORM_BIAS, DenseMlp, Layer, Mixture, ModelSpec, Role
from .tensors import Tensors

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


class Weights:
    """The tensors of one model by role: found and checked when constructed, read by `load`.

    experts: where the routed experts lie on disk. dense: all other tensors by hub name, with their shape there.
    dense_bytes: what these take in memory.
    """

    def __init__(self, checkpoint: Checkpoint, spec: ModelSpec) -> None:
        tensors = Tensors(checkpoint, spec)
        tensors.refuse_mixed_floats()
        _ask(tensors)
        self.experts = find_experts(tensors)
        tensors.refuse_leftovers()
        self.dense = tensors.dense
        self._items: dict[tuple[Role, int], Item] = tensors.items
        self.dense_bytes = sum(_padded(item.nbytes) for item in self._items.values())
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


def _ask(tensors: Tensors) -> None:
    """Ask for every dense tensor of the model."""
    spec = tensors.spec
    hidden = spec.hidden
    tensors.matrix("embed", 0, spec.vocab, hidden)
    # A head that is there although the config ties it is used, unless it is a copy of the embedding.
    if not spec.tied or (tensors.has_matrix("head", 0) and not tensors.drop_copy("head", "embed")):
        tensors.matrix("head", 0, spec.vocab, hidden)
    _ask_norm(tensors, "final_norm", 0)
    if spec.head_bias:
        tensors.vector("head_bias", 0, spec.vocab)
    for index, layer in enumerate(spec.layers):
        for role in _norms(layer):
            _ask_norm(tensors, role, index)
        if layer.scalar:
            tensors.vector("layer_scalar", index, 1)
        mixer_of(spec, index).find(tensors)
        mlp = layer.mlp
        if isinstance(mlp, DenseMlp):
            _ask_mlp(tensors, index, ("gate", "up", "down"), mlp.width)
            continue
        tensors.vector("router", index, mlp.experts, hidden)
        if mlp.router.correction_bias:
            tensors.vector("router_bias", index, mlp.experts)
        if mlp.shared_width:
            _ask_mlp(tensors, index, ("shared_gate", "shared_up", "shared_down"), mlp.shared_width)
        if mlp.shared_gated:
            tensors.vector("shared_expert_gate", index, 1, hidden)
        if mlp.router.expert_scale:
            tensors.vector("expert_scale", index, mlp.experts)
        if mlp.router.logit_bias:
            tensors.vector("router_logit_bias", index, mlp.experts)
        if mlp.expert_bias:
            halves: tuple[Role, Role] = ("expert_gate_bias", "expert_up_bias")
            tensors.alternating("expert_gate_up_bias", index, halves, mlp.experts, mlp.width)
            tensors.vector("expert_down_bias", index, mlp.experts, hidden)
        if mlp.output_bias:
            tensors.vector("mixture_bias", index, hidden)


def _norms(layer: Layer) -> list[Role]:
    """The norms around a layer's sublayers."""
    roles: list[Role] = []
    if layer.norms != "behind":
        roles += ["input_norm", "post_norm"]
    if layer.norms != "before":
        roles += ["mixer_out_norm", "mlp_out_norm"]
    if isinstance(layer.mlp, Mixture) and layer.mlp.apart:
        roles += ["router_norm", "experts_norm", "experts_out_norm", "shared_out_norm"]
    return roles


def _ask_norm(tensors: Tensors, role: Role, index: int) -> None:
    spec = tensors.spec
    tensors.vector(role, index, spec.hidden, shift=spec.norm_shift)
    if spec.norm == "layer":
        tensors.vector(NORM_BIAS[role], index, spec.hidden)


def _ask_mlp(tensors: Tensors, index: int, roles: tuple[Role, Role, Role], width: int) -> None:
    gate, up, down = roles
    hidden = tensors.spec.hidden
    if gate == "shared_gate" and "shared_gate_up" in tensors.spec.names:
        tensors.split("shared_gate_up", index, ((gate, width), (up, width)), hidden)
    else:
        tensors.matrix(gate, index, width, hidden)
        tensors.matrix(up, index, width, hidden)
    tensors.matrix(down, index, hidden, width)
