"""Qwen3-Next and Qwen3.5 MoE: gated delta nets with full attention every few layers, gated too; a gated shared expert.

Norms are stored as w - 1, except the delta net's own. Qwen3.5 nests its text model and keeps projections apart.
"""

from __future__ import annotations

from ..errors import UnsupportedModelError
from ..model.spec import Attention, DeltaNet, DenseMlp, Layer, Mixture, ModelSpec, Role, Router
from .config import Config
from .qwen_moe import QWEN2_NAMES

_LINEAR = "model.layers.{L}.linear_attn."
_NAMES: dict[Role, str] = {
    **QWEN2_NAMES,
    "in_qkvz": _LINEAR + "in_proj_qkvz.weight",
    "in_ba": _LINEAR + "in_proj_ba.weight",
    "in_qkv": _LINEAR + "in_proj_qkv.weight",
    "in_z": _LINEAR + "in_proj_z.weight",
    "in_b": _LINEAR + "in_proj_b.weight",
    "in_a": _LINEAR + "in_proj_a.weight",
    "conv": _LINEAR + "conv1d.weight",
    "a_log": _LINEAR + "A_log",
    "dt_bias": _LINEAR + "dt_bias",
    "out_norm": _LINEAR + "norm.weight",
    "out": _LINEAR + "out_proj.weight",
}
_MTP = r"mtp\..*"
_VISION = r"model\.visual\..*"


def next_spec(config: Config) -> ModelSpec:
    """Read a qwen3_next config."""
    renormalise = config.flag("norm_topk_prob", True)
    tied = config.flag("tie_word_embeddings", False)
    return _spec(config, "qwen3_next", renormalise, grouped=True, tied=tied, names=_NAMES, ignore=(_MTP,))


def composite_spec(config: Config) -> ModelSpec:
    """Read a qwen3_5_moe config: the text model of one that also sees."""
    text = config.section("text_config")
    tied = config.flag("tie_word_embeddings", text.flag("tie_word_embeddings", False))
    names: dict[Role, str] = {role: name.replace("model.", "model.language_model.", 1) for role, name in _NAMES.items()}
    return _spec(text, "qwen3_5_moe", True, grouped=False, tied=tied, names=names, ignore=(_MTP, _VISION))


def text_spec(config: Config) -> ModelSpec:
    """Read a qwen3_5_moe_text config."""
    tied = config.flag("tie_word_embeddings", False)
    return _spec(config, "qwen3_5_moe_text", True, grouped=False, tied=tied, names=_NAMES, ignore=(_MTP,))


def _full(config: Config) -> list[bool]:
    """Which layers have full attention."""
    layers, types = config.layers(), config.values.get("layer_types")
    if types is None:
        interval = config.integer("full_attention_interval", 4)
        return [(index + 1) % interval == 0 for index in range(layers)]
    known = ("full_attention", "linear_attention")
    if not isinstance(types, list) or len(types) != layers or any(kind not in known for kind in types):
        raise UnsupportedModelError(
            f"config.json: layer_types must name {' or '.join(known)} for each of {layers} layers"
        )
    return [kind == "full_attention" for kind in types]


def _spec(
    config: Config, family: str, renormalise: bool, grouped: bool, tied: bool, names: dict[Role, str],
    ignore: tuple[str, ...],
) -> ModelSpec:  # fmt: skip
    head_dim = config.integer("head_dim", 256)
    bias = config.flag("attention_bias", False)
    full = Attention(
        heads=config.integer("num_attention_heads"),
        kv_heads=config.integer("num_key_value_heads", 2),
        head_dim=head_dim,
        rope=config.rope(head_dim, theta=10000.0, partial=0.25),
        qk_norm="head",
        qkv_bias=bias,
        out_bias=bias,
        gated=True,
    )
    linear = DeltaNet(
        key_heads=config.integer("linear_num_key_heads", 16),
        value_heads=config.integer("linear_num_value_heads", 32),
        key_dim=config.integer("linear_key_head_dim", 128),
        value_dim=config.integer("linear_value_head_dim", 128),
        taps=config.integer("linear_conv_kernel_dim", 4, low=2),
        grouped=grouped,
    )
    if linear.value_heads % linear.key_heads:
        raise UnsupportedModelError(
            f"config.json: {linear.value_heads} value heads cannot share {linear.key_heads} key heads"
        )
    mixture = Mixture(
        Router("softmax", config.integer("num_experts_per_tok"), renormalise),
        config.experts(512 if family == "qwen3_next" else 256),
        config.integer("moe_intermediate_size"),
        shared_width=config.integer("shared_expert_intermediate_size"),
        shared_gated=True,
    )
    dense_layers, step = config.layer_list("mlp_only_layers"), config.integer("decoder_sparse_step", 1)
    layers = []
    for index, whole in enumerate(_full(config)):
        sparse = index not in dense_layers and (index + 1) % step == 0
        mlp = mixture if sparse else DenseMlp(config.integer("intermediate_size"))
        layers.append(Layer(full if whole else linear, mlp))
    return ModelSpec(
        family=family,
        vocab=config.integer("vocab_size"),
        hidden=config.integer("hidden_size"),
        layers=tuple(layers),
        norm_eps=config.norm_eps(1e-6),
        tied=tied,
        max_context=config.integer("max_position_embeddings", 32768, high=1 << 31),
        names=names,
        ignore=ignore,
        norm_shift=1.0,
    )
