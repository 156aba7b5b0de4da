"""What the doctor says of healthy and of damaged things; it never stops at what it examines."""

from __future__ import annotations

import json
import random
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from colibri_tui import paths
from colibri_tui.cli import main
from colibri_tui.commands.doctor import _examine_model
from colibri_tui.doctor import installation, learned, machine
from colibri_tui.doctor.findings import Finding, examined
from colibri_tui.profiles import model_key, usage_path
from engine.convert import convert_model
from engine.disk import DiskSpeed
from engine.errors import EngineError, ReadError
from engine.options import EngineOptions
from tests.engine.text.models import DATA
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import write as write_hub

FAST = DiskSpeed(2e9, 1 << 20, direct=True)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLIBRI_TUI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("COLIBRI_CONFIG_PATH", raising=False)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(machine, "read_speed", lambda files, nbytes: FAST)


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("doctor")
    source = write_hub(base / "source", CASES["qwen3_moe"])
    for file in (DATA / "qwen").iterdir():
        shutil.copy(file, source / file.name)
    convert_model(source, base / "model")
    return base / "model"


@pytest.fixture
def model(converted: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(converted, tmp_path / "model"))


def examine(path: Path, verify: bool = False) -> list[Finding]:
    return list(_examine_model(path, EngineOptions(), verify))


def failures(findings: list[Finding]) -> list[str]:
    return [f"{finding.area}: {finding.text}" for finding in findings if finding.level == "fail"]


def test_a_healthy_model(model: Path) -> None:
    found = examine(model, verify=True)
    levels = {finding.area: finding.level for finding in found}
    # The tokenizer is that of a model with more tokens.
    assert levels.pop("tokenizer") == "fail"
    assert set(levels) == {"files", "contents", "config", "tensors", "template", "fit", "disk"}
    assert {level for area, level in levels.items() if area != "template"} == {"ok"}
    assert "by SHA-256" in next(finding.text for finding in found if finding.area == "contents")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("cut", "file: .*experts-00001.safetensors: cut short at"),
        ("tiny", "file: .*experts-00001.safetensors: only 3 bytes"),
        ("flip", "contents: experts-00001.safetensors: is not what was written"),
        ("config", "config: .*config.json: not valid JSON"),
        ("missing", "tensors: .*is missing"),
        ("tokenizer", "text: .*tokenizer.json"),
        ("template", "text: .*template"),
    ],
)
def test_a_damaged_model(damage: str, said: str, model: Path) -> None:
    shard = model / "experts-00001.safetensors"
    data = shard.read_bytes()
    match damage:
        case "cut":
            shard.write_bytes(data[:-9])
        case "tiny":
            shard.write_bytes(b"abc")
        case "flip":
            shard.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        case "config":
            (model / "config.json").write_text("{")
        case "missing":
            shard.unlink()
        case "tokenizer":
            (model / "tokenizer.json").write_text('{"model": 3}')
        case _:
            (model / "chat_template.jinja").write_text("{% for %}")

    assert any(re.match(said, text) for text in failures(examine(model, verify=True)))


def test_what_is_left_of_a_download(model: Path) -> None:
    (model / "model.safetensors.part").write_bytes(b"x")
    assert any("unfinished: model.safetensors.part" in finding.text for finding in examine(model))


@pytest.mark.parametrize("seed", range(6))
def test_bytes_at_random(seed: int, model: Path) -> None:
    """Files damaged anywhere: there are findings, and no exception."""
    rng = random.Random(seed)
    for file in sorted(model.iterdir()):
        data = bytearray(file.read_bytes())
        for _ in range(rng.randrange(4)):
            match rng.randrange(4):
                case 0:
                    data[rng.randrange(len(data))] = rng.randrange(256)
                case 1:
                    del data[rng.randrange(len(data)) :]
                    data += b"\n"
                case 2:
                    at = rng.randrange(min(len(data), 3000))
                    data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(9)))
                case _:
                    at = rng.randrange(min(len(data), 3000))
                    data[at : at + 4] = rng.choice([b"null", b"-1e9", b"[[[[", b'"x":', b"\xff\xfe\0\0"])
        file.write_bytes(data)
    assert examine(model, verify=True)


