"""Models that cannot be run right are refused at opening: one line that names the file, the tensor, the remedy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import Engine, EngineError
from engine.errors import CheckpointError, UnsupportedModelError
from tests.oracle import containers
from tests.oracle import safetensors_file as st
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import Floats, tensors, write

OLMOE = CASES["olmoe"]
GATE = "model.layers.1.mlp.experts.4.gate_proj.weight"
NORM = "model.layers.2.post_attention_layernorm.weight"
ROUTER = "model.layers.0.mlp.gate.weight"

Drawn = dict[str, tuple[str, Floats]]


def refusal(folder: Path, kind: type[EngineError] = CheckpointError) -> str:
    with pytest.raises(kind) as error:
        Engine.open(folder)
    text = str(error.value)
    assert text.isprintable(), text
    assert type(error.value) is kind
    return text


def rewritten(folder: Path, change: Callable[[Drawn], object], name: str = "olmoe") -> Path:
    """A case's checkpoint with its tensors changed."""
    write(folder, CASES[name])
    drawn = tensors(CASES[name])
    change(drawn)
    st.write(folder / "model.safetensors", {key: st.stored(values, dtype) for key, (dtype, values) in drawn.items()})
    return folder


def configured(folder: Path, name: str = "olmoe", **changes: Any) -> Path:
    """A case's checkpoint with its config changed."""
    write(folder, CASES[name])
    (folder / "config.json").write_text(json.dumps({**CASES[name].config, **changes}))
    return folder


@pytest.mark.parametrize("name", ["model.embed_tokens.weight", "lm_head.weight", NORM, ROUTER, GATE])
def test_a_missing_tensor(name: str, tmp_path: Path) -> None:
    text = refusal(rewritten(tmp_path / "model", lambda drawn: drawn.pop(name)))
    assert f"tensor {name} is missing" in text
    assert "download is not complete" in text


@pytest.mark.parametrize(
    ("model", "extra"),
    [
        ("olmoe", "model.layers.0.mlp.shared_expert.up_proj.weight"),
        ("olmoe", "model.layers.3.input_layernorm.weight"),
        ("olmoe", "model.layers.1.self_attn.q_proj.bias"),
        ("olmoe", "model.layers.1.mlp.experts.9.up_proj.weight"),
        ("olmoe", "model.layers.0.mlp.gate.weight_scale_inv"),
        ("glm4_moe", "model.layers.4.enorm.weight"),
        ("dots1", "model.layers.3.enorm.weight"),
    ],
)
def test_a_tensor_nobody_asked_for(model: str, extra: str, tmp_path: Path) -> None:
    """It could be a part of the model that would be left out: running without it would answer wrongly."""

    def add(drawn: Drawn) -> None:
        drawn[extra] = ("F32", np.zeros(3, np.float32))

    text = refusal(rewritten(tmp_path / "model", add, model))
    assert f"{model} has no use for tensor {extra};" in text


def test_many_tensors_nobody_asked_for(tmp_path: Path) -> None:
    def add(drawn: Drawn) -> None:
        drawn.update({f"vision.{number}": ("F32", np.zeros(1, np.float32)) for number in range(100)})

    assert "vision.0, vision.1, vision.2 and 97 more;" in refusal(rewritten(tmp_path / "model", add))


@pytest.mark.parametrize("name", ["model.embed_tokens.weight", NORM, ROUTER, GATE])
def test_a_tensor_of_another_shape(name: str, tmp_path: Path) -> None:
    def change(drawn: Drawn) -> None:
        dtype, values = drawn[name]
        drawn[name] = (dtype, values[:-1])

    text = refusal(rewritten(tmp_path / "model", change))
    assert f"model.safetensors: tensor {name} is BF16 [" in text
    assert "the config calls for BF16 [" in text


@pytest.mark.parametrize("name", [NORM, ROUTER])
def test_a_tensor_with_a_dimension_too_many(name: str, tmp_path: Path) -> None:
    def change(drawn: Drawn) -> None:
        dtype, values = drawn[name]
        drawn[name] = (dtype, values[None])

    assert f"tensor {name} is BF16 [1, " in refusal(rewritten(tmp_path / "model", change))


@pytest.mark.parametrize("name", ["model.embed_tokens.weight", NORM, ROUTER])
def test_a_dtype_that_is_not_computed_with(name: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "model", OLMOE)
    stored = {key: st.stored(values, dtype) for key, (dtype, values) in tensors(OLMOE).items()}
    stored[name] = stored[name]._replace(dtype="I16")
    st.write(folder / "model.safetensors", stored)
    assert f"tensor {name} has dtype I16; only BF16, F16 and F32" in refusal(folder)


