"""Checkpoints with the layers and experts of the largest models, but narrow: as many tensors, few bytes.

Weights are cut from one pool of noise: what is tested is how many tensors there are, not what they say.
"""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from .cases import CASES
from .checkpoints import plan
from .safetensors_file import Stored, stored
from .safetensors_file import write as write_file

SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "glm-5.2": (
        "glm_moe_dsa_shared",
        {"num_hidden_layers": 78, "n_routed_experts": 256, "num_experts_per_tok": 8, "first_k_dense_replace": 3},
    ),
    "kimi-k2": ("kimi_k2", {"num_hidden_layers": 61, "n_routed_experts": 384, "num_experts_per_tok": 8}),
    "qwen3-next": ("qwen3_next", {"num_hidden_layers": 48, "num_experts": 512, "num_experts_per_tok": 10}),
}
"""By name: the case whose widths are taken, and what is as large as in the released model."""

_WIDTH = 16
_POOL = 1 << 20
_SHARD = 2_500
"""Tensors of a file; GLM-5.2's have as many."""


def config_of(name: str, layers: int | None = None) -> dict[str, Any]:
    """The config of a shape, perhaps of fewer layers."""
    case, sizes = SHAPES[name]
    config = {**CASES[case].config, **sizes, "moe_intermediate_size": _WIDTH}
    count = config["num_hidden_layers"] = layers or config["num_hidden_layers"]
    for key in ("indexer_types", "mlp_layer_types"):
        config.pop(key, None)
    if case == "glm_moe_dsa_shared":
        config["indexer_types"] = ["full" if layer % 4 == 0 else "shared" for layer in range(count)]
        config["mlp_layer_types"] = ["dense" if layer < 3 else "sparse" for layer in range(count)]
    return config


def write(folder: Path, name: str, layers: int | None = None) -> int:
    """Write a checkpoint into the new folder; return how many tensors it has."""
    folder.mkdir(parents=True)
    config = config_of(name, layers)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    noise = np.random.default_rng(1).uniform(-0.2, 0.2, _POOL).astype(np.float32)
    pool = {dtype: stored(noise, dtype).data for dtype in ("BF16", "F32")}
    ones = {dtype: stored(np.ones(_POOL >> 4, np.float32), dtype).data for dtype in ("BF16", "F32")}
    tensors = list(plan(config))
    starts = range(0, len(tensors), _SHARD)
    weight_map: dict[str, str] = {}
    at = 0
    for number, start in enumerate(starts, 1):
        file, parts = f"model-{number:05}-of-{len(starts):05}.safetensors", {}
        for tensor in tensors[start : start + _SHARD]:
            dtype, count = tensor.dtype or "BF16", prod(tensor.shape)
            size, source = count * (2 if dtype == "BF16" else 4), (ones if tensor.centre else pool)[dtype]
            at = 0 if tensor.centre or at + size > len(source) else at
            parts[tensor.name] = Stored(dtype, tensor.shape, source[at : at + size])
            at += size if not tensor.centre else 0
            weight_map[tensor.name] = file
        write_file(folder / file, parts)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return len(tensors)