def test_a_check_that_cannot_go_on_says_why() -> None:
    def check() -> Iterator[Finding]:
        yield Finding("ok", "area", "first")
        raise EngineError("x.json: broken; download it again")

    first, last = examined("area", check)
    assert first.text == "first"
    assert last == Finding("fail", "area", "x.json: broken", "download it again")

    def unreadable() -> Iterator[Finding]:
        raise PermissionError(13, "Permission denied", "/secret")
        yield

    assert [finding.text for finding in examined("area", unreadable)] == ["/secret: Permission denied"]


def test_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def level(speed: DiskSpeed) -> str:
        monkeypatch.setattr(machine, "read_speed", lambda files, nbytes: speed)
        return next(machine.disk([Path("x")])).level

    assert level(FAST) == "ok"
    assert level(DiskSpeed(2e9, 1 << 20, direct=False)) == "warn"
    assert level(DiskSpeed(1e8, 1 << 20, direct=True)) == "warn"

    def refused(files: list[Path], nbytes: int) -> DiskSpeed:
        raise ReadError("x: cannot be opened")

    monkeypatch.setattr(machine, "read_speed", refused)
    assert next(machine.disk([Path("x")])).level == "fail"


def test_settings_with_a_mistake(tmp_path: Path) -> None:
    paths.settings_path().parent.mkdir(parents=True)
    paths.settings_path().write_text("[engine]\nramm = 3\n")
    (finding,) = examined("settings", installation.settings)
    assert (finding.level, finding.remedy) == ("fail", "did you mean 'ram'?")


def test_histories(model: Path) -> None:
    installed = paths.models_dir() / "qwen"
    shutil.copytree(model, installed)
    history = usage_path("coding", model_key(installed))
    history.parent.mkdir(parents=True)
    history.write_text("-1 3 12\n0 2 100\nwhat\n")
    (history.parent / ".coli_usage.refused-20260101-000000").write_text("x")
    (history.parent / ".coli_pairs").write_text("COLIPAIRS 1 1\n0 1 2 300:4\n")
    found = list(examined("histories", learned.histories))
    assert any("1 readable, 100 choices" in finding.text for finding in found)
    assert any(finding.text.startswith("coding: ") and finding.level == "warn" for finding in found)
    assert any(".coli_pairs: ignored 1 follower" in finding.text for finding in found)
    assert any("1 set aside" in finding.text for finding in found)
    history.write_text("-1 99 512\n0 2 100\n")
    assert any(finding.level == "fail" for finding in examined("histories", learned.histories))


@pytest.mark.parametrize("content", [b"no database" * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_database(content: bytes) -> None:
    paths.database_path().parent.mkdir(parents=True)
    paths.database_path().write_bytes(content)
    (finding,) = examined("conversations", learned.conversations)
    assert finding.level == "fail"


def test_an_installation_without_its_compiler(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "colibri_tui.doctor.machine", None)
    monkeypatch.delattr("colibri_tui.doctor.machine")
    assert main(["doctor"]) == 1
    assert "FAIL packages      incomplete: " in capsys.readouterr().out


def test_the_command(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (model / "tokenizer.json").unlink()
    assert main(["doctor", str(model)]) == 0
    out = capsys.readouterr().out
    assert "ok   config        qwen3_moe: 3 layers, 3 with 12 experts each" in out
    assert "-> download tokenizer.json" in out
    assert "0 failed" in out
    assert main(["doctor", "nothing-like-that", "--json"]) == 1
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert said[-1]["area"] == "model"
    assert said[-1]["level"] == "fail"
    assert all(set(one) == {"level", "area", "text", "remedy"} for one in said)
