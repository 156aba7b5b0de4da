"""The real engine on a tiny model, from the command line and in its own process. Kernels are compiled once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.errors import WorkerDiedError
from engine.events import Prefill, Ready, Token, Turn
from engine.options import EngineOptions
from engine.text.sampler import Sampling
from engine.wire import LoadState, SaveState
from engine.worker import Worker
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import write

ROOT = Path(__file__).parents[2]
PROMPT = [3, 14, 15, 92, 65, 35]
GREEDY = Sampling(max_tokens=8, temperature=0.0)
PATIENCE = 300.0


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("models") / "tiny", CASES["olmoe"])


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """No person's settings; the compiled kernels are shared with the other tests."""
    (tmp_path / "settings.toml").touch()
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "COLIBRI_CONFIG_PATH": str(tmp_path / "settings.toml"),
        "COLI_USAGE": str(tmp_path / "usage"),
    }


def colibri(environment: dict[str, str], *arguments: object, code: int = 0) -> tuple[str, str]:
    command = [sys.executable, "-m", "colibri_tui", *map(str, arguments)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == code, result.stderr
    return result.stdout, result.stderr


def tokens(environment: dict[str, str], model: Path, *options: object) -> list[int]:
    ids = ",".join(map(str, PROMPT))
    out, _ = colibri(environment, "run", model, "--ids", ids, "--json", "--temperature", 0, "--max-tokens", 8, *options)
    told: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    assert {event["event"] for event in told} <= {"notice", "ready", "prefill", "token", "turn"}
    (turn,) = [event for event in told if event["event"] == "turn"]
    ids_told = [event["id"] for event in told if event["event"] == "token"]
    assert (turn["prompt_tokens"], turn["tokens"], turn["stop"]) == (len(PROMPT), len(ids_told), "length")
    return ids_told


def test_placement_does_not_change_what_is_said(environment: dict[str, str], model: Path, tmp_path: Path) -> None:
    scarce = tokens(environment, model, "--cap", 1, "--route-trace", tmp_path / "trace")
    assert len(scarce) == 8
    assert scarce == tokens(environment, model, "--buffered", "--threads", 1)
    assert scarce == from_a_worker(Worker.start(model, EngineOptions(cap=2)))
    assert (tmp_path / "usage").read_text().startswith("-1 3 9\n")
    assert (tmp_path / "trace").read_text().startswith("0 0 0 ")


def from_a_worker(worker: Worker) -> list[int]:
    """The reply of the engine in its own process."""
    said: list[int] = []
    worker.complete(1, PROMPT, GREEDY)
    while not said or worker.busy:
        tagged = worker.receive(PATIENCE)
        assert tagged is not None
        if isinstance(tagged.event, Token):
            said.append(tagged.event.id)
    assert worker.board is not None
    assert worker.board.last_use.max() > 0
    worker.close()
    return said


def test_text_needs_a_tokenizer(environment: dict[str, str], model: Path) -> None:
    out, err = colibri(environment, "run", model, "hello", "-q", code=1)
    assert out == ""
    assert err.count("\n") == 1
    assert "tokenizer.json" in err


def test_a_missing_shard_is_refused(environment: dict[str, str], model: Path, tmp_path: Path) -> None:
    broken = write(tmp_path / "broken", CASES["olmoe"])
    for shard in broken.glob("*.safetensors"):
        shard.unlink()
    _, err = colibri(environment, "run", broken, "--ids", "1", "-q", code=1)
    assert err.startswith("colibri-tui: ")
    assert err.count("\n") == 1


def test_the_death_of_the_engine_is_noticed(model: Path) -> None:
    worker = Worker.start(model, EngineOptions())
    worker.complete(1, PROMPT, Sampling(max_tokens=4000, temperature=0.0))
    event: object = None
    while not isinstance(event, Token):
        assert not isinstance(event, Turn)
        tagged = worker.receive(PATIENCE)
        assert tagged is not None
        event = tagged.event
    assert isinstance(worker.info, Ready)
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(WorkerDiedError, match="killed"):
        drain(worker)
    worker.close()


def drain(worker: Worker) -> None:
    """Read to the bitter end."""
    while worker.receive(PATIENCE) is not None:
        pass


def test_what_was_read_is_kept_in_a_file(environment: dict[str, str], model: Path, tmp_path: Path) -> None:
    """The second run reads one token and answers the same."""
    ids, file = ",".join(map(str, PROMPT)), tmp_path / "kept.state"

    def run(*options: object) -> tuple[int, list[int], list[str]]:
        """Tokens read, ids of the answer, what was said of the file."""
        command = ("run", model, "--ids", ids, "--json", "--temperature", 0, "--max-tokens", 8, "--state", file)
        told = [json.loads(line) for line in colibri(environment, *command, *options)[0].splitlines()]
        read = next(event["total"] for event in told if event["event"] == "prefill")
        states = [f"{event['done']} {event['error']}" for event in told if event["event"] == "state"]
        return read, [event["id"] for event in told if event["event"] == "token"], states

    first, answer, told = run()
    assert (first, told) == (len(PROMPT), ["saved "])
    assert run("--cap", 1) == (1, answer, ["loaded ", "saved "])


def test_a_conversation_outlives_its_process(model: Path, tmp_path: Path) -> None:
    """Kept when the worker is closed, taken up by the next one."""
    file = str(tmp_path / "kept" / "1.state")
    answers = []
    for first in (True, False):
        worker = Worker.start(model, EngineOptions(usage=str(tmp_path / "usage"), context=512))
        try:
            if not first:
                worker.between_turns(LoadState(file))
            worker.complete(1, PROMPT, GREEDY)
            events: list[Any] = []
            while not events or not isinstance(events[-1], Turn):
                tagged = worker.receive(PATIENCE)
                assert tagged is not None
                events.append(tagged.event)
            answers.append([event.id for event in events if isinstance(event, Token)])
            assert next(event.total for event in events if isinstance(event, Prefill)) == (len(PROMPT) if first else 1)
            if first:
                worker.between_turns(SaveState(file))
        finally:
            worker.close()
    assert answers[0] == answers[1]
