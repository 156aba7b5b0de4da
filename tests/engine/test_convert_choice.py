"""Which group size a tensor gets, and which stay int8: by what rounding costs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import Engine, EngineOptions
from engine.checkpoint.index import Checkpoint
from engine.convert import convert_model
from engine.convert.check import compare
from engine.convert.choice import FAILED, FREE, GROUPS, SLACK, choose
from tests.oracle.cases import CASES
from tests.oracle.safetensors_file import rounded, stored
from tests.oracle.safetensors_file import write as write_file

Floats = Any
Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]

CONFIG = CASES["olmoe"].config | {"hidden_size": 256, "intermediate_size": 128, "num_attention_heads": 4}


def normal(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return random.standard_normal(shape)


def even(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return random.uniform(-1, 1, shape)


def heavy(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return random.standard_t(2, shape)


def in_groups_of_128(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """What another program rounded to 4 bits."""
    q = random.integers(-8, 8, shape)
    q[:, ::128] = -8
    scales = 2.0 ** random.integers(-3, 3, (shape[0], -(-shape[1] // 128)))
    return q * np.repeat(scales, 128, axis=1)[:, : shape[1]]


def drawn(draw: Draw, columns: int = 512) -> list[Floats]:
    random = np.random.default_rng(1)
    return [draw(random, (64, columns)).astype(np.float32) for _ in range(2)]


@pytest.mark.parametrize(
    ("draw", "limit", "kept"),
    [
        (normal, FAILED, "int4/32"),
        (even, FAILED, "int4/64"),
        (in_groups_of_128, FAILED, "int4/128"),
        (heavy, FAILED, "int8"),
        (normal, FREE, "int8"),
        (in_groups_of_128, FREE, "int4/128"),
    ],
)
def test_the_rule(draw: Draw, limit: float, kept: str) -> None:
    choice = choose(drawn(draw), GROUPS, limit)
    assert choice.encoding.title == kept
    assert choice.cost == choice.tried[kept]


def test_a_larger_group_is_not_taken_for_more_error_than_it_is_worth() -> None:
    tried = choose(drawn(normal), GROUPS, FAILED).tried
    assert tried["int4/32"] * SLACK < tried["int4/64"] < tried["int4/128"]


def test_a_larger_group_is_not_taken_where_it_saves_nothing() -> None:
    assert choose(drawn(in_groups_of_128, 64), GROUPS, FAILED).encoding.title == "int4/32"
    assert choose(drawn(in_groups_of_128, 128), GROUPS, FAILED).encoding.title == "int4/64"


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_that_is_asked_for_is_taken(group: int) -> None:
    assert choose(drawn(normal), (group,), FAILED).encoding.title == f"int4/{group}"


def test_no_weight_but_zero() -> None:
    choice = choose([np.zeros((16, 256), np.float32)], GROUPS, FREE)
    assert (choice.encoding.title, choice.cost) == ("int4/128", 0.0)


def model(folder: Path, gate_up: Draw, down: Draw) -> Path:
    """A model of two layers whose experts have these weights."""
    random = np.random.default_rng(2)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    hidden, width, vocab = CONFIG["hidden_size"], CONFIG["intermediate_size"], CONFIG["vocab_size"]
    tensors: dict[str, Floats] = {
        "model.embed_tokens.weight": random.standard_normal((vocab, hidden)),
        "lm_head.weight": random.standard_normal((vocab, hidden)) / 16,
        "model.norm.weight": np.ones(hidden),
    }
    for layer in range(CONFIG["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        kv = hidden // CONFIG["num_attention_heads"] * CONFIG["num_key_value_heads"]
        for name, rows in (("q", hidden), ("k", kv), ("v", kv), ("o", hidden)):
            tensors[f"{at}self_attn.{name}_proj.weight"] = random.standard_normal((rows, hidden)) / 16
        tensors[at + "self_attn.q_norm.weight"], tensors[at + "self_attn.k_norm.weight"] = np.ones(hidden), np.ones(kv)
        tensors[at + "input_layernorm.weight"] = tensors[at + "post_attention_layernorm.weight"] = np.ones(hidden)
        tensors[at + "mlp.gate.weight"] = random.standard_normal((CONFIG["num_experts"], hidden)) / 16
        for expert in range(CONFIG["num_experts"]):
            for name, draw, shape in (
                ("gate", gate_up, (width, hidden)), ("up", gate_up, (width, hidden)), ("down", down, (hidden, width)),
            ):  # fmt: skip
                tensors[f"{at}mlp.experts.{expert}.{name}_proj.weight"] = draw(random, shape) / 16
    files = {name: stored(rounded(values.astype(np.float32), "BF16"), "BF16") for name, values in tensors.items()}
    write_file(folder / "model.safetensors", files)
    return folder


@pytest.mark.parametrize(
    ("gate_up", "down", "groups", "layout"),
    [
        (normal, normal, GROUPS, "i4g-r16k4-1"),
        (even, normal, GROUPS, "i4g64-r16k4-1.i4g-r16k4-1"),
        (in_groups_of_128, in_groups_of_128, GROUPS, "i4g128-r16k4-1.i4g64-r16k4-1"),
        (normal, heavy, GROUPS, "i4g-r16k4-1.i8r-r16k4-1"),
        (normal, normal, (128,), "i4g128-r16k4-1"),
    ],
)
def test_a_container_whose_matrices_are_kept_in_different_ways_answers_like_its_source(
    gate_up: Draw, down: Draw, groups: tuple[int, ...], layout: str, tmp_path: Path
) -> None:
    src, dst = model(tmp_path / "model", gate_up, down), tmp_path / "dst"
    convert_model(src, dst, expert_format="int4", groups=groups)
    merged = {name for name in Checkpoint.open(dst).tensors if ".experts." in name}
    assert {name.partition("merged_weight.")[2] for name in merged} == {layout}
    found = compare(src, dst, lambda _: [list(range(1, 12))], EngineOptions(cap=2), lambda *_: None)
    assert found.kl < 0.1
    assert found.agreement > 0.5
    logits = []
    for cap in (1, CONFIG["num_experts"]):
        with Engine.open(dst, EngineOptions(cap=cap)) as engine:
            logits.append(engine.logits(list(range(1, 12))))
            np.testing.assert_array_equal(engine.logits([1, 2, 3]), logits[-1][:3])
    np.testing.assert_array_equal(*logits)


def test_other_groups_start_over(tmp_path: Path) -> None:
    src = model(tmp_path / "model", normal, normal)

    class EnoughError(Exception):
        pass

    def give_up(stage: str, done: int, total: int) -> None:
        if done > total / 2:
            raise EnoughError

    with pytest.raises(EnoughError):
        convert_model(src, tmp_path / "dst", expert_format="int4", groups=(64,), progress=give_up)
    record = convert_model(src, tmp_path / "dst", expert_format="int4", groups=(32,))
    kept = {note["kept"] for said in record["files"].values() for note in said["matrices"].values()}
    assert kept == {"int4/32", "int8"}
    assert record["groups"] == [32]
