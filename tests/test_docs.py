"""Every command in the documentation is run, in the order of its page, with a tiny model in the place of real ones."""

from __future__ import annotations

import io
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import tokenizers

import engine.convert  # noqa: F401 - before a test moves the folder of compiled kernels
from colibri_tui import paths
from colibri_tui.cli import main
from engine.convert import convert_model
from engine.disk import DiskSpeed
from engine.expectations import Machine
from engine.options import KNOBS
from tests.engine.text.models import DATA
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import write as write_hub
from tests.oracle.gguf_models import write as write_gguf
from tests.tui.hub.hub_server import Hub, serving

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"^( *)```console\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)\)")
TOKENS = 300
"""More than the tokenizer has."""

OPENS_A_SCREEN = "the application needs a terminal"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A tiny model that can talk, as it is on a hub and converted."""
    base = tmp_path_factory.mktemp("docs")
    case = CASES["olmoe"]
    vocab = max(TOKENS, _tokens())
    hub = write_hub(base / "hub", replace(case, config={**case.config, "vocab_size": vocab}))
    for file in (DATA / "qwen").iterdir():
        if file.name != "expected.json":
            shutil.copy(file, hub / file.name)
    convert_model(hub, base / "demo")
    return SimpleNamespace(hub=hub, demo=base / "demo")


def _tokens() -> int:
    return int(tokenizers.Tokenizer.from_file(str(DATA / "qwen" / "tokenizer.json")).get_vocab_size(True)) + 8


@pytest.fixture
def machine(models: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A new user's: the demo is there, and a hub that has what the pages name."""
    monkeypatch.setenv("COLIBRI_TUI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    for name in ("COLIBRI_CONFIG_PATH", "HF_TOKEN", *(knob.env for knob in KNOBS if knob.env)):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr("colibri_tui.machine_speed.machine_speed", lambda *_, **__: Machine(20e9, 2e9, True))
    monkeypatch.setattr("colibri_tui.doctor.machine.read_speed", lambda files, nbytes: DiskSpeed(2e9, nbytes, True))
    monkeypatch.setattr("engine.bench.disk_read_rate", lambda *_: 2e9)
    monkeypatch.setattr("engine.bench.read_rate", lambda engine: 20e9)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(models.demo, paths.models_dir() / "demo")
    for topic in ("code", "talk"):
        (tmp_path / "prompts" / topic).mkdir(parents=True)
        for number in range(2):
            (tmp_path / "prompts" / topic / f"{number}.txt").write_text(f"What is {topic} number {number}?")
    with serving() as hub:
        for name in ("Qwen/Qwen3-30B-A3B-Instruct-2507",):
            hub.add(name, models.hub)
        (tmp_path / "gguf").mkdir()
        for kind in ("F16", "Q8_0"):
            write_gguf(tmp_path / "gguf" / f"Qwen3-30B-A3B-{kind}.gguf", CASES["olmoe"])
        hub.add("Qwen/Qwen3-30B-A3B-GGUF", tmp_path / "gguf")
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        yield hub


def commands(page: Path) -> list[str]:
    lines = [
        line.strip() for _, block in BLOCK.findall(page.read_text(encoding="utf-8")) for line in block.splitlines()
    ]
    return [line[2:] for line in lines if line.startswith("$ ")]


def run(command: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run a line: a command of the program, possibly with a text piped into it."""
    said, pipe, rest = command.rpartition(" | ")
    if pipe:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(shlex.split(said)[1].encode())))
    program, *arguments = shlex.split(rest)
    assert program == "colibri-tui"
    return main(arguments)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command(
    page: Path, machine: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in commands(page):
        code = run(command, monkeypatch)
        out, err = capsys.readouterr()
        assert code == 0 or OPENS_A_SCREEN in err, f"{command}: {err or out}"


def test_there_are_pages_with_commands() -> None:
    assert len(PAGES) == 9
    assert all(commands(page) for page in PAGES)


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for link in LINK.findall(page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_files_that_are_named_exist() -> None:
    """Paths in the page about the engine."""
    text = (ROOT / "docs" / "how-the-engine-works.md").read_text(encoding="utf-8")
    for name in re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", text):
        assert any((base / name).exists() for base in (ROOT, ROOT / "engine")), name
