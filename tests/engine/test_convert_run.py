"""A conversion that is killed, runs out of room or meets a bad disk; what rounding costs; how much memory it takes."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import tracemalloc
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import Engine, EngineError, EngineOptions
from engine.convert import convert_model
from engine.convert.check import compare
from engine.convert.run import work_folder
from engine.files import FileLock
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import tensors
from tests.oracle.checkpoints import write as write_hub
from tests.oracle.safetensors_file import Stored, rounded, stored
from tests.oracle.safetensors_file import write as write_file

OLMOE = CASES["olmoe"]
USAGE = namedtuple("USAGE", "total used free")


class EnoughError(Exception):
    pass


def digest(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def stopping(after: int, act: Callable[[], None]) -> Callable[[str, int, int], None]:
    """A progress that acts when told for the so manieth time."""
    told = []

    def progress(stage: str, done: int, total: int) -> None:
        told.append(stage)
        if len(told) == after:
            act()

    return progress


def give_up() -> None:
    raise EnoughError


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def convert_and_die(src: Path, dst: Path, after: int) -> None:
    convert_model(src, dst, expert_format="int4", progress=stopping(after, die))


def test_after_a_kill_it_goes_on(tmp_path: Path) -> None:
    src = write_hub(tmp_path / "model", OLMOE)
    convert_model(src, tmp_path / "whole", expert_format="int4")
    dst = tmp_path / "killed"
    child = multiprocessing.get_context("spawn").Process(target=convert_and_die, args=(src, dst, 40))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    assert not dst.exists()
    finished = {path: path.stat().st_mtime_ns for path in work_folder(dst).glob("*.safetensors")}
    assert finished
    stages: list[tuple[str, int, int]] = []
    convert_model(src, dst, expert_format="int4", progress=lambda *told: stages.append(told))
    assert digest(dst) == digest(tmp_path / "whole")
    assert stages[0][1] > 0
    for path, time in finished.items():
        assert (dst / path.name).stat().st_mtime_ns == time
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed", "model", "whole"]


@pytest.mark.parametrize("after", [1, 2, 9, 33, 60])
def test_wherever_it_is_stopped_the_result_is_the_same(after: int, tmp_path: Path) -> None:
    src = write_hub(tmp_path / "model", OLMOE)
    convert_model(src, tmp_path / "whole")
    with pytest.raises(EnoughError):
        convert_model(src, tmp_path / "dst", progress=stopping(after, give_up))
    assert not (tmp_path / "dst").exists()
    convert_model(src, tmp_path / "dst")
    assert digest(tmp_path / "dst") == digest(tmp_path / "whole")


def test_another_source_or_format_starts_over(tmp_path: Path) -> None:
    src, other = write_hub(tmp_path / "model", OLMOE), write_hub(tmp_path / "other", CASES["mixtral"])
    dst = tmp_path / "dst"
    for source, fmt in ((src, "int8"), (other, "int8"), (other, "int4")):
        with pytest.raises(EnoughError):
            convert_model(source, dst, expert_format=fmt, progress=stopping(40, give_up))
    convert_model(src, dst, expert_format="int4")
    convert_model(src, tmp_path / "whole", expert_format="int4")
    assert digest(dst) == digest(tmp_path / "whole")


def test_a_disk_that_returns_something_else(tmp_path: Path) -> None:
    src, dst = write_hub(tmp_path / "model", OLMOE), tmp_path / "dst"

    def damage(stage: str, done: int, total: int) -> None:
        if stage == "verifying" and done == 0:
            with (work_folder(dst) / "experts-00001.safetensors").open("r+b") as file:
                file.seek(-1, os.SEEK_END)
                file.write(b"\x99")

    with pytest.raises(EngineError, match=r"experts-00001.safetensors: reads back differently"):
        convert_model(src, dst, progress=damage)
    assert not dst.exists()
    convert_model(src, dst)
    Engine.open(dst, EngineOptions(cap=1)).close()


def test_too_little_room_is_said_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    src = write_hub(tmp_path / "model", OLMOE)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: USAGE(10**9, 10**9, 1000))
    with pytest.raises(EngineError, match=r"0.0 GB are free and this takes"):
        convert_model(src, tmp_path / "dst")
    assert not list(work_folder(tmp_path / "dst").iterdir())


def test_a_disk_that_fills_up_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    src, dst = write_hub(tmp_path / "model", OLMOE), tmp_path / "dst"
    real, calls = os.fsync, []

    def fsync(fd: int) -> None:
        calls.append(fd)
        if len(calls) == 5:
            raise OSError(28, "No space left on device")
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(EngineError, match="No space left on device"):
        convert_model(src, dst)
    monkeypatch.undo()
    convert_model(src, dst)
    convert_model(src, tmp_path / "whole")
    assert digest(dst) == digest(tmp_path / "whole")


def test_a_target_that_is_taken_is_left_alone(tmp_path: Path) -> None:
    src, dst = write_hub(tmp_path / "model", OLMOE), tmp_path / "dst"
    dst.mkdir()
    (dst / "mine.txt").write_text("mine")
    with pytest.raises(EngineError, match="there is something already"):
        convert_model(src, dst)
    assert [path.name for path in dst.iterdir()] == ["mine.txt"]


def test_two_at_a_time(tmp_path: Path) -> None:
    src = write_hub(tmp_path / "model", OLMOE)
    with FileLock(tmp_path / ".dst.lock"), pytest.raises(EngineError, match="another colibri-tui is converting"):
        convert_model(src, tmp_path / "dst")


def model_of(folder: Path, change: Callable[[str, Any], Any], config: dict[str, Any] | None = None) -> Path:
    """The OLMoE case with other values."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config or OLMOE.config))
    files: dict[str, Stored] = {}
    for name, (dtype, values) in tensors(OLMOE).items():
        files[name] = stored(rounded(change(name, values), dtype), dtype)
    write_file(folder / "model.safetensors", files)
    return folder


