"""The tensors of the families that lay out a layer in a way of their own: names, shapes, spreads.

Written from the hub's layouts, apart from `engine.families`. Some wrap their text model in one that also sees; what no
text needs is there too, in part, and must be ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import checkpoints_gemma as gemma
from .drawn import BIAS, CORRECTION, NORM, ROUTER, Tensor, linear, mlp, norm

QWEN = ("qwen3_next", "qwen3_5_moe", "qwen3_5_moe_text")
LLAMA = ("llama4", "llama4_text")
KINDS = (
    "flex_olmo", "gpt_oss", "granitemoe", "granitemoeshared", "phimoe", "ernie4_5_moe", "hunyuan_v1_moe", "jetmoe",
    "lfm2_moe", "minimax_m2", *QWEN, *LLAMA, *gemma.KINDS,
)  # fmt: skip
"""Their model types."""

_PREFIX = {
    **dict.fromkeys(("qwen3_5_moe", "gemma4"), "model.language_model."),
    "llama4": "language_model.model.",
}
_HEAD = {"llama4": "language_model.lm_head.weight"}
_NORMS = {
    "flex_olmo": ("post_attention_layernorm", "post_feedforward_layernorm"),
    "lfm2_moe": ("operator_norm", "ffn_norm"),
}
_MOE = {
    **dict.fromkeys(("granitemoe", "granitemoeshared", "phimoe", "minimax_m2"), "block_sparse_moe"),
    **dict.fromkeys(("lfm2_moe", *LLAMA), "feed_forward"),
}
_ROUTERS = {
    "hunyuan_v1_moe": "gate.wg.weight",
    **dict.fromkeys(("granitemoe", "granitemoeshared", "jetmoe"), "router.layer.weight"),
    **dict.fromkeys(("gpt_oss", *LLAMA), "router.weight"),
}
_NUMBERED = ("phimoe", "minimax_m2", "lfm2_moe")
"""Families whose gate, up and down are w1, w3 and w2."""

_QK_NORMS = {
    **dict.fromkeys(("flex_olmo", "minimax_m2", *QWEN), ("q_norm", "k_norm")),
    "hunyuan_v1_moe": ("query_layernorm", "key_layernorm"),
    "lfm2_moe": ("q_layernorm", "k_layernorm"),
}
_EXTRA = {
    "ernie4_5_moe": ("model.mtp_",),
    "qwen3_next": ("mtp.",),
    "qwen3_5_moe": ("mtp.", "model.visual."),
    "qwen3_5_moe_text": ("mtp.",),
    "llama4": ("multi_modal_projector.", "vision_model."),
    "gemma4": ("model.embed_vision.", "model.vision_tower."),
}
_DECAY = -2.0
"""Of the delta net: exp of it is how fast the state fades, here over some ten tokens."""


def text_of(config: dict[str, Any]) -> dict[str, Any]:
    """The part of a config that describes the text model."""
    text: dict[str, Any] = {**config.get("text_config", config), "model_type": config["model_type"]}
    return text


def prefix(kind: str) -> str:
    """What the names of the text model begin with."""
    return _PREFIX.get(kind, "model.")


def moe_name(kind: str) -> str:
    """What the second half of a layer is called."""
    return _MOE.get(kind, "mlp")


def is_extra(config: dict[str, Any], name: str) -> bool:
    """Whether a tensor belongs to what the text model does not need."""
    return name.startswith(_EXTRA.get(config["model_type"], ()))


def is_sparse(config: dict[str, Any], layer: int) -> bool:
    """Whether a layer has a router."""
    text = text_of(config)
    kind = text["model_type"]
    if kind == "ernie4_5_moe":
        end = text["moe_layer_end_index"] if text["moe_layer_end_index"] >= 0 else text["num_hidden_layers"] - 1
        inside = text["moe_layer_start_index"] <= layer <= end
        return bool(inside and (layer + 1) % text["moe_layer_interval"] == 0)
    if kind == "lfm2_moe":
        return bool(layer >= text["num_dense_layers"])
    if kind in LLAMA:
        step = text["interleave_moe_layer_step"]
        return layer in text["moe_layers"] if "moe_layers" in text else (layer + 1) % step == 0
    return layer not in text.get("mlp_only_layers", ())


def _norm(text: dict[str, Any], name: str, width: int) -> Tensor:
    """A norm's weight; Qwen stores how much it differs from 1."""
    return Tensor(name, (width,), NORM) if text["model_type"] in QWEN else norm(name, width)


