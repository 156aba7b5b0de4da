"""The chat without a screen."""

import io
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from colibri_tui import paths
from colibri_tui.cli import main
from colibri_tui.commands import plain as plain_command
from colibri_tui.conversations import Conversations
from colibri_tui.journal import Journal
from colibri_tui.plain import PlainChat
from engine.options import EngineOptions
from tests.fake_engine import FACTORY, open_engine, write_model

ROOT = Path(__file__).parents[2]
SHORT = "A short answer.\nOf two lines."


@contextmanager
def never(_engine):
    yield []


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("COLIBRI_TUI_HOME", str(tmp_path / "home"))
    for name in ("ACCESSIBLE", "COLI_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def talk(tmp_path):
    """Return a function that writes lines into a plain chat and returns what came out, a line each."""

    def run(*lines: str, **script) -> list[str]:
        folder = write_model(tmp_path / "fake-moe", **{"reply": SHORT, **script})
        engine = open_engine(str(folder), EngineOptions(), progress=lambda event: None, shared_board=False)
        journal = Journal(lambda: Conversations(paths.database_path()), pytest.fail)
        out = io.StringIO()
        try:
            PlainChat(engine, journal, "fake-1", "default", out, never).run(lines)
        finally:
            engine.close()
            journal.close()
        return out.getvalue().splitlines()[1:]

    return run


def test_a_message_is_answered_line_by_line_and_kept(talk):
    assert talk("hello", "/quit", "never read") == SHORT.splitlines()
    store = Conversations(paths.database_path())
    messages = store.messages(store.latest().id)
    store.close()
    assert [(m.role, m.content, m.status) for m in messages] == [
        ("user", "hello", "done"),
        ("assistant", SHORT, "done"),
    ]


def test_a_backslash_goes_on_in_the_next_line(talk):
    assert talk("one\\", "two", echo_prompt=True) == ['"one\\ntwo"']


def test_nothing_that_a_terminal_obeys_comes_out(talk):
    out = talk("hello", reply="\x1b[31mred\x07 \x9b2J")
    assert out == ["␛[31mred␇ \ufffd2J"]


def test_commands(talk, tmp_path):
    out = talk(
        "/stats", "/export", "/more", "/regen", "/resume", "hello", "/regen", "/stats", "/temperature 0.5", "/seed x",
        "/export", "/export pdf", "/new", "/export", "/resume", "/theme", "/nonsense", "", "/help",
    )  # fmt: skip
    assert out[:5] == [
        "There was no answer yet.",
        "There is nothing to export yet.",
        "There is no answer to continue.",
        "There is no answer to regenerate.",
        "There is no conversation with this model yet.",
    ]
    assert out[5:9] == SHORT.splitlines() * 2
    assert "percent of experts from memory" in out[9]
    assert out[10].startswith("Temperature 0.5 in this conversation")
    assert "not a whole number" in out[11]
    assert out[12] == f"Exported to {tmp_path / 'hello.md'}"
    assert out[13:16] == [
        "There is no format “pdf”: md and json are.",
        "A new conversation begins.",
        "There is nothing to export yet.",
    ]
    assert out[16:20] == ["You: hello", "Model: A short answer.", "Of two lines.", "Back in “hello”."]
    assert out[20:22] == [
        "/theme needs the screen; /help tells what works here.",
        "There is no command /nonsense; /help lists the commands.",
    ]
    assert any(line.startswith("/quit:") for line in out[22:])


def test_an_answer_that_was_cut_goes_on(talk):
    assert talk("/max-tokens 2", "hello", "/more")[1:] == [
        "A short",
        "Cut off at the length limit; /more continues.",
        "A short",
        "Cut off at the length limit; /more continues.",
    ]


def test_what_the_engine_refuses_is_one_line(talk):
    assert "context window 16" in talk("word " * 50, "hello", context=16)[0]
    assert talk("hello", turn_error="layer 3: read failed", turn_error_at=1) == ["layer 3: read failed."]


def test_an_answer_without_a_word(talk):
    assert talk("hello", length=0) == ["There was no answer."]


@pytest.mark.parametrize("how", ["flag", "settings"])
def test_the_program_runs_without_a_terminal(tmp_path, how):
    model = write_model(tmp_path / "fake-moe", reply=SHORT)
    code = f"import sys; from colibri_tui.cli import main; sys.exit(main(sys.argv[1:], factory={FACTORY!r}))"
    arguments = [str(model), "--plain"] if how == "flag" else [str(model)]
    if how == "settings":
        paths.settings_path().parent.mkdir(parents=True)
        paths.settings_path().write_text("[ui]\nplain = true\n")
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        input="hello\n", capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    if how == "flag":
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[:1] + done.stdout.splitlines()[2:] == [
            "Loading the model.",
            *SHORT.splitlines(),
        ]
        assert "\x1b" not in done.stdout + done.stderr
    else:
        assert done.returncode == 1, "a pipe is no wish for a chat"
        assert "--plain" in done.stderr


def test_a_model_must_be_named(capsys):
    assert main(["--plain"], factory=FACTORY) == 1
    assert "which model?" in capsys.readouterr().err


class TestInterruptedPrompt:
    """Ctrl+C meets a prompt where an answer has just ended."""

    @pytest.fixture
    def typed(self, monkeypatch):
        """Play what is typed, and at which second; a KeyboardInterrupt is Ctrl+C. Return the lines there were."""

        def lines(*events: tuple[float, str | type[BaseException]]) -> Iterator[str]:
            left = list(events)

            def read(_prompt: str) -> str:
                second, what = left.pop(0)
                monkeypatch.setattr("colibri_tui.commands.plain.time.monotonic", lambda: second)
                if isinstance(what, str):
                    return what
                raise what

            monkeypatch.setattr("sys.stdin.isatty", lambda: True)
            monkeypatch.setattr("builtins.input", read)
            return plain_command._lines()

        return lines

    def test_once_goes_on(self, typed, capsys):
        lines = typed((0, "one"), (5, KeyboardInterrupt), (9, KeyboardInterrupt), (12, "two"), (13, EOFError))
        assert list(lines) == ["one", "two"]
        assert capsys.readouterr().out.count("Ctrl+C again, Ctrl+D or /quit ends.") == 2

    def test_twice_ends(self, typed):
        lines = typed((5, KeyboardInterrupt), (6, KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            list(lines)


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_a_paste_of_many_lines_is_one_message(term):
    """As a terminal sends it; one that can do nothing gets no escape sequence that asks for that."""
    code = "from colibri_tui.commands.plain import _lines; print('got', [*_lines()])"
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=ROOT,
        env={**os.environ, "TERM": term},
    ):
        os.close(slave)
        shown = b""
        while b"> " not in shown:
            shown += os.read(master, 1000)
        os.write(master, b"\x1b[200~one\rtwo\x1b[201~" if term == "xterm" else b"one")
        os.write(master, b"\r\x04")
        while b"got" not in shown:
            shown += os.read(master, 1000)
        while b"]" not in shown.partition(b"got")[2]:
            shown += os.read(master, 1000)
    os.close(master)
    assert shown.partition(b"got")[2].strip() == (rb"['one\ntwo']" if term == "xterm" else b"['one']")
    assert (b"\x1b" in shown) == (term == "xterm")