def test_weights_that_were_four_bits_lose_nothing(tmp_path: Path) -> None:
    """Every group of 32 is integers times a power of two: int4 finds it again, in experts and in dense matrices."""

    def four_bits(name: str, values: Any) -> Any:
        if values.ndim < 2 or "mlp.gate." in name:
            return values
        random = np.random.default_rng(len(name))
        return random.integers(-7, 8, values.shape) * np.float32(0.25)

    record = convert_model(model_of(tmp_path / "model", four_bits), tmp_path / "dst", expert_format="int4")
    for name, said in record["files"].items():
        assert all(note["error"] < 1e-6 for note in said["matrices"].values()), name
    layouts = {path.name: path.read_bytes()[:4096] for path in (tmp_path / "dst").glob("dense-0*")}
    assert all(b"q_proj.weight.i4g" in head for head in layouts.values())


def test_normal_weights_are_int8_where_they_are_dense(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    src = model_of(tmp_path / "model", lambda _, w: random.standard_normal(w.shape).astype(np.float32))
    record = convert_model(src, tmp_path / "dst", expert_format="int4")
    for name, said in record["files"].items():
        for note in said["matrices"].values():
            expert = name.startswith("experts")
            assert 0.05 < note["error"] < 0.1 if expert else note["error"] < 0.02
            assert note["kept"] == ("int4/32" if expert else "int8")


def test_a_matrix_with_a_few_huge_values_stays_float16(tmp_path: Path) -> None:
    spoilt = "model.layers.1.self_attn.q_proj.weight"
    random = np.random.default_rng(4)

    def huge(name: str, values: Any) -> Any:
        values = random.standard_normal(values.shape).astype(np.float32)
        if name == spoilt:
            values[:, 3] *= 100
        return values

    record = convert_model(model_of(tmp_path / "model", huge), tmp_path / "dst")
    matrices = {name: note for said in record["files"].values() for name, note in said["matrices"].items()}
    assert [name for name, note in matrices.items() if note["kept"] == "float16"] == [spoilt]
    assert matrices[spoilt]["tried"]["int8"] > 0.02
    with Engine.open(tmp_path / "dst", EngineOptions(cap=1)) as engine:
        engine.logits([1, 2, 3])


def test_a_large_matrix_is_never_held_whole(tmp_path: Path) -> None:
    vocab, hidden = 200_000, OLMOE.config["hidden_size"]
    config = {**OLMOE.config, "vocab_size": vocab}
    large = np.resize(np.random.default_rng(1).standard_normal(1 << 16).astype(np.float32), (vocab, hidden))

    def enlarge(name: str, values: Any) -> Any:
        return large if name in ("model.embed_tokens.weight", "lm_head.weight") else values

    src = model_of(tmp_path / "model", enlarge, config)
    tracemalloc.start()
    try:
        convert_model(src, tmp_path / "dst", expert_format="int4")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < large.nbytes * 0.75
    (tmp_path / "model" / "model.safetensors").unlink()


def test_the_comparison_with_the_source(tmp_path: Path) -> None:
    src = write_hub(tmp_path / "model", OLMOE)
    prompts = [[5, 17, 3, 99, 23], [1, 2, 3]]
    found = {}
    for fmt in ("int8", "int4"):
        convert_model(src, tmp_path / fmt, expert_format=fmt)
        found[fmt] = compare(src, tmp_path / fmt, lambda _: prompts, EngineOptions(cap=2), lambda *_: None)
    same = compare(src, src, lambda _: prompts, EngineOptions(cap=2), lambda *_: None)
    assert (same.positions, same.kl, same.agreement) == (8, 0.0, 1.0)
    assert same.perplexity[0] == same.perplexity[1] > 1
    assert 0 < found["int8"].kl < found["int4"].kl
    assert found["int8"].kl <= found["int8"].kl_95
