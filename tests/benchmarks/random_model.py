"""Writes a random model of a real model's shape, in our container: for benchmarks, no download needed.

    python -m tests.benchmarks.random_model olmoe int4 /tmp/olmoe-int4 [--layers 4] [--routing skewed]

Weights are random integers with plausible scales, drawn once and reused with another offset for every matrix: speed and
memory are real, answers are noise. As in trained models a token's own vector outweighs what one layer adds, else all
tokens would end up at the same experts. Routing is near uniform, the worst case for a cache, or skewed: in each layer,
in an order of its own, the row of the expert of rank r is 3 / sqrt(r) times as long, and its logit varies as much.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engine.convert.container import header
from engine.experts.source import merged_bytes
from engine.families import read_spec
from engine.kernels.formats import I4G, I4G_PAIR, I4G_SCALES, I8R, I8R_SCALES, LAYOUT, block_bytes
from engine.model.expert_layouts import merged_name
from engine.model.spec import DenseMlp
from engine.model.tensors import PACKED_SUFFIX

SHAPES: dict[str, dict[str, Any]] = {
    "olmoe": {
        "model_type": "olmoe", "hidden_size": 2048, "intermediate_size": 1024, "num_hidden_layers": 16,
        "num_attention_heads": 16, "num_key_value_heads": 16, "num_experts": 64, "num_experts_per_tok": 8,
        "vocab_size": 50304, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    },
    "qwen3-30b": {
        "model_type": "qwen3_moe", "hidden_size": 2048, "moe_intermediate_size": 768, "intermediate_size": 6144,
        "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
        "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": True, "vocab_size": 151936,
        "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1e6,
    },
    "mixtral-8x7b": {
        "model_type": "qwen3_moe", "hidden_size": 4096, "moe_intermediate_size": 14336, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        "num_experts": 8, "num_experts_per_tok": 2, "norm_topk_prob": True, "vocab_size": 32000,
        "max_position_embeddings": 32768, "rms_norm_eps": 1e-5, "rope_theta": 1e6,
    },
    "granite-3b": {
        "model_type": "qwen3_moe", "hidden_size": 1536, "moe_intermediate_size": 512, "intermediate_size": 512,
        "num_hidden_layers": 32, "num_attention_heads": 24, "num_key_value_heads": 8, "head_dim": 64,
        "num_experts": 40, "num_experts_per_tok": 8, "norm_topk_prob": True, "vocab_size": 49152,
        "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 1e7,
    },
}  # fmt: skip
"""The last two have the sizes of Mixtral-8x7B (few, wide experts) and Granite-3.1-3B-A800M (small ones), with Qwen3's
layers around them."""
FORMATS = {"int8": I8R, "int4": I4G}
ROUTINGS = ("uniform", "skewed")
ADDED = 0.2
"""Size of what attention or an expert adds to the residual, whose entries begin around 1."""


class Noise:
    """A pool of random packed blocks that matrices are cut from."""

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        # Symmetric around the stored zero: a common offset would send every token to the same experts.
        low, high = self._random.integers(1, 16, (2, 16 << 20), np.uint8)
        self._nibbles = low | high << 4
        self._bytes = self._random.integers(1, 256, 16 << 20, np.uint8)

    def blocks(self, fmt: int, count: int, k: int, scale: float = 1.0) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """`count` blocks of 16 rows of k columns; with scale 1 a product keeps the size of its input."""
        size = block_bytes(fmt, k)
        pool = self._bytes if fmt == I8R else self._nibbles
        start = int(self._random.integers(0, 12 << 20))
        flat = np.resize(pool[start : start + (4 << 20)], count * size).reshape(count, size).copy()
        sigma = scale / np.sqrt(k)
        if fmt == I8R:
            flat[:, :I8R_SCALES].view(np.float32)[:] = sigma / 74
        else:
            units = flat.reshape(count, -1, I4G_SCALES + I4G_PAIR)
            units[:, :, :I4G_SCALES] = np.full(32, sigma / 4.6, np.float16).view(np.uint8)
        return flat


def router(routing: str, layer: int, experts: int, hidden: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """The router of a layer, [experts, hidden]."""
    random = np.random.default_rng(layer)
    rows = random.standard_normal((experts, hidden), np.float32) / np.float32(np.sqrt(hidden))
    if routing == "skewed":
        rows *= (3 / np.sqrt(1 + random.permutation(experts)))[:, None].astype(np.float32)
    return rows


def sized(shape: str, layers: int | None) -> dict[str, Any]:
    """The configuration of a shape, cut to a number of layers."""
    return SHAPES[shape] | ({"num_hidden_layers": layers} if layers else {})


def write(shape: str, fmt_name: str, dst: Path, layers: int | None = None, routing: str = "uniform") -> None:
    """Write the model."""
    config = sized(shape, layers)
    spec, fmt, noise = read_spec(config), FORMATS[fmt_name], Noise()
    dst.mkdir(parents=True, exist_ok=True)
    (dst / "config.json").write_text(json.dumps(config))
    hidden, names = spec.hidden, spec.names
    dense: dict[str, np.ndarray[Any, Any]] = {}

    def matrix(name: str, n: int, k: int, scale: float = 1.0) -> None:
        dense[name + PACKED_SUFFIX[fmt]] = noise.blocks(fmt, -(-n // 16), k, scale).reshape(-1)

    matrix(names["embed"], spec.vocab, hidden, np.sqrt(hidden))
    matrix(names["head"], spec.vocab, hidden)
    dense[names["final_norm"]] = np.ones(hidden, np.float32)
    for index, layer in enumerate(spec.layers):
        a = layer.attention
        at = {role: name.replace("{L}", str(index)) for role, name in names.items()}
        q, kv = a.heads * a.head_dim, a.kv_heads * a.head_dim
        for role in ("input_norm", "post_norm"):
            dense[at[role]] = np.ones(hidden, np.float32)  # type: ignore[index]
        for role, n, k in (("q", q, hidden), ("k", kv, hidden), ("v", kv, hidden), ("o", hidden, q)):
            matrix(at[role], n, k, ADDED if role == "o" else 1.0)  # type: ignore[index]
        if a.qk_norm != "none":
            whole = a.qk_norm == "projection"
            dense[at["q_norm"]] = np.ones(q if whole else a.head_dim, np.float32)
            dense[at["k_norm"]] = np.ones(kv if whole else a.head_dim, np.float32)
        assert not isinstance(layer.mlp, DenseMlp)
        dense[at["router"]] = router(routing, index, layer.mlp.experts, hidden)
        total = merged_bytes((fmt, fmt), hidden, layer.mlp.width)
        stem = merged_name(names["expert_gate"]).replace("{L}", str(index)) + PACKED_SUFFIX[fmt]
        experts = [stem.replace("{E}", str(expert)) for expert in range(layer.mlp.experts)]
        with (dst / f"experts-{index:05}.safetensors").open("wb") as file:
            file.write(header(dict.fromkeys(experts, ("U8", (total,), total)), dict.fromkeys(experts, LAYOUT[fmt])))
            for _ in experts:
                data = noise.blocks(fmt, 2 * -(-layer.mlp.width // 16), hidden).tobytes()
                data += noise.blocks(fmt, -(-hidden // 16), layer.mlp.width, ADDED).tobytes()
                file.write(data + bytes(total - len(data)))
    kinds = {name: "U8" if data.dtype == np.uint8 else "F32" for name, data in dense.items()}
    with (dst / "dense.safetensors").open("wb") as file:
        file.write(header({name: (kinds[name], data.shape, data.nbytes) for name, data in dense.items()}, {}))
        for data in dense.values():
            file.write(data.tobytes())


def run(
    description: str | None, write: Callable[[str, str, Path, int | None, str], None], formats: Sequence[str]
) -> None:
    """The command line of what writes a model."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("format", choices=formats)
    parser.add_argument("dst", type=Path)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--routing", choices=ROUTINGS, default="uniform")
    options = parser.parse_args()
    write(options.shape, options.format, options.dst, options.layers, options.routing)


if __name__ == "__main__":
    run(__doc__, write, list(FORMATS))
