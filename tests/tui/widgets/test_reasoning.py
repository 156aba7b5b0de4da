"""Reasoning in the transcript: one line, opened by click or key, and the same however it arrived."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri_tui.render.rows import Layout
from colibri_tui.thought import Thought
from colibri_tui.widgets import reasoning as module
from colibri_tui.widgets import tail_view
from colibri_tui.widgets.message_view import TranscriptMessage
from colibri_tui.widgets.reasoning import Reasoning
from tests.tui.widgets.hosts import ChatHost

THOUGHT = "First this.\n\nThen that."
SAID = TranscriptMessage("assistant", "It is.", reasoning=THOUGHT, thought="thought for 12 s, 340 tokens")
FOLDED = ["  ▸ thought for 12 s, 340 tokens", "", "  It is."]
OPENED = ["  ▾ thought for 12 s, 340 tokens", "  │ First this.", "  │", "  │ Then that.", "", "  It is."]


@pytest.fixture(autouse=True)
def _draw_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_view, "SHARE", 0)
    monkeypatch.setattr(module, "_LABEL_SECONDS", 0)


@pytest.mark.parametrize(
    ("thought", "growing", "label"),
    [
        (Thought("x", 12.3, 340), False, "thought for 12 s, 340 tokens"),
        (Thought("x", 200, 1), False, "thought for 3 min 20 s, 1 token"),
        (Thought("x"), False, "thought"),
        (Thought("x", 0.0, 3), False, "thought for 3 tokens"),
        (Thought("x", 2.0, 30), True, "thinking, 2.0 s, 30 tokens"),
        (Thought("x"), True, "thinking"),
    ],
)
def test_the_line_that_stands_for_it(thought: Thought, growing: bool, label: str) -> None:
    assert thought.label(growing=growing) == label


async def test_it_is_folded_and_a_click_opens_it() -> None:
    app = ChatHost([SAID])
    async with app.run_test(size=(50, 16)) as pilot:
        await pilot.pause()
        assert app.screen_lines()[:3] == FOLDED
        await pilot.click(app.views[0], offset=(4, 0))
        await pilot.pause()
        assert app.screen_lines()[:6] == OPENED
        await pilot.click(app.views[0], offset=(4, 5))
        assert app.screen_lines()[:6] == OPENED
        await pilot.click(app.views[0], offset=(4, 0))
        await pilot.pause()
        assert app.screen_lines()[:3] == FOLDED


async def test_one_key_opens_all_of_them_and_those_to_come() -> None:
    app = ChatHost([SAID, SAID])
    async with app.run_test(size=(50, 20)) as pilot:
        app.transcript.toggle_reasoning()
        app.transcript.start_reply()
        app.transcript.feed_reasoning("Now", "thinking")
        await pilot.pause()
        lines = app.screen_lines()
        assert lines[:13] == [*OPENED, "", *OPENED]
        assert lines[14:16] == ["  ▾ thinking", "  │ Now▌"]
        app.transcript.toggle_reasoning()
        await pilot.pause()
        assert app.screen_lines()[:9] == [*FOLDED, "", *FOLDED, "", "  ▸ thinking▌"]


async def test_an_answer_is_copied_without_it() -> None:
    app = ChatHost([SAID])
    async with app.run_test(size=(50, 16)) as pilot:
        app.transcript.toggle_reasoning()
        await pilot.pause()
        assert app.transcript.last_answer() == "It is."
        assert app.views[0].source == "It is."
        assert app.transcript.last_reasoning() == THOUGHT


@pytest.mark.parametrize("opened", [False, True])
async def test_what_arrives_looks_like_what_is_loaded(opened: bool) -> None:
    app = ChatHost()
    async with app.run_test(size=(50, 16)) as pilot:
        if opened:
            app.transcript.toggle_reasoning()
        app.transcript.start_reply()
        for number, character in enumerate(f"\n{THOUGHT}\n"):
            app.transcript.feed_reasoning(character, f"thinking, {number} tokens")
            if number % 5 == 0:
                await pilot.pause()
        for character in SAID.content:
            app.transcript.feed_reasoning("", SAID.thought)
            app.transcript.feed(character)
        await pilot.pause()
        assert app.screen_lines()[0] == (OPENED if opened else FOLDED)[0]
        finished = app.transcript.finish_reply("done")
        await pilot.pause()
        assert app.screen_lines()[:6] == (OPENED if opened else [*FOLDED, "", "", ""])
        assert finished is not None
        assert (finished.content, finished.reasoning.strip()) == (SAID.content, THOUGHT)


async def test_an_answer_that_ends_in_its_reasoning_keeps_it() -> None:
    app = ChatHost()
    async with app.run_test(size=(50, 16)) as pilot:
        app.transcript.start_reply()
        app.transcript.feed_reasoning("why\x1b[31m", "thinking")
        app.transcript.feed_reasoning("", "thought for 2 s")
        assert app.transcript.finish_reply("stopped") is not None
        app.transcript.toggle_reasoning()
        await pilot.pause()
        assert app.screen_lines()[:4] == ["  ▾ thought for 2 s", "  │ why␛[31m", "", "  stopped"]


@given(pieces=st.lists(st.text("ab\n\r ", max_size=5), max_size=8), opened=st.booleans())
def test_no_cut_changes_the_lines(pieces: list[str], opened: bool) -> None:
    """And what changed is never before what `feed` says."""
    text = "".join(pieces)
    growing, layout = Reasoning(opened=opened), Layout(20)
    layout.update(growing.blocks)
    for piece in pieces:
        layout.update(growing.blocks, growing.feed(piece, ""))
    layout.update(growing.blocks, growing.end("thought"))
    whole, expected = Reasoning(text, "thought", opened=opened), Layout(20)
    expected.update(whole.blocks)
    if text:
        shown = [[(row.text.plain, row.first) for row in layout_.rows] for layout_ in (layout, expected)]
        assert shown[0] == shown[1]
    folded = growing.fold(not opened)
    assert folded == 0
    assert len(growing.blocks) == (1 if opened else 1 + len(growing._lines))
