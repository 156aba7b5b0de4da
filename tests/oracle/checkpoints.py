"""Tiny checkpoints of every family, as they lie on the hub, drawn from a seed.

Only what a forward must answer is stored in the repository; the weights are made again wherever they are needed. They
come from the raw 64-bit words of PCG64, which NumPy promises never to change, each tensor from its own stream: the
same tensor has the same values in every layout.

The names are written down here a second time, apart from `engine.families`, so that a wrong name there is seen.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from . import checkpoints_latent as latent
from . import checkpoints_more as more
from . import safetensors_file as st
from .drawn import BIAS, CORRECTION, ROUTER, Tensor, linear, mlp, norm

Floats = npt.NDArray[np.float32]
Folder = Callable[[str], Path]
"""Gives the folder of a checkpoint by its case's name."""

Experts = Literal["single", "fused", "split"]
"""One tensor per expert and projection; or stacked [experts, ...], gate and up in one tensor or in two."""


@dataclass(frozen=True)
class Case:
    """A checkpoint and the prompt it is asked.

    config: its config.json. prompt: tokens of the prompt. dtype: of all tensors but those that are always F32.
    shards: files it is spread over. eos is never generated: config.json names none.
    """

    name: str
    config: dict[str, Any] = field(hash=False)
    seed: int
    prompt: int
    dtype: str = "BF16"
    shards: int = 1

    @property
    def fingerprint(self) -> str:
        """Changes with everything the expected numbers depend on."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]


def _uniform(seed: int, name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Values in -1..1."""
    generator = np.random.PCG64(np.random.SeedSequence([seed, zlib.crc32(name.encode())]))
    words = generator.random_raw(int(np.prod(shape)))
    return ((words >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0).reshape(shape)


LOGIT_DEVIATION = 3.0
"""Standard deviation of the logits: the head reads rows of root mean square 1."""


def _experts(config: dict[str, Any]) -> int:
    if config["model_type"] in more.KINDS:
        return more.expert_count(more.text_of(config))
    keys = ("num_experts", "n_routed_experts", "num_local_experts")
    return next(int(config[key]) for key in keys if key in config)


def layer_count(config: dict[str, Any]) -> int:
    """Layers of the text model."""
    return int(more.text_of(config)["num_hidden_layers"])


def vocab_size(config: dict[str, Any]) -> int:
    """Tokens the text model knows."""
    return int(more.text_of(config)["vocab_size"])


def is_sparse(config: dict[str, Any], layer: int) -> bool:
    """Whether a layer has a router."""
    if config["model_type"] in more.KINDS:
        return more.is_sparse(config, layer)
    if config["model_type"] in latent.KINDS:
        return not latent.is_dense(config, layer)
    if config["model_type"] in ("glm4_moe", "dots1"):
        return bool(layer >= config["first_k_dense_replace"])
    if layer in config.get("mlp_only_layers", ()):
        return False
    return (layer + 1) % int(config.get("decoder_sparse_step", 1)) == 0


def is_extra(config: dict[str, Any], name: str) -> bool:
    """Whether a tensor belongs to what no forward needs: the multi-token prediction, or vision."""
    if config["model_type"] in more.KINDS:
        return more.is_extra(config, name)
    parts = name.split(".")
    return parts[1] == "layers" and int(parts[2]) >= int(config["num_hidden_layers"])


def _attention(config: dict[str, Any], stem: str) -> Iterator[Tensor]:
    kind, hidden, heads = config["model_type"], config["hidden_size"], config["num_attention_heads"]
    dim = config.get("head_dim") or hidden // heads
    sizes = {"q": heads * dim, "k": config["num_key_value_heads"] * dim, "v": config["num_key_value_heads"] * dim}
    biased = config.get("qkv_bias", True) if kind == "qwen2_moe" else config.get("attention_bias", False)
    for part, rows in sizes.items():
        yield linear(f"{stem}.{part}_proj.weight", rows, hidden, 1.6)
        if biased:
            yield Tensor(f"{stem}.{part}_proj.bias", (rows,), BIAS)
    yield linear(f"{stem}.o_proj.weight", hidden, heads * dim, 1.5)
    if biased and kind not in ("qwen2_moe", "glm4_moe"):
        yield Tensor(f"{stem}.o_proj.bias", (hidden,), BIAS)
    for part in ("q", "k"):
        if kind == "olmoe":
            yield norm(f"{stem}.{part}_norm.weight", sizes[part])
        elif kind in ("qwen3_moe", "dots1") or (kind == "glm4_moe" and config["use_qk_norm"]):
            yield norm(f"{stem}.{part}_norm.weight", dim)


def _mixture(config: dict[str, Any], stem: str) -> Iterator[Tensor]:
    kind, hidden, experts = config["model_type"], config["hidden_size"], _experts(config)
    width = config.get("moe_intermediate_size") or config["intermediate_size"]
    if kind == "mixtral":
        yield linear(f"{stem}.gate.weight", experts, hidden, ROUTER)
        for expert in range(experts):
            yield linear(f"{stem}.experts.{expert}.w1.weight", width, hidden, 1.5)
            yield linear(f"{stem}.experts.{expert}.w2.weight", hidden, width, 1.5)
            yield linear(f"{stem}.experts.{expert}.w3.weight", width, hidden, 1.5)
        return
    yield linear(f"{stem}.gate.weight", experts, hidden, ROUTER)
    if kind in ("glm4_moe", "dots1") or (kind in latent.KINDS and kind != "deepseek_v2"):
        yield Tensor(f"{stem}.gate.e_score_correction_bias", (experts,), CORRECTION, dtype="F32")
    if kind in ("glm4_moe", "dots1", *latent.KINDS):
        yield from mlp(f"{stem}.shared_experts", hidden, config["n_shared_experts"] * width)
    if kind == "qwen2_moe":
        yield from mlp(f"{stem}.shared_expert", hidden, config["shared_expert_intermediate_size"])
        yield linear(f"{stem}.shared_expert_gate.weight", 1, hidden, 1.5)
    for expert in range(experts):
        yield from mlp(f"{stem}.experts.{expert}", hidden, width)


def _layer(config: dict[str, Any], layer: int) -> Iterator[Tensor]:
    stem, hidden = f"model.layers.{layer}", config["hidden_size"]
    yield norm(f"{stem}.input_layernorm.weight", hidden)
    yield norm(f"{stem}.post_attention_layernorm.weight", hidden)
    if config["model_type"] in latent.KINDS:
        yield from latent.attention(config, layer, f"{stem}.self_attn")
    else:
        yield from _attention(config, f"{stem}.self_attn")
    if not is_sparse(config, layer):
        yield from mlp(f"{stem}.mlp", hidden, config["intermediate_size"])
    elif config["model_type"] == "mixtral":
        yield from _mixture(config, f"{stem}.block_sparse_moe")
    else:
        yield from _mixture(config, f"{stem}.mlp")


def _multi_token_prediction(config: dict[str, Any]) -> Iterator[Tensor]:
    """GLM's and DeepSeek's extra layers: a whole block each, and what joins it to the model."""
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    for extra in range(config.get("num_nextn_predict_layers", 0)):
        layer = config["num_hidden_layers"] + extra
        stem = f"model.layers.{layer}"
        yield from _layer(config, layer)
        yield linear(f"{stem}.embed_tokens.weight", vocab, hidden)
        yield norm(f"{stem}.enorm.weight", hidden)
        yield norm(f"{stem}.hnorm.weight", hidden)
        yield linear(f"{stem}.eh_proj.weight", hidden, 2 * hidden)
        yield norm(f"{stem}.shared_head.norm.weight", hidden)
        yield linear(f"{stem}.shared_head.head.weight", vocab, hidden)


def plan(config: dict[str, Any]) -> Iterator[Tensor]:
    if config["model_type"] in more.KINDS:
        hidden = more.text_of(config)["hidden_size"]
        yield from more.plan(config, LOGIT_DEVIATION * hidden**-0.5)
        return
    hidden, vocab, tied = config["hidden_size"], config["vocab_size"], config.get("tie_word_embeddings", False)
    head = LOGIT_DEVIATION * hidden**-0.5
    yield Tensor("model.embed_tokens.weight", (vocab, hidden), head if tied else 1.0)
    if not tied:
        yield Tensor("lm_head.weight", (vocab, hidden), head)
    yield norm("model.norm.weight", hidden)
    for layer in range(config["num_hidden_layers"]):
        yield from _layer(config, layer)
    yield from _multi_token_prediction(config)


def tensors(case: Case) -> dict[str, tuple[str, Floats]]:
    """All tensors of a checkpoint by hub name: dtype, and values that this dtype holds exactly."""
    drawn = {}
    for tensor in plan(case.config):
        dtype = tensor.dtype or case.dtype
        spread = tensor.deviation * 3**0.5  # a uniform distribution's half width
        values = tensor.centre + spread * _uniform(case.seed, tensor.name, tensor.shape)
        drawn[tensor.name] = (dtype, st.rounded(values, dtype))
    return drawn


_NUMBERED = ("mixtral", "phimoe", "minimax_m2", "lfm2_moe")
"""Families whose experts' gate, up and down are w1, w3 and w2."""

_WHOLE = ("gpt_oss", "granitemoe", "granitemoeshared", "jetmoe", "gemma4", "gemma4_text", *more.LLAMA)
"""Families whose experts are stacked on the hub, in one layout."""


def stackable(case: Case, experts: Experts) -> bool:
    """Whether a family's experts can lie in this layout."""
    kind = case.config["model_type"]
    return experts == "single" or (kind not in _WHOLE and (kind != "lfm2_moe" or experts == "fused"))


def _stacked(case: Case, single: dict[str, tuple[str, Floats]], fused: bool) -> dict[str, tuple[str, Floats]]:
    """The same tensors with the experts of a layer stacked."""
    kind = case.config["model_type"]
    moe = "block_sparse_moe" if kind == "mixtral" else more.moe_name(kind)
    parts = ("w1", "w3", "w2") if kind in _NUMBERED else ("gate_proj", "up_proj", "down_proj")
    kept = dict(single)
    for layer in range(layer_count(case.config)):
        if not is_sparse(case.config, layer):
            continue
        stem = f"{more.prefix(kind)}layers.{layer}.{moe}.experts"

        def stack(part: str, stem: str = stem) -> Floats:
            names = [f"{stem}.{expert}.{part}.weight" for expert in range(_experts(case.config))]
            return np.stack([kept.pop(name)[1] for name in names])

        gate, up, down = map(stack, parts)
        if fused:
            kept[f"{stem}.gate_up_proj"] = (case.dtype, np.concatenate([gate, up], axis=1))
            kept[f"{stem}.{'down_proj' if kind == 'lfm2_moe' else parts[2]}"] = (case.dtype, down)
        else:
            for part, values in zip(parts, (gate, up, down), strict=True):
                kept[f"{stem}.{part}"] = (case.dtype, values)
    return kept


def write(folder: Path, case: Case, experts: Experts = "single") -> Path:
    """Write the checkpoint into `folder`, creating it, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(case.config), encoding="utf-8")
    everything = tensors(case)
    if experts != "single":
        everything = _stacked(case, everything, fused=experts == "fused")
    files = {name: st.stored(values, dtype) for name, (dtype, values) in sorted(everything.items())}
    if case.shards == 1:
        st.write(folder / "model.safetensors", files)
        return folder
    names, weight_map = list(files), {}
    for shard in range(case.shards):
        # Dealt like cards: the three parts of an expert lie in different files.
        file = f"model-{shard + 1:05}-of-{case.shards:05}.safetensors"
        held = names[shard :: case.shards]
        st.write(folder / file, {name: files[name] for name in held})
        weight_map.update(dict.fromkeys(held, file))
    index = {"metadata": {"total_size": sum(len(tensor.data) for tensor in files.values())}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return folder
