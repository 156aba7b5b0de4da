"""`colibri-tui trace`: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from colibri_tui.cli import main
from tests.engine.experts.traces import trace_of, write_trace


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two layers; a prompt of three tokens, then eight more."""
    prompt = {0: [[0, 1], [2, 3], [0, 4]], 2: [[5, 1], [5, 2], [6, 0]]}
    tokens = [{0: [[number % 3, 7]], 2: [[number % 2, 5]]} for number in range(8)]
    return write_trace(tmp_path / "trace", trace_of([prompt, *tokens]))


def run(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> tuple[str, str]:
    assert main(["trace", *map(str, arguments)]) == code
    out, err = capsys.readouterr()
    return out, err


def json_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    out, _ = run(capsys, *arguments, "--json")
    result: dict[str, Any] = json.loads(out)
    return result


def test_simulate(capsys: pytest.CaptureFixture[str], trace: Path) -> None:
    result = json_of(capsys, "simulate", trace, "--cap", "2,8", "--policy", "lru,min")
    assert result["lines"] == 22
    assert result["layers"] == [0, 2]
    assert [(row["cap"], row["policy"]) for row in result["results"]] == [
        (2, "lru"), (2, "min"), (8, "lru"), (8, "min"),
    ]  # fmt: skip
    large = result["results"][2]
    assert large["layer"] is None
    assert (large["prefill_hits"], large["prefill_misses"]) == (0, 10)
    assert (large["hits"], large["misses"]) == (31, 1)
    assert large["rate"] == 31 / 42
    assert large["gap_share"] is None


def test_simulate_layer_by_layer(capsys: pytest.CaptureFixture[str], trace: Path) -> None:
    one = json_of(capsys, "simulate", trace, "--cap", "3", "--policy", "auto")["results"]
    apart = json_of(capsys, "simulate", trace, "--cap", "3", "--policy", "auto", "--per-layer")["results"]
    assert [row["layer"] for row in apart] == [0, 2]
    assert sum(row["hits"] for row in apart) == one[0]["hits"]


def test_simulate_for_people(capsys: pytest.CaptureFixture[str], trace: Path) -> None:
    out, _ = run(capsys, "simulate", trace)
    for word in ("auto", "lru", "lfu", "lfuda", "lfru", "s3fifo", "clock", "streak", "min", "optimum", "100.0"):
        assert word in out
    assert [line.split()[0] for line in out.splitlines() if line.split()[0].isdigit()] == ["1", "2", "3", "4", "6"] * 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cap", "0"], "at least one slot"),
        (["--cap", "a"], "whole numbers"),
        (["--policy", "magic"], "'magic' is none of auto, lru"),
    ],
)
def test_simulate_refuses(capsys: pytest.CaptureFixture[str], trace: Path, arguments: list[str], said: str) -> None:
    out, err = run(capsys, "simulate", trace, *arguments, code=2)
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


def test_stats(capsys: pytest.CaptureFixture[str], trace: Path) -> None:
    result = json_of(capsys, "stats", trace)
    first = result["layers"][0]
    assert (first["layer"], first["tokens"], first["forwards"], first["prefills"]) == (0, 11, 9, 1)
    assert (first["experts_a_token"], first["experts_used"]) == (2.0, 6)
    assert 0 < result["recall"]["previous_token"] < 1
    assert result["recall"]["one_layer_on"] is None
    assert 0 < result["recall"]["two_layers_on"] < 1
    out, _ = run(capsys, "stats", trace)
    assert "previous token:" in out


def test_coverage(capsys: pytest.CaptureFixture[str], trace: Path) -> None:
    result = json_of(capsys, "coverage", trace)
    assert result["experts"] == {"0": 8, "2": 7}
    assert result["touched"]["11"] == 11 / 15
    assert result["cover"]["0"]["0.5"] == 2
    out, _ = run(capsys, "coverage", trace)
    assert "73.3 %" in out


def test_pairs(capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path) -> None:
    out, _ = run(capsys, "pairs", trace)
    assert out.startswith(f"{tmp_path / '.coli_pairs'}: 6 experts")
    assert (tmp_path / ".coli_pairs").read_text().startswith("COLIPAIRS 1 6\n0 2 0 ")
    _, err = run(capsys, "pairs", trace, "--out", tmp_path / "missing" / "pairs", code=1)
    assert "cannot be written" in err


def test_malformed_lines_are_named_on_stderr(capsys: pytest.CaptureFixture[str], trace: Path) -> None:
    with trace.open("a") as file:
        file.write("nonsense\n" * 7)
    out, err = run(capsys, "coverage", trace, "--json")
    assert json.loads(out)["malformed"] == 7
    assert err.splitlines()[0] == f"{trace}: line 23: a call number, a row and a layer must come first"
    assert err.splitlines()[-1] == "2 more malformed lines were skipped"


@pytest.mark.parametrize("command", ["simulate", "stats", "coverage", "pairs"])
def test_what_is_no_trace_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str) -> None:
    path = tmp_path / "notes"
    path.write_text("no trace\n")
    out, err = run(capsys, command, path, code=1)
    assert out == ""
    assert "line 1" in err
    assert "no route trace" in err
    assert err.count("\n") == 1
    run(capsys, command, tmp_path / "missing", code=2)
