"""Containers: one read an expert, on a page, in a known layout; the same bytes in whatever order the tensors come."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import Engine, EngineError, EngineOptions
from engine.board import Counter
from engine.checkpoint.files import ALIGN
from engine.checkpoint.index import Checkpoint
from engine.convert import write_container
from tests.oracle import containers
from tests.oracle.answers import Expected
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import Floats, is_extra, tensors
from tests.oracle.checkpoints import write as write_hub

OLMOE = CASES["olmoe"]
LAYERS, EXPERTS = 3, 9
GATE = "model.layers.1.mlp.experts.4.gate_proj.weight"


def drawn(name: str = "olmoe") -> list[tuple[str, Floats]]:
    case = CASES[name]
    return [(key, values) for key, (_, values) in tensors(case).items() if not is_extra(case.config, key)]


def convert(folder: Path, given: list[tuple[str, Floats]], **options: Any) -> Path:
    folder.mkdir()
    write_container(folder, given, OLMOE.config, {}, **options)
    return folder


def digest(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


@pytest.mark.parametrize("fmt", ["int8", "int4"])
def test_an_expert_is_one_read_of_whole_pages(fmt: str, tmp_path: Path) -> None:
    checkpoint = Checkpoint.open(containers.write(tmp_path / "model", OLMOE, fmt))
    experts = [entry for name, entry in checkpoint.tensors.items() if ".experts." in name]
    assert len(experts) == LAYERS * EXPERTS
    assert {entry.file.name for entry in experts} == {f"experts-{layer:05}.safetensors" for layer in range(LAYERS)}
    for entry in experts:
        assert entry.dtype == "U8"
        assert entry.offset % ALIGN == entry.nbytes % ALIGN == 0


def test_every_layout_is_named(tmp_path: Path) -> None:
    folder = containers.write(tmp_path / "model", OLMOE, "int4", dense_format="int8")
    for file in folder.glob("*.safetensors"):
        header = json.loads(file.read_bytes()[8 : 8 + int.from_bytes(file.read_bytes()[:8], "little")])
        metadata = header.pop("__metadata__")
        layouts = json.loads(metadata["colibri.fmt"])
        assert metadata["colibri.version"] == "1"
        assert layouts.keys() == header.keys()
        for name, layout in layouts.items():
            wanted = "i4g-" if ".experts." in name else "i8r-" if header[name]["dtype"] == "U8" else "f32"
            assert layout.startswith(wanted)
            assert name.endswith(layout) or layout == "f32"


@pytest.mark.parametrize("name", ["olmoe", "mixtral", "glm4_moe"])
def test_the_order_of_tensors_changes_nothing_of_the_experts(name: str, tmp_path: Path) -> None:
    case, given = CASES[name], drawn(name)
    folders = []
    for order in ("as drawn", "shuffled"):
        folder = tmp_path / order
        folder.mkdir()
        write_container(folder, given, case.config, {}, expert_format="int8", dense_format="int8")
        folders.append(digest(folder))
        random.Random(5).shuffle(given)
    first, second = folders
    experts = [file for file in first if file.startswith("experts-")]
    assert experts
    assert [first[file] for file in experts] == [second[file] for file in experts]


def test_what_lies_beside_the_weights_is_copied(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    beside = {"generation_config.json": b'{"temperature": 0.6}', "chat_template.jinja": "näïve".encode()}
    write_container(folder, drawn(), OLMOE.config, beside)
    for file, data in beside.items():
        assert (folder / file).read_bytes() == data
    assert json.loads((folder / "config.json").read_text()) == OLMOE.config


@pytest.mark.parametrize(("expert_format", "dense_format"), [("int8", "int8"), ("int4", "int8"), ("int4", "int4")])
@pytest.mark.parametrize("name", ["olmoe", "glm4_moe", "mixtral"])
def test_a_container_is_nearly_the_same_model(name: str, expert_format: str, dense_format: str, tmp_path: Path) -> None:
    """Logits deviate by 3 from token to token, and by little from what they were."""
    case = CASES[name]
    prompt = Expected.load(name).prompt
    exact = Expected.load(name).answer.logits
    folder = containers.write(tmp_path / "model", case, expert_format, dense_format)
    with Engine.open(folder, EngineOptions(cap=2)) as engine:
        logits = engine.logits(prompt)
    error = float(np.sqrt(np.mean((logits - exact) ** 2)))
    assert error < {"int8int8": 0.25, "int4int8": 1.0, "int4int4": 2.2}[expert_format + dense_format]
    assert error > 1e-3


def test_the_bytes_of_an_expert_are_what_is_read(tmp_path: Path) -> None:
    folder = containers.write(tmp_path / "model", OLMOE, "int8")
    with Engine.open(folder, EngineOptions(cap=1)) as engine:
        engine.logits([1, 2, 3])
        read = int(engine.board.counters[Counter.PREFILL_DISK])
        assert engine.board.counters[Counter.BYTES_READ] == read * engine.info.expert_bytes
        assert engine.info.expert_bytes % ALIGN == 0
        # Nothing but whole experts lies in a slot.
        assert engine.info.plan.slot_bytes == engine.info.expert_bytes


def test_progress_is_told_to_the_end(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    convert(tmp_path / "model", drawn(), progress=lambda done, total: told.append((done, total)))
    assert told[0][0] == 0
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1] == LAYERS * EXPERTS * (told[1][0] - told[0][0])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("drop", "layer 1, expert 4: only part of it was given"),
        ("shape", r"layer 1, expert 4: expert_gate is \[19, 48\], the config calls for \[20, 48\]"),
        ("beyond", "layer 1 has no expert 9 in this config"),
        ("dense", "tensor model.norm.weight is missing"),
        ("stray", "no use for tensor model.layers.0.vision.weight"),
        ("matrix", "tensor model.layers.0.self_attn.q_proj.weight"),
    ],
)
def test_what_is_no_model_is_not_converted(change: str, said: str, tmp_path: Path) -> None:
    given = dict(drawn())
    match change:
        case "drop":
            del given[GATE]
        case "shape":
            given[GATE] = given[GATE][:-1]
        case "beyond":
            given[GATE.replace(".4.", ".9.")] = given[GATE]
        case "dense":
            del given["model.norm.weight"]
        case "stray":
            given["model.layers.0.vision.weight"] = np.zeros((3, 3), np.float32)
        case _:
            given["model.layers.0.self_attn.q_proj.weight"] = np.zeros((70, 48), np.float32)
    with pytest.raises(EngineError, match=said):
        convert(tmp_path / "model", list(given.items()))


def test_a_whole_expert_that_is_missing(tmp_path: Path) -> None:
    """All three parts of one expert were never given: its place in the file must not pass for an expert of zeros."""
    given = [(name, values) for name, values in drawn() if ".1.mlp.experts.4." not in name]
    with pytest.raises(EngineError, match="layer 1, expert 4: nothing of it was given"):
        convert(tmp_path / "model", given)


def test_a_layer_without_experts_given(tmp_path: Path) -> None:
    given = [(name, values) for name, values in drawn() if ".1.mlp.experts." not in name]
    with pytest.raises(EngineError, match="layer 1, expert 0: nothing of it was given"):
        convert(tmp_path / "model", given)


def test_a_container_reads_like_the_hub(tmp_path: Path) -> None:
    """The same facts about the model, whichever way it lies on disk."""
    hub = write_hub(tmp_path / "hub", OLMOE)
    container = containers.write(tmp_path / "container", OLMOE, "int8")
    infos = []
    for folder in (hub, container):
        with Engine.open(folder) as engine:
            info = engine.info
            infos.append((info.family, info.layers, info.moe_layers, info.experts, info.top_k, info.context))
    assert infos[0] == infos[1]
