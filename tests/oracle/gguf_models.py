"""Checkpoints of `checkpoints` as llama.cpp's converter writes them: other names, stacked experts, metadata.

Written from the format's description and its converter's, apart from `engine.checkpoint` and `engine.model`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .checkpoints import Case, Floats, is_extra, tensors
from .ggml_blocks import quantise
from .gguf_file import gguf

ARCHITECTURES = {
    "olmoe": "olmoe", "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe", "mixtral": "llama", "glm4_moe": "glm4moe",
    "dots1": "dots1", "deepseek_v2": "deepseek2", "deepseek_v3": "deepseek2", "kimi_k2": "deepseek2",
    "glm4_moe_lite": "deepseek2", "gpt_oss": "gpt-oss", "ernie4_5_moe": "ernie4_5-moe", "minimax_m2": "minimax-m2",
}  # fmt: skip
"""By model type."""

_GLOBAL = {"embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight"}
_ATTENTION = {
    "q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output", "q_norm": "attn_q_norm",
    "k_norm": "attn_k_norm", "q_a_proj": "attn_q_a", "q_a_layernorm": "attn_q_a_norm", "q_b_proj": "attn_q_b",
    "kv_a_proj_with_mqa": "attn_kv_a_mqa", "kv_a_layernorm": "attn_kv_a_norm", "kv_b_proj": "attn_kv_b",
}  # fmt: skip
_PARTS = {"gate_proj": "gate", "up_proj": "up", "down_proj": "down", "w1": "gate", "w3": "up", "w2": "down"}
_EXTRA = {"enorm": "enorm", "hnorm": "hnorm", "eh_proj": "eh_proj", "embed_tokens": "embed_tokens",
          "shared_head.norm": "shared_head_norm", "shared_head.head": "shared_head_head"}  # fmt: skip


def _in_layer(case: Case, name: str) -> str:
    """What is left of a tensor's name behind `blk.L.`."""
    kind = case.config["model_type"]
    stem, _, suffix = name.rpartition(".")
    parts = stem.split(".")
    if stem in _EXTRA:
        return f"nextn.{_EXTRA[stem]}.weight"
    if name == "self_attn.sinks":
        return "attn_sinks.weight"
    if parts[0] == "self_attn":
        return f"{_ATTENTION[parts[1]]}.{suffix}"
    if parts[0] == "input_layernorm":
        return "attn_norm.weight"
    if parts[0] == "post_attention_layernorm":
        return ("post_attention_norm" if kind in ("glm4_moe", "gpt_oss") else "ffn_norm") + ".weight"
    if suffix == "e_score_correction_bias":
        return "exp_probs_b.bias"
    if parts[1:] in (["gate"], ["router"]):
        return f"ffn_gate_inp.{suffix}"
    if parts[1:] == ["shared_expert_gate"]:
        return "ffn_gate_inp_shexp.weight"
    if parts[1].startswith("shared_expert"):
        return f"ffn_{_PARTS[parts[2]]}_shexp.weight"
    if parts[0] == "mlp" and parts[1] in _PARTS:
        return f"ffn_{_PARTS[parts[1]]}.weight"
    raise AssertionError(name)


def _neighbours(w: Floats, heads: int) -> Floats:
    """Rows of q or k in the order of a rotation of neighbours: dimension i beside i + half."""
    return w.reshape(heads, 2, -1, w.shape[1]).swapaxes(1, 2).reshape(w.shape)


def _apart(case: Case, w: Floats) -> tuple[Floats, Floats]:
    """The latent's two matrices: [heads, rank, nope] and [heads, value, rank]."""
    nope, heads = case.config["qk_nope_head_dim"], case.config["num_attention_heads"]
    both = w.reshape(heads, -1, w.shape[1])
    return np.ascontiguousarray(both[:, :nope].swapaxes(1, 2)), np.ascontiguousarray(both[:, nope:])


