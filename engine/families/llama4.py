"""Llama 4 (Meta): one routed expert a token whose input is weighed, chunked attention, every fourth layer unrotated."""

from __future__ import annotations

from ..errors import UnsupportedModelError
from ..model.spec import Attention, DenseMlp, Layer, Mixture, ModelSpec, Role, Router
from .config import Config
from .names import STANDARD

_MLP = "model.layers.{L}.feed_forward."
_NAMES: dict[Role, str] = {
    **STANDARD,
    "gate": _MLP + "gate_proj.weight",
    "up": _MLP + "up_proj.weight",
    "down": _MLP + "down_proj.weight",
    "router": _MLP + "router.weight",
    "stacked_gate_up": _MLP + "experts.gate_up_proj",
    "stacked_down": _MLP + "experts.down_proj",
    "shared_gate": _MLP + "shared_expert.gate_proj.weight",
    "shared_up": _MLP + "shared_expert.up_proj.weight",
    "shared_down": _MLP + "shared_expert.down_proj.weight",
}
_VISION = (r"multi_modal_projector\..*", r"vision_model\..*")


def composite_spec(config: Config) -> ModelSpec:
    """Read a llama4 config: the text model of one that also sees."""
    text = config.section("text_config")
    prefixed: dict[Role, str] = {role: f"language_model.{name}" for role, name in _NAMES.items()}
    return _spec(text, "llama4", prefixed, _VISION)


def text_spec(config: Config) -> ModelSpec:
    """Read a llama4_text config."""
    return _spec(config, "llama4_text", _NAMES, ())


def _attention(config: Config, rotated: bool, chunk: int | None) -> Attention:
    heads, head_dim = config.integer("num_attention_heads"), config.head_dim()
    bias = config.flag("attention_bias", False)
    tuned = not rotated and config.flag("attn_temperature_tuning", True)
    return Attention(
        heads=heads,
        kv_heads=config.integer("num_key_value_heads", 8),
        head_dim=head_dim,
        rope=config.rope(head_dim, theta=500000.0, pairs=True) if rotated else None,
        qk_norm="plain" if rotated and config.flag("use_qk_norm", True) else "none",
        qkv_bias=bias,
        out_bias=bias,
        chunk=chunk,
        tuning=(config.number("attn_scale", 0.1), config.number("floor_scale", 8192)) if tuned else None,
    )


def _rotated(config: Config) -> list[bool]:
    """Which layers rotate: `no_rope_layers` holds 1 for those that do; by default every fourth does not."""
    layers, given = config.layers(), config.values.get("no_rope_layers")
    if not given:
        step = config.integer("no_rope_layer_interval", 4)
        return [(index + 1) % step != 0 for index in range(layers)]
    if not isinstance(given, list) or len(given) != layers:
        raise UnsupportedModelError(f"config.json: no_rope_layers must have an entry for each of {layers} layers")
    return [bool(entry) for entry in given]


def _chunks(config: Config, rotated: list[bool]) -> list[int | None]:
    """Each layer's chunk: where `layer_types` says so, or else where layers rotate; a null size means none."""
    size: int | None = None
    if "attention_chunk_size" not in config.values or config.has("attention_chunk_size"):
        size = config.integer("attention_chunk_size", 8192)
    types = config.values.get("layer_types")
    if types is None:
        return [size if turns else None for turns in rotated]
    known = ("chunked_attention", "full_attention")
    if not isinstance(types, list) or len(types) != len(rotated) or any(kind not in known for kind in types):
        raise UnsupportedModelError(
            f"config.json: layer_types must name {' or '.join(known)} for each of {len(rotated)} layers"
        )
    if size is None and known[0] in types:
        raise UnsupportedModelError("config.json: layer_types has chunked layers, but no attention_chunk_size")
    return [size if kind == known[0] else None for kind in types]


def _spec(config: Config, family: str, names: dict[Role, str], ignore: tuple[str, ...]) -> ModelSpec:
    width = config.integer("intermediate_size")
    mixture = Mixture(
        Router("sigmoid", config.integer("num_experts_per_tok", 1), renormalise=False, weigh_inputs=True),
        config.experts(16),
        width,
        shared_width=width,
        layout="columns",
    )
    dense = DenseMlp(config.integer("intermediate_size_mlp", 16384))
    step = config.integer("interleave_moe_layer_step", 1)
    rotated = _rotated(config)
    sparse = config.layer_list("moe_layers")
    if not config.has("moe_layers"):
        sparse = frozenset(i for i in range(len(rotated)) if (i + 1) % step == 0)
    return ModelSpec(
        family=family,
        vocab=config.integer("vocab_size"),
        hidden=config.integer("hidden_size"),
        layers=tuple(
            Layer(_attention(config, turns, chunk), mixture if index in sparse else dense)
            for index, (turns, chunk) in enumerate(zip(rotated, _chunks(config, rotated), strict=True))
        ),
        norm_eps=config.norm_eps(1e-5),
        tied=config.flag("tie_word_embeddings", False),
        max_context=config.integer("max_position_embeddings", 131072, high=1 << 31),
        names=names,
        ignore=ignore,
    )