def _head_dim(text: dict[str, Any]) -> int:
    return int(text.get("head_dim") or text["hidden_size"] // text["num_attention_heads"])


def _attention(text: dict[str, Any], stem: str) -> Iterator[Tensor]:
    kind, hidden, dim = text["model_type"], text["hidden_size"], _head_dim(text)
    q, kv = text["num_attention_heads"] * dim, text["num_key_value_heads"] * dim
    rows = {"q": 2 * q if kind in QWEN else q, "k": kv, "v": kv}
    biased = text.get("attention_bias", False)
    for part, count in rows.items():
        yield linear(f"{stem}.{part}_proj.weight", count, hidden, 1.6)
        if biased:
            yield Tensor(f"{stem}.{part}_proj.bias", (count,), BIAS)
    out = "out_proj" if kind == "lfm2_moe" else "o_proj"
    yield linear(f"{stem}.{out}.weight", hidden, q, 1.5)
    if biased:
        yield Tensor(f"{stem}.{out}.bias", (hidden,), BIAS)
    if kind in _QK_NORMS:
        whole = kind in ("flex_olmo", "minimax_m2")
        for name, width in zip(_QK_NORMS[kind], (q, kv) if whole else (dim, dim), strict=True):
            yield _norm(text, f"{stem}.{name}.weight", width)
    if kind == "gpt_oss":
        yield Tensor(f"{stem}.sinks", (text["num_attention_heads"],), 1.0)


def _mixed_attention(text: dict[str, Any], stem: str) -> Iterator[Tensor]:
    """JetMoE's: every expert has a query for each key/value head."""
    hidden, experts, width = text["hidden_size"], text["num_local_experts"], text["kv_channels"]
    width *= text["num_key_value_heads"]
    yield linear(f"{stem}.kv_proj.weight", 2 * width, hidden, 1.6)
    yield Tensor(f"{stem}.experts.input_linear.weight", (experts, width, hidden), 1.6 * hidden**-0.5)
    yield Tensor(f"{stem}.experts.output_linear.weight", (experts, hidden, width), 1.5 * width**-0.5)
    yield linear(f"{stem}.experts.router.layer.weight", experts, hidden, ROUTER)
    yield Tensor(f"{stem}.experts.bias", (hidden,), BIAS)


def _delta_net(text: dict[str, Any], stem: str) -> Iterator[Tensor]:
    hidden, key_heads, heads = text["hidden_size"], text["linear_num_key_heads"], text["linear_num_value_heads"]
    keys, values = key_heads * text["linear_key_head_dim"], heads * text["linear_value_head_dim"]
    if text["model_type"] == "qwen3_next":
        yield linear(f"{stem}.in_proj_qkvz.weight", 2 * keys + 2 * values, hidden, 1.5)
        yield linear(f"{stem}.in_proj_ba.weight", 2 * heads, hidden, 1.5)
    else:
        rows = {"qkv": 2 * keys + values, "z": values, "b": heads, "a": heads}
        for part, count in rows.items():
            yield linear(f"{stem}.in_proj_{part}.weight", count, hidden, 1.5)
    wide = None if text["model_type"] == "qwen3_next" else "F32"
    taps = text["linear_conv_kernel_dim"]
    yield Tensor(f"{stem}.conv1d.weight", (2 * keys + values, 1, taps), taps**-0.5)
    yield Tensor(f"{stem}.A_log", (heads,), 1.0, centre=_DECAY, dtype=wide)
    yield Tensor(f"{stem}.dt_bias", (heads,), 1.0)
    yield Tensor(f"{stem}.norm.weight", (text["linear_value_head_dim"],), NORM, centre=1.0, dtype=wide)
    yield linear(f"{stem}.out_proj.weight", hidden, values, 1.5)


def _convolution(text: dict[str, Any], stem: str) -> Iterator[Tensor]:
    hidden, taps = text["hidden_size"], text["conv_L_cache"]
    yield linear(f"{stem}.in_proj.weight", 3 * hidden, hidden, 1.2)
    yield Tensor(f"{stem}.conv.weight", (hidden, 1, taps), taps**-0.5)
    yield linear(f"{stem}.out_proj.weight", hidden, hidden, 1.2)


def is_attention(text: dict[str, Any], layer: int) -> bool:
    """Whether a layer has keys and values; else it has a running state."""
    if text["model_type"] not in (*QWEN, "lfm2_moe"):
        return True
    if "layer_types" in text:
        return bool(text["layer_types"][layer] == "full_attention")
    return bool((layer + 1) % text["full_attention_interval"] == 0)


def _mixer(text: dict[str, Any], layer: int, stem: str) -> Iterator[Tensor]:
    if text["model_type"] == "jetmoe":
        return _mixed_attention(text, f"{stem}.self_attention")
    if is_attention(text, layer):
        return _attention(text, f"{stem}.self_attn")
    if text["model_type"] in QWEN:
        return _delta_net(text, f"{stem}.linear_attn")
    return _convolution(text, f"{stem}.conv")


def _numbered(stem: str, hidden: int, width: int) -> Iterator[Tensor]:
    """A gated MLP with numbers for names."""
    yield linear(f"{stem}.w1.weight", width, hidden, 1.5)
    yield linear(f"{stem}.w3.weight", width, hidden, 1.5)
    yield linear(f"{stem}.w2.weight", hidden, width, 1.5)


def expert_count(text: dict[str, Any]) -> int:
    """The number of routed experts in a layer."""
    keys = ("num_experts", "num_local_experts", "moe_num_experts")
    return next(int(text[key]) for key in keys if key in text)


def _experts(text: dict[str, Any], stem: str) -> Iterator[Tensor]:
    kind, hidden, count = text["model_type"], text["hidden_size"], expert_count(text)
    width = text["intermediate_size"] if kind == "hunyuan_v1_moe" else text.get("moe_intermediate_size")
    width = width or text["intermediate_size"]
    if kind in ("granitemoe", "granitemoeshared", "jetmoe"):
        yield Tensor(f"{stem}.input_linear.weight", (count, 2 * width, hidden), 1.5 * hidden**-0.5)
        yield Tensor(f"{stem}.output_linear.weight", (count, hidden, width), 1.5 * width**-0.5)
    elif kind == "gpt_oss":  # wide enough that many a gate and up is clamped
        yield Tensor(f"{stem}.experts.gate_up_proj", (count, hidden, 2 * width), 3.5 * hidden**-0.5)
        yield Tensor(f"{stem}.experts.gate_up_proj_bias", (count, 2 * width), BIAS)
        yield Tensor(f"{stem}.experts.down_proj", (count, width, hidden), 0.2 * width**-0.5)
        yield Tensor(f"{stem}.experts.down_proj_bias", (count, hidden), BIAS)
    elif kind in LLAMA:
        yield Tensor(f"{stem}.experts.gate_up_proj", (count, hidden, 2 * width), 1.5 * hidden**-0.5)
        yield Tensor(f"{stem}.experts.down_proj", (count, width, hidden), 1.5 * width**-0.5)
    else:
        gated = _numbered if kind in _NUMBERED else mlp
        for expert in range(count):
            yield from gated(f"{stem}.experts.{expert}", hidden, width)


def _shared(text: dict[str, Any], layer: str, stem: str) -> Iterator[Tensor]:
    """What every token passes beside its experts."""
    kind, hidden = text["model_type"], text["hidden_size"]
    if kind == "ernie4_5_moe" and text["moe_num_shared_experts"]:
        width = text["moe_num_shared_experts"] * text["moe_intermediate_size"]
        yield from mlp(f"{stem}.shared_experts", hidden, width)
    elif kind == "hunyuan_v1_moe":
        yield from mlp(f"{stem}.shared_mlp", hidden, text["intermediate_size"])
    elif kind in LLAMA:
        yield from mlp(f"{stem}.shared_expert", hidden, text["intermediate_size"])
    elif kind in QWEN:
        yield from mlp(f"{stem}.shared_expert", hidden, text["shared_expert_intermediate_size"])
        yield linear(f"{stem}.shared_expert_gate.weight", 1, hidden, 1.5)
    elif kind == "granitemoeshared":
        width = text["shared_intermediate_size"]
        yield linear(f"{layer}.shared_mlp.input_linear.weight", 2 * width, hidden, 1.5)
        yield linear(f"{layer}.shared_mlp.output_linear.weight", hidden, width, 1.5)


def _mixture(text: dict[str, Any], layer: str) -> Iterator[Tensor]:
    kind, hidden, count = text["model_type"], text["hidden_size"], expert_count(text)
    stem = f"{layer}.{moe_name(kind)}"
    spread = ROUTER * hidden**-0.5
    wide = "F32" if kind in ("hunyuan_v1_moe", "ernie4_5_moe", "minimax_m2") else None
    yield Tensor(f"{stem}.{_ROUTERS.get(kind, 'gate.weight')}", (count, hidden), spread, dtype=wide)
    if kind == "gpt_oss":
        yield Tensor(f"{stem}.router.bias", (count,), BIAS)
    elif kind == "jetmoe":
        yield Tensor(f"{stem}.bias", (hidden,), BIAS)
    elif kind == "ernie4_5_moe":  # softmax scores are small
        yield Tensor(f"{stem}.moe_statics.e_score_correction_bias", (1, count), CORRECTION / 3, dtype="F32")
    elif kind == "minimax_m2":
        yield Tensor(f"{stem}.e_score_correction_bias", (count,), CORRECTION, dtype="F32")
    elif kind == "lfm2_moe" and text["use_expert_bias"]:
        yield Tensor(f"{stem}.expert_bias", (count,), CORRECTION, dtype="F32")
    yield from _experts(text, stem)
    yield from _shared(text, layer, stem)


def _layer(text: dict[str, Any], number: int, stem: str, sparse: bool) -> Iterator[Tensor]:
    kind, hidden = text["model_type"], text["hidden_size"]
    if kind in gemma.KINDS:
        yield from gemma.layer(text, number, stem)
        return
    for name in _NORMS.get(kind, ("input_layernorm", "post_attention_layernorm")):
        yield _norm(text, f"{stem}.{name}.weight", hidden)
        if kind == "phimoe":
            yield Tensor(f"{stem}.{name}.bias", (hidden,), BIAS)
    yield from _mixer(text, number, stem)
    if sparse:
        yield from _mixture(text, stem)
        return
    width = text["intermediate_size_mlp"] if kind in LLAMA else text["intermediate_size"]
    yield from (_numbered if kind in _NUMBERED else mlp)(f"{stem}.{moe_name(kind)}", hidden, width)


def _ignored(text: dict[str, Any]) -> Iterator[Tensor]:
    """Some of what the text model does not need."""
    kind, hidden = text["model_type"], text["hidden_size"]
    if kind == "ernie4_5_moe":
        yield from _layer(text, 0, "model.mtp_block.0", sparse=False)
        yield norm("model.mtp_emb_norm.0.weight", hidden)
        yield linear("model.mtp_linear_proj.0.weight", hidden, 2 * hidden)
    if kind in QWEN:
        whole = {key: value for key, value in text.items() if key != "layer_types"}
        yield from _layer({**whole, "full_attention_interval": 1}, 0, "mtp.layers.0", sparse=True)
        yield linear("mtp.fc.weight", hidden, 2 * hidden)
        yield norm("mtp.norm.weight", hidden)
    if kind == "qwen3_5_moe":
        yield linear("model.visual.pos_embed.weight", 16, 32)
        yield linear("model.visual.blocks.0.attn.proj.weight", 32, 32)
    if kind == "llama4":
        yield linear("multi_modal_projector.linear_1.weight", hidden, 32)
        yield Tensor("vision_model.class_embedding", (32,), 1.0)
    yield from gemma.ignored(text)


def plan(config: dict[str, Any], head: float) -> Iterator[Tensor]:
    """All tensors of a checkpoint; `head` is the spread of what makes the logits."""
    text = text_of(config)
    kind, hidden, vocab = text["model_type"], text["hidden_size"], text["vocab_size"]
    stem, tied = prefix(kind), config.get("tie_word_embeddings", config.get("tie_embedding", False))
    head *= text.get("logits_scaling", 1.0)
    yield Tensor(f"{stem}embed_tokens.weight", (vocab, hidden), head if tied else 1.0)
    if not tied:
        yield Tensor(_HEAD.get(kind, "lm_head.weight"), (vocab, hidden), head)
    yield _norm(text, f"{stem}{'embedding_norm' if kind == 'lfm2_moe' else 'norm'}.weight", hidden)
    if kind == "phimoe":
        yield Tensor(f"{stem}norm.bias", (hidden,), BIAS)
        if text["lm_head_bias"]:
            yield Tensor("lm_head.bias", (vocab,), BIAS)
    for layer in range(text["num_hidden_layers"]):
        yield from _layer(text, layer, f"{stem}layers.{layer}", is_sparse(config, layer))
    yield from _ignored(text)
