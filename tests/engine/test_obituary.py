"""What a dead engine is said to have died of."""

from __future__ import annotations

import signal

import pytest

from engine.obituary import explain, last_words, one_line, oom_kills

TRACEBACK = """\
some earlier print
Traceback (most recent call last):
  File "engine.py", line 1, in run
    raise ValueError(text)
ValueError: tensor 'x' has 3 dimensions
"""
FAULT = """\
Fatal Python error: Segmentation fault

Thread 0x00007f (most recent call first):
  File "/a/engine/experts/reader.py", line 9 in wait

Current thread 0x00007e (most recent call first):
  File "/a/engine/model/forward.py", line 88 in forward
  File "/a/engine/engine.py", line 5 in generate
"""


def say(code: int, log: str = "", *, out_of_memory: bool = False, ram: float | None = None) -> str:
    return explain(code, log, out_of_memory=out_of_memory, ram=ram)


def test_killed_for_memory_is_said_with_the_certainty_there_is() -> None:
    assert "killed: out of memory; restart" in say(-signal.SIGKILL, out_of_memory=True)
    assert "out of memory, most likely; restart" in say(-signal.SIGKILL)
    assert "(--ram; it had 3.5 GB)" in say(-signal.SIGKILL, ram=3.5)


def test_a_crash_names_its_innermost_frame() -> None:
    assert say(-signal.SIGSEGV, FAULT) == (
        "the engine crashed: segmentation fault in forward (forward.py:88); restart it"
    )
    assert say(-signal.SIGBUS).startswith("the engine crashed: bus error; ")
    assert say(-63).startswith("the engine crashed: ")


def test_a_python_error_is_quoted() -> None:
    assert say(1, TRACEBACK) == (
        "the engine stopped unexpectedly (exit code 1): ValueError: tensor 'x' has 3 dimensions"
    )
    assert say(1, "MemoryError: Unable to allocate 3 GiB").startswith("the engine ran out of memory (MemoryError")


def test_no_last_words() -> None:
    assert say(3) == "the engine stopped unexpectedly (exit code 3) and left no word"


@pytest.mark.parametrize(
    ("log", "words"), [("", ""), ("a\n\n", "a"), ("a\n  b\n\tc\n", "a"), ("  only indented\n", "")]
)
def test_last_words(log: str, words: str) -> None:
    assert last_words(log) == words


def test_lines_are_fit_for_a_screen() -> None:
    assert one_line("a\n\x1b[31mb\x9bc\t d") == "a [31mb c  d"
    assert len(one_line("x" * 5000)) == 300


def test_the_kernels_count_only_grows() -> None:
    before = oom_kills()
    assert 0 <= before <= oom_kills()
