"""Broken copies of a checkpoint of every family: each is refused before it is loaded, and what is wrong is named."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import pytest

from engine.checkpoint.index import ITEM_BYTES, LFS_POINTER, Checkpoint, TensorEntry
from engine.errors import EngineError, UnsupportedModelError
from engine.families import FAMILIES, read_spec
from engine.model.weights import Weights
from tests.engine.test_quantised_releases import MODELS
from tests.oracle import safetensors_file as st
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import is_extra, tensors, write

NAMES = [name for name in CASES if not name.endswith("-long")]
SAMPLED = 8
"""Tensors broken of each family; which ones depends on its name only."""

Tensors = dict[str, TensorEntry]


def find(checkpoint: Checkpoint) -> Weights:
    """What opening a model does before anything is read or allocated."""
    return Weights(checkpoint, read_spec(checkpoint.config))


def refusal(checkpoint: Checkpoint | Path, kind: type[EngineError] = EngineError) -> str:
    with pytest.raises(kind) as error:
        find(Checkpoint.open(checkpoint) if isinstance(checkpoint, Path) else checkpoint)
    assert str(error.value).isprintable()
    return str(error.value)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Each family's checkpoint, written when first wanted. Who changes a file puts it back."""
    known: dict[str, Path] = {}

    def of(name: str) -> Path:
        if name not in known:
            known[name] = write(tmp_path_factory.mktemp(name) / "model", CASES[name])
        return known[name]

    return of


