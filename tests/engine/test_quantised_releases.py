"""Quantised checkpoints answer like the float32 checkpoints they stand for, wherever their experts lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from engine import Engine, EngineError, EngineOptions
from engine.board import Counter
from tests.oracle import quantised as q
from tests.oracle.answers import greedy
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import Case
from tests.oracle.safetensors_file import Stored

PROMPT = [5, 17, 3, 99, 42, 8, 61, 77, 2, 30, 54, 11, 90, 23, 66, 7, 38, 71, 19]
Files = Mapping[str, Stored]


def widened(name: str, **changes: Any) -> Case:
    """A case whose rows hold whole groups of 128, except in experts' down projections (96 columns)."""
    case = CASES[name]
    more = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32} if "head_dim" in case.config else {}
    return replace(case, config={**case.config, "hidden_size": 128, "num_hidden_layers": 2, **more, **changes})


QWEN = widened("qwen3_moe", moe_intermediate_size=96, intermediate_size=128)
QWEN_128 = widened("qwen3_moe", moe_intermediate_size=128, intermediate_size=128)
DEEPSEEK = replace(CASES["deepseek_v3"], shards=3)
ALIGNED = replace(
    CASES["deepseek_v3"],
    config={**CASES["deepseek_v3"].config, "kv_lora_rank": 136, "qk_nope_head_dim": 72, "v_head_dim": 56},
)
"""A head's rows of kv_b are whole blocks, as in the released models: they are kept as 8-bit floats when turned."""

GPT_OSS = replace(CASES["gpt_oss"], config={**CASES["gpt_oss"].config, "hidden_size": 96, "intermediate_size": 64})
OLMOE = replace(CASES["olmoe"], config={**CASES["olmoe"].config, "intermediate_size": 26, "num_hidden_layers": 2})

Written = tuple[Path, Path, bool]
"""The quantised checkpoint, the float32 one, and whether both must agree to the last bit."""


def _pair(folder: Path, case: Case, files: tuple[Files, Files], config: Mapping[str, Any] | None) -> tuple[Path, Path]:
    both = {**case.config, "quantization_config": dict(config)} if config else case.config
    packed, plain = files
    return q.write(folder / "packed", both, packed, case.shards), q.write(folder / "plain", case.config, plain)


def _layout(folder: Path, name: str, case: Case, in_sixteens: bool = True) -> Written:
    """`in_sixteens`: whether all rows are whole vectors; float32 sums the columns that remain in another order."""
    layout = q.LAYOUTS[name]
    return *_pair(folder, case, q.split(case, layout), layout.config), layout.in_order and in_sixteens


MODELS: dict[str, Callable[[Path], Written]] = {
    **{
        name: lambda folder, name=name: _layout(folder, name, QWEN_128 if name.endswith("128") else QWEN)
        for name in q.LAYOUTS
        if name != "awq-64"
    },
    "awq-64": lambda folder: _layout(folder, "awq-64", QWEN_128),
    "fp8 deepseek, sharded": lambda folder: _layout(folder, "fp8", DEEPSEEK, in_sixteens=False),
    "fp8 deepseek, turned": lambda folder: _layout(folder, "fp8", ALIGNED, in_sixteens=False),
    "glm-int8 deepseek": lambda folder: _layout(folder, "glm-int8", DEEPSEEK, in_sixteens=False),
    "mxfp4": lambda folder: (*_pair(folder, GPT_OSS, q.gpt_oss(GPT_OSS), {"quant_method": "mxfp4"}), False),
    **{
        kind: lambda folder, kind=kind: (*_pair(folder, OLMOE, q.merged(OLMOE, kind), None), False) for kind in q.MERGED
    },
}


def answer(folder: Path, **options: Any) -> tuple[npt.NDArray[np.float32], list[int]]:
    with Engine.open(folder, EngineOptions(**options)) as engine:
        return engine.logits(PROMPT), greedy(engine, PROMPT, 6)


@pytest.mark.parametrize("name", MODELS)
def test_a_quantised_checkpoint_is_the_model_it_stands_for(name: str, tmp_path: Path) -> None:
    packed, plain, exact = MODELS[name](tmp_path)
    logits, tokens = answer(packed)
    expected, expected_tokens = answer(plain)
    assert logits.std() > 0.5
    assert tokens == expected_tokens
    if exact:
        np.testing.assert_array_equal(logits, expected)
    else:
        np.testing.assert_allclose(logits, expected, atol=2e-4)
    for options in ({"cap": 1, "threads": 1}, {"cap": 2, "threads": 3, "direct": False}):
        scarce, tokens = answer(packed, **options)
        np.testing.assert_array_equal(scarce, logits)
        assert tokens == expected_tokens


def test_the_quantised_bytes_are_what_is_kept_and_read(tmp_path: Path) -> None:
    """Experts and dense matrices take the memory of their codes and scales, not that of floats."""
    packed, plain, _ = MODELS["int4-channel"](tmp_path)
    with Engine.open(packed, EngineOptions(cap=1)) as small, Engine.open(plain, EngineOptions(cap=1)) as large:
        assert small.info.expert_bytes * 7 < large.info.expert_bytes
        assert small.info.dense_bytes * 1.5 < large.info.dense_bytes
        assert small.info.plan.slot_bytes * 5 < large.info.plan.slot_bytes
        small.logits(PROMPT)
        read = int(small.board.counters[Counter.PREFILL_DISK])
        assert small.board.counters[Counter.BYTES_READ] == read * small.info.expert_bytes


