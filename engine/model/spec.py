"""What a model is, without a single weight: the language families speak to the shared forward.

A family turns config.json into a `ModelSpec` and says under which names the tensors lie. It does no arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Role = Literal[
    "embed", "final_norm", "head",
    "input_norm", "post_norm", "mixer_out_norm", "mlp_out_norm", "layer_scalar",
    "q", "k", "v", "o", "q_bias", "k_bias", "v_bias", "o_bias", "q_norm", "k_norm",
    "input_norm_bias", "post_norm_bias", "final_norm_bias", "head_bias", "sinks",
    "q_a", "q_a_bias", "q_a_norm", "q_b", "kv_a", "kv_a_bias", "kv_a_norm", "kv_b", "key_up", "value_up",
    "index_q", "index_k", "index_k_norm", "index_k_norm_bias", "index_weights",
    "gate", "up", "down",
    "router", "router_norm", "router_bias", "router_logit_bias", "expert_scale", "experts_norm", "experts_out_norm",
    "expert_gate_up_bias", "expert_gate_bias", "expert_up_bias", "expert_down_bias", "mixture_bias",
    "expert_gate", "expert_up", "expert_down", "stacked_gate_up", "stacked_gate", "stacked_up", "stacked_down",
    "shared_gate", "shared_up", "shared_gate_up", "shared_down", "shared_expert_gate", "shared_out_norm",
    "kv", "attention_router", "attention_bias",
    "in_qkvz", "in_ba", "in_qkv", "in_z", "in_b", "in_a", "conv", "a_log", "dt_bias", "out_norm", "out", "in_conv",
]  # fmt: skip
"""What a tensor is for. gate, up and down are those of a dense layer's MLP."""

MOST_ROWS: Final = 256
"""Rows of a forward, at most: what layers with a window keep has room for so many."""

NORM_BIAS: Final[Mapping[Role, Role]] = {
    "input_norm": "input_norm_bias", "post_norm": "post_norm_bias", "final_norm": "final_norm_bias",
}  # fmt: skip
"""The bias of a layer norm, by the role of its weight."""


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary position embedding over the first `dim` values of a head (Su et al. 2021).

    `pairs`: rotate (2i, 2i + 1) instead of (i, i + dim / 2). `scaling` holds the config's rope_scaling entries that
    the kind needs, checked by `rope.inverse_frequencies`.
    """

    dim: int
    theta: float
    pairs: bool = False
    scaling: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Attention:
    """Grouped-query attention.

    rope: None for a layer without positions. qk_norm: RMS of each head, or of the whole q / k projection before the
    head split, or of each head after the rotation (`rotated`; `plain` has no weight). window: a position sees itself
    and window - 1 before it. chunk: a position sees those of its own chunk. sinks: one more logit a head in the
    softmax's denominator. scale: of the scores, 1 / sqrt(head_dim) if None. clip: q, k, v are clamped to
    -clip..clip. gated: q_proj holds a gate beside each query head, whose sigmoid multiplies the head's output.
    tuning: (a, n): queries times 1 + a ln(1 + floor((position + 1) / n)). values: projected; or each head normed too,
    without a weight (`normed`), possibly from the projected keys instead of a projection of their own (`keys`).
    """

    heads: int
    kv_heads: int
    head_dim: int
    rope: Rope | None
    qk_norm: Literal["none", "head", "projection", "rotated", "plain"] = "none"
    qkv_bias: bool = False
    out_bias: bool = False
    window: int | None = None
    clip: float | None = None
    chunk: int | None = None
    sinks: bool = False
    scale: float | None = None
    tuning: tuple[float, float] | None = None
    gated: bool = False
    values: Literal["projected", "normed", "keys"] = "projected"


@dataclass(frozen=True, slots=True)
class Indexer:
    """Scores the keys a position may see: sum over heads of weight_h * relu(q_h . k / sqrt(dim)) / sqrt(heads).

    Its queries come from the same compressed query as the attention's. The keys are layer-normed; keys and queries are
    rotated in their first dimensions with the attention's rope, as halves unless `pairs`.
    """

    heads: int
    dim: int
    pairs: bool
    norm_eps: float = 1e-6


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2). Scores are scaled by 1 / sqrt(nope_dim + rope.dim), and by yarn.

    q_rank: width of the compressed query, None if queries are projected directly. kv_rank: width of the latent from
    which every head's key (nope_dim) and value (value_dim) are made; beside it one rotated key (rope.dim) serves all
    heads. norm_eps: of the norms of the compressed query and of the latent. bias: of q_a, kv_a and o.
    top_k: a position attends to so many keys, the best by the indexer's scores; a layer with top_k and no indexer uses
    the selection of the last layer before it that has one.
    """

    heads: int
    q_rank: int | None
    kv_rank: int
    nope_dim: int
    value_dim: int
    rope: Rope
    norm_eps: float = 1e-6
    bias: bool = False
    top_k: int | None = None
    indexer: Indexer | None = None


@dataclass(frozen=True, slots=True)
class MixedAttention:
    """Attention whose queries come from `router.top_k` of `experts` experts, each with a query head for every key/value
    head and an output projection of its own; a bias is added to their weighed sum (JetMoE)."""

    router: Router
    experts: int
    kv_heads: int
    head_dim: int
    rope: Rope


