"""DeepSeek-V2, V3 (also R1, Moonlight, Kimi-K2) and V3.2: latent attention.

V2 has a softmax router, whose weights are never renormalised whatever `norm_topk_prob` says; its larger model chooses
only among the experts of the best groups, a group counting its best. V3 has the `noaux_tc` router and a layer for
multi-token prediction to ignore. V3.2 adds an indexer that selects the keys of each position.
"""

from __future__ import annotations

from ..errors import UnsupportedModelError
from ..model.spec import LatentAttention, Mixture, ModelSpec, Router
from .config import MAX_LAYERS, Config, shown
from .latent import latent_attention
from .names import STANDARD, mtp_layers
from .noaux import dense_by_type, first_layers_dense, layers_of, noaux_mixture


def _spec(
    config: Config, attention: LatentAttention, dense: list[bool], mixture: Mixture, ignore: tuple[str, ...]
) -> ModelSpec:
    return ModelSpec(
        family=str(config.values["model_type"]),
        vocab=config.integer("vocab_size"),
        hidden=config.integer("hidden_size"),
        layers=layers_of(config, [attention] * config.layers(), dense, mixture),
        norm_eps=config.norm_eps(1e-6),
        tied=config.flag("tie_word_embeddings", False),
        max_context=config.integer("max_position_embeddings", 4096, high=1 << 31),
        names=STANDARD,
        ignore=ignore,
    )


def v2_spec(config: Config) -> ModelSpec:
    """Read a deepseek_v2 config."""
    config.expect("scoring_func", None, "softmax")
    config.expect("mlp_bias", None, False)
    method = config.values.get("topk_method") or "greedy"
    if method not in ("greedy", "group_limited_greedy"):
        raise UnsupportedModelError(
            f"config.json: topk_method is {shown(method)}, only 'greedy' or 'group_limited_greedy' is supported"
        )
    limited = method == "group_limited_greedy"
    router = Router(
        "softmax",
        config.integer("num_experts_per_tok"),
        renormalise=False,
        scaling=config.number("routed_scaling_factor", 1.0),
        groups=config.integer("n_group") if limited else 1,
        top_groups=config.integer("topk_group") if limited else 1,
        group_best=1,
    )
    width = config.integer("moe_intermediate_size")
    shared = config.integer("n_shared_experts", 2, low=0) * width
    mixture = Mixture(router, config.experts(64), width, shared_width=shared)
    return _spec(config, latent_attention(config), first_layers_dense(config, 0), mixture, ())


def _v3_mixture(config: Config) -> Mixture:
    config.expect("scoring_func", None, "sigmoid")
    config.expect("topk_method", None, "noaux_tc")
    return noaux_mixture(config, experts=256, scaling=2.5, groups=8, top_groups=4)


def _mtp(config: Config) -> tuple[str, ...]:
    return mtp_layers(config.layers(), config.integer("num_nextn_predict_layers", 1, low=0, high=MAX_LAYERS))


def v3_spec(config: Config) -> ModelSpec:
    """Read a deepseek_v3 or kimi_k2 config."""
    attention = latent_attention(config, pairs=config.flag("rope_interleave", True))
    return _spec(config, attention, first_layers_dense(config, 3), _v3_mixture(config), _mtp(config))


def v32_spec(config: Config) -> ModelSpec:
    """Read a deepseek_v32 config."""
    config.expect("rope_interleave", None, True)
    config.expect("indexer_rope_interleave", None, False)
    attention = latent_attention(config, indexer_pairs=False)
    dense = dense_by_type(config, first_layers_dense(config, 3))
    return _spec(config, attention, dense, _v3_mixture(config), _mtp(config))