def test_experts_of_a_dtype_that_is_not_computed_with(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", OLMOE)
    stored = {key: st.stored(values, dtype) for key, (dtype, values) in tensors(OLMOE).items()}
    stored = {key: value._replace(dtype="I16") if ".experts." in key else value for key, value in stored.items()}
    st.write(folder / "model.safetensors", stored)
    text = refusal(folder)
    assert ".experts." in text
    assert "I16" in text


def test_one_expert_of_another_dtype(tmp_path: Path) -> None:
    def change(drawn: Drawn) -> None:
        drawn[GATE] = ("F32", drawn[GATE][1])

    text = refusal(rewritten(tmp_path / "model", change))
    assert f"tensor {GATE} (F32) is not stored like {GATE.replace('.4.', '.0.')} (BF16);" in text


def test_a_shard_that_is_missing_or_cut(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", CASES["qwen3_moe"])
    shard = folder / "model-00002-of-00003.safetensors"
    content = shard.read_bytes()
    shard.write_bytes(content[:-1])
    text = refusal(folder)
    assert "model-00002-of-00003.safetensors: cut short at" in text
    assert "download it again" in text
    shard.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4976698672\n")
    assert "model-00002-of-00003.safetensors: a pointer file" in refusal(folder)
    shard.unlink()
    assert "1 of 3 shards missing: model-00002-of-00003.safetensors" in refusal(folder)


@pytest.mark.parametrize(("part", "remedy"), [("experts-00001", "layers.1.mlp.experts.0."), ("dense", "embed_tokens")])
def test_a_container_with_a_file_missing(part: str, remedy: str, tmp_path: Path) -> None:
    folder = containers.write(tmp_path / "model", OLMOE, "int8")
    (folder / f"{part}.safetensors").unlink()
    text = refusal(folder)
    assert remedy in text
    assert "missing" in text


def test_a_container_of_another_size(tmp_path: Path) -> None:
    folder = containers.write(tmp_path / "model", OLMOE, "int8")
    (folder / "config.json").write_text(json.dumps({**OLMOE.config, "intermediate_size": 1000}))
    text = refusal(folder)
    assert "merged_weight" in text
    assert "the config calls for U8 [" in text


# Configs


@pytest.mark.parametrize(
    ("model_type", "said"),
    [
        ("qwen3_mo", "'qwen3_mo' is not supported; the nearest supported is qwen3_moe"),
        ("Mixtral", "'Mixtral' is not supported; the nearest supported is mixtral"),
        ("zzz", "'zzz' is not supported (supported: "),
        (None, "None is not supported"),
        (["olmoe"], "['olmoe'] is not supported"),
        ("x" * 100_000, "..."),
        ("\x1b[2J", r"'\x1b[2J' is not supported"),
    ],
)
def test_an_unknown_family(model_type: Any, said: str, tmp_path: Path) -> None:
    text = refusal(configured(tmp_path / "model", model_type=model_type), UnsupportedModelError)
    assert said in text
    assert "olmoe" in text
    assert len(text) < 2000


@pytest.mark.parametrize(
    ("quantisation", "said"),
    [
        ({"quant_method": "bitsandbytes"}, "quantisation 'bitsandbytes' is not supported (supported: fp8, mxfp4,"),
        ({"bits": 4}, "quantisation None is not supported (supported: fp8, mxfp4,"),
        ("awq", "quantization_config is 'awq', expected an object"),
    ],
)
def test_a_quantised_release(quantisation: Any, said: str, tmp_path: Path) -> None:
    text = refusal(configured(tmp_path / "model", quantization_config=quantisation), UnsupportedModelError)
    assert said in text


def test_what_is_found_wrong_before_anything_is_read(tmp_path: Path) -> None:
    """A config that calls for terabytes is refused by what the files hold; nothing is allocated by it."""
    sizes: dict[str, Any] = {
        "hidden_size": 1 << 20,
        "vocab_size": 1 << 24,
        "num_hidden_layers": 4096,
        "num_experts": 1 << 24,
    }
    text = refusal(configured(tmp_path / "model", **sizes))
    assert "tensor model.embed_tokens.weight is BF16 [131, 48], the config calls for BF16 [16777216, 1048576]" in text