@dataclass(frozen=True, slots=True)
class DeltaNet:
    """Gated delta net (Yang et al. 2024): a matrix of state for every value head; value heads share key heads in
    consecutive groups. `grouped`: the projections lie key head by key head, [q, k, v.., z..] and [b.., a..]; else one
    matrix each."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    taps: int
    grouped: bool


@dataclass(frozen=True, slots=True)
class ShortConvolution:
    """y = out(C * conv(B * x)) with [B, C, x] = in(h): a causal convolution over `taps` positions (LFM2)."""

    taps: int


@dataclass(frozen=True, slots=True)
class Router:
    """How a token chooses its experts.

    Scores are a softmax or sigmoid of the router's logits over all experts, in float32; `chosen`: the choice is made on
    the logits, the softmax goes over the chosen; `sparsemixer`: two masked softmaxes (Phi-3.5-MoE), `jitter` wide. With
    `correction_bias` the choice is made on scores + bias, the weights come from the scores alone. `groups` > 1: only
    experts of the `top_groups` best groups can be chosen; a group counts the sum of its `group_best` (1 or 2) best.
    weights / (sum + renorm_eps) if `renormalise`, then times `scaling` and, with `expert_scale`, times a learned number
    of the expert. logit_bias: added to the logits. logit_scale: multiplies them. weigh_inputs: a weight multiplies its
    expert's input, not its output.
    """

    scores: Literal["softmax", "sigmoid", "chosen", "sparsemixer"]
    top_k: int
    renormalise: bool
    renorm_eps: float = 0.0
    scaling: float = 1.0
    correction_bias: bool = False
    groups: int = 1
    top_groups: int = 1
    group_best: int = 2
    logit_bias: bool = False
    logit_scale: float = 1.0
    expert_scale: bool = False
    weigh_inputs: bool = False
    jitter: float = 0.0


Activation = Literal["silu", "gelu", "clamped"]
"""silu: silu(gate) * up. gelu: likewise, the gelu with tanh. clamped: (clamp(up) + 1) * g * sigmoid(1.702 g) with
g = min(gate, 7), up in -7..7."""


@dataclass(frozen=True, slots=True)
class DenseMlp:
    """A gated MLP that every token passes: down(silu(gate x) * up x)."""

    width: int


@dataclass(frozen=True, slots=True)
class Mixture:
    """Routed experts, and possibly shared ones fused into one MLP of `shared_width`, added as it is or times
    sigmoid(shared_expert_gate . x).

    expert_bias: each expert's projections have biases. output_bias: one vector is added after combining. layout: how
    stacked experts lie on disk: [E, outputs, inputs] with gate rows before up rows (`rows`), [E, inputs, outputs] with
    gate before up (`columns`) or with gate and up alternating (`alternating`). apart: shared MLP, router and experts
    read the residual through a norm each, and what MLP and experts return is normed before it is added up.
    """

    router: Router
    experts: int
    width: int
    shared_width: int = 0
    shared_gated: bool = False
    activation: Activation = "silu"
    expert_bias: bool = False
    output_bias: bool = False
    layout: Literal["rows", "columns", "alternating"] = "rows"
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Layer:
    """Norm, attention, residual; norm, MLP, residual. norms: of what a sublayer reads (`before`), of what it returns
    (`behind`), or of `both`. scalar: at the end the residual is multiplied by a learned number."""

    attention: Attention | LatentAttention | MixedAttention | DeltaNet | ShortConvolution
    mlp: DenseMlp | Mixture
    norms: Literal["before", "behind", "both"] = "before"
    scalar: bool = False


@dataclass(frozen=True, slots=True)
class Quantisation:
    """What a config says of integers whose layout alone does not tell it.

    method: compressed-tensors, gptq, awq, fp8 or mxfp4. group: columns that share a scale, None: all of a row.
    zero_offset: what is added to stored zero points.
    """

    method: str
    group: int | None = None
    zero_offset: int = 0


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A whole model. `names` maps a role to its tensor's name, `{L}` standing for the layer and `{E}` for the expert.

    norm: RMS norms, or layer norms with a bias. norm_shift is added to the weights of RMS norms (stored as w - 1).
    final_norm_eps: of the last norm, where it differs. embed_scale multiplies embeddings, residual_scale what a
    sublayer adds, head_scale the logits. soft_cap: logits become c tanh(logit / c).

    `ignore`: regular expressions of tensors that are known and not needed (multi-token prediction, vision); any other
    tensor left over stops loading.
    """

    family: str
    vocab: int
    hidden: int
    layers: tuple[Layer, ...]
    norm_eps: float
    tied: bool
    max_context: int
    names: Mapping[Role, str]
    ignore: tuple[str, ...] = ()
    norm: Literal["rms", "layer"] = "rms"
    norm_shift: float = 0.0
    final_norm_eps: float | None = None
    embed_scale: float = 1.0
    residual_scale: float = 1.0
    head_scale: float = 1.0
    head_bias: bool = False
    soft_cap: float | None = None
    quantisation: Quantisation | None = None

    @property
    def moe_layers(self) -> tuple[int, ...]:
        """Indices of the layers with a router."""
        return tuple(index for index, layer in enumerate(self.layers) if isinstance(layer.mlp, Mixture))

    def choices(self, most: int) -> dict[int, tuple[int, int]]:
        """By layer: how many experts a token chooses there, limited to `most`, and how many there are."""
        mixtures = {layer: self.mixture(layer) for layer in self.moe_layers}
        return {layer: (min(one.router.top_k, most), one.experts) for layer, one in mixtures.items()}

    def mixture(self, layer: int) -> Mixture:
        """The mixture of a layer that has one."""
        mlp = self.layers[layer].mlp
        assert isinstance(mlp, Mixture)
        return mlp

    @property
    def experts(self) -> int:
        """The largest number of routed experts in a layer."""
        return max((self.mixture(index).experts for index in self.moe_layers), default=0)

    @property
    def top_k(self) -> int:
        """The largest number of experts a token uses in a layer."""
        return max((self.mixture(index).router.top_k for index in self.moe_layers), default=0)
