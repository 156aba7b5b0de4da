"""What a model is, without a single weight: the language families speak to the shared forward.

A family turns config.json into a `ModelSpec` and says under which names the tensors lie. It does no arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Role = Literal[
    "embed", "final_norm", "head",
    "input_norm", "post_norm",
    "q", "k", "v", "o", "q_bias", "k_bias", "v_bias", "o_bias", "q_norm", "k_norm",
    "gate", "up", "down",
    "router", "router_bias",
    "expert_gate", "expert_up", "expert_down", "stacked_gate_up", "stacked_gate", "stacked_up", "stacked_down",
    "shared_gate", "shared_up", "shared_down", "shared_expert_gate",
]  # fmt: skip
"""What a tensor is for. gate, up and down are those of a dense layer's MLP."""


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary position embedding over the first `dim` values of a head (Su et al. 2021).

    `pairs`: rotate (2i, 2i + 1) instead of (i, i + dim / 2). `scaling` holds the config's rope_scaling entries that
    the kind needs, checked by `rope.inverse_frequencies`.
    """

    dim: int
    theta: float
    pairs: bool = False
    scaling: Mapping[str, float | str | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Attention:
    """Grouped-query attention. Scores are scaled by 1 / sqrt(head_dim).

    qk_norm: RMS of each head, or of the whole q / k projection before the head split. window: a position sees itself
    and window - 1 before it. clip: q, k, v are clamped to -clip..clip.
    """

    heads: int
    kv_heads: int
    head_dim: int
    rope: Rope
    qk_norm: Literal["none", "head", "projection"] = "none"
    qkv_bias: bool = False
    out_bias: bool = False
    window: int | None = None
    clip: float | None = None


@dataclass(frozen=True, slots=True)
class Router:
    """How a token chooses its experts.

    Scores are a softmax or sigmoid of the router's logits over all experts, in float32. With `correction_bias` the
    choice is made on scores + bias, the weights come from the scores alone. `groups` > 1: only experts of the
    `top_groups` best groups can be chosen. weights / (sum + renorm_eps) if `renormalise`, then times `scaling`.
    """

    scores: Literal["softmax", "sigmoid"]
    top_k: int
    renormalise: bool
    renorm_eps: float = 0.0
    scaling: float = 1.0
    correction_bias: bool = False
    groups: int = 1
    top_groups: int = 1


@dataclass(frozen=True, slots=True)
class DenseMlp:
    """A gated MLP that every token passes: down(silu(gate x) * up x)."""

    width: int


@dataclass(frozen=True, slots=True)
class Mixture:
    """Routed experts, and possibly shared ones fused into one MLP of `shared_width`, added as it is or times
    sigmoid(shared_expert_gate . x)."""

    router: Router
    experts: int
    width: int
    shared_width: int = 0
    shared_gated: bool = False


@dataclass(frozen=True, slots=True)
class Layer:
    """Norm, attention, residual; norm, MLP, residual."""

    attention: Attention
    mlp: DenseMlp | Mixture


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A whole model. `names` maps a role to its tensor's name, `{L}` standing for the layer and `{E}` for the expert.

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

    @property
    def moe_layers(self) -> tuple[int, ...]:
        """Indices of the layers with a router."""
        return tuple(index for index, layer in enumerate(self.layers) if isinstance(layer.mlp, Mixture))

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
