"""The weights of a model: found and checked first, then the dense part is read into memory."""

from __future__ import annotations

from ..checkpoint.index import Checkpoint
from ..kernels.formats import TAKES_PLANES, takes
from .dense import DenseWeights
from .expert_layouts import find_experts
from .mixers import mixer_of
from .spec import NORM_BIAS, DenseMlp, Layer, Mixture, ModelSpec, Role
from .tensors import Tensors


class Weights(DenseWeights):
    """The tensors of one model: found and checked when constructed.

    experts: where the routed experts lie on disk. dense: all other tensors by hub name, with their shape there.
    planes: whether some take activations in planes.
    """

    def __init__(self, checkpoint: Checkpoint, spec: ModelSpec) -> None:
        tensors = Tensors(checkpoint, spec)
        tensors.refuse_mixed_floats()
        _ask(tensors)
        self.experts = find_experts(tensors)
        tensors.refuse_leftovers()
        self.dense = tensors.dense
        formats = {item.fmt for item in tensors.items.values()}.union(*self.experts.formats.values())
        self.planes = TAKES_PLANES in map(takes, formats)
        super().__init__(tensors.items)


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