def chosen(name: str, found: Tensors) -> Iterator[TensorEntry]:
    """Some tensors that the model needs, experts' and others'."""
    needed = sorted(key for key in found if not is_extra(CASES[name].config, key))
    draw = random.Random(name)
    experts = [key for key in needed if "expert" in key or "_linear" in key]
    others = [key for key in needed if key not in experts]
    for keys in (experts, others):
        yield from (found[key] for key in draw.sample(keys, min(SAMPLED // 2, len(keys))))


def changed(entry: TensorEntry, shape: tuple[int, ...] | None = None, dtype: str | None = None) -> TensorEntry:
    shape, dtype = entry.shape if shape is None else shape, dtype or entry.dtype
    return replace(entry, shape=shape, dtype=dtype, nbytes=prod(shape) * ITEM_BYTES[dtype])


def broken(entry: TensorEntry) -> Iterator[tuple[str, TensorEntry | None]]:
    """(the name that is to be told, what stands in the tensor's place)."""
    yield entry.name, None
    yield entry.name, changed(entry, (entry.shape[0] + 1, *entry.shape[1:]))
    if len(entry.shape) > 1 and 1 not in entry.shape:
        yield entry.name, changed(entry, (prod(entry.shape),))
        if entry.shape[-1] != entry.shape[-2]:
            yield entry.name, changed(entry, (*entry.shape[:-2], entry.shape[-1], entry.shape[-2]))
    yield entry.name, changed(entry, None, {2: "I16", 4: "I32"}.get(ITEM_BYTES[entry.dtype], "I8"))
    if entry.dtype == "BF16":
        yield entry.name, changed(entry, None, "F16")
    yield entry.name, replace(entry, name=entry.name + "s")


@pytest.mark.parametrize("name", NAMES)
def test_a_broken_tensor_is_named(name: str, copy: Callable[[str], Path]) -> None:
    whole = Checkpoint.open(copy(name))
    find(whole)
    for entry in chosen(name, whole.tensors):
        rest = {key: other for key, other in whole.tensors.items() if key != entry.name}
        for told, other in broken(entry):
            text = refusal(replace(whole, tensors=rest if other is None else {**rest, other.name: other}))
            assert told in text, (text, other)
    extra = replace(entry, name="model.layers.0.mlp.gate.extra")
    assert extra.name in refusal(replace(whole, tensors={**whole.tensors, extra.name: extra}))


@pytest.mark.parametrize("name", ["fp8", "fp8 deepseek, sharded", "int4-32", "gptq-32", "awq-64", "mxfp4", "glm-int8"])
def test_a_part_of_quantised_weights_that_is_missing_is_named(name: str, tmp_path: Path) -> None:
    whole = Checkpoint.open(MODELS[name](tmp_path)[0])
    find(whole)
    needed = sorted(key for key in whole.tensors if "layers.1." in key and not key.endswith(("g_idx", "input_scale")))
    for key in random.Random(name).sample(needed, 2 * SAMPLED):
        rest = {other: entry for other, entry in whole.tensors.items() if other != key}
        assert key in refusal(replace(whole, tensors=rest))


@pytest.mark.parametrize("name", NAMES)
def test_a_broken_file_is_named(name: str, copy: Callable[[str], Path]) -> None:
    folder = copy(name)
    files = sorted(folder.glob("*.safetensors"))
    file = files[-1]
    data = file.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    last = max(json.loads(data[8 : 8 + length]).items(), key=lambda item: item[1].get("data_offsets", (0, 0))[1])[0]
    try:
        file.write_bytes(data[:-1])
        assert f"{file}: cut short at {len(data) - 1:,} bytes, tensor {last} ends at" in refusal(folder)
        for start in (b"\xff" * 8, struct.pack("<Q", 1 << 40), struct.pack("<Q", len(data)), b""):
            file.write_bytes(start + data[8:] if start else b"")
            assert str(file) in refusal(folder)
        file.write_bytes(LFS_POINTER + b".github.com/spec/v1\noid sha256:0\nsize 1\n")
        assert f"{file}: a pointer file, not weights; fetch it with `git lfs pull`" in refusal(folder)
        file.unlink()
        text = refusal(folder)
        assert (f"1 of {len(files)} shards missing: {file.name};" if len(files) > 1 else "no *.safetensors") in text
    finally:
        file.write_bytes(data)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_slip_in_the_model_type_names_what_was_meant(family: str) -> None:
    with pytest.raises(UnsupportedModelError, match=f"the nearest supported is {family} "):
        read_spec({"model_type": family + "x"})


@pytest.mark.parametrize("name", NAMES)
def test_a_quantisation_that_is_not_read_is_named(name: str) -> None:
    config: dict[str, Any] = {**CASES[name].config, "quantization_config": {"quant_method": "bitsandbytes"}}
    with pytest.raises(UnsupportedModelError, match="quantisation 'bitsandbytes' is not supported"):
        read_spec(config)


def test_a_file_that_the_index_does_not_name_is_not_read(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", CASES["qwen3_moe"])
    (folder / "consolidated.safetensors").write_bytes(b"no weights at all")
    find(Checkpoint.open(folder))
    (folder / "model.safetensors.index.json").unlink()
    assert "consolidated.safetensors" in refusal(folder)


@pytest.mark.parametrize("same", [True, False])
def test_a_copy_of_a_tied_embedding_is_not_held_a_second_time(same: bool, tmp_path: Path) -> None:
    case = CASES["olmoe"]
    folder = write(tmp_path / "model", replace(case, config={**case.config, "tie_word_embeddings": True}))
    drawn = tensors(case)
    del drawn["lm_head.weight"]
    alone = find(Checkpoint.open(saved(folder, drawn))).dense_bytes
    dtype, values = drawn["model.embed_tokens.weight"]
    drawn["lm_head.weight"] = dtype, values.copy()
    drawn["lm_head.weight"][1][-1, -1] += 0 if same else 1
    both = find(Checkpoint.open(saved(folder, drawn))).dense_bytes
    assert (both == alone) is same


def saved(folder: Path, drawn: dict[str, Any]) -> Path:
    st.write(folder / "model.safetensors", {key: st.stored(values, dtype) for key, (dtype, values) in drawn.items()})
    return folder


def test_a_folders_name_is_no_way_to_the_terminal(tmp_path: Path) -> None:
    folder = tmp_path / "a\x1b[31m\nb\udcff"
    assert r"a\x1b[31m\nb\udcff" in refusal(folder)
    write(folder, CASES["olmoe"])
    (folder / "model.safetensors").unlink()
    assert r"a\x1b[31m\nb\udcff" in refusal(folder)
