"""The program in a real terminal: what only a terminal can get wrong."""

from __future__ import annotations

import os
import re
import shutil
import signal

import psutil
import pytest

from tests.e2e.tmux import Terminal, application
from tests.fake_engine import write_model

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")


@pytest.fixture
def run(tmp_path):
    opened = []

    def start(*, width=100, height=30, env=None, **script) -> Terminal:
        model = write_model(tmp_path / "fake-moe", **script)
        command, environment = application(model, tmp_path / "home", **(env or {}))
        terminal = Terminal(command, width=width, height=height, env=environment)
        opened.append(terminal)
        return terminal

    yield start
    for terminal in opened:
        terminal.close()


def is_ready(screen: str) -> bool:
    return re.search(r"^ ready", screen, re.MULTILINE) is not None


def test_typing_during_an_answer_goes_into_the_composer(run):
    terminal = run(reply="word " * 2000, token_s=0.01)
    terminal.wait(is_ready)
    terminal.type("hello")
    terminal.keys("Enter")
    terminal.wait("word word")
    for letter in "while it answers":
        terminal.type(letter)
    terminal.wait("while it answers")
    terminal.keys("Escape")
    terminal.wait(is_ready)
    assert "while it answers" in terminal.screen()
    terminal.keys("C-q")
    terminal.wait(lambda _: terminal.ended)


def test_a_paste_of_200_lines_is_one_message(run):
    terminal = run(height=40, reply="Read.")
    terminal.wait(is_ready)
    terminal.paste("\n".join(f"line {n}" for n in range(200)))
    terminal.wait("line 199")
    terminal.keys("Enter")
    shown = terminal.wait("Read.")
    assert "line 199" in shown
    terminal.wait(is_ready)
    assert terminal.screen().count("Read.") == 1


def test_escape_before_the_first_token_gives_the_prompt_back(run):
    terminal = run(prefill_s=60.0)
    terminal.wait(is_ready)
    terminal.type("think about it")
    terminal.keys("Enter")
    terminal.wait("reading the prompt")
    terminal.keys("Escape")
    terminal.wait(is_ready)
    terminal.type(" again")
    terminal.wait("think about it again")


def test_a_killed_engine_is_explained_and_comes_back(run):
    terminal = run(reply="word " * 2000, token_s=0.02)
    terminal.wait(is_ready)
    terminal.type("hello")
    terminal.keys("Enter")
    terminal.wait("word word")
    engine = next(
        child
        for child in psutil.Process(terminal.pid).children(recursive=True)
        if "worker_host" in " ".join(child.cmdline())
    )
    os.kill(engine.pid, signal.SIGKILL)
    terminal.wait("engine died")
    shown = terminal.wait("[ restart with less memory ]")
    assert "word word" in shown, "what was answered stays"
    terminal.type("/restart")
    terminal.keys("Enter")
    terminal.wait(is_ready)


def test_ctrl_c_twice_quits_and_leaves_the_terminal_clean(run):
    terminal = run()
    terminal.wait(is_ready)
    terminal.keys("C-c")
    terminal.wait("again quits")
    terminal.keys("C-c")
    terminal.wait(lambda _: terminal.ended)
    assert "Traceback" not in terminal.screen()


def test_a_small_linux_console_without_colour(run):
    terminal = run(width=80, height=24, env={"NO_COLOR": "1", "TERM": "linux"}, reply="Short.")
    terminal.wait(is_ready)
    terminal.type("hello")
    terminal.keys("Enter")
    terminal.wait(lambda shown: "Short." in shown and "hit " in shown)


def test_the_draft_is_written_in_an_editor_and_edited_again_once_it_is_sent(run):
    terminal = run(reply="a short answer", env={"EDITOR": "sed -i s/hello/edited/", "VISUAL": ""})
    terminal.wait(is_ready)
    terminal.type("hello there")
    terminal.wait("hello there")
    terminal.keys("C-g")
    terminal.wait("edited there")
    terminal.keys("Enter")
    terminal.wait("a short answer")
    terminal.wait(is_ready)
    terminal.keys("M-e")
    terminal.wait("Editing:")
