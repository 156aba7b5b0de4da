"""What `run` prints, and where."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest

from colibri_tui.commands.output import JsonOutput, Progress, TextOutput, summary
from engine.events import Hits, Loading, Notice, Prefill, State, Token, Turn

TURN = Turn(5, 12, 1.234, 1.2, 2.0, 5.5, Hits(61, 31, 8), Hits(1, 2, 3), 1000, 8.0, "eos")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    @property
    def seen(self) -> str:
        """What stands on the line in the end, and on the lines above it."""
        return "\n".join(line.rpartition("\r\x1b[K")[2] for line in self.getvalue().split("\n"))


def text_output(out: io.StringIO, err: io.StringIO, *, quiet: bool = False, reasoning: bool = False) -> TextOutput:
    return TextOutput(out, err, Progress(err, quiet=quiet), quiet=quiet, reasoning=reasoning)


class TestProgress:
    def test_is_one_line_that_goes_away(self) -> None:
        err = Terminal()
        progress = Progress(err)
        progress.show("compiling\x1b kernels", 1, 4)
        assert err.seen == "compiling\u241b kernels 25 %"
        progress.clear()
        assert err.seen == ""

    def test_is_not_shown_more_often_than_one_can_read(self) -> None:
        err = Terminal()
        progress = Progress(err)
        for done in range(1000):
            progress.show("reading", done, 1000)
        assert err.getvalue().count("reading") < 500

    def test_a_stage_of_unknown_length(self) -> None:
        err = Terminal()
        Progress(err).show("waiting", 0, 0)
        assert err.seen == "waiting"

    @pytest.mark.parametrize(("err", "quiet"), [(io.StringIO(), False), (Terminal(), True)])
    def test_is_for_terminals(self, err: io.StringIO, quiet: bool) -> None:
        progress = Progress(err, quiet=quiet)
        progress.show("reading", 1, 2)
        progress.clear()
        assert err.getvalue() == ""


class TestText:
    def test_progress_makes_way_for_the_answer(self) -> None:
        out, err = io.StringIO(), Terminal()
        output = text_output(out, err)
        output.tell(Loading("reading", 1, 2))
        output.tell(Notice("the plan"))
        output.tell(Prefill(3, 4))
        assert err.seen == "the plan\nreading the prompt 75 %"
        output.tell(Token(1, "one"))
        assert err.seen == "the plan\n"
        assert out.getvalue() == "one"
        output.tell(TURN)
        assert out.getvalue() == "one\n"

    def test_what_became_of_the_context(self) -> None:
        out, err = io.StringIO(), io.StringIO()
        output = text_output(out, err)
        output.tell(State("loaded", "f", 1234, 85_000_000))
        output.tell(State("saved", "f", 1, 900))
        output.tell(State("loaded", "f", error="f: damaged; the conversation is read again"))
        assert err.getvalue() == (
            "context restored: 1,234 tokens, 85.0 MB\ncontext kept: 1 token, 900 B\n"
            "f: damaged; the conversation is read again\n"
        )
        assert out.getvalue() == ""

    def test_a_file_gets_the_answer_as_it_is(self) -> None:
        out = io.StringIO()
        output = text_output(out, io.StringIO(), quiet=True)
        for text in ("a\r", "\n\x1b[1m", ""):
            output.tell(Token(1, text))
        output.tell(TURN)
        assert out.getvalue() == "a\r\n\x1b[1m\n"

    def test_a_terminal_gets_nothing_it_would_obey(self) -> None:
        out = Terminal()
        output = text_output(out, io.StringIO())
        for text in ("a\r", "\n\x1b[1m\tb\n"):
            output.tell(Token(1, text))
        output.tell(TURN)
        assert out.getvalue() == "a\n\u241b[1m\tb\n"

    def test_a_remark_in_the_middle_of_an_answer_gets_its_own_line(self) -> None:
        screen = Terminal()
        output = text_output(screen, screen)
        output.tell(Token(1, "half"))
        output.tell(Notice("trace stopped"))
        assert screen.seen == "half\ntrace stopped\n"

    @pytest.mark.parametrize(("shown", "printed"), [(False, "It is\n"), (True, "<think>\nhm, so\n</think>\n\nIt is\n")])
    def test_reasoning_is_printed_where_it_was_asked_for(self, shown: bool, printed: str) -> None:
        out, err = io.StringIO(), Terminal()
        output = text_output(out, err, reasoning=shown)
        for token in (Token(1, "", "\nhm,"), Token(2, "", " so"), Token(3, ""), Token(4, "It"), Token(5, " is")):
            output.tell(token)
        output.tell(TURN)
        assert out.getvalue() == printed
        assert "hm" not in err.getvalue()
        assert ("thinking, 1 token" in err.getvalue()) is not shown
        assert "1 tokens" not in err.getvalue()

    def test_an_answer_that_never_came_is_told(self) -> None:
        out, err = io.StringIO(), io.StringIO()
        output = text_output(out, err, reasoning=True)
        output.tell(Token(1, "", "hm\n"))
        output.tell(TURN)
        assert out.getvalue() == "<think>\nhm\n</think>\n\n"
        assert err.getvalue().endswith("no answer after the reasoning\n")

    def test_quiet(self) -> None:
        out, err = io.StringIO(), Terminal()
        output = text_output(out, err, quiet=True)
        for event in (Loading("x", 1, 2), Notice("plan"), Prefill(1, 2), Token(1, "a"), TURN):
            output.tell(event)
        assert (out.getvalue(), err.getvalue()) == ("a\n", "")


def test_json_is_one_object_a_line_and_ascii() -> None:
    out, err = io.StringIO(), Terminal()
    output = JsonOutput(out, Progress(err))
    output.tell(Loading("reading", 1, 2))
    output.tell(Token(7, "é\x9b\n"))
    assert err.seen == ""
    assert out.getvalue().isascii()
    assert [json.loads(line) for line in out.getvalue().splitlines()] == [
        {"event": "token", "id": 7, "text": "é\x9b\n"}
    ]


@pytest.mark.parametrize(
    ("turn", "line"),
    [
        (TURN, "12 tokens, 5.50 tok/s, first token after 1.2 s, experts 61 % pinned, 31 % cached, 8 % from disk"),
        (
            replace(TURN, stop="length", hits=Hits(), tok_s=0.0),
            "12 tokens, first token after 1.2 s, cut at the token limit (--max-tokens, --context)",
        ),
        (replace(TURN, stop="user", tokens=0, hits=Hits(), tok_s=0.0), "0 tokens, interrupted"),
    ],
)
def test_summary(turn: Turn, line: str) -> None:
    assert summary(turn) == line