def renamed(case: Case, legacy: bool = False) -> dict[str, tuple[str, Floats]]:
    """dtype and values by the names in a file. legacy: as before the latent's matrices were kept apart."""
    config = case.config
    kind = config["model_type"]
    found: dict[str, tuple[str, Floats]] = {}
    stacks: dict[str, list[Floats]] = {}
    for name, (dtype, values) in tensors(case).items():
        if name == "lm_head.weight":
            found["output.weight"] = dtype, values
            continue
        if kind != "glm4_moe" and is_extra(config, name):
            continue
        rest = name.removeprefix("model.")
        if rest in _GLOBAL:
            found[_GLOBAL[rest]] = dtype, values
            continue
        _, layer, inner = rest.split(".", 2)
        block = f"blk.{layer}."
        if ".experts.gate_up_proj" in inner:  # gate and up alternate, and inputs come first
            bias = "bias" in inner
            for at, part in enumerate(("gate", "up")):
                half = values[..., at::2]
                file = f"{block}ffn_{part}_exps.{'bias' if bias else 'weight'}"
                found[file] = dtype, half if bias else np.ascontiguousarray(half.swapaxes(1, 2))
        elif inner == "mlp.experts.down_proj":
            found[f"{block}ffn_down_exps.weight"] = dtype, np.ascontiguousarray(values.swapaxes(1, 2))
        elif inner == "mlp.experts.down_proj_bias":
            found[f"{block}ffn_down_exps.bias"] = dtype, values
        elif ".experts." in inner:
            stacks.setdefault(f"{block}ffn_{_PARTS[inner.split('.')[3]]}_exps.weight", []).append(values)
        elif inner == "self_attn.kv_b_proj.weight" and not legacy:
            found[f"{block}attn_k_b.weight"], found[f"{block}attn_v_b.weight"] = (
                (dtype, part) for part in _apart(case, values)
            )
        else:
            if kind == "mixtral" and inner.endswith(("q_proj.weight", "k_proj.weight")):
                key = "num_attention_heads" if "q_proj" in inner else "num_key_value_heads"
                values = _neighbours(values, config[key])
            if inner.endswith(("shared_expert_gate.weight", "e_score_correction_bias")):
                values = values.reshape(-1)
            found[block + _in_layer(case, inner)] = dtype, values
    return found | {name: (case.dtype, np.stack(parts)) for name, parts in stacks.items()}


def _latent(config: Mapping[str, Any], legacy: bool) -> dict[str, Any]:
    key, rope = config["qk_nope_head_dim"] + config["qk_rope_head_dim"], config["qk_rope_head_dim"]
    rank, value = config["kv_lora_rank"], config["v_head_dim"]
    values = {"attention.kv_lora_rank": rank, "rope.dimension_count": rope}
    if config["q_lora_rank"] is not None:
        values["attention.q_lora_rank"] = config["q_lora_rank"]
    if legacy:
        return values | {"attention.key_length": key, "attention.value_length": value}
    return values | {
        "attention.head_count_kv": 1, "attention.key_length": rank + rope, "attention.value_length": rank,
        "attention.key_length_mla": key, "attention.value_length_mla": value,
    }  # fmt: skip


def _router(config: Mapping[str, Any]) -> dict[str, Any]:
    sigmoid = config["model_type"] not in ("deepseek_v2",)
    return {
        "expert_shared_count": config["n_shared_experts"],
        "leading_dense_block_count": config.get("first_k_dense_replace", 1),
        "expert_weights_scale": float(config["routed_scaling_factor"]),
        "expert_weights_norm": config["norm_topk_prob"],
        "expert_gating_func": 2 if sigmoid else 1,
        "expert_group_count": config.get("n_group", 1),
        "expert_group_used_count": config.get("topk_group", 1),
    }


def _yarn(scaling: Mapping[str, Any]) -> dict[str, Any]:
    values = {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": float(scaling["factor"]),
        "rope.scaling.original_context_length": scaling["original_max_position_embeddings"],
        "rope.scaling.yarn_beta_fast": float(scaling["beta_fast"]),
        "rope.scaling.yarn_beta_slow": float(scaling["beta_slow"]),
    }
    if scaling.get("mscale_all_dim"):
        values["rope.scaling.yarn_log_multiplier"] = 0.1 * scaling["mscale_all_dim"]
    return values


