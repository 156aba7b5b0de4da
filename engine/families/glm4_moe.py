"""GLM-4.5, 4.6 and Air (zai-org), and dots.llm1 (rednote-hilab): the sigmoid router with a correction bias.

The bias selects, the unbiased scores weigh (`noaux_tc`, DeepSeek-V3). The first layers are dense, shared experts are one
MLP added as it is. GLM rotates half of each head, biases q, k, v, and carries a multi-token-prediction layer to ignore.
"""

from __future__ import annotations

from ..model.spec import Attention, DenseMlp, Layer, Mixture, ModelSpec, Router
from .config import Config
from .names import STANDARD, mtp_layers

_RENORM_EPS = 1e-20


def _mixture(config: Config, norm_topk_prob: bool) -> Mixture:
    router = Router(
        "sigmoid",
        config.integer("num_experts_per_tok"),
        config.flag("norm_topk_prob", norm_topk_prob),
        renorm_eps=_RENORM_EPS,
        scaling=config.number("routed_scaling_factor", 1.0),
        correction_bias=True,
        groups=config.integer("n_group", 1),
        top_groups=config.integer("topk_group", 1),
    )
    width = config.integer("moe_intermediate_size")
    shared = config.integer("n_shared_experts", 0, low=0) * width
    return Mixture(router, config.integer("n_routed_experts"), width, shared_width=shared)


def _layers(config: Config, attentions: list[Attention], mixture: Mixture) -> tuple[Layer, ...]:
    first_sparse = config.integer("first_k_dense_replace", 0, low=0)
    return tuple(
        Layer(
            attention,
            DenseMlp(config.integer("intermediate_size")) if index < first_sparse else mixture,
        )
        for index, attention in enumerate(attentions)
    )


def glm4_spec(config: Config) -> ModelSpec:
    """Read a glm4_moe config."""
    heads, head_dim = config.integer("num_attention_heads"), config.head_dim()
    attention = Attention(
        heads=heads,
        kv_heads=config.integer("num_key_value_heads", heads),
        head_dim=head_dim,
        rope=config.rope(head_dim, partial=0.5),
        qk_norm="head" if config.flag("use_qk_norm", False) else "none",
        qkv_bias=config.flag("attention_bias", False),
    )
    layers = config.layers()
    return ModelSpec(
        family="glm4_moe",
        vocab=config.integer("vocab_size"),
        hidden=config.integer("hidden_size"),
        layers=_layers(config, [attention] * layers, _mixture(config, norm_topk_prob=True)),
        norm_eps=config.number("rms_norm_eps", 1e-5),
        tied=config.flag("tie_word_embeddings", False),
        max_context=config.integer("max_position_embeddings", 131072, high=1 << 31),
        names=STANDARD,
        ignore=mtp_layers(layers, config.integer("num_nextn_predict_layers", 1, low=0)),
    )


def dots1_spec(config: Config) -> ModelSpec:
    """Read a dots1 config."""
    heads, head_dim = config.integer("num_attention_heads"), config.head_dim()
    layers = config.layers()
    windowed = config.flag("use_sliding_window", False) and config.has("sliding_window")
    first_windowed = config.integer("max_window_layers", 62, low=0) if windowed else layers
    bias = config.flag("attention_bias", False)
    attentions = [
        Attention(
            heads=heads,
            kv_heads=config.integer("num_key_value_heads", heads),
            head_dim=head_dim,
            rope=config.rope(head_dim),
            qk_norm="head",
            qkv_bias=bias,
            out_bias=bias,
            window=config.integer("sliding_window") if index >= first_windowed else None,
        )
        for index in range(layers)
    ]
    return ModelSpec(
        family="dots1",
        vocab=config.integer("vocab_size"),
        hidden=config.integer("hidden_size"),
        layers=_layers(config, attentions, _mixture(config, norm_topk_prob=False)),
        norm_eps=config.number("rms_norm_eps", 1e-6),
        tied=config.flag("tie_word_embeddings", False),
        max_context=config.integer("max_position_embeddings", 2048, high=1 << 31),
        names=STANDARD,
    )
