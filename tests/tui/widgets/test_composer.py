from __future__ import annotations

from typing import ClassVar

import pytest
from textual.binding import Binding
from textual.events import Paste

from colibri_tui.keymap import Keymap
from colibri_tui.widgets import composer as module
from colibri_tui.widgets.composer import Composer
from tests.tui.widgets.hosts import ChatHost, burst, conversation, until


@pytest.fixture(autouse=True)
def _quick_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEBOUNCE", 0.02)


def sent(app: ChatHost) -> list[str]:
    return [event.text for event in app.posted if isinstance(event, Composer.Submitted)]


def drafts(app: ChatHost) -> list[str]:
    return [event.draft for event in app.posted if isinstance(event, Composer.DraftChanged)]


class TestSending:
    async def test_enter_sends_and_empties(self) -> None:
        app = ChatHost()
        async with app.run_test() as pilot:
            await pilot.press(*"hi", "enter")
            await pilot.pause()
            assert sent(app) == ["hi"]
            assert app.composer.text == ""

    @pytest.mark.parametrize("key", ["shift+enter", "alt+enter", "ctrl+j"])
    async def test_other_enters_begin_a_line(self, key: str) -> None:
        app = ChatHost()
        async with app.run_test() as pilot:
            await pilot.press("a", key, "b", "enter")
            await pilot.pause()
            assert sent(app) == ["a\nb"]

    async def test_keys_take_effect_in_the_order_they_were_typed(self) -> None:
        app = ChatHost()
        async with app.run_test() as pilot:
            burst(app, *"one", "ctrl+j", *"twoo", "backspace", "enter", *"next", "left", *"!")
            await pilot.pause()
            assert sent(app) == ["one\ntwo"]
            assert app.composer.text == "nex!t"

    async def test_nothing_is_not_sent(self) -> None:
        app = ChatHost()
        async with app.run_test() as pilot:
            await pilot.press("enter", "space", "ctrl+j", "enter")
            await pilot.pause()
            assert sent(app) == []

    async def test_typing_and_sending_go_on_while_busy(self) -> None:
        app = ChatHost()
        async with app.run_test() as pilot:
            app.composer.busy = True
            await pilot.press(*"next", "enter")
            await pilot.pause()
            assert sent(app) == ["next"]
            assert app.composer.has_class("-busy")

    async def test_sending_can_be_undone(self) -> None:
        app = ChatHost()
        async with app.run_test() as pilot:
            await pilot.press(*"oops", "enter", "ctrl+z")
            assert app.composer.text == "oops"

    async def test_escape_is_left_to_the_application(self) -> None:
        class Host(ChatHost):
            BINDINGS: ClassVar = [Binding("escape", "stop", "Stop")]
            stopped = 0

            def action_stop(self) -> None:
                self.stopped += 1

        app = Host()
        async with app.run_test() as pilot:
            await pilot.press("a", "escape")
            assert app.stopped == 1
            assert app.composer.text == "a"
            assert app.focused is app.composer

    async def test_keys_can_be_remapped(self) -> None:
        app = ChatHost()
        async with app.run_test() as pilot:
            app.set_keymap(Keymap({"composer_submit": ("ctrl+s",), "composer_newline": ("enter",)}).for_textual())
            await pilot.press("a", "enter", "b", "ctrl+s")
            await pilot.pause()
            assert sent(app) == ["a\nb"]

    def test_every_binding_has_an_id_of_its_own(self) -> None:
        bindings = [binding for binding in Composer.BINDINGS if isinstance(binding, Binding)]
        ids = [binding.id for binding in bindings]
        assert len(bindings) == len(Composer.BINDINGS)
        assert all(ids)
        assert len(ids) == len(set(ids))
        own = [binding for binding in bindings if not binding.id.startswith("suggestion_")]
        keys = [key.strip() for binding in own for key in binding.key.split(",")]
        assert len(keys) == len(set(keys))
        assert not {"escape", "f6", "f7", "ctrl+p", "ctrl+r"} & set(keys)


class TestPasting:
    async def test_many_lines_are_one_message(self) -> None:
        text = "\r\n".join(f"line {n}" for n in range(200))
        app = ChatHost()
        async with app.run_test(size=(60, 30)) as pilot:
            app.composer.post_message(Paste(text))
            await pilot.pause()
            assert sent(app) == []
            assert app.composer.size.height == 10
            await pilot.press("enter")
            await pilot.pause()
            assert sent(app) == [text.replace("\r\n", "\n")]

    async def test_a_paste_goes_to_the_cursor_and_replaces_the_selection(self) -> None:
        app = ChatHost()
        async with app.run_test() as pilot:
            await pilot.press(*"abcd", "left", "shift+left", "shift+left")
            app.composer.post_message(Paste("X\tY"))
            await pilot.pause()
            await pilot.press("!")
            assert app.composer.text == "aX\tY!d"

    async def test_control_characters_are_made_visible(self) -> None:
        app = ChatHost()
        async with app.run_test() as pilot:
            app.composer.post_message(Paste("\x1b[2J\x9b \u202e"))
            await pilot.pause()
            assert app.composer.text == "␛[2J\ufffd \ufffd"


