"""Writes the models of `random_model` as GGUF files, for llama.cpp.

    python -m tests.benchmarks.random_gguf olmoe int4 /tmp/olmoe-int4.gguf [--layers 4] [--routing skewed]

The same shapes, sizes of numbers and routers; int4 is Q4_0, int8 is Q8_0 (4.5 and 8.5 bits a weight), q4_k is Q4_K
throughout (4.5 bits), which is written here alone. There is no vocabulary: ids go in and out.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from engine.families import read_spec
from engine.model.spec import DenseMlp
from tests.oracle.gguf_file import entry, text

from .random_model import ADDED, router, run, sized

Q4_0, Q8_0, Q4_K, F32 = 2, 8, 12, 0
KINDS = {"int4": Q4_0, "int8": Q8_0, "q4_k": Q4_K}
_COLUMNS = {Q4_0: 32, Q8_0: 32, Q4_K: 256}
_BLOCK = {Q4_0: 18, Q8_0: 34, Q4_K: 144}
_SIGMA = {Q4_0: 4.6, Q8_0: 74.0, Q4_K: 4.6 * 48.4}
_POOL = 1 << 20  # blocks
_PIECE = 1 << 19


def _pool(kind: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    random = np.random.default_rng(0)
    codes = random.integers(0, 256, (_POOL, _BLOCK[kind]), np.uint8)
    if kind == Q4_0:  # symmetrical around the stored zero, 8
        low, high = random.integers(1, 16, (2, _POOL, 16), np.uint8)
        codes[:, 2:] = low | high << 4
    if kind == Q4_K:  # scales of 32..63, minimums the same: with a factor 7.5 times the scales' they centre the codes
        first, last = random.integers(32, 64, (2, _POOL, 4), np.uint8)
        codes[:, 4:8] = codes[:, 8:12] = first | last >> 4 << 6
        codes[:, 12:16] = (last & 15) * 17
    return codes


def _scale(name: str, k: int) -> float:
    """The same as in `random_model`."""
    if name == "token_embd.weight":
        return 1.0
    return (ADDED if name.endswith(("attn_output.weight", "ffn_down_exps.weight")) else 1.0) / math.sqrt(k)


def _matrix(
    pool: np.ndarray[Any, np.dtype[np.uint8]], kind: int, blocks: int, scale: float, seed: int
) -> Iterator[bytes]:
    """Blocks from the pool, of numbers of this size."""
    pool[:, :2] = np.array([scale / _SIGMA[kind]], np.float16).view(np.uint8)
    if kind == Q4_K:
        pool[:, 2:4] = np.array([7.5 * scale / _SIGMA[kind]], np.float16).view(np.uint8)
    random = np.random.default_rng(seed)
    while blocks:
        count = min(blocks, _PIECE)
        start = int(random.integers(0, _POOL - count + 1))
        yield pool[start : start + count].tobytes()
        blocks -= count


def _tensors(config: dict[str, Any], kind: int) -> dict[str, tuple[int, tuple[int, ...]]]:
    spec = read_spec(config)
    hidden, f32 = spec.hidden, F32
    tensors: dict[str, tuple[int, tuple[int, ...]]] = {
        "token_embd.weight": (kind, (spec.vocab, hidden)),
        "output.weight": (kind, (spec.vocab, hidden)),
        "output_norm.weight": (f32, (hidden,)),
    }
    for index, layer in enumerate(spec.layers):
        a, mlp, at = layer.attention, layer.mlp, f"blk.{index}."
        assert not isinstance(mlp, DenseMlp)
        q, kv = a.heads * a.head_dim, a.kv_heads * a.head_dim
        whole = a.qk_norm == "projection"
        tensors |= {
            f"{at}attn_norm.weight": (f32, (hidden,)),
            f"{at}ffn_norm.weight": (f32, (hidden,)),
            f"{at}attn_q.weight": (kind, (q, hidden)),
            f"{at}attn_k.weight": (kind, (kv, hidden)),
            f"{at}attn_v.weight": (kind, (kv, hidden)),
            f"{at}attn_output.weight": (kind, (hidden, q)),
            f"{at}attn_q_norm.weight": (f32, (q if whole else a.head_dim,)),
            f"{at}attn_k_norm.weight": (f32, (kv if whole else a.head_dim,)),
            f"{at}ffn_gate_inp.weight": (f32, (mlp.experts, hidden)),
            f"{at}ffn_gate_exps.weight": (kind, (mlp.experts, mlp.width, hidden)),
            f"{at}ffn_up_exps.weight": (kind, (mlp.experts, mlp.width, hidden)),
            f"{at}ffn_down_exps.weight": (kind, (mlp.experts, hidden, mlp.width)),
        }
    return tensors


def _metadata(config: dict[str, Any]) -> dict[str, Any]:
    arch = {"olmoe": "olmoe", "qwen3_moe": "qwen3moe"}[config["model_type"]]
    heads = config["num_attention_heads"]
    width = config.get("head_dim", config["hidden_size"] // heads)
    values = {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "expert_feed_forward_length": config.get("moe_intermediate_size", config["intermediate_size"]),
        "attention.head_count": heads,
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.key_length": width,
        "attention.value_length": width,
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "rope.freq_base": float(config["rope_theta"]),
        "expert_count": config["num_experts"],
        "expert_used_count": config["num_experts_per_tok"],
        "vocab_size": config["vocab_size"],
    }
    return {
        "general.architecture": arch,
        "general.name": "random",
        "tokenizer.ggml.model": "no_vocab",
        **{f"{arch}.{key}": value for key, value in values.items()},
    }


def _nbytes(kind: int, shape: tuple[int, ...]) -> int:
    return 4 * prod(shape) if kind == F32 else prod(shape) // _COLUMNS[kind] * _BLOCK[kind]


def write(shape: str, fmt_name: str, dst: Path, layers: int | None = None, routing: str = "uniform") -> None:
    """Write the file."""
    config, kind = sized(shape, layers), KINDS[fmt_name]
    tensors, values = _tensors(config, kind), _metadata(config)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values))
    head += b"".join(entry(key, value) for key, value in values.items())
    offset = 0
    for name, (of, sizes) in tensors.items():
        head += text(name) + struct.pack("<I", len(sizes)) + struct.pack(f"<{len(sizes)}Q", *sizes[::-1])
        head += struct.pack("<IQ", of, offset)
        offset += -(-_nbytes(of, sizes) // 32) * 32
    pool = _pool(kind)
    with dst.open("wb") as file:
        file.write(head + bytes(-len(head) % 32))
        for seed, (name, (of, sizes)) in enumerate(tensors.items()):
            if name.endswith("ffn_gate_inp.weight"):
                file.write(router(routing, int(name.split(".")[1]), *sizes).tobytes())
            elif of == F32:
                file.write(np.ones(sizes, np.float32).tobytes())
            else:
                for piece in _matrix(pool, of, prod(sizes) // _COLUMNS[of], _scale(name, sizes[-1]), seed):
                    file.write(piece)
            file.write(bytes(-file.tell() % 32))


if __name__ == "__main__":
    run(__doc__, write, list(KINDS))
