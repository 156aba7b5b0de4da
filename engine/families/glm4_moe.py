"""GLM-4.5, 4.6 and Air (zai-org), and dots.llm1 (rednote-hilab): the sigmoid router with a correction bias.

The bias selects, the unbiased scores weigh (`noaux_tc`, DeepSeek-V3). The first layers are dense, shared experts are
one MLP added as it is. GLM rotates half of each head, biases q, k, v, and carries a multi-token-prediction layer to
ignore.
"""

from __future__ import annotations

from ..model.spec import Attention, ModelSpec
from .config import MAX_LAYERS, Config
from .names import STANDARD, mtp_layers
from .noaux import first_layers_dense, layers_of, noaux_mixture


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
        layers=layers_of(
            config, [attention] * layers, first_layers_dense(config, 1), noaux_mixture(config, experts=128)
        ),
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
    mixture = noaux_mixture(config, experts=128, norm_topk_prob=False, shared_experts=0)
    return ModelSpec(
        family="dots1",
        vocab=config.integer("vocab_size"),
        hidden=config.integer("hidden_size"),
        layers=layers_of(config, attentions, first_layers_dense(config, 0), mixture),
        norm_eps=config.norm_eps(1e-6),
        tied=config.flag("tie_word_embeddings", False),
        max_context=config.integer("max_position_embeddings", 2048, high=1 << 31),
        names=STANDARD,
    )