class TestHeight:
    async def test_it_grows_to_ten_rows_and_shrinks(self) -> None:
        app = ChatHost()
        async with app.run_test(size=(30, 24)) as pilot:
            await pilot.pause()
            assert app.composer.size.height == 1
            for rows in range(2, 13):
                await pilot.press("ctrl+j")
                await pilot.pause()
                assert app.composer.size.height == min(rows, 10)
            await pilot.press(*"a" * 3, "enter")
            await pilot.pause()
            assert app.composer.size.height == 1

    async def test_wrapped_lines_count(self) -> None:
        app = ChatHost()
        async with app.run_test(size=(30, 24)) as pilot:
            app.composer.insert("word " * 10)
            await pilot.pause()
            assert app.composer.size.height == 2


class TestHistory:
    async def test_up_and_down_walk_and_the_draft_comes_back(self) -> None:
        app = ChatHost()
        async with app.run_test() as pilot:
            app.composer.set_history(["first", "second"])
            await pilot.press(*"draft", "up")
            assert app.composer.text == "second"
            assert app.composer.draft == "draft"
            await pilot.press("up", "up")
            assert app.composer.text == "first"
            await pilot.press("down", "down", "down")
            assert app.composer.text == "draft"

    async def test_what_was_sent_is_the_newest_entry(self) -> None:
        app = ChatHost()
        async with app.run_test() as pilot:
            await pilot.press(*"one", "enter", *"one", "enter", *"two", "enter", "up", "up")
            assert app.composer.text == "one"
            await pilot.press("up")
            assert app.composer.text == "one", "the same twice is one entry"

    async def test_an_edited_entry_is_kept_while_walking(self) -> None:
        app = ChatHost()
        async with app.run_test() as pilot:
            app.composer.set_history(["first", "second"])
            await pilot.press("up", "!")
            assert app.composer.draft == "second!"
            await pilot.press("up", "down")
            assert app.composer.text == "second!"
            await pilot.press("enter", "up")
            await pilot.pause()
            assert sent(app) == ["second!"]
            assert app.composer.text == "second!"
            await pilot.press("up")
            assert app.composer.text == "second"

    async def test_keys_move_inside_a_text_of_several_lines_first(self) -> None:
        app = ChatHost()
        async with app.run_test(size=(30, 20)) as pilot:
            app.composer.set_history(["old"])
            await pilot.press("a", "ctrl+j", "b", "up")
            assert app.composer.text == "a\nb"
            await pilot.press("up")
            assert app.composer.text == "old"
            await pilot.press("down")
            assert app.composer.text == "a\nb"

    async def test_wrapped_lines_are_lines(self) -> None:
        app = ChatHost()
        async with app.run_test(size=(20, 20)) as pilot:
            app.composer.set_history(["old"])
            app.composer.insert("word " * 6)
            await pilot.press("up")
            assert app.composer.text == "word " * 6
            await pilot.press("up")
            assert app.composer.text == "old"

    async def test_a_new_history_keeps_the_draft(self) -> None:
        app = ChatHost()
        async with app.run_test() as pilot:
            app.composer.set_history(["a"])
            await pilot.press(*"mine", "up")
            app.composer.set_history(["x", "y"])
            assert app.composer.text == "mine"
            await pilot.press("up")
            assert app.composer.text == "y"


class TestDraft:
    async def test_changes_are_posted_once_they_settle(self) -> None:
        app = ChatHost()
        async with app.run_test() as pilot:
            for letter in "abc":
                app.composer.insert(letter)
            await until(pilot, lambda: drafts(app) == ["abc"])
            await pilot.press("enter")
            await until(pilot, lambda: drafts(app)[-1:] == [""])

    async def test_walking_is_no_change(self) -> None:
        app = ChatHost()
        async with app.run_test() as pilot:
            app.composer.set_history(["old"])
            await pilot.press("x")
            await until(pilot, lambda: drafts(app) == ["x"])
            await pilot.press("up")
            await pilot.pause(0.1)
            assert drafts(app) == ["x"]

    async def test_a_draft_can_be_loaded(self) -> None:
        app = ChatHost()
        async with app.run_test() as pilot:
            app.composer.draft = "one\ntwo"
            await pilot.press("!")
            assert app.composer.text == "one\ntwo!"

    async def test_a_message_is_put_back_only_where_nothing_is(self) -> None:
        app = ChatHost()
        async with app.run_test() as pilot:
            assert app.composer.put_back("again")
            assert app.composer.text == "again"
            assert not app.composer.put_back("other")
            await pilot.press("!")
            assert app.composer.text == "again!"


class TestScrolling:
    async def test_keys_scroll_the_conversation(self) -> None:
        app = ChatHost(conversation(6))
        async with app.run_test(size=(40, 12)) as pilot:
            await pilot.press(*"text")
            end = app.log_view.scroll_y
            await pilot.press("shift+up")
            await pilot.pause()
            assert app.log_view.scroll_y == end - 1
            await pilot.press("shift+down", "pageup", "pageup", "pagedown")
            await pilot.pause()
            assert app.log_view.scroll_y == end - 9
            assert app.composer.text == "text"

    async def test_end_moves_the_cursor_first(self) -> None:
        app = ChatHost(conversation(6))
        async with app.run_test(size=(40, 12)) as pilot:
            await pilot.press(*"text", "home", "pageup", "end")
            await pilot.pause()
            assert app.composer.cursor_location == (0, 4)
            assert not app.transcript.following
            await pilot.press("end")
            await pilot.pause()
            assert app.transcript.following
