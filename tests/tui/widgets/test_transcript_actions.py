"""What can be pressed and selected in a transcript."""

from __future__ import annotations

import pytest
from textual.geometry import Offset, Region
from textual.selection import SELECT_ALL, Selection

from colibri_tui.widgets import tail_view
from colibri_tui.widgets.composer import Composer
from colibri_tui.widgets.message_view import MessageView, TranscriptMessage
from colibri_tui.widgets.transcript import Transcript
from tests.tui.widgets.hosts import ChatHost, conversation

MARKDOWN = "# Head\n\n- **one**\n- two\n\n```python\nx = 1\n\ty = 2\n```\n\n> quote"


@pytest.fixture(autouse=True)
def _draw_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no feed wait because this machine was slow with the one before."""
    monkeypatch.setattr(tail_view, "SHARE", 0)


class TestActions:
    async def test_a_click_on_an_action_posts_its_key(self) -> None:
        app = ChatHost()
        async with app.run_test(size=(60, 10)) as pilot:
            app.transcript.notice("The engine died.", "error", [("restart", "Restart"), ("quit", "Quit")])
            await pilot.pause()
            shown = app.screen_lines()
            first = shown.index("✗ The engine died.")
            assert shown[first + 1] == "  [ Restart ]  [ Quit ]"
            await pilot.click(MessageView, offset=(20, 1))
            await pilot.click(MessageView, offset=(4, 1))
            await pilot.click(MessageView, offset=(4, 0))
            await pilot.pause()
            assert [event.key for event in app.posted if isinstance(event, Transcript.Action)] == ["quit", "restart"]

    async def test_a_click_above_code_copies_it_as_it_was_written(self) -> None:
        app = ChatHost([TranscriptMessage("assistant", MARKDOWN)])
        async with app.run_test(size=(60, 20)) as pilot:
            await pilot.pause()
            line = next(n for n, text in enumerate(app.screen_lines()) if "python" in text)
            await pilot.click(MessageView, offset=(50, line))
            await pilot.pause()
            copies = [event.text for event in app.posted if isinstance(event, Transcript.CopyRequested)]
            assert copies == ["x = 1\n\ty = 2"]

    async def test_code_blocks_of_all_answers_newest_last(self) -> None:
        app = ChatHost(
            [
                TranscriptMessage("user", "```\nmine\n```"),
                TranscriptMessage("assistant", "```\none\n```\n```\ntwo\n```"),
            ]
        )
        async with app.run_test() as pilot:
            app.transcript.start_reply()
            app.transcript.feed("```\nthr")
            await pilot.pause()
            assert app.transcript.code_blocks() == ["one", "two", "thr"]
            assert app.transcript.last_answer() == "```\nthr"

    async def test_a_click_leaves_the_keyboard_to_the_composer(self) -> None:
        app = ChatHost(conversation(2))
        async with app.run_test(size=(40, 20)) as pilot:
            await pilot.pause()
            await pilot.click(app.views[-1])
            assert isinstance(app.focused, Composer)


class TestSelection:
    SOURCE = "Some **bold** words that are wrapped over lines\n\n- item\n\n```c\nint x;\n```\n\n> quote"

    async def view(self, app: ChatHost, pilot) -> MessageView:
        await pilot.pause()
        return app.views[0]

    async def test_all_of_a_message_is_its_source(self) -> None:
        app = ChatHost([TranscriptMessage("assistant", self.SOURCE, note="a note")])
        async with app.run_test(size=(30, 24)) as pilot:
            view = await self.view(app, pilot)
            assert view.get_selection(SELECT_ALL) == (self.SOURCE, "\n\n")

    async def test_a_part_has_no_padding_no_decoration_and_no_wrapping(self) -> None:
        app = ChatHost([TranscriptMessage("assistant", self.SOURCE, note="a note")])
        async with app.run_test(size=(30, 24)) as pilot:
            view = await self.view(app, pilot)
            part = view.get_selection(Selection(Offset(5, 0), None))
            assert part is not None
            assert part[0] == ("bold words that are wrapped over lines\n\n- item\n\n```c\nint x;\n```\n\n> quote")

    async def test_dragging_selects_what_is_under_the_pointer(self) -> None:
        app = ChatHost([TranscriptMessage("assistant", self.SOURCE)])
        async with app.run_test(size=(30, 24)) as pilot:
            await self.view(app, pilot)
            lines = app.screen_lines()
            row = next(n for n, line in enumerate(lines) if "int x;" in line)
            await pilot.mouse_down(MessageView, offset=(0, row))
            await pilot.hover(MessageView, offset=(6, row))
            await pilot.mouse_up(MessageView, offset=(6, row))
            await pilot.pause()
            assert app.screen.get_selected_text() == "int x"

    async def test_the_selection_is_drawn(self) -> None:
        app = ChatHost([TranscriptMessage("assistant", "some words")])
        async with app.run_test(size=(30, 8)) as pilot:
            view = await self.view(app, pilot)
            app.screen.selections = {view: Selection(Offset(5, 0), Offset(9, 0))}
            await pilot.pause()
            (strip,) = view.render_lines(Region(0, 0, 30, 1))
            selected = app.screen.get_component_rich_style("screen--selection").bgcolor
            assert [segment.text for segment in strip if segment.style and segment.style.bgcolor == selected] == [
                "word"
            ]
