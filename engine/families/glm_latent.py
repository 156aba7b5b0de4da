"""GLM's models with latent attention (zai-org): GLM-4.7-Flash (`glm4_moe_lite`), GLM-5, 5.1 and 5.2 (`glm_moe_dsa`).

The `noaux_tc` router, a multi-token-prediction layer to ignore. GLM-5 selects keys by an indexer; in GLM-5.2 only some
layers have one, and those after them use their selection again.
"""

from __future__ import annotations

from dataclasses import replace

from ..errors import UnsupportedModelError
from ..model.spec import LatentAttention, ModelSpec
from .config import MAX_LAYERS, Config, shown
from .latent import latent_attention
from .names import STANDARD, mtp_layers
from .noaux import dense_by_type, first_layers_dense, layers_of, noaux_mixture


def _spec(
    config: Config, attentions: list[LatentAttention], dense: list[bool], experts: int, scaling: float
) -> ModelSpec:
    config.expect("scoring_func", None, "sigmoid")
    config.expect("topk_method", None, "noaux_tc")
    layers = config.layers()
    return ModelSpec(
        family=str(config.values["model_type"]),
        vocab=config.integer("vocab_size"),
        hidden=config.integer("hidden_size"),
        layers=layers_of(config, attentions, dense, noaux_mixture(config, experts=experts, scaling=scaling)),
        norm_eps=config.norm_eps(1e-5),
        tied=config.flag("tie_word_embeddings", False),
        max_context=config.integer("max_position_embeddings", 202752, high=1 << 31),
        names=STANDARD,
        ignore=mtp_layers(layers, config.integer("num_nextn_predict_layers", 1, low=0, high=MAX_LAYERS)),
    )


def lite_spec(config: Config) -> ModelSpec:
    """Read a glm4_moe_lite config. Its first layer is dense; `first_k_dense_replace` is not read."""
    layers = config.layers()
    attention = latent_attention(config, pairs=config.flag("rope_interleave", True))
    dense = dense_by_type(config, [index == 0 for index in range(layers)])
    return _spec(config, [attention] * layers, dense, experts=64, scaling=1.8)


def dsa_spec(config: Config) -> ModelSpec:
    """Read a glm_moe_dsa config."""
    config.expect("rope_interleave", None, True)
    config.expect("indexer_rope_interleave", None, True)
    full = latent_attention(config, indexer_pairs=True)
    attentions = [full if has_indexer else replace(full, indexer=None) for has_indexer in _indexers(config)]
    dense = dense_by_type(config, first_layers_dense(config, 3))
    return _spec(config, attentions, dense, experts=256, scaling=2.5)


def _indexers(config: Config) -> list[bool]:
    """Which layers have an indexer: by name, by a pattern, or every `index_topk_freq`-th after the first ones."""
    layers = config.layers()
    types = config.values.get("indexer_types")
    if types is None:
        types = config.values.get("index_topk_pattern")
    if types is None:
        every, offset = config.integer("index_topk_freq", 1, low=0), config.integer("index_skip_topk_offset", 2, low=0)
        return [max(index - offset + 1, 0) % max(every, 1) == 0 for index in range(layers)]
    known = {"full": True, "F": True, "shared": False, "S": False}
    if (
        not isinstance(types, (list, str))
        or len(types) != layers
        or not all(isinstance(kind, str) and kind in known for kind in types)
    ):
        raise UnsupportedModelError(
            f"config.json: indexer_types is {shown(types)}, expected full or shared for each of {layers} layers"
        )
    return [known[kind] for kind in types]
