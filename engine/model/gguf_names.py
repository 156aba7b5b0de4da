"""Tensor names of GGUF files: what each is for, and so what the family calls it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ..checkpoint.index import TensorEntry
from .spec import ModelSpec, Role

_GLOBAL: dict[str, Role] = {"token_embd.weight": "embed", "output_norm.weight": "final_norm", "output.weight": "head"}
_IN_LAYER: dict[str, Role] = {
    "attn_norm.weight": "input_norm",
    "ffn_norm.weight": "post_norm",
    "post_attention_norm.weight": "post_norm",
    "attn_q.weight": "q",
    "attn_k.weight": "k",
    "attn_v.weight": "v",
    "attn_output.weight": "o",
    "attn_q.bias": "q_bias",
    "attn_k.bias": "k_bias",
    "attn_v.bias": "v_bias",
    "attn_output.bias": "o_bias",
    "attn_q_norm.weight": "q_norm",
    "attn_k_norm.weight": "k_norm",
    "attn_sinks.weight": "sinks",
    "attn_q_a.weight": "q_a",
    "attn_q_a_norm.weight": "q_a_norm",
    "attn_q_b.weight": "q_b",
    "attn_kv_a_mqa.weight": "kv_a",
    "attn_kv_a_norm.weight": "kv_a_norm",
    "attn_kv_b.weight": "kv_b",
    "attn_k_b.weight": "key_up",
    "attn_v_b.weight": "value_up",
    "ffn_gate.weight": "gate",
    "ffn_up.weight": "up",
    "ffn_down.weight": "down",
    "ffn_gate_inp.weight": "router",
    "ffn_gate_inp.bias": "router_logit_bias",
    "exp_probs_b.bias": "router_bias",
    "ffn_gate_exps.weight": "stacked_gate",
    "ffn_up_exps.weight": "stacked_up",
    "ffn_gate_up_exps.weight": "stacked_gate_up",
    "ffn_down_exps.weight": "stacked_down",
    "ffn_gate_exps.bias": "expert_gate_bias",
    "ffn_up_exps.bias": "expert_up_bias",
    "ffn_down_exps.bias": "expert_down_bias",
    "ffn_gate_shexp.weight": "shared_gate",
    "ffn_up_shexp.weight": "shared_up",
    "ffn_down_shexp.weight": "shared_down",
    "ffn_gate_inp_shexp.weight": "shared_expert_gate",
}
_BLOCK = re.compile(r"blk\.(\d+)\.(.*)")


def renamed(tensors: Mapping[str, TensorEntry], spec: ModelSpec) -> dict[str, TensorEntry]:
    """The tensors under the names their family gives them; one that is not known keeps its own.

    Tensors of layers behind the model's own are renamed so that the family can tell them as what it ignores.
    """
    found = {}
    for name, entry in tensors.items():
        block = _BLOCK.fullmatch(name)
        role = _IN_LAYER.get(block[2]) if block else _GLOBAL.get(name)
        hub = name
        if block and int(block[1]) >= len(spec.layers):
            hub = f"model.layers.{int(block[1])}.{block[2]}"
        elif role is not None and role in spec.names:
            hub = spec.names[role].replace("{L}", str(int(block[1]) if block else 0))
        one_row = role == "shared_expert_gate" and len(entry.shape) == 1
        found[hub] = replace(entry, shape=(1, *entry.shape)) if one_row else entry
    return found
