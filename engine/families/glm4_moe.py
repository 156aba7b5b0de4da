"""GLM-4.5, 4.6 and Air (zai-org), and dots.llm1 (rednote-hilab): the sigmoid router with a correction bias.

The bias selects, the unbiased scores weigh (`noaux_tc`, DeepSeek-V3). The first layers are dense, shared experts are
one MLP added as it is. GLM rotates half of each head, biases q, k, v, and carries a multi-token-prediction layer to
ignore.
"""

from __future__ import annotations

from ..model.spec import Attention, DenseMlp, Layer, Mixture, ModelSpec, Router
from .config import MAX_LAYERS, Config
from .names import STANDARD, mtp_layers

_RENORM_EPS = 1e-20


def _mixture(config: Config, norm_topk_prob: bool, shared_experts: int) -> Mixture:
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
    shared = config.integer("n_shared_experts", shared_experts, low=0) * width
    return Mixture(router, config.experts(128), width, shared_width=shared)


def _layers(config: Config, attentions: list[Attention], mixture: Mixture, dense_layers: int) -> tuple[Layer, ...]:
    first_sparse = config.integer("first_k_dense_replace", dense_layers, low=0)
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
        layers=_layers(config, [attention] * layers, _mixture(config, True, shared_experts=1), dense_layers=1),
        norm_eps=config.norm_eps(1e-5),
        tied=config.flag("tie_word_embeddings", False),
        max_context=config.integer("max_position_embeddings", 131072, high=1 << 31),
        names=STANDARD,
        ignore=mtp_layers(layers, config.integer("num_nextn_predict_layers", 1, low=0, high=MAX_LAYERS)),
    )


def dots1_spec(config: Config) -> ModelSpec:
    """Read a dots1 config."""
    heads, head_dim = config.integer("num_attention_heads"), config.head_dim()
    window, first_windowed = config.sliding_window(4096), config.integer("max_window_layers", 62, low=0)
    windowed = [window is not None and index >= first_windowed for index in range(config.layers())]
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
            window=layer_window,
        )
        for layer_window in config.windows(window, windowed)
    ]
    return ModelSpec(
        family="dots1",
        vocab=config.integer("vocab_size"),
        hidden=config.integer("hidden_size"),
        layers=_layers(config, attentions, _mixture(config, False, shared_experts=0), dense_layers=0),
        norm_eps=config.norm_eps(1e-6),
        tied=config.flag("tie_word_embeddings", False),
        max_context=config.integer("max_position_embeddings", 2048, high=1 << 31),
        names=STANDARD,
    )
