"""Converts a model of a real model's shape inside a memory cgroup: how much memory it takes, and how fast it is.

    python -m tests.benchmarks.bench_convert /tmp/scratch [--layers 8] [--limit 3.0] [--bits int4] [--sparse]

The source is bfloat16 noise in the shape of Qwen3-30B-A3B, 61 GB with all 48 layers and 1.25 GB a layer; the weights
repeat, so that writing it takes no longer than writing it must. With --sparse they are zeros that take no room on the
disk: for the whole model where there is no room for it. Needs root for a cgroup; prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from engine.convert import convert_model
from tests.benchmarks.random_model import SHAPES

GROUP = Path("/sys/fs/cgroup/memory/colibri-convert")


def shapes(config: dict[str, Any], layer: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The tensors of a layer; -1: of no layer."""
    hidden, width, head = config["hidden_size"], config["moe_intermediate_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    if layer < 0:
        yield "model.embed_tokens.weight", (config["vocab_size"], hidden)
        yield "lm_head.weight", (config["vocab_size"], hidden)
        yield "model.norm.weight", (hidden,)
        return
    stem = f"model.layers.{layer}."
    yield stem + "input_layernorm.weight", (hidden,)
    yield stem + "post_attention_layernorm.weight", (hidden,)
    for name, shape in (("q", (q, hidden)), ("k", (kv, hidden)), ("v", (kv, hidden)), ("o", (hidden, q))):
        yield f"{stem}self_attn.{name}_proj.weight", shape
    yield stem + "self_attn.q_norm.weight", (head,)
    yield stem + "self_attn.k_norm.weight", (head,)
    yield stem + "mlp.gate.weight", (config["num_experts"], hidden)
    for expert in range(config["num_experts"]):
        for name, shape in (("gate", (width, hidden)), ("up", (width, hidden)), ("down", (hidden, width))):
            yield f"{stem}mlp.experts.{expert}.{name}_proj.weight", shape


def write_source(folder: Path, layers: int, sparse: bool) -> int:
    """Write the source, a file a layer; returns its bytes."""
    config = {**SHAPES["qwen3-30b"], "num_hidden_layers": layers}
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    noise = (np.random.default_rng(0).standard_normal(8 << 20).astype(np.float32) * 0.02).view(np.uint32)
    pool = (noise >> 16).astype(np.uint16).tobytes()
    total = 0
    for layer in range(-1, layers):
        header: dict[str, Any] = {}
        offset = 0
        for name, shape in shapes(config, layer):
            size = 2 * int(np.prod(shape))
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
            offset += size
        text = json.dumps(header).encode()
        with (folder / f"model-{layer + 1:05}.safetensors").open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            left = 0 if sparse else offset
            file.truncate(8 + len(text) + offset)
            while left:
                left -= file.write(pool[:left])
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        total += offset
    return total


def child(src: Path, dst: Path, bits: str) -> None:
    """Convert inside the cgroup, and say what it took."""
    (GROUP / "cgroup.procs").write_text(str(os.getpid()))
    before = time.perf_counter()
    convert_model(src, dst, expert_format=bits)
    seconds = time.perf_counter() - before
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(json.dumps({"seconds": round(seconds, 1), "resident_peak": int(peak.split()[1]) * 1024}))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--limit", type=float, default=3.0, help="GB the cgroup may hold, page cache included")
    parser.add_argument("--sparse", action="store_true", help="weights of zeros, which take no room")
    parser.add_argument("--bits", choices=("int4", "int8"), default="int4")
    options = parser.parse_args()
    src, dst = options.scratch / "source", options.scratch / "container"
    shutil.rmtree(options.scratch, ignore_errors=True)
    total = write_source(src, options.layers, options.sparse)
    GROUP.mkdir(exist_ok=True)
    (GROUP / "memory.limit_in_bytes").write_text(str(int(options.limit * 1e9)))
    code = (
        f"from tests.benchmarks.bench_convert import *; child(Path({str(src)!r}), Path({str(dst)!r}), {options.bits!r})"
    )
    try:
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        killed = "oom_kill 0" not in (GROUP / "memory.oom_control").read_text()
    finally:
        GROUP.rmdir()
    if ended.returncode:
        sys.exit(f"the conversion ended with {ended.returncode}: {ended.stderr[-500:]}")
    said = json.loads(ended.stdout)
    size = sum(file.stat().st_size for file in dst.iterdir())
    said |= {"source_bytes": total, "container_bytes": size, "limit": options.limit * 1e9, "killed": killed}
    print(json.dumps(said | {"mb_s": round(total / said["seconds"] / 1e6, 1)}))
    shutil.rmtree(options.scratch)


if __name__ == "__main__":
    main()
