"""Pulling from a hub whose connection is cut, which lies, is slow, gated or gone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from colibri_tui.hub.pull import NOTE, Request, pull, pull_folder
from colibri_tui.hub.transfer import Patience
from engine.checkpoint.index import Checkpoint
from engine.convert import convert_model
from engine.convert.run import work_folder
from engine.errors import EngineError
from tests.engine.test_convert_run import digest
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import tensors
from tests.oracle.quantised import write as write_shards
from tests.oracle.safetensors_file import stored

from .hub_server import COMMIT, Hub, serving

OLMOE = CASES["olmoe"]
REPO = "someone/Little-MoE"
BRISK = Patience(timeout=0.5, pauses=(0.0, 0.0, 0.0))
SHARD = "model-00002-of-00004.safetensors"
USAGE = namedtuple("USAGE", "total used free")
ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(params=[False], ids=["direct"])
def hub(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(cdn=request.param) as hub:
        hub.add(REPO, original(tmp_path / "original"))
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        yield hub


def original(folder: Path) -> Path:
    """A model in four shards, among files that nobody needs."""
    files = {name: stored(values, dtype) for name, (dtype, values) in tensors(OLMOE).items()}
    write_shards(folder, OLMOE.config, files, 4)
    shards = sorted(path.name for path in folder.glob("*.safetensors"))
    names = {name: shards[i % len(shards)] for i, name in enumerate(files)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "README.md").write_text("# nothing that is needed")
    (folder / "pytorch_model.bin").write_bytes(b"x" * 1000)
    (folder / "consolidated.safetensors").write_bytes(b"y" * 1000)
    (folder / "original").mkdir()
    (folder / "original" / "weights.safetensors").write_bytes(b"z" * 1000)
    return folder


def get(target: Path, **changes: Any) -> list[tuple[str, int, int]]:
    told: list[tuple[str, int, int]] = []
    pull(Request(**{"repo": REPO, "revision": None, "target": target, "patience": BRISK, **changes}),
         lambda *said: told.append(said))  # fmt: skip
    return told


def same_files(target: Path, source: Path) -> bool:
    return all(path.read_bytes() == (source / path.name).read_bytes() for path in target.iterdir() if path.name != NOTE)


def left_over(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("."))


@pytest.mark.parametrize("hub", [False, True], ids=["direct", "redirected"], indirect=True)
def test_what_a_model_needs_and_nothing_else(hub: Hub, tmp_path: Path) -> None:
    told = get(tmp_path / "here")
    found = {path.name for path in (tmp_path / "here").iterdir()}
    shards = {path.name for path in (tmp_path / "original").glob("model-0*.safetensors")}
    assert len(shards) == 4
    assert found == {NOTE, "config.json", "tokenizer.json", "model.safetensors.index.json", *shards}
    assert same_files(tmp_path / "here", tmp_path / "original")
    Checkpoint.open(tmp_path / "here")
    assert left_over(tmp_path) == []
    downloading = [(done, total) for stage, done, total in told if stage == "downloading"]
    assert downloading == sorted(downloading)
    assert downloading[-1][0] == downloading[-1][1]
    assert json.loads((tmp_path / "here" / NOTE).read_text())["commit"] == COMMIT


@pytest.mark.parametrize("hub", [True], ids=["redirected"], indirect=True)
def test_the_token_stays_with_the_hub(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repositories[REPO].gated = True
    monkeypatch.setenv("HF_TOKEN", hub.token)
    get(tmp_path / "here")
    assert {auth for _, path, _, auth in hub.log if path.startswith("/cdn")} == {None}
    assert {auth for _, path, _, auth in hub.log if not path.startswith("/cdn")} == {f"Bearer {hub.token}"}


@pytest.mark.parametrize("hub", [False, True], ids=["direct", "redirected"], indirect=True)
def test_a_connection_that_is_cut_ten_times(hub: Hub, tmp_path: Path) -> None:
    size = len(hub.repositories[REPO].files[SHARD])
    hub.faults[SHARD] = [("", 0), *[("cut", size // 12)] * 10]
    get(tmp_path / "here")
    assert same_files(tmp_path / "here", tmp_path / "original")
    starts = [asked for asked in hub.requests(SHARD) if asked and asked.endswith("-")]
    assert len(set(starts)) == 10
    head = min(size, 1 << 16)
    assert hub.sent[SHARD] == size + head


@pytest.mark.parametrize(
    "fault",
    [("whole", 0), ("long", 100), ("stall", 1), ("status", 503), ("status", 429), ("lie", 0), ("shift", 0), ("cut", 0)],
)
def test_a_server_that_misbehaves_twice(fault: tuple[str, int], hub: Hub, tmp_path: Path) -> None:
    hub.faults[SHARD] = [("", 0), ("cut", 1000), fault, ("cut", 500), fault]
    get(tmp_path / "here")
    assert same_files(tmp_path / "here", tmp_path / "original")


def test_a_server_that_stops_for_good(hub: Hub, tmp_path: Path) -> None:
    hub.faults[SHARD] = [("", 0), ("cut", 1000), *[("cut", 0)] * 4]
    with pytest.raises(EngineError, match=r"stopped sending model-00002-of-00004.safetensors .*what has come is kept"):
        get(tmp_path / "here")
    assert (pull_folder(tmp_path / "here") / (SHARD + ".part")).stat().st_size == 1000
    get(tmp_path / "here")
    assert "bytes=1000-" in hub.requests(SHARD)
    assert same_files(tmp_path / "here", tmp_path / "original")


def test_content_that_is_never_right(hub: Hub, tmp_path: Path) -> None:
    hub.faults[SHARD] = [("", 0), *[("lie", 0)] * 9]
    with pytest.raises(EngineError, match="other content than the hub's list says"):
        get(tmp_path / "here")
    assert not (tmp_path / "here").exists()
    assert not (pull_folder(tmp_path / "here") / SHARD).exists()


def test_after_giving_up_it_goes_on(hub: Hub, tmp_path: Path) -> None:
    class EnoughError(Exception):
        pass

    def progress(stage: str, done: int, total: int) -> None:
        if stage == "downloading" and done:
            raise EnoughError

    with pytest.raises(EnoughError):
        pull(Request(REPO, None, tmp_path / "here", patience=BRISK), progress)
    get(tmp_path / "here")
    assert same_files(tmp_path / "here", tmp_path / "original")


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def killed(arguments: list[str], hub: Hub, home: Path, until: Any) -> None:
    """Run the program and kill it as soon as `until` is true."""
    env = {**os.environ, "COLIBRI_TUI_HOME": str(home), "PYTHONPATH": str(ROOT), "HF_ENDPOINT": hub.address}
    child = subprocess.Popen([sys.executable, "-m", "colibri_tui", *arguments], env=env, stderr=subprocess.PIPE)
    end = time.monotonic() + 60
    while not until():
        assert child.poll() is None, child.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    child.communicate()


def test_after_a_kill_it_goes_on(hub: Hub, tmp_path: Path) -> None:
    home = tmp_path / "home"
    target = home / "data" / "models" / "Little-MoE"
    part = pull_folder(target) / (SHARD + ".part")
    hub.faults[SHARD] = [("", 0), ("cut", 1000), *[("stall", 60)] * 3]
    killed(["pull", REPO], hub, home, lambda: size_of(part) == 1000)
    hub.faults.clear()
    get(target)
    assert "bytes=1000-" in hub.requests(SHARD)
    assert same_files(target, tmp_path / "original")


def test_a_second_time_there_is_nothing_to_do(hub: Hub, tmp_path: Path) -> None:
    request = Request(REPO, None, tmp_path / "here", patience=BRISK)
    assert pull(request, lambda *_: None)
    count = len(hub.log)
    assert not pull(request, lambda *_: None)
    assert len(hub.log) == count + 1


def test_another_model_is_not_overwritten(hub: Hub, tmp_path: Path) -> None:
    hub.add("other/Little-MoE", tmp_path / "original")
    get(tmp_path / "here")
    with pytest.raises(EngineError, match="there is something already"):
        get(tmp_path / "here", repo="other/Little-MoE")


def test_files_that_changed_meanwhile_come_anew(hub: Hub, tmp_path: Path) -> None:
    hub.faults[SHARD] = [("", 0), *[("cut", 0)] * 4]
    with pytest.raises(EngineError):
        get(tmp_path / "here")
    repository = hub.repositories[REPO]
    repository.commit = "f" * 40
    repository.files["tokenizer.json"] = b'{"new": 1}'
    get(tmp_path / "here")
    assert (tmp_path / "here" / "tokenizer.json").read_bytes() == b'{"new": 1}'


@pytest.mark.parametrize("token", [None, "hf_of_another"])
def test_a_gated_model(token: str | None, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repositories[REPO].gated = True
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(EngineError) as caught:
        get(tmp_path / "here")
    said = str(caught.value)
    assert said.startswith(f"{REPO} is gated")
    assert f"{hub.address}/{REPO}" in said
    assert ("has not been let in" if token else "hf auth login") in said
    assert "hf_" not in said


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"repo": "someone/nothing"}, "someone/nothing: no such model at http"),
        ({"repo": "a/b/c/d"}, "'a/b/c/d' is no repository's name"),
        ({"revision": "v9"}, "there is no revision 'v9'"),
        ({"pattern": "Q4"}, "no .*gguf in it"),
    ],
)
def test_what_is_not_there(request_: dict[str, Any], said: str, hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=said):
        get(tmp_path / "here", **request_)


@pytest.mark.parametrize(
    ("status", "token", "said"),
    [
        (401, None, "wants to know who asks"),
        (401, "hf_wrong", "does not accept the token"),
        (403, "hf_wrong", "refuses main"),
        (404, None, "answered 404"),
    ],
)
def test_a_hub_that_refuses(
    status: int, token: str | None, said: str, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.faults[REPO] = [("status", status)]
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(EngineError, match=said) as caught:
        get(tmp_path / "here")
    assert "hf_wrong" not in str(caught.value)


def test_a_hub_that_is_not_there(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(EngineError, match=r"cannot be reached .*check the network and HF_ENDPOINT"):
        get(tmp_path / "here")


def test_offline(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(EngineError, match="offline mode is on"):
        get(tmp_path / "here")
    monkeypatch.setattr("colibri_tui.hub.pull.cached_models", lambda: {REPO: tmp_path})
    with pytest.raises(EngineError, match="is in the hub's cache: open it by that"):
        get(tmp_path / "here")
    assert hub.log == []


def test_too_little_room(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: USAGE(10**9, 10**9, 1000))
    with pytest.raises(EngineError, match="are still to come; make room"):
        get(tmp_path / "here")


def test_a_model_that_cannot_be_run_is_refused_before_it_is_fetched(hub: Hub, tmp_path: Path) -> None:
    files = hub.repositories[REPO].files
    files["config.json"] = json.dumps({**OLMOE.config, "model_type": "llama"}).encode()
    with pytest.raises(EngineError, match="llama"):
        get(tmp_path / "here")
    assert all(asked == "bytes=0-65535" or asked is None or asked.startswith("bytes=0-")
               for asked in hub.requests(SHARD))  # fmt: skip
    assert len(hub.requests(SHARD)) == 1


def test_a_name_that_leads_elsewhere_is_ignored(hub: Hub, tmp_path: Path) -> None:
    hub.repositories[REPO].files["../../evil.safetensors"] = b"x"
    get(tmp_path / "here")
    assert not list(tmp_path.rglob("evil*"))


def test_auto_converts_what_has_many_bits(hub: Hub, tmp_path: Path) -> None:
    get(tmp_path / "here", expert_format="auto")
    assert json.loads((tmp_path / "here" / "colibri.json").read_text())["experts"] == "int4"
    hub.add("someone/converted", tmp_path / "here")
    get(tmp_path / "there", repo="someone/converted", expert_format="auto")
    here, there = digest(tmp_path / "here"), digest(tmp_path / "there")
    assert here.pop(NOTE) != there.pop(NOTE)
    assert here == there
    assert left_over(tmp_path) == []
    assert not pull(Request(REPO, None, tmp_path / "here", expert_format="auto"), lambda *_: None)


class TestConverting:
    def test_the_result_is_that_of_converting_afterwards(self, hub: Hub, tmp_path: Path) -> None:
        told = get(tmp_path / "here", expert_format="int4")
        (tmp_path / "original" / "consolidated.safetensors").unlink()
        convert_model(tmp_path / "original", tmp_path / "there", expert_format="int4")
        here, there = digest(tmp_path / "here"), digest(tmp_path / "there")
        for folder in (here, there):
            folder.pop("colibri.json")
            folder.pop(NOTE, None)
        assert here == there
        record = json.loads((tmp_path / "here" / "colibri.json").read_text())
        assert record["source"] == {"repo": REPO, "commit": COMMIT}
        assert left_over(tmp_path) == []
        assert {stage for stage, _, _ in told} >= {"downloading", "verifying"}

    def test_no_more_than_a_few_shards_lie_on_the_disk(self, hub: Hub, tmp_path: Path) -> None:
        target = tmp_path / "here"
        most = 0

        def progress(stage: str, done: int, total: int) -> None:
            nonlocal most
            shards = pull_folder(target) / "shards"
            most = max(most, len(list(shards.glob("*.safetensors*")))) if shards.exists() else most

        pull(Request(REPO, None, target, expert_format="int8", patience=BRISK), progress)
        assert 0 < most <= 4

    def test_after_a_kill_only_the_rest_is_fetched(self, hub: Hub, tmp_path: Path) -> None:
        target = tmp_path / "home" / "data" / "models" / "Little-MoE-int4"
        last = "model-00004-of-00004.safetensors"
        hub.faults[last] = [("", 0), ("cut", 2000), *[("stall", 60)] * 3]
        part = pull_folder(target) / "shards" / (last + ".part")
        killed(
            ["pull", REPO, "--convert", "int4"], hub, tmp_path / "home",
            lambda: size_of(part) == 2000,
        )  # fmt: skip
        hub.faults.clear()
        get(target, expert_format="int4")
        assert "bytes=2000-" in hub.requests(last)
        (tmp_path / "original" / "consolidated.safetensors").unlink()
        convert_model(tmp_path / "original", tmp_path / "there", expert_format="int4")
        same = [name for name in digest(target) if name.endswith(".safetensors")]
        assert all(digest(target)[name] == digest(tmp_path / "there")[name] for name in same)
        assert not work_folder(target).exists()