def metadata(case: Case, legacy: bool = False) -> dict[str, Any]:
    """A file's metadata, without a vocabulary."""
    config, kind = case.config, case.config["model_type"]
    arch, heads = ARCHITECTURES[kind], config["num_attention_heads"]
    extra = config.get("num_nextn_predict_layers", 0) if kind == "glm4_moe" else 0
    counts = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")
    values: dict[str, Any] = {
        "block_count": config["num_hidden_layers"] + extra,
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": heads,
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "rope.freq_base": float(config["rope_theta"]),
        "expert_count": next(config[key] for key in counts if key in config),
        "expert_used_count": config.get("num_experts_per_tok") or config["moe_k"],
    }
    if "head_dim" in config:
        values |= {"attention.key_length": config["head_dim"], "attention.value_length": config["head_dim"]}
    width = config.get("moe_intermediate_size")
    if kind in ("gpt_oss", "minimax_m2"):
        width = config["intermediate_size"]
    if width is not None:
        values["expert_feed_forward_length"] = width
    if extra:
        values["nextn_predict_layers"] = extra
    if config.get("rope_scaling"):
        values |= _yarn(config["rope_scaling"])
    match kind:
        case "qwen2_moe":
            values["expert_shared_feed_forward_length"] = config["shared_expert_intermediate_size"]
        case "glm4_moe":
            rotated = round(config["partial_rotary_factor"] * config["head_dim"])
            values |= {**_router(config), "rope.dimension_count": rotated}
        case "dots1":
            values |= _router(config)
        case "ernie4_5_moe":
            values |= {
                "expert_shared_count": config["moe_num_shared_experts"],
                "leading_dense_block_count": config["moe_layer_start_index"],
                "interleave_moe_layer_step": config["moe_layer_interval"],
            }
        case "gpt_oss":
            values["attention.sliding_window"] = config["sliding_window"]
        case "minimax_m2":
            values |= {"rope.dimension_count": config["rotary_dim"], "expert_gating_func": 2}
        case _ if "kv_lora_rank" in config:
            values |= {**_router(config), **_latent(config, legacy)}
    return {"general.architecture": arch, **{f"{arch}.{key}": value for key, value in values.items()}}


Choose = Callable[[str], str]
"""The type of a matrix by its name in the file."""


def build(
    case: Case, choose: Choose | None = None, legacy: bool = False
) -> tuple[dict[str, Any], dict[str, tuple[int, tuple[int, ...], bytes]], dict[str, Floats]]:
    """Metadata, tensors, and what the tensors stand for. Vectors and routers are float32; matrices of a type chosen,
    or of the checkpoint's own."""
    files: dict[str, tuple[int, tuple[int, ...], bytes]] = {}
    values: dict[str, Floats] = {}
    for name, (dtype, given) in renamed(case, legacy).items():
        plain = given.ndim == 1 or ".bias" in name or "ffn_gate_inp" in name
        kind = "F32" if plain else (choose(name) if choose else dtype)
        number, data, values[name] = quantise(kind, given)
        files[name] = number, given.shape, data
    return metadata(case, legacy), files, values


def write(path: Path, case: Case, choose: Choose | None = None, legacy: bool = False, parts: int = 1) -> Path:
    """Write a model as one file or as the first of several, and return the path to open."""
    values, files, _ = build(case, choose, legacy)
    if parts == 1:
        path.write_bytes(gguf(values, files))
        return path
    names = sorted(files)
    for part in range(parts):
        held = {name: files[name] for name in names[part::parts]}
        said = values if part == 0 else {"split.no": part}
        file = path.with_name(f"{path.stem}-{part + 1:05}-of-{parts:05}.gguf")
        file.write_bytes(gguf(said, held))
    return path.with_name(f"{path.stem}-00001-of-{parts:05}.gguf")