def refusal(folder: Path) -> str:
    with pytest.raises(EngineError) as refused:
        Engine.open(folder)
    text = str(refused.value)
    assert "\n" not in text
    return text


PROJECTION = "model.layers.0.mlp.experts.3.up_proj"


@pytest.mark.parametrize(
    ("layout", "change", "said"),
    [
        ("fp8", {PROJECTION + ".weight_scale_inv": None}, "tensor .*up_proj.weight_scale_inv is missing"),
        (
            "fp8",
            {PROJECTION + ".weight_scale_inv": ("F32", (1, 2))},
            r"is F32 \[1, 2\], the weights it scales call for",
        ),
        ("fp8", {PROJECTION + ".weight_scale_inv": ("I8", (1, 1))}, r"is I8 \[1, 1\], the weights it scales call for"),
        ("fp8", {PROJECTION + ".weight": ("F8_E5M2", (96, 128))}, "is F8_E5M2 .*only matrices of F8_E4M3"),
        ("fp8", {PROJECTION + ".weight": ("F8_E4M3", (96, 64))}, r"the config calls for F8_E4M3 \[96, 128\]"),
        ("int4-32", {PROJECTION + ".weight_scale": None}, "up_proj.weight_scale is missing"),
        ("int4-32", {PROJECTION + ".weight_packed": ("I32", (96, 15))}, r"the config calls for I32 \[96, 16\]"),
        ("int4-32", {PROJECTION + ".weight_scale": ("BF16", (96, 2))}, r"it scales call for floats \[96, 4\]"),
        ("gptq-32", {PROJECTION + ".qzeros": ("I32", (4, 11))}, r"the config calls for I32 \[4, 12\]"),
        ("gptq-32", {PROJECTION + ".scales": ("F16", (2, 96))}, r"the weights it scales call for floats \[4, 96\]"),
        ("gptq-32", {PROJECTION + ".g_idx": ("I32", (64,))}, r"the config calls for I32 \[128\]"),
        ("glm-int4", {PROJECTION + ".weight": ("U8", (6143,))}, "6,143 bytes and 96 scales, which is no known layout"),
        (
            "glm-int4",
            {PROJECTION + ".weight.qs": ("F32", (95,))},
            "6,144 bytes and 95 scales, which is no known layout",
        ),
        ("glm-int4", {PROJECTION + ".weight.qs": ("F16", (96,))}, "is F16, scales are F32"),
    ],
)
def test_a_layout_that_does_not_fit_is_refused(
    layout: str, change: dict[str, tuple[str, tuple[int, ...]] | None], said: str, tmp_path: Path
) -> None:
    files, _ = q.split(QWEN, q.LAYOUTS[layout])
    for name, new in change.items():
        assert name in files
        if new is None:
            del files[name]
        else:
            dtype, shape = new
            sizes = {"F32": 4, "I32": 4, "F16": 2, "BF16": 2}
            files[name] = Stored(dtype, shape, bytes(int(np.prod(shape)) * sizes.get(dtype, 1)))
    config = {**QWEN.config, "quantization_config": dict(q.LAYOUTS[layout].config or {})}
    with pytest.raises(EngineError, match=said):
        Engine.open(q.write(tmp_path / "model", config, files))


def test_columns_sorted_by_activation_are_refused(tmp_path: Path) -> None:
    files, _ = q.split(QWEN, q.LAYOUTS["gptq-32"])
    name = "model.layers.0.self_attn.q_proj.g_idx"
    order = np.frombuffer(files[name].data, np.int32)[::-1]
    files[name] = files[name]._replace(data=order.tobytes())
    config = {**QWEN.config, "quantization_config": dict(q.LAYOUTS["gptq-32"].config or {})}
    text = refusal(q.write(tmp_path / "model", config, files))
    assert "q_proj.g_idx: columns are sorted by activation" in text


def test_integers_of_a_method_the_config_does_not_name(tmp_path: Path) -> None:
    files, _ = q.split(QWEN, q.LAYOUTS["gptq-32"])
    text = refusal(q.write(tmp_path / "model", QWEN.config, files))
    assert "qweight is quantised by gptq or awq, but config.json" in text


def test_metadata_that_contradicts_the_bytes(tmp_path: Path) -> None:
    """What `colibri.fmt` says of a tensor must be what its bytes are."""
    files, _ = q.split(QWEN, q.LAYOUTS["glm-int4"])
    folder = q.write(tmp_path / "model", QWEN.config, files)
    file = next(folder.glob("*.safetensors"))
    data = file.read_bytes()
    name = PROJECTION + ".weight"
    for fmt, refused in (("int8-row", True), ("int4-row", False)):
        length = int.from_bytes(data[:8], "little")
        entry = '"colibri.fmt":"{\\"' + name + '\\":\\"' + fmt + '\\"}",'
        header = data[8 : 8 + length].replace(b'"format"', entry.encode() + b'"format"', 1)
        file.write_bytes(len(header).to_bytes(8, "little") + header + data[8 + length :])
        if refused:
            assert "is named 'int8-row' in the metadata, its 6,144 bytes and 96 scales are int4-row" in refusal(folder)
        else:
            Engine.open(folder).close()
