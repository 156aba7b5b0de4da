"""Models as GGUF files answer like the hub's checkpoints they were made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import Engine, EngineError, EngineOptions
from tests.oracle import gguf_models as g
from tests.oracle.answers import Expected, ask, greedy, logits_of
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import Case
from tests.oracle.gguf_file import gguf
from tests.oracle.test_families import LOGITS_BOUND, SMALL, WEIGHTS_BOUND

PROMPT = [5, 17, 3, 99, 42, 8, 61, 77, 2, 30, 54, 11, 90, 23, 66, 7, 38, 71, 19]
OLMOE = CASES["olmoe"]

AS_GGUF = (
    "olmoe", "qwen2_moe", "qwen3_moe", "mixtral", "glm4_moe", "glm4_moe_air", "dots1", "deepseek_v2",
    "deepseek_v2_lite", "deepseek_v3", "deepseek_v3_moonlight", "kimi_k2", "glm4_moe_lite", "gpt_oss", "ernie4_5_moe",
    "minimax_m2",
)  # fmt: skip


def judge(path: Path, name: str) -> None:
    expected = Expected.load(name)
    given = ask(path, expected.prompt, expected.answer.greedy, SMALL)
    assert np.abs(given.logits - expected.answer.logits).max() < LOGITS_BOUND
    assert given.greedy == expected.answer.greedy
    for layer, (ids, weights) in expected.answer.routes.items():
        np.testing.assert_array_equal(given.routes[layer][0], ids)
        np.testing.assert_allclose(given.routes[layer][1], weights, rtol=0, atol=WEIGHTS_BOUND)


@pytest.mark.parametrize("name", AS_GGUF)
def test_every_architecture(name: str, tmp_path: Path) -> None:
    judge(g.write(tmp_path / "model.gguf", CASES[name]), name)


@pytest.mark.parametrize("name", ["deepseek_v2", "deepseek_v3"])
def test_files_from_before_the_latent_was_split(name: str, tmp_path: Path) -> None:
    judge(g.write(tmp_path / "model.gguf", CASES[name], legacy=True), name)


def test_a_model_in_several_files(tmp_path: Path) -> None:
    judge(g.write(tmp_path / "model.gguf", OLMOE, parts=3), "olmoe")
    judge(tmp_path, "olmoe")
    judge(tmp_path / "model-00002-of-00003.gguf", "olmoe")


def in_blocks(name: str, **changes: Any) -> Case:
    return replace(CASES[name], config={**CASES[name].config, "num_hidden_layers": 2, **changes})


WIDE = in_blocks(
    "qwen3_moe", hidden_size=256, moe_intermediate_size=256, num_experts=5, num_attention_heads=4, head_dim=64
)
LATENT = in_blocks(
    "deepseek_v3", hidden_size=64, intermediate_size=96, moe_intermediate_size=32, kv_lora_rank=64, q_lora_rank=32,
    qk_nope_head_dim=32, v_head_dim=32,
)  # fmt: skip
LATENT_WIDE = in_blocks(
    "deepseek_v3", hidden_size=256, intermediate_size=256, moe_intermediate_size=256, kv_lora_rank=256, q_lora_rank=256,
    qk_nope_head_dim=32, v_head_dim=64,
)  # fmt: skip
HEAVY = "output.weight", "blk.0.attn_v", "blk.0.ffn_down_exps"


def medium(name: str) -> str:
    """Types as in files named Q4_K_M."""
    return "Q6_K" if name.startswith(HEAVY) else "Q4_K"


def by_part(name: str) -> str:
    """Parts of an expert that take their activations in different forms."""
    parts = {"ffn_gate_exps": "Q5_K", "ffn_up_exps": "F16", "ffn_down_exps": "Q8_0", "ffn_gate_inp": "Q4_K"}
    return next((kind for part, kind in parts.items() if part in name), "Q4_K")


QUANTISED: dict[str, tuple[Case, Callable[[str], str]]] = {
    **{
        kind: (WIDE, lambda name, kind=kind: kind)
        for kind in ("Q8_0", "Q4_0", "Q5_0", "MXFP4", "Q4_K", "Q5_K", "Q6_K", "F16", "BF16")
    },
    "Q4_K_M": (WIDE, medium),
    "by part": (WIDE, by_part),
    "latent Q4_K": (LATENT_WIDE, lambda name: "F16" if "attn_k_b" in name else "Q4_K"),
    "latent Q8_0": (LATENT, lambda name: "Q8_0"),
    "latent Q4_0": (LATENT, lambda name: "F16" if "attn_k_b" in name else "Q4_0"),
}  # fmt: skip


@pytest.mark.parametrize("kind", QUANTISED)
def test_a_quantised_file_is_the_model_it_stands_for(kind: str, tmp_path: Path) -> None:
    case, choose = QUANTISED[kind]
    said, files, values = g.build(case, choose)
    packed, plain = tmp_path / "packed.gguf", tmp_path / "plain.gguf"
    packed.write_bytes(gguf(said, files))
    plain.write_bytes(gguf(said, {name: (0, w.shape, w.tobytes()) for name, w in values.items()}))
    with Engine.open(plain) as engine:
        expected, tokens = engine.logits(PROMPT), greedy(engine, PROMPT, 6)
    assert expected.std() > 0.5
    for at, options in enumerate(({}, {"cap": 1, "threads": 1}, {"cap": 2, "threads": 3, "direct": False})):
        with Engine.open(packed, EngineOptions(**options)) as engine:  # type: ignore[arg-type]
            given = engine.logits(PROMPT)
            assert greedy(engine, PROMPT, 6) == tokens
        if at == 0:
            first = given
            np.testing.assert_allclose(given, expected, atol=2e-4)
        np.testing.assert_array_equal(given, first)


def test_quantised_blocks_are_what_is_kept(tmp_path: Path) -> None:
    path = g.write(tmp_path / "model.gguf", WIDE, lambda name: "Q4_K")
    with Engine.open(path) as engine:
        assert engine.info.expert_bytes == 3 * 256 * 144


def refusal(path: Path) -> str:
    with pytest.raises(EngineError) as refused:
        Engine.open(path)
    text = str(refused.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"general.architecture": "gemma"}, "architecture 'gemma' is not supported as GGUF"),
        ({"general.architecture": "a\nb"}, r"architecture 'a\\nb' is not supported"),
        ({"general.architecture": 7}, "architecture '7' is not supported"),
        ({"olmoe.embedding_length": ...}, "metadata olmoe.embedding_length is missing"),
        ({"olmoe.embedding_length": 50}, "olmoe.embedding_length 50 is not a multiple"),
        ({"olmoe.embedding_length": 56}, r"the config calls for"),
        ({"olmoe.block_count": 2}, "no use for tensor"),
        ({"olmoe.block_count": 4}, "is missing"),
        ({"olmoe.block_count": "x"}, "'x' blocks"),
        ({"olmoe.attention.head_count": [4, 4, 2]}, "head_count differs by layer"),
        ({"olmoe.rope.scaling.type": "longrope"}, "rope scaling 'longrope' is not supported as GGUF"),
    ],
)
def test_metadata_that_does_not_fit(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    values, files, _ = g.build(OLMOE)
    values = {key: value for key, value in {**values, **change}.items() if value is not ...}
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf(values, files))
    with pytest.raises(EngineError, match=said) as refused:
        Engine.open(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("token_embd.weight", None, "token_embd.weight is missing; is this a language model"),
        ("blk.1.attn_q.weight", None, "self_attn.q_proj.weight is missing"),
        ("blk.1.ffn_up_exps.weight", None, "is missing"),
        ("blk.1.attn_q.weight", (0, (48, 47)), r"the config calls for"),
        ("blk.1.attn_q.weight", (41, (48, 48)), "unknown ggml type 41"),
        ("blk.1.attn_q.weight", (10, (48, 256)), "Q2_K"),
        ("blk.1.ffn_up_exps.weight", (3, (9, 20, 64)), "Q4_1"),
        ("blk.1.stray.weight", (0, (4,)), "no use for tensor blk.1.stray.weight"),
        ("blk.1.\x1b[2J.weight", (0, (4,)), r"\\x1b\[2J.*has no usable name"),
    ],
)
def test_tensors_that_do_not_fit(
    name: str, change: tuple[int, tuple[int, ...]] | None, said: str, tmp_path: Path
) -> None:
    values, files, _ = g.build(OLMOE)
    if change is None:
        del files[name]
    else:
        kind, shape = change
        files[name] = kind, shape, bytes(4 * int(np.prod(shape)))
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf(values, files))
    with pytest.raises(EngineError, match=said) as refused:
        Engine.open(path)
    assert "\n" not in str(refused.value)


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    path = g.write(tmp_path / "model.gguf", OLMOE, parts=3)
    (tmp_path / "model-00002-of-00003.gguf").unlink()
    for asked in (path, tmp_path):
        assert "1 of 3 parts missing: model-00002-of-00003.gguf" in refusal(asked)


def test_two_models_in_a_folder(tmp_path: Path) -> None:
    g.write(tmp_path / "one.gguf", OLMOE)
    g.write(tmp_path / "two.gguf", OLMOE, parts=2)
    assert "2 models as GGUF" in refusal(tmp_path)


def test_what_is_beside_a_model_is_not_one(tmp_path: Path) -> None:
    """Vision's and the multi-token prediction's files lie beside the model's."""
    path = g.write(tmp_path / "model.gguf", OLMOE)
    for name in ("mmproj-model-f16.gguf", "mtp-model.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
    np.testing.assert_array_equal(logits_of(tmp_path, PROMPT, SMALL), logits_of(path, PROMPT, SMALL))


@pytest.mark.parametrize("content", [b"", b"GGUF", b"PK\x03\x04" + bytes(100)])
def test_what_is_no_gguf_file(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    assert str(path) in refusal(path)


def test_a_pointer_file(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    assert "a pointer file, not weights; fetch it with `git lfs pull`" in refusal(path)


def test_a_file_cut_short(tmp_path: Path) -> None:
    path = g.write(tmp_path / "model.gguf", OLMOE)
    path.write_bytes(path.read_bytes()[:-100])
    assert "get the file again" in refusal(path)


def test_a_tensor_whose_name_is_no_text(tmp_path: Path) -> None:
    path = g.write(tmp_path / "model.gguf", OLMOE)
    path.write_bytes(path.read_bytes().replace(b"output_norm", b"output\xffnorm"))
    assert "a text that is not UTF-8" in refusal(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "model.gguf" in refusal(tmp_path / "model.gguf")


@pytest.mark.parametrize(
    ("name", "key", "value", "said"),
    [
        ("olmoe", "olmoe.embedding_length", 0, "olmoe.embedding_length is 0, expected a whole number"),
        ("olmoe", "olmoe.expert_used_count", "x", "olmoe.expert_used_count is 'x', expected"),
        ("qwen3_moe", "qwen3moe.rope.freq_base", -1.0, "qwen3moe.rope.freq_base is -1.0, expected a positive number"),
        ("gpt_oss", "gpt-oss.expert_feed_forward_length", 1 << 30, "gpt-oss.expert_feed_forward_length is 1073741824"),
        ("deepseek_v2", "deepseek2.attention.kv_lora_rank", 0, "deepseek2.attention.kv_lora_rank is 0"),
    ],
)
def test_a_refused_number_has_the_name_it_has_in_the_file(
    name: str, key: str, value: Any, said: str, tmp_path: Path
) -> None:
    values, files, _ = g.build(CASES[name])
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf({**values, key: value}, files))
    with pytest.raises(EngineError, match=f"model.gguf: {said}"):
        Engine.open(path, SMALL)
