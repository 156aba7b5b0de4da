"""GGUF metadata -> what config.json would say, for the architectures that are known here.

llama.cpp's files keep fewer constants than a config: what it takes for granted for an architecture is written down
here. Families read the result like any config, so every value is checked there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from ..errors import UnsupportedModelError

Values = dict[str, Any]

_SIGMOID = 2
"""A value of `expert_gating_func`."""


class _Metadata:
    """Metadata of one architecture, by the names that follow it; and which tensors there are."""

    def __init__(self, values: Mapping[str, Any], arch: str, tensors: Collection[str], origin: str) -> None:
        self.values, self.arch, self.tensors, self.origin = values, arch, tensors, origin

    def __call__(self, key: str, default: Any = None) -> Any:
        """The value of `{arch}.key`; a list of one value for every layer counts as that value."""
        value = self.values.get(f"{self.arch}.{key}", default)
        if isinstance(value, list) and value and all(item == value[0] for item in value):
            value = value[0]
        if isinstance(value, list):
            raise UnsupportedModelError(f"{self.origin}: {self.arch}.{key} differs by layer, which is not supported")
        return value

    def need(self, key: str) -> Any:
        """The same, of a key that must be there."""
        value = self(key)
        if value is None:
            raise UnsupportedModelError(f"{self.origin}: metadata {self.arch}.{key} is missing; get the file again")
        return value

    def layers_with(self, name: str) -> list[int]:
        """The layers of the model itself that have a tensor of this name."""
        return [layer for layer in range(self.layers()) if f"blk.{layer}.{name}" in self.tensors]

    def layers(self) -> int:
        """Layers of the model itself, without those for multi-token prediction."""
        count, extra = self.need("block_count"), self("nextn_predict_layers", 0)
        if type(count) is not int or type(extra) is not int or not 0 <= extra < count:
            raise UnsupportedModelError(f"{self.origin}: {self.arch} has {count!r} blocks, {extra!r} of them extra")
        return count - extra


def read_config(values: Mapping[str, Any], tensors: Collection[str], vocab: int, origin: str) -> Values:
    """The config of a file's metadata. tensors: names of all tensors. vocab: rows of the embedding.

    UnsupportedModelError names an architecture that is not known.
    """
    arch = values.get("general.architecture")
    reader = _ARCHITECTURES.get(arch) if isinstance(arch, str) else None
    if reader is None:
        raise UnsupportedModelError(
            f"{origin}: architecture {str(arch)[:40]!a} is not supported as GGUF (supported: "
            f"{', '.join(_ARCHITECTURES)}); use the model's safetensors release"
        )
    metadata = _Metadata(values, str(arch), tensors, origin)
    heads = metadata.need("attention.head_count")
    config: Values = {
        "vocab_size": vocab,
        "hidden_size": metadata.need("embedding_length"),
        "num_hidden_layers": metadata.layers(),
        "num_nextn_predict_layers": metadata("nextn_predict_layers", 0),
        "num_attention_heads": heads,
        "num_key_value_heads": metadata("attention.head_count_kv", heads),
        "head_dim": metadata("attention.key_length"),
        "intermediate_size": metadata("feed_forward_length"),
        "rms_norm_eps": metadata.need("attention.layer_norm_rms_epsilon"),
        "max_position_embeddings": metadata.need("context_length"),
        "rope_theta": metadata("rope.freq_base", 10000.0),
        "rope_scaling": _rope_scaling(metadata),
        "tie_word_embeddings": "output.weight" not in tensors,
        "num_experts": metadata.need("expert_count"),
        "num_experts_per_tok": metadata.need("expert_used_count"),
        "hidden_act": "silu",
        "eos_token_id": _end_tokens(values),
        "bos_token_id": values.get("tokenizer.ggml.bos_token_id"),
    }
    config.update(reader(metadata))
    return {key: value for key, value in config.items() if value is not None}


def _rope_scaling(metadata: _Metadata) -> Values | None:
    kind = metadata("rope.scaling.type", "none")
    if kind == "none":
        return None
    if kind == "linear":
        return {"rope_type": "linear", "factor": metadata.need("rope.scaling.factor")}
    if kind != "yarn":
        raise UnsupportedModelError(f"{metadata.origin}: rope scaling {str(kind)[:40]!a} is not supported as GGUF")
    scaling = {
        "rope_type": "yarn",
        "factor": metadata.need("rope.scaling.factor"),
        "original_max_position_embeddings": metadata.need("rope.scaling.original_context_length"),
        "beta_fast": metadata("rope.scaling.yarn_beta_fast"),
        "beta_slow": metadata("rope.scaling.yarn_beta_slow"),
        "attention_factor": metadata("rope.scaling.yarn_attn_factor"),
    }
    return {key: value for key, value in scaling.items() if value is not None}


_ENDS = ("eos", "eot", "eom")
_END_SPELLINGS = frozenset({"<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<|return|>", "<|call|>"})
"""Control tokens that end an answer even where no key names them: hub releases list them in generation_config.json."""

CONTROL = 3
"""The type of control tokens in a vocabulary."""


def _end_tokens(values: Mapping[str, Any]) -> list[int]:
    named = [values.get(f"tokenizer.ggml.{key}_token_id") for key in _ENDS]
    ends = {number for number in named if type(number) is int}
    tokens, kinds = values.get("tokenizer.ggml.tokens"), values.get("tokenizer.ggml.token_type")
    if isinstance(tokens, list) and isinstance(kinds, list):
        listed = enumerate(zip(tokens, kinds, strict=False))
        ends |= {number for number, (token, kind) in listed if kind == CONTROL and token in _END_SPELLINGS}
    return sorted(ends)


def _qwen3moe(metadata: _Metadata) -> Values:
    return {
        "model_type": "qwen3_moe",
        "moe_intermediate_size": metadata.need("expert_feed_forward_length"),
        "norm_topk_prob": True,
        "attention_bias": "blk.0.attn_q.bias" in metadata.tensors,
    }


def _qwen2moe(metadata: _Metadata) -> Values:
    return {
        "model_type": "qwen2_moe",
        "moe_intermediate_size": metadata.need("expert_feed_forward_length"),
        "shared_expert_intermediate_size": metadata.need("expert_shared_feed_forward_length"),
        "norm_topk_prob": False,
        "qkv_bias": "blk.0.attn_q.bias" in metadata.tensors,
    }


def _olmoe(metadata: _Metadata) -> Values:
    return {"model_type": "olmoe", "norm_topk_prob": False, "clip_qkv": metadata("attention.clamp_kqv")}


def _mixtral(metadata: _Metadata) -> Values:
    """Rows of q and k are in the order of a rotation of neighbours."""
    return {"model_type": "mixtral", "rope_interleave": True}


def _minimax_m2(metadata: _Metadata) -> Values:
    return {
        "model_type": "minimax_m2",
        "intermediate_size": metadata.need("expert_feed_forward_length"),
        "rotary_dim": metadata("rope.dimension_count"),
    }


def _noaux(metadata: _Metadata) -> Values:
    """What sigmoid routers with shared experts and dense layers in front have in common."""
    return {
        "moe_intermediate_size": metadata.need("expert_feed_forward_length"),
        "n_shared_experts": metadata("expert_shared_count", 0),
        "first_k_dense_replace": metadata("leading_dense_block_count", 0),
        "norm_topk_prob": metadata("expert_weights_norm", False),
        "routed_scaling_factor": metadata("expert_weights_scale") or 1.0,
        "n_group": metadata("expert_group_count", 1),
        "topk_group": metadata("expert_group_used_count", 1),
    }


def _glm4moe(metadata: _Metadata) -> Values:
    head_dim, rotated = metadata.need("attention.key_length"), metadata("rope.dimension_count")
    return {
        **_noaux(metadata),
        "model_type": "glm4_moe",
        "use_qk_norm": "blk.0.attn_q_norm.weight" in metadata.tensors,
        "attention_bias": "blk.0.attn_q.bias" in metadata.tensors,
        "partial_rotary_factor": rotated / head_dim if rotated else None,
    }


def _dots1(metadata: _Metadata) -> Values:
    return {**_noaux(metadata), "model_type": "dots1", "attention_bias": False}


def _ernie(metadata: _Metadata) -> Values:
    """The last layers may be dense as well, which only the tensors tell."""
    return {
        "model_type": "ernie4_5_moe",
        "moe_intermediate_size": metadata.need("expert_feed_forward_length"),
        "moe_k": metadata.need("expert_used_count"),
        "moe_num_shared_experts": metadata("expert_shared_count", 0),
        "moe_layer_start_index": metadata("leading_dense_block_count", 0),
        "moe_layer_interval": metadata("interleave_moe_layer_step", 1),
        "moe_layer_end_index": max(metadata.layers_with("ffn_gate_inp.weight"), default=-1),
    }


def _gpt_oss(metadata: _Metadata) -> Values:
    scaling = _rope_scaling(metadata)
    return {
        "model_type": "gpt_oss",
        "intermediate_size": metadata.need("expert_feed_forward_length"),
        "sliding_window": metadata.need("attention.sliding_window"),
        "attention_bias": True,
        "rope_scaling": {**scaling, "truncate": False} if scaling else None,
    }


def _deepseek2(metadata: _Metadata) -> Values:
    """DeepSeek-V2 and V3 and what is built like them (GLM-4.7-Flash, Kimi-K2, Moonlight). The later ones have sigmoid
    scores and a correction bias.

    Since 2025 files keep the latent's two matrices apart and the lengths of heads under `_mla`.
    """
    rotated = metadata.need("rope.dimension_count")
    key = metadata("attention.key_length_mla") or metadata.need("attention.key_length")
    value = metadata("attention.value_length_mla") or metadata.need("attention.value_length")
    config = {
        **_noaux(metadata),
        "kv_lora_rank": metadata.need("attention.kv_lora_rank"),
        "q_lora_rank": metadata("attention.q_lora_rank"),
        "qk_rope_head_dim": rotated,
        "qk_nope_head_dim": key - rotated,
        "v_head_dim": value,
        "num_key_value_heads": metadata.need("attention.head_count"),
        "head_dim": None,
    }
    scaling, share = _rope_scaling(metadata), metadata("rope.scaling.yarn_log_multiplier")
    if scaling and share:
        # A tenth of it was written. Releases have mscale and mscale_all_dim alike, so that cos and sin are not scaled.
        config["rope_scaling"] = {**scaling, "mscale": share * 10, "mscale_all_dim": share * 10}
    gating = metadata("expert_gating_func")
    if gating == _SIGMOID or (gating is None and metadata.layers_with("exp_probs_b.bias")):
        if metadata("expert_group_count") is None and metadata.need("expert_count") == 256:
            config |= {"n_group": 8, "topk_group": 4}  # older files of V3 and R1 do not say so
        return {**config, "model_type": "deepseek_v3", "scoring_func": "sigmoid", "topk_method": "noaux_tc"}
    limited = metadata("expert_group_count", 1) > 1
    method = "group_limited_greedy" if limited else "greedy"
    return {**config, "model_type": "deepseek_v2", "scoring_func": "softmax", "topk_method": method}


_ARCHITECTURES: dict[str, Callable[[_Metadata], Values]] = {
    "qwen3moe": _qwen3moe,
    "qwen2moe": _qwen2moe,
    "olmoe": _olmoe,
    "llama": _mixtral,
    "deepseek2": _deepseek2,
    "glm4moe": _glm4moe,
    "gpt-oss": _gpt_oss,
    "ernie4_5-moe": _ernie,
    "minimax-m2": _minimax_m2,
    "dots1": _dots1,
}
"""By `general.architecture`. `llama` with experts is Mixtral."""
