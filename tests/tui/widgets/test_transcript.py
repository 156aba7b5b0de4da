from __future__ import annotations

import pytest
from rich.color_triplet import ColorTriplet
from textual.events import MouseEvent, MouseScrollDown, MouseScrollUp
from textual.pilot import Pilot

from colibri_tui.render.marks import Mark
from colibri_tui.themes import builtin_themes
from colibri_tui.widgets import tail_view
from colibri_tui.widgets.message_log import MessageLog
from colibri_tui.widgets.message_view import TranscriptMessage
from colibri_tui.widgets.row_view import component_style
from colibri_tui.widgets.tail_view import TailView
from colibri_tui.widgets.transcript import MOUNTED, Transcript
from tests.tui.widgets.hosts import ChatHost, conversation, until

MARKDOWN = "# Head\n\n- **one**\n- two\n\n```python\nx = 1\n\ty = 2\n```\n\n> quote"


@pytest.fixture(autouse=True)
def _draw_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no feed wait because this machine was slow with the one before."""
    monkeypatch.setattr(tail_view, "SHARE", 0)


def contrast(one: ColorTriplet, other: ColorTriplet) -> float:
    """Return the contrast ratio of WCAG 2: 1 to 21."""
    light = []
    for colour in (one, other):
        channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour.normalized]
        light.append(sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), channels, strict=True)))
    return (max(light) + 0.05) / (min(light) + 0.05)


class TestMessages:
    async def test_a_conversation_is_loaded_with_its_end_in_view(self) -> None:
        app = ChatHost(conversation(5))
        async with app.run_test(size=(40, 12)) as pilot:
            await pilot.pause()
            text = app.screen_lines()
            assert "  answer 4 line 5" in text
            assert "  note 4" in text
            assert app.log_view.max_scroll_y > 0
            assert app.log_view.scroll_y == app.log_view.max_scroll_y

    async def test_only_the_newest_messages_are_widgets(self) -> None:
        app = ChatHost(conversation(MOUNTED))
        async with app.run_test(size=(40, 12)) as pilot:
            await pilot.pause()
            assert len(app.views) == MOUNTED
            assert app.views[0].message.content == f"question {MOUNTED // 2}"
            assert app.transcript.load_earlier()
            await pilot.pause()
            assert [view.message for view in app.views] == app.messages
            assert not app.transcript.load_earlier()

    async def test_loading_another_conversation_replaces_the_first(self) -> None:
        app = ChatHost(conversation(3))
        async with app.run_test(size=(40, 12)) as pilot:
            await pilot.pause()
            app.transcript.load([TranscriptMessage("user", "other")])
            await pilot.pause()
            assert [view.source for view in app.views] == ["other"]
            app.transcript.clear()
            await pilot.pause()
            assert not app.views
            assert app.transcript.last_answer() == ""

    async def test_questions_are_shown_as_they_were_typed(self) -> None:
        app = ChatHost([TranscriptMessage("user", "# not a *heading*\n\n  indented")])
        async with app.run_test(size=(40, 12)) as pilot:
            await pilot.pause()
            assert app.screen_lines()[:3] == ["❯ # not a *heading*", "", "    indented"]

    @pytest.mark.parametrize(
        ("status", "note", "shown"),
        [
            ("done", "12 tokens", "12 tokens"),
            ("done", "", ""),
            ("stopped", "", "stopped"),
            ("cut", "", "cut off at the length limit"),
            ("interrupted", "engine died", "engine died"),
            ("error", "", "failed"),
        ],
    )
    async def test_the_note_says_how_an_answer_ended(self, status, note: str, shown: str) -> None:
        app = ChatHost([TranscriptMessage("assistant", "text", status, note)])
        async with app.run_test(size=(40, 12)) as pilot:
            await pilot.pause()
            assert [line.strip() for line in app.screen_lines()[:2]] == ["text", shown]

    async def test_control_characters_never_reach_the_screen(self) -> None:
        hostile = "\x1b[31m\x9b2J\x07 \u202e"
        app = ChatHost([TranscriptMessage("user", hostile), TranscriptMessage("assistant", hostile, "done", hostile)])
        async with app.run_test(size=(40, 20)) as pilot:
            app.transcript.notice(hostile, "error", [("k", hostile)])
            app.transcript.start_reply()
            app.transcript.set_progress(hostile, 0.5)
            await pilot.pause()
            app.transcript.feed(hostile)
            await pilot.pause()
            text = "".join(app.screen_lines())
            assert not [c for c in text if ord(c) < 32 or 127 <= ord(c) < 160 or c == "\u202e"]
            assert text.count("␛") >= 5

    async def test_no_color_means_no_colour_at_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NO_COLOR", "1")
        app = ChatHost(
            [TranscriptMessage("user", "q"), TranscriptMessage("assistant", MARKDOWN, "error", "note")], ansi=True
        )
        async with app.run_test(size=(40, 24)) as pilot:
            app.theme = "ansi-dark"
            app.transcript.notice("careful", "warning", [("a", "Act")])
            await pilot.pause()
            styles = [
                segment.style for row in app.screen._compositor.render_strips() for segment in row if segment.style
            ]
            colours = [
                c for style in styles for c in (style.color, style.bgcolor) if c is not None and not c.is_default
            ]
            assert not colours
            assert any(style.bold for style in styles)
            assert any(style.dim for style in styles)

    @pytest.mark.parametrize("theme", ["colibri", "colibri-light"])
    async def test_every_mark_can_be_read_in_our_themes(self, theme: str) -> None:
        app = ChatHost([TranscriptMessage("user", "q")])
        for ours in builtin_themes().values():
            app.register_theme(ours.theme)
        async with app.run_test() as pilot:
            app.theme = theme
            await pilot.pause()
            view = app.views[0]
            ratios = {}
            for mark in Mark:
                base = view.visual_style
                if mark.startswith("code--"):
                    base += component_style(app.log_view.get_component_styles(Mark.CODE_LINE))
                style = (base + component_style(app.log_view.get_component_styles(mark))).rich_style
                assert style.color is not None
                assert style.bgcolor is not None
                ratios[mark] = contrast(style.color.get_truecolor(), style.bgcolor.get_truecolor())
            assert {mark: ratio for mark, ratio in ratios.items() if ratio < 4.5} == {}

    def test_every_mark_has_a_style(self) -> None:
        assert not [mark for mark in Mark if f".{mark} {{" not in Transcript.DEFAULT_CSS]
        assert set(Mark) == MessageLog.COMPONENT_CLASSES


class TestReply:
    async def test_text_appears_while_it_is_fed_and_stays_when_it_ends(self) -> None:
        app = ChatHost()
        async with app.run_test(size=(40, 16)) as pilot:
            app.transcript.add_user("hello")
            app.transcript.start_reply()
            await pilot.pause()
            assert app.screen_lines()[2].strip() == "▌"
            for piece in ("Some **bo", "ld** te", "xt"):
                app.transcript.feed(piece)
            await until(pilot, lambda: app.screen_lines()[2].strip() == "Some bold text▌")
            message = app.transcript.finish_reply("stopped", "stopped · 3 tokens")
            await pilot.pause()
            assert [line.strip() for line in app.screen_lines()[2:4]] == ["Some bold text", "stopped · 3 tokens"]
            assert message == TranscriptMessage("assistant", "Some **bold** text", "stopped", "stopped · 3 tokens")
            assert app.transcript.last_answer() == "Some **bold** text"

    async def test_a_streamed_answer_looks_like_a_loaded_one(self) -> None:
        app = ChatHost()
        async with app.run_test(size=(40, 30)) as pilot:
            app.transcript.start_reply()
            for character in MARKDOWN:
                app.transcript.feed(character)
            app.transcript.finish_reply("done", "note")
            await pilot.pause()
            streamed = app.screen_lines()
            app.transcript.load([TranscriptMessage("assistant", MARKDOWN, "done", "note")])
            await pilot.pause()
            assert app.screen_lines() == streamed

    async def test_progress_is_shown_until_the_first_token(self) -> None:
        app = ChatHost()
        async with app.run_test(size=(40, 10)) as pilot:
            app.transcript.start_reply()
            app.transcript.set_progress("reading the prompt 512/1,204 · 43 %", 0.43)
            await pilot.pause()
            assert app.screen_lines()[0].strip() == "reading the prompt 512/1,204 · 43 %"
            assert app.screen_lines()[1].strip() == "━" * 15 + "─" * 21
            app.transcript.set_progress("", None)
            await pilot.pause()
            assert app.screen_lines()[:2] == ["  ▌", ""]
            app.transcript.set_progress("thinking")
            app.transcript.feed("now")
            app.transcript.set_progress("too late", 0.5)
            await pilot.pause()
            assert app.screen_lines()[:2] == ["  now▌", ""]

    async def test_an_answer_without_a_word_leaves_nothing(self) -> None:
        app = ChatHost()
        async with app.run_test(size=(40, 10)) as pilot:
            app.transcript.start_reply()
            await pilot.pause()
            assert app.transcript.finish_reply("done", "") is None
            await pilot.pause()
            assert not app.views

    async def test_text_without_a_reply_is_dropped(self) -> None:
        app = ChatHost()
        async with app.run_test(size=(40, 10)) as pilot:
            app.transcript.feed("late")
            app.transcript.set_progress("late", 0.1)
            assert app.transcript.finish_reply("done", "") is None
            app.transcript.start_reply()
            app.transcript.clear()
            app.transcript.feed("late")
            await pilot.pause()
            assert not app.views

    async def test_expensive_drawing_waits_but_loses_nothing(self) -> None:
        app = ChatHost()
        async with app.run_test(size=(40, 10)) as pilot:
            app.transcript.start_reply()
            tail = app.query_one(TailView)
            await pilot.pause()
            app.transcript.feed("a")
            tail._due += 0.5
            app.transcript.feed("b")
            app.transcript.feed("c")
            assert tail.source == "abc"
            assert tail.lines[0].row.text.plain == "a"
            await until(pilot, lambda: tail.lines[0].row.text.plain == "abc")
            tail._due += 1000.0
            app.transcript.feed("d")
            app.transcript.finish_reply("done", "")
            assert tail.lines[0].row.text.plain == "abcd"

    async def test_a_question_without_an_answer_can_be_taken_back(self) -> None:
        app = ChatHost(conversation(1))
        async with app.run_test(size=(40, 20)) as pilot:
            app.transcript.add_user("question 0")
            app.transcript.start_reply()
            await pilot.pause()
            assert app.transcript.take_back() == "question 0"
            await pilot.pause()
            assert [view.message for view in app.views] == app.messages
            app.transcript.add_user("again")
            app.transcript.start_reply()
            app.transcript.feed("an answer")
            assert app.transcript.take_back() == ""

    async def test_a_notice_stands_above_the_running_answer(self) -> None:
        app = ChatHost()
        async with app.run_test(size=(40, 20)) as pilot:
            app.transcript.start_reply()
            app.transcript.feed("text")
            app.transcript.notice("by the way", "warning")
            await pilot.pause()
            assert app.screen_lines()[:3] == ["! by the way", "", "  text▌"]


class TestFollowing:
    async def stream(self, app: ChatHost, pilot, lines: int) -> None:
        for number in range(lines):
            app.transcript.feed(f"streamed {number}\n\n")
            await pilot.pause()

    async def test_it_sticks_to_the_end(self) -> None:
        app = ChatHost(conversation(3))
        async with app.run_test(size=(40, 12)) as pilot:
            app.transcript.start_reply()
            for lines in (1, 5, 20):
                await self.stream(app, pilot, lines)
                assert app.log_view.scroll_y == app.log_view.max_scroll_y
                assert any("streamed" in line for line in app.screen_lines()[-4:-1])

    @pytest.mark.parametrize("keys", [["pageup"], ["shift+up"], ["shift+up", "shift+up", "shift+up"]])
    async def test_scrolling_up_is_never_fought(self, keys: list[str]) -> None:
        app = ChatHost(conversation(6))
        async with app.run_test(size=(40, 12)) as pilot:
            app.transcript.start_reply()
            await self.stream(app, pilot, 3)
            await pilot.press(*keys)
            await pilot.pause()
            top = app.top()
            assert not app.transcript.following
            await self.stream(app, pilot, 12)
            app.transcript.finish_reply("done", "note")
            await pilot.pause()
            assert app.top() == top

    async def test_the_wheel_ends_and_resumes_following(self) -> None:
        app = ChatHost(conversation(6))
        async with app.run_test(size=(40, 12)) as pilot:
            await pilot.pause()
            await turn_wheel(pilot, MouseScrollUp)
            assert not app.transcript.following
            await turn_wheel(pilot, MouseScrollDown)
            assert app.transcript.following

    async def test_scrolling_where_nothing_is_hidden_changes_nothing(self) -> None:
        app = ChatHost()
        async with app.run_test(size=(40, 12)) as pilot:
            app.transcript.start_reply()
            await pilot.pause()
            await pilot.press("pageup", "shift+up", "pagedown")
            await self.stream(app, pilot, 12)
            assert app.transcript.following
            assert app.log_view.scroll_y == app.log_view.max_scroll_y > 0

    async def test_scrolling_down_at_the_end_keeps_following(self) -> None:
        app = ChatHost(conversation(6))
        async with app.run_test(size=(40, 12)) as pilot:
            app.transcript.start_reply()
            await self.stream(app, pilot, 2)
            await pilot.press("pagedown", "shift+down")
            await self.stream(app, pilot, 5)
            assert app.log_view.scroll_y == app.log_view.max_scroll_y

    async def test_a_badge_counts_what_came_below_and_end_follows_again(self) -> None:
        app = ChatHost(conversation(6))
        async with app.run_test(size=(40, 12)) as pilot:
            app.transcript.start_reply()
            await self.stream(app, pilot, 1)
            await pilot.press("pageup")
            await pilot.pause()
            assert not app.query_one("#unseen").has_class("-shown")
            await self.stream(app, pilot, 3)
            assert any("↓ 6 new lines (End)" in line for line in app.screen_lines())
            await pilot.press("end")
            await pilot.pause()
            assert app.transcript.following
            assert not any("new lines" in line for line in app.screen_lines())
            assert app.log_view.scroll_y == app.log_view.max_scroll_y

    async def test_a_click_on_the_badge_follows_again(self) -> None:
        app = ChatHost(conversation(6))
        async with app.run_test(size=(40, 12)) as pilot:
            app.transcript.start_reply()
            await pilot.pause()
            await pilot.press("pageup")
            await self.stream(app, pilot, 2)
            assert await pilot.click("#unseen")
            await pilot.pause()
            assert app.transcript.following

    async def test_a_new_question_goes_to_the_end(self) -> None:
        app = ChatHost(conversation(6))
        async with app.run_test(size=(40, 12)) as pilot:
            await pilot.press("pageup")
            app.transcript.add_user("next")
            await pilot.pause()
            assert "❯ next" in app.screen_lines()

    @pytest.mark.parametrize("width", [20, 30, 80])
    async def test_resizing_keeps_the_readers_place(self, width: int) -> None:
        words = " ".join(f"word{n}" for n in range(300))
        app = ChatHost([TranscriptMessage("assistant", words)] * 3)
        async with app.run_test(size=(40, 12)) as pilot:
            await pilot.press("pageup", "pageup", "pageup", "pageup", "pageup")
            await pilot.pause()
            first = app.top().split()[0]
            assert first.startswith("word")
            await pilot.resize_terminal(width, 14)
            await pilot.pause()
            assert first in app.top().split()
            app.transcript.start_reply()
            await self.stream(app, pilot, 2)
            assert first in app.top().split()

    async def test_resizing_at_the_end_stays_at_the_end(self) -> None:
        app = ChatHost(conversation(6))
        async with app.run_test(size=(40, 12)) as pilot:
            for size in ((20, 9), (100, 30), (40, 12)):
                await pilot.resize_terminal(*size)
                await pilot.pause()
                assert app.log_view.scroll_y == app.log_view.max_scroll_y
                assert "  note 5" in app.screen_lines()

    async def test_a_growing_composer_does_not_hide_the_end(self) -> None:
        app = ChatHost(conversation(6))
        async with app.run_test(size=(40, 16)) as pilot:
            await pilot.press("a", "ctrl+j", "b", "ctrl+j", "c")
            await pilot.pause()
            assert "  note 5" in app.screen_lines()

    async def test_earlier_messages_come_when_scrolling_past_the_top(self) -> None:
        app = ChatHost(conversation(MOUNTED))
        async with app.run_test(size=(40, 12)) as pilot:
            await pilot.pause()
            app.transcript.scroll_messages("first")
            await pilot.pause()
            assert app.top() == "↑ 60 earlier messages"
            top = app.screen_lines()[2]
            await pilot.press("pageup")
            await pilot.pause()
            assert len(app.views) == 2 * MOUNTED
            assert app.screen_lines()[2] == top, "what was read stays where it was"
            app.transcript.scroll_messages("first")
            await turn_wheel(pilot, MouseScrollUp)
            assert app.top() == "❯ question 0", "there is nothing earlier"

    async def test_a_click_loads_earlier_messages(self) -> None:
        app = ChatHost(conversation(MOUNTED))
        async with app.run_test(size=(40, 12)) as pilot:
            await pilot.pause()
            app.transcript.scroll_messages("first")
            await pilot.pause()
            await pilot.click("#earlier")
            await pilot.pause()
            assert len(app.views) == 2 * MOUNTED

    async def test_a_long_conversation_puts_its_oldest_messages_away(self) -> None:
        app = ChatHost(conversation(40))
        async with app.run_test(size=(40, 12)) as pilot:
            for turn in range(15):
                app.transcript.add_user(f"more {turn}")
                app.transcript.start_reply()
                app.transcript.feed("text")
                app.transcript.finish_reply("done", "")
                await pilot.pause()
            assert len(app.views) <= MOUNTED + 22
            assert app.transcript.load_earlier()
            await pilot.pause()
            assert app.views[-1].source == "text"

    async def test_keys_work_in_the_transcript_itself(self) -> None:
        app = ChatHost(conversation(6))
        async with app.run_test(size=(40, 12)) as pilot:
            app.log_view.focus()
            await pilot.pause()
            end = app.log_view.scroll_y
            await pilot.press("up")
            assert app.log_view.scroll_y == end - 1
            await pilot.press("home")
            assert app.log_view.scroll_y == 0
            await pilot.press("down")
            assert app.log_view.scroll_y == 1
            await pilot.press("pagedown", "end")
            assert app.transcript.following


async def turn_wheel(pilot: Pilot[None], event: type[MouseEvent]) -> None:
    await pilot._post_mouse_events([event], MessageLog, (5, 5))
    await pilot.pause()
