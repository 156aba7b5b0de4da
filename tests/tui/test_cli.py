"""The command line: exit codes, streams, and what reaches the engine. Real processes, a fake engine."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from colibri_tui.cli import main
from engine.options import KNOBS
from tests.fake_engine import FACTORY, REPLY, write_model

PROGRAM = f"import sys; from colibri_tui.cli import main; sys.exit(main(factory={FACTORY!r}))"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment without a person's settings."""
    keep = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "SYSTEMROOT")}
    return {**keep, "COLIBRI_TUI_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


def start(arguments: list[Any], home: dict[str, str], **how: Any) -> subprocess.Popen[bytes]:
    how = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
    # A shell without job control has its background processes ignore Ctrl+C, and all that they start.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen([sys.executable, "-c", PROGRAM, *map(str, arguments)], env=home, **how)
    finally:
        signal.signal(signal.SIGINT, before)


def run(arguments: list[Any], home: dict[str, str], stdin: bytes | None = None, code: int = 0) -> tuple[str, str]:
    """Run the program to its end, check its exit code, return what it printed."""
    process = start(arguments, home, stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE)
    out, err = process.communicate(stdin, timeout=60)
    text = out.decode(), err.decode()
    assert process.returncode == code, text
    return text


def one_line(out: str, err: str) -> str:
    """Check that a refused command printed one line on stderr, and return it."""
    assert out == ""
    assert err.startswith("colibri-tui: ")
    assert err.count("\n") == 1
    return err


def events(arguments: list[Any], home: dict[str, str], stdin: bytes | None = None) -> list[dict[str, Any]]:
    out, _ = run(["run", *arguments, "--json"], home, stdin)
    return [json.loads(line) for line in out.splitlines()]


class TestRun:
    def test_the_answer_is_all_there_is_on_stdout(self, home: dict[str, str], model: Path) -> None:
        out, err = run(["run", model, "hello"], home)
        assert out == REPLY
        plan, figures = err.splitlines()
        assert plan.startswith("memory plan: ")
        assert figures.startswith("96 tokens, ")

    def test_quiet_says_nothing_else(self, home: dict[str, str], model: Path) -> None:
        assert run(["run", model, "hello", "--quiet", "--max-tokens", "2"], home) == ("A router\n", "")

    def test_reasoning_stays_out_of_the_answer(self, home: dict[str, str], tmp_path: Path) -> None:
        model = write_model(tmp_path / "thinks", reasoning="Let me see.", reply="It is.")
        assert run(["run", model, "hello", "-q"], home) == ("It is.\n", "")
        assert run(["run", model, "hello", "-q", "--raw"], home) == ("It is.\n", "")
        shown = "<think>\nLet me see.\n</think>\n\nIt is.\n"
        assert run(["run", model, "hello", "-q", "--show-reasoning"], home) == (shown, "")
        told = [event for event in events([model, "hello"], home) if event["event"] == "token"]
        assert [token["text"] for token in told] == ["", "", "", "It", " is."]
        assert [token.get("reasoning") for token in told] == ["Let", " me", " see.", None, None]

    def test_a_cut_answer_says_so(self, home: dict[str, str], model: Path) -> None:
        _, err = run(["run", model, "hello", "--max-tokens", "2"], home)
        assert "cut at the token limit" in err

    def test_json(self, home: dict[str, str], model: Path) -> None:
        told = events([model, "one two", "--max-tokens", "3"], home)
        assert [event["event"] for event in told] == [
            "notice", "ready", "prefill", "prefill", "token", "token", "token", "turn",
        ]  # fmt: skip
        ready, turn = told[1], told[-1]
        assert {"model", "family", "layers", "experts", "dense_bytes", "expert_bytes", "plan"} <= ready.keys()
        assert told[3] == {"event": "prefill", "done": 4, "total": 4}
        assert told[4] == {"event": "token", "id": 3, "text": "A"}
        assert turn.keys() == {
            "event", "prompt_tokens", "tokens", "ttft_s", "prefill_s", "decode_s", "tok_s", "hits", "prefill_hits",
            "bytes_read", "keff", "stop",
        }  # fmt: skip
        assert turn["hits"].keys() == {"pin", "cache", "disk"}
        assert turn["stop"] == "length"

    @pytest.mark.parametrize(
        ("arguments", "stdin", "tokens"),
        [
            (["three words here"], None, 5),
            (["three words here", "--system", "be brief"], None, 8),
            (["three words here", "--raw"], None, 3),
            (["--ids", "5, 6,7,8"], None, 4),
            (["-"], b"from the pipe\n", 5),
            ([], b"from the pipe, broken \xff byte", 8),
            (["an argument wins"], b"over the pipe and its words", 5),
        ],
    )
    def test_what_is_asked(
        self, home: dict[str, str], model: Path, arguments: list[str], stdin: bytes | None, tokens: int
    ) -> None:
        told = events([model, *arguments, "--max-tokens", "1"], home, stdin)
        assert told[-1]["prompt_tokens"] == tokens

    @pytest.mark.parametrize("options", [(), ("--raw",)])
    def test_a_pipes_last_line_end_is_not_the_prompts(
        self, home: dict[str, str], model: Path, options: tuple[str, ...]
    ) -> None:
        write_model(model, echo_prompt=True)
        out, _ = run(["run", model, *options, "-q"], home, b" two\nlines\n\r\n")
        assert json.loads(out) == " two\nlines\n"
        out, _ = run(["run", model, "an argument\n", *options, "-q"], home)
        assert json.loads(out) == "an argument\n"

    def test_an_argument_that_is_no_utf8(self, home: dict[str, str], model: Path) -> None:
        command = [os.fsencode(part) for part in (sys.executable, "-c", PROGRAM, "run", str(model))]
        result = subprocess.run([*command, b"caf\xe9"], env=home, capture_output=True, timeout=60)
        assert result.returncode == 0
        assert result.stdout.decode() == REPLY

    def test_the_model_chooses_what_is_not_asked_for(self, home: dict[str, str], model: Path) -> None:
        write_model(model, echo_sampling=True)
        out, _ = run(["run", model, "hello", "--temperature", "0", "--seed", "7"], home)
        assert json.loads(out) == {
            "max_tokens": None, "temperature": 0.0, "nucleus": 0.95, "seed": 7, "repetition": 1.0
        }  # fmt: skip

    def test_options_reach_the_engine(self, home: dict[str, str], model: Path) -> None:
        home["CTX"], home["RAM_GB"] = "100", "2"
        (ready,) = [event for event in events([model, "hi", "--ram", "3"], home) if event["event"] == "ready"]
        assert ready["context"] == 100
        assert ready["plan"]["budget"] == 3_000_000_000

    def test_control_characters_do_not_reach_a_terminal(self, home: dict[str, str], model: Path) -> None:
        write_model(model, reply="safe\x1b[2J\x9b text")
        master, slave = pty.openpty()
        with start(["run", model, "hello", "-q"], home, stdout=slave):
            os.close(slave)
            shown = b""
            while b"text" not in shown:
                shown += os.read(master, 1000)
        os.close(master)
        assert b"\x1b" not in shown
        assert "\x9b" not in shown.decode()
        out, _ = run(["run", model, "hello", "-q"], home)
        assert out == "safe\x1b[2J\x9b text\n"


class TestEnds:
    def test_ctrl_c_prints_what_came(self, home: dict[str, str], model: Path) -> None:
        write_model(model, length=10**6, token_s=0.01)
        process = start(["run", model, "hello"], home)
        assert process.stdout is not None
        first = process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert (first + out).decode().startswith("A")
        assert out.endswith(b"\n")
        assert b"interrupted" in err
        assert b"Traceback" not in err
        assert (model / "fake.log").exists(), "the engine was not closed"

    def test_ctrl_c_while_loading(self, home: dict[str, str], model: Path) -> None:
        write_model(model, load_s=30.0)
        process = start(["run", model, "hello"], home)
        deadline = time.monotonic() + 60
        while not (model / "fake.loading").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert b"Traceback" not in err

    def test_a_reader_that_leaves(self, home: dict[str, str], model: Path) -> None:
        write_model(model, length=10**6)
        process = start(["run", model, "hello"], home)
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read().decode()
        assert process.wait(60) == 0
        assert err.count("\n") == 1, "nothing but the plan"
        assert (model / "fake.log").exists(), "the engine was not closed"
        process.stderr.close()

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
    def test_a_full_disk(self, home: dict[str, str], model: Path) -> None:
        with Path("/dev/full").open("wb") as full:
            process = start(["run", model, "hello", "-q"], home, stdout=full)
            _, err = process.communicate(timeout=60)
        assert process.returncode == 1
        assert err == b"colibri-tui: the output cannot be written: No space left on device\n"

    def test_a_refused_model(self, home: dict[str, str], model: Path) -> None:
        write_model(model, refuse="model-2.safetensors is missing\n\x1b[31mdownload it again")
        line = one_line(*run(["run", model, "hello", "-q"], home, code=1))
        assert line == "colibri-tui: model-2.safetensors is missing\\n\\x1b[31mdownload it again\n"

    def test_an_error_in_the_turn(self, home: dict[str, str], model: Path) -> None:
        write_model(model, turn_error="shard 3: read failed", turn_error_at=1)
        out, err = run(["run", model, "hello", "--json"], home, code=1)
        assert json.loads(out.splitlines()[-1])["stop"] == "error"
        assert err == "colibri-tui: shard 3: read failed\n"

    def test_a_bug_is_one_line_and_a_traceback_for_debug(self, home: dict[str, str], model: Path) -> None:
        write_model(model, crash="exception", crash_at=0)
        _, err = run(["run", model, "hello", "-q"], home, code=1)
        assert err.startswith("colibri-tui: unexpected IndexError: ")
        assert err.count("\n") == 1
        _, err = run(["run", model, "hello", "-q", "--debug"], home, code=1)
        assert err.startswith("Traceback")


class TestRefusals:
    """Nothing is started: `main` is called in this process."""

    @pytest.fixture(autouse=True)
    def _environment(self, home: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
        for name in os.environ:
            if name not in home:
                monkeypatch.delenv(name)
        monkeypatch.setenv("COLIBRI_TUI_HOME", home["COLIBRI_TUI_HOME"])
        monkeypatch.setattr(sys, "excepthook", sys.excepthook)

    @pytest.fixture
    def refusal(self, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
        def call(*arguments: object, code: int) -> str:
            assert main([str(argument) for argument in arguments], factory=FACTORY) == code
            return one_line(*capsys.readouterr())

        return call

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["run"], "Missing argument 'MODEL'"),
            (["run", "demo", "hello", "--ram", "much"], "'much' is not a number for --ram"),
            (["run", "demo", "hello", "--topp", "2"], "--topp 2 is outside 0.01..1"),
            (["run", "demo", "hello", "--ids", "1"], "--ids takes the place of PROMPT"),
            (["run", "demo", "--ids", "1,x"], "'1,x' is not a list of token ids"),
            (["run", "demo", "hello", "--raw", "--system", "x"], "no --system"),
            (["run", "demo", "hello", "--raw", "--template", "x.jinja"], "use no --template"),
            (["run", "demo", "hello", "--json", "--show-reasoning"], "--json tells it anyway"),
            (["run", "demo", "hello", "--max-tokens", "0"], "'--max-tokens'"),
            (["run", "demo", "hello", "--loud"], "'--loud'"),
            (["demo", "again"], "unexpected extra argument"),
            (["--loud"], "(see colibri-tui --help)"),
            (["a", "b"], "unexpected extra argument"),
        ],
    )
    def test_wrong_usage_is_2(self, refusal: Callable[..., str], arguments: list[str], says: str) -> None:
        assert says in refusal(*arguments, code=2)

    @pytest.mark.parametrize("arguments", [["run", "olmo-7b", "hello"], ["olmo-7b"]])
    def test_no_such_model(self, refusal: Callable[..., str], home: dict[str, str], arguments: list[str]) -> None:
        write_model(Path(home["COLIBRI_TUI_HOME"]) / "data" / "models" / "olmoe-7b")
        assert "did you mean olmoe-7b?" in refusal(*arguments, code=1)

    def test_a_mistake_in_the_environment(
        self, refusal: Callable[..., str], monkeypatch: pytest.MonkeyPatch, model: Path
    ) -> None:
        monkeypatch.setenv("RAM_GB", "lots")
        assert "environment variable RAM_GB" in refusal("run", model, "hello", code=1)

    def test_a_profile_that_cannot_be(self, refusal: Callable[..., str], model: Path) -> None:
        assert "profile name 'a/b'" in refusal("run", model, "hello", "--profile", "a/b", code=1)

    def test_the_application_needs_a_terminal(self, refusal: Callable[..., str], model: Path) -> None:
        assert "needs a terminal" in refusal(model, code=1)

    def test_it_draws_on_the_error_output_so_that_is_a_terminal_too(
        self, refusal: Callable[..., str], model: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("stdin", "stdout"):
            monkeypatch.setattr(getattr(sys, name), "isatty", lambda: True)
        assert "needs a terminal" in refusal(model, code=1)


class TestHelp:
    def test_every_engine_option_is_listed_and_lossy_ones_say_so(self, home: dict[str, str]) -> None:
        for arguments in (["--help"], ["run", "--help"]):
            out, _ = run(arguments, home)
            entries = {entry.split()[0]: entry for entry in re.split(r"\n  (?=-)", out)}
            for knob in KNOBS:
                assert ("[lossy]" in entries[knob.flag]) == knob.lossy
            assert "--buffered" in entries["--direct"]
            assert "--no-learn" in entries["--learn"]

    def test_version(self, home: dict[str, str]) -> None:
        out, _ = run(["--version"], home)
        assert re.fullmatch(r"colibri-tui \S.*\n", out)

    def test_the_commands_are_listed(self, home: dict[str, str]) -> None:
        out, _ = run(["--help"], home)
        assert "[OPTIONS] [MODEL]" in out
        assert "(application)" not in out
        for name in ("run", "demo"):
            assert f"\n  {name} " in out


def test_what_was_read_is_kept_in_a_file_and_taken_from_there(home: dict[str, str], model: Path) -> None:
    file = model.parent / "kept.state"
    _, err = run(["run", model, "hello there", "--state", file], home)
    assert "context kept" in err
    assert "restored" not in err
    assert file.exists()
    states = [event for event in events([model, "hello there", "--state", file], home) if event["event"] == "state"]
    assert [(event["done"], event["error"]) for event in states] == [("loaded", ""), ("saved", "")]
    assert states[0]["path"] == str(file)
