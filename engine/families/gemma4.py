"""Gemma 4 26B-A4B (Google): a dense MLP beside the experts, norms around everything, values normed like keys.

Five layers in six have a window; the others, the last among them, have wider heads, of which only a part is rotated,
and may take their values from the projected keys.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import UnsupportedModelError
from ..model.spec import Attention, Layer, Mixture, ModelSpec, Role, Rope, Router
from .config import Config, shown
from .names import STANDARD

_LAYER = "model.layers.{L}."
_NAMES: dict[Role, str] = {
    **STANDARD,
    "mixer_out_norm": _LAYER + "post_attention_layernorm.weight",
    "post_norm": _LAYER + "pre_feedforward_layernorm.weight",
    "mlp_out_norm": _LAYER + "post_feedforward_layernorm.weight",
    "shared_out_norm": _LAYER + "post_feedforward_layernorm_1.weight",
    "experts_norm": _LAYER + "pre_feedforward_layernorm_2.weight",
    "experts_out_norm": _LAYER + "post_feedforward_layernorm_2.weight",
    "layer_scalar": _LAYER + "layer_scalar",
    "shared_gate": _LAYER + "mlp.gate_proj.weight",
    "shared_up": _LAYER + "mlp.up_proj.weight",
    "shared_down": _LAYER + "mlp.down_proj.weight",
    "router": _LAYER + "router.proj.weight",
    "router_norm": _LAYER + "router.scale",
    "expert_scale": _LAYER + "router.per_expert_scale",
    "expert_gate": _LAYER + "experts.{E}.gate_proj.weight",
    "expert_up": _LAYER + "experts.{E}.up_proj.weight",
    "expert_down": _LAYER + "experts.{E}.down_proj.weight",
    "stacked_gate_up": _LAYER + "experts.gate_up_proj",
    "stacked_gate": _LAYER + "experts.gate_proj",
    "stacked_up": _LAYER + "experts.up_proj",
    "stacked_down": _LAYER + "experts.down_proj",
}
_OTHER_SENSES = tuple(rf"model\.{part}_tower\..*" for part in ("vision", "audio")) + tuple(
    rf"model\.embed_{part}\..*" for part in ("vision", "audio")
)
_PATTERN = 6
"""Without `layer_types`, every sixth layer has no window."""


def composite_spec(config: Config) -> ModelSpec:
    """Read a gemma4 config: the text model of one that also sees and hears."""
    names: dict[Role, str] = {role: name.replace("model.", "model.language_model.", 1) for role, name in _NAMES.items()}
    return _spec(config.section("text_config"), "gemma4", names, _OTHER_SENSES)


def text_spec(config: Config) -> ModelSpec:
    """Read a gemma4_text config."""
    return _spec(config, "gemma4_text", _NAMES, ())


def _rope(config: Config, kind: str, head_dim: int, theta: float, share: float) -> Rope:
    """The rotation of one kind of layer: the whole head, or the share of it that `proportional` says."""
    if head_dim % 2:
        raise UnsupportedModelError(f"config.json: heads of {head_dim} cannot be rotated by halves")
    default = {"rope_type": "default"} if share == 1 else {"rope_type": "proportional", "partial_rotary_factor": share}
    parameters = config.section("rope_parameters").section(kind) if config.has("rope_parameters") else Config(default)
    parameters.expect("rope_type", "default", "proportional")
    scaling = {}
    if parameters.values["rope_type"] == "proportional":
        scaling = {
            "rope_type": "proportional",
            "share": parameters.number("partial_rotary_factor", 1.0, high=1.0),
            "factor": parameters.number("factor", 1.0),
        }
    return Rope(head_dim, parameters.number("rope_theta", theta), scaling=scaling)


def _own_heads(config: Config, full: list[int]) -> Config:
    """How the heads of the layers `full` differ. A config that was saved again says it layer by layer."""
    saved = config.values.get("per_layer_config")
    if saved is None:
        kv_heads = config.values.get("num_global_key_value_heads") if config.flag("attention_k_eq_v", False) else None
        return Config({"head_dim": config.integer("global_head_dim", 512), "num_key_value_heads": kv_heads})
    own = saved.get(str(full[0])) if isinstance(saved, Mapping) else None
    if not isinstance(own, Mapping) or dict(saved) != {str(index): own for index in full}:
        raise UnsupportedModelError(
            "config.json: per_layer_config must say the same of every layer without a window, and nothing of others"
        )
    return Config(own)


def _attentions(config: Config) -> list[Attention]:
    layers, heads, dim = config.layers(), config.integer("num_attention_heads"), config.integer("head_dim", 256)
    window, kv_heads = config.sliding_window(512), config.integer("num_key_value_heads", 4)
    windows = config.windows(window, [(index + 1) % _PATTERN != 0 for index in range(layers)])
    full = [index for index in range(layers) if windows[index] is None or index == layers - 1]
    own, keys = _own_heads(config, full), config.flag("attention_k_eq_v", False)
    wide = own.integer("head_dim", dim)
    bias = config.flag("attention_bias", False)
    windowed = Attention(
        heads=heads, kv_heads=kv_heads, head_dim=dim, rope=_rope(config, "sliding_attention", dim, 1e4, 1.0),
        qk_norm="head", qkv_bias=bias, out_bias=bias, window=window, scale=1.0, values="normed",
    )  # fmt: skip
    whole = Attention(
        heads=heads, kv_heads=own.integer("num_key_value_heads", kv_heads), head_dim=wide,
        rope=_rope(config, "full_attention", wide, 1e6, 0.25), qk_norm="head", qkv_bias=bias, out_bias=bias,
        scale=1.0, values="keys" if keys else "normed",
    )  # fmt: skip
    return [whole if index in full else windowed for index in range(layers)]


def _spec(config: Config, family: str, names: dict[Role, str], ignore: tuple[str, ...]) -> ModelSpec:
    if not config.flag("enable_moe_block", False):
        raise UnsupportedModelError("config.json: this gemma4 has no experts (enable_moe_block is not true)")
    config.expect("hidden_activation", None, "gelu_pytorch_tanh")
    config.expect("num_kv_shared_layers", None, 0)
    config.expect("use_bidirectional_attention", None, "vision")
    if config.integer("hidden_size_per_layer_input", 256, low=0):
        value = shown(config.values.get("hidden_size_per_layer_input"))
        raise UnsupportedModelError(f"config.json: hidden_size_per_layer_input is {value}, only 0 is supported")
    hidden = config.integer("hidden_size", 2304)
    router = Router(
        "softmax",
        config.integer("top_k_experts"),
        renormalise=True,
        logit_scale=hidden**-0.5,
        expert_scale=True,
    )
    mixture = Mixture(
        router,
        config.integer("num_experts"),
        config.integer("moe_intermediate_size"),
        shared_width=config.integer("intermediate_size", 9216),
        activation="gelu",
        apart=True,
    )
    return ModelSpec(
        family=family,
        vocab=config.integer("vocab_size", 262144),
        hidden=hidden,
        layers=tuple(Layer(attention, mixture, norms="both", scalar=True) for attention in _attentions(config)),
        norm_eps=config.norm_eps(1e-6),
        tied=config.flag("tie_word_embeddings", True),
        max_context=config.integer("max_position_embeddings", 131072, high=1 << 31),
        names=names,
        ignore=ignore,
        embed_scale=hidden**0.5,
        soft_cap=config.number("final_logit_softcapping") if config.has("final_logit_softcapping") else None,
    )
