"""Models of any layout made into containers: the same container as from the float32 model they stand for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import Engine, EngineError, EngineOptions
from engine.convert import convert_model
from tests.oracle import containers
from tests.oracle import gguf_models as g
from tests.oracle import quantised as q
from tests.oracle.answers import Expected
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import write as write_hub
from tests.oracle.gguf_file import gguf
from tests.oracle.safetensors_file import Stored

from .test_gguf_models import WIDE, medium
from .test_quantised_releases import GPT_OSS, QWEN, QWEN_128

Files = Mapping[str, Stored]


def container(src: Path, **options: Any) -> Path:
    dst = src.with_name(src.stem + " converted")
    dst.mkdir()
    convert_model(src, dst, **options)
    return dst


def digest(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def nearly(folder: Path, name: str) -> bool:
    """Whether a container is nearly the model of a case: logits deviate by 3, and by little from what they were at a
    position where no choice of experts or of keys falls otherwise."""
    expected = Expected.load(name)
    with Engine.open(folder, EngineOptions(cap=2)) as engine:
        assert engine.weights.experts.packed
        errors = engine.logits(expected.prompt) - expected.answer.logits
    return 1e-3 < float(np.sqrt(np.mean(errors**2, axis=1)).min()) < 0.2


@pytest.mark.parametrize("name", [name for name in CASES if not name.endswith("-long")])
def test_every_family(name: str, tmp_path: Path) -> None:
    assert nearly(container(write_hub(tmp_path / "model", CASES[name])), name)


def both(tmp_path: Path, config: Mapping[str, Any], packed: Files, plain: Files, quantised: Any) -> tuple[Path, Path]:
    said = {**config, "quantization_config": quantised} if quantised else config
    return q.write(tmp_path / "packed", said, packed, 2), q.write(tmp_path / "plain", config, plain)


@pytest.mark.parametrize("layout", ["fp8", "fp8-channel", "int4-32", "gptq-32", "awq-128", "glm-int8", "glm-int4-64"])
@pytest.mark.parametrize("fmt", ["int8", "int4"])
def test_a_quantised_release_becomes_what_it_stands_for(layout: str, fmt: str, tmp_path: Path) -> None:
    case = QWEN_128 if layout.endswith("128") else QWEN
    found = q.LAYOUTS[layout]
    packed, plain = both(tmp_path, case.config, *q.split(case, found), found.config)
    assert digest(container(packed, expert_format=fmt)) == digest(container(plain, expert_format=fmt))


def test_4_bit_floats(tmp_path: Path) -> None:
    packed, plain = both(tmp_path, GPT_OSS.config, *q.gpt_oss(GPT_OSS), {"quant_method": "mxfp4"})
    assert digest(container(packed)) == digest(container(plain))


def test_a_gguf_file(tmp_path: Path) -> None:
    """The values of blocks are rounded alike; the config is another, and the vocabulary comes along."""
    said, files, values = g.build(WIDE, medium)
    packed, plain = tmp_path / "packed.gguf", tmp_path / "plain.gguf"
    packed.write_bytes(gguf(said, files))
    plain.write_bytes(gguf(said, {name: (0, w.shape, w.tobytes()) for name, w in values.items()}))
    assert digest(container(packed)) == digest(container(plain))


@pytest.mark.parametrize("name", ["qwen2_moe", "mixtral", "deepseek_v3", "gpt_oss", "ernie4_5_moe"])
def test_gguf_names_do_in_a_container(name: str, tmp_path: Path) -> None:
    assert nearly(container(g.write(tmp_path / "model.gguf", CASES[name])), name)


@pytest.mark.parametrize("kind", ["olmoe-int8", "qwen-int4"])
def test_a_container_of_whole_experts(kind: str, tmp_path: Path) -> None:
    case = CASES["olmoe"]
    packed, plain = both(tmp_path, case.config, *q.merged(case, kind), None)
    assert digest(container(packed)) == digest(container(plain))


def test_a_container_of_our_own(tmp_path: Path) -> None:
    """int8 weights are what they are: rounding them again changes nothing but a scale's last bits."""
    first = containers.write(tmp_path / "first", CASES["olmoe"], "int8")
    with Engine.open(first) as engine:
        expected = engine.logits([5, 17, 3, 99])
    with Engine.open(container(first)) as engine:
        np.testing.assert_allclose(engine.logits([5, 17, 3, 99]), expected, atol=0.05)


def test_how_to_talk_to_it_comes_along(tmp_path: Path) -> None:
    src = write_hub(tmp_path / "hub", CASES["olmoe"])
    beside = {"tokenizer.json": b"{}", "generation_config.json": b'{"temperature": 0.6}', "LICENSE": b"free"}
    for name, data in {**beside, "pytorch_model.bin": b"x"}.items():
        (src / name).write_bytes(data)
    dst = container(src)
    assert {name: (dst / name).read_bytes() for name in beside} == beside
    assert not (dst / "pytorch_model.bin").exists()


def test_the_vocabulary_of_a_gguf_file_becomes_files(tmp_path: Path) -> None:
    said, files, _ = g.build(CASES["olmoe"])
    tokens = ["<|endoftext|>", *(chr(ord("a") + number) for number in range(26))]
    said |= {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3, *[1] * 26], "tokenizer.ggml.merges": [], "tokenizer.ggml.eos_token_id": 0,
        "tokenizer.chat_template": "{{ messages[0].content }}",
    }  # fmt: skip
    said["tokenizer.ggml.merges"] = ["a b"]
    tokens.append("ab")
    said["tokenizer.ggml.token_type"].append(1)
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf(said, files))
    folder = container(path)
    with Engine.open(path) as engine, Engine.open(folder) as other:
        assert engine.encode("cabd<|endoftext|>") == other.encode("cabd<|endoftext|>")
        assert engine.render([{"role": "user", "content": "abc"}]) == other.render([{"role": "user", "content": "abc"}])
        assert engine.eos_ids == other.eos_ids == {0}


def test_the_config_says_nothing_of_quantisation(tmp_path: Path) -> None:
    found = q.LAYOUTS["fp8"]
    packed, _ = both(tmp_path, QWEN.config, *q.split(QWEN, found), found.config)
    assert json.loads((container(packed) / "config.json").read_text()) == QWEN.config


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dst").mkdir()
    with pytest.raises(EngineError, match="no such model folder"):
        convert_model(tmp_path / "missing", tmp_path / "dst")
    assert not list((tmp_path / "dst").iterdir())
