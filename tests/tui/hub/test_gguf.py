"""GGUF files on a hub: which of several, in parts, planned and refused by their headers alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from colibri_tui import paths
from colibri_tui.cli import main
from colibri_tui.hub.listing import split_name
from colibri_tui.hub.pull import NOTE, Request, pull
from colibri_tui.hub.transfer import Patience
from engine.checkpoint.gguf import Gguf, GgufCutError
from engine.errors import CheckpointError, EngineError
from engine.expectations import Machine
from tests.oracle.cases import CASES
from tests.oracle.gguf_file import gguf
from tests.oracle.gguf_models import build, write

from .hub_server import Hub, serving

OLMOE = CASES["olmoe"]
REPO = "some/Little-GGUF"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("COLIBRI_TUI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("colibri_tui.machine_speed.machine_speed", lambda *_: Machine(20e9, 2e9, True))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    folder = tmp_path / "original"
    folder.mkdir()
    for name in ("Little-Q8_0", "Little-UD-Q8_0", "Little-BF16"):
        write(folder / f"{name}.gguf", OLMOE, lambda _: "F16")
    write(folder / "Little-F32.gguf", OLMOE, lambda _: "F32", parts=3)
    (folder / "mmproj-little.gguf").write_bytes(b"p")
    (folder / "LICENSE").write_text("free")
    with serving() as hub:
        hub.add(REPO, folder)
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        yield hub


def get(target: Path, pattern: str | None = None, **changes: Any) -> set[str]:
    request = Request(REPO, None, target, pattern, patience=Patience(0.5, (0.0, 0.0)), **changes)
    pull(request, lambda *_: None)
    return {path.name for path in target.iterdir() if path.name != NOTE}


@pytest.mark.parametrize(
    ("text", "repo", "revision", "pattern"),
    [
        ("a/b", "a/b", None, None),
        ("a/b@v1", "a/b", "v1", None),
        ("a/b:Q4_K_M", "a/b", None, "Q4_K_M"),
        ("a/b@refs/pr/3:Q4_K_M", "a/b", "refs/pr/3", "Q4_K_M"),
        ("https://huggingface.co/a/b:Q8_0", "a/b", None, "Q8_0"),
    ],
)
def test_names(text: str, repo: str, revision: str | None, pattern: str | None) -> None:
    assert split_name(text) == (repo, revision, pattern)


def test_what_there_is_is_said_when_it_is_not_clear(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=rf"4 models as GGUF; choose one, as in {REPO}:BF16. There are: BF16 \("):
        get(tmp_path / "here")
    with pytest.raises(EngineError, match="no GGUF file with 'Q3' in its name; there are: BF16"):
        get(tmp_path / "here", "Q3")
    assert not (tmp_path / "here").exists()


def test_the_name_itself_goes_before_names_that_hold_it(hub: Hub, tmp_path: Path) -> None:
    assert get(tmp_path / "one", "q8_0") == {"Little-Q8_0.gguf", "LICENSE"}
    assert get(tmp_path / "other", "UD-Q8_0") == {"Little-UD-Q8_0.gguf", "LICENSE"}


def test_all_parts_come(hub: Hub, tmp_path: Path) -> None:
    assert get(tmp_path / "here", "F32") == {"LICENSE", *(f"Little-F32-0000{i}-of-00003.gguf" for i in (1, 2, 3))}


def test_pull_names_the_folder_by_the_file(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pull", f"{REPO}:BF16"]) == 0
    assert "open it with 'colibri-tui Little-GGUF-BF16'" in capsys.readouterr().out
    assert (paths.models_dir() / "Little-GGUF-BF16" / "Little-BF16.gguf").exists()
    assert main(["pull", f"{REPO}:BF16", "--file", "x"]) == 2


@pytest.mark.parametrize("pattern", ["UD-Q8_0", "F32"])
def test_plan_by_headers(pattern: str, hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", f"{REPO}:{pattern}", "--json"]) == 0
    there = json.loads(capsys.readouterr().out)
    assert there["model"] == f"{REPO}:{pattern}@01234567"
    assert not paths.models_dir().exists()
    assert main(["plan", f"{REPO}:{pattern}"]) == 0
    assert f"get it with 'colibri-tui pull {REPO}:{pattern}'" in capsys.readouterr().out
    assert main(["pull", f"{REPO}:{pattern}"]) == 0
    capsys.readouterr()
    assert main(["plan", f"Little-GGUF-{pattern}", "--json"]) == 0
    here = json.loads(capsys.readouterr().out)
    for form, other in zip(here["forms"], there["forms"], strict=True):
        for key in ("form", "disk_bytes", "dense_bytes", "expert_bytes", "kv_bytes_per_1000_tokens"):
            assert form[key] == other[key]


def test_a_long_header_is_fetched_in_steps(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    values, files, _ = build(OLMOE)
    data = gguf({**values, "tokenizer.ggml.tokens": [f"<{number:09}>" for number in range(100_000)]}, files)
    padded = data + bytes(20 << 20)
    hub.repositories["some/long"] = type(hub.repositories[REPO])({"m.gguf": padded})
    assert main(["plan", "some/long"]) == 0
    capsys.readouterr()
    asked = [one for one in hub.requests("m.gguf") if one]
    assert asked == ["bytes=0-1048575", "bytes=1048576-4194303"]


def test_what_cannot_be_run_is_refused_before_it_comes_in_words_of_the_file(hub: Hub, tmp_path: Path) -> None:
    values, files, _ = build(OLMOE)
    data = gguf({**values, "olmoe.expert_used_count": 99}, files)
    hub.repositories[REPO].files = {"m.gguf": data}
    with pytest.raises(EngineError) as caught:
        get(tmp_path / "here")
    assert "m.gguf: " in str(caught.value)
    assert "config.json" not in str(caught.value)
    assert "99" in str(caught.value)
    assert hub.requests("m.gguf") == ["bytes=0-1048575"] or len(data) <= 1 << 20


def test_conversion_on_the_way_is_refused_with_the_reason(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="a GGUF file holds the whole model"):
        get(tmp_path / "here", "BF16", expert_format="int4")
    assert get(tmp_path / "here", "BF16", expert_format="auto") == {"Little-BF16.gguf", "LICENSE"}


def test_a_beginning_is_told_from_damage() -> None:
    data = gguf({"general.architecture": "olmoe"}, {"t": (0, (1,), bytes(4))})
    whole = Gguf(memoryview(data), "m")
    for length in (8, 30, 60):
        with pytest.raises(GgufCutError):
            Gguf(memoryview(data[:length]), "m", len(data))
    start = whole.tensors["t"].offset
    begun = Gguf(memoryview(data[:start]), "m", len(data))
    assert (begun.tensors, begun.nbytes("t")) == (whole.tensors, 4)
    with pytest.raises(CheckpointError, match="ends at byte"):
        Gguf(memoryview(data[:start]), "m").nbytes("t")
