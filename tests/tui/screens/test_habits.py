"""What people do in a chat besides chatting, with a scripted engine."""

import json
from pathlib import Path

import pytest

from colibri_tui import paths
from colibri_tui.conversations import Conversations
from colibri_tui.engine_link import EngineCounted, EngineText, EngineTurn, LinkState
from colibri_tui.screens.prompts import PromptsScreen
from colibri_tui.widgets.find_bar import FindBar
from colibri_tui.widgets.message_view import TranscriptMessage
from colibri_tui.widgets.suggestions import SuggestionList
from tests.tui.screens.conftest import chat, load, on_screen, said, send, until
from tests.tui.scripted_link import TURN

CODE = "Two ways:\n\n```python\none = 1\n```\n\nor\n\n```python\ntwo = 2\n```\n"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """The present folder, where files are named and exports written."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr("colibri_tui.clipboard.copy", lambda text: copied.append(text))
    copied.clear()
    return folder


copied: list[str] = []


def answer(app, text: str) -> None:
    """Let the engine answer what it was asked."""
    screen = chat(app)
    turn = len(screen._engine.asked)
    screen.conductor.hear(EngineText(turn, text, 3))
    screen._engine.state = LinkState.READY
    screen.conductor.hear(EngineTurn(turn, TURN, text))


async def talk(pilot, *turns: tuple[str, str]) -> None:
    """Hold a conversation."""
    await pilot.pause()
    if chat(pilot.app)._engine.board is None:
        load(pilot.app)
    await until(lambda: chat(pilot.app).conductor._arriving is None)
    for prompt, reply in turns:
        await send(pilot, prompt)
        answer(pilot.app, reply)
    await pilot.pause()


def asked(app) -> list[dict[str, str]]:
    """What the engine was asked last."""
    return chat(app)._engine.asked[-1][0]


def stored() -> list[tuple[str, str]]:
    store = Conversations(paths.database_path())
    try:
        return [(m.content, m.status) for m in store.messages(store.latest().id)]
    finally:
        store.close()


class TestEditing:
    async def test_a_prompt_written_anew_replaces_what_came_after(self, scripted):
        app = scripted()
        async with app.run_test(size=(100, 30)) as pilot:
            await talk(pilot, ("one", "first"), ("two", "second"))
            await pilot.press(*"draft", "alt+e")
            assert chat(app).composer.text == "two"
            await pilot.press("alt+e")
            assert chat(app).composer.text == "one"
            assert "and the 3 messages after it" in str(chat(app).query_one("#banner").content)
            await pilot.press("!", "enter")
            await pilot.pause()
            assert asked(app) == [{"role": "user", "content": "one!"}]
            assert chat(app).composer.text == "draft"
            answer(app, "anew")
            await pilot.pause()
            assert said(app)[:2] == ["one!", "anew"]
            assert len(said(app)) == 2
        assert stored() == [
            ("one", "replaced"),
            ("first", "replaced"),
            ("two", "replaced"),
            ("second", "replaced"),
            ("one!", "done"),
            ("anew", "done"),
        ]

    async def test_escape_leaves_everything_as_it_was(self, scripted):
        app = scripted()
        async with app.run_test(size=(100, 30)) as pilot:
            await talk(pilot, ("one", "first"))
            await pilot.press(*"draft", "alt+e", "!", "escape")
            assert chat(app).composer.text == "draft"
            assert not chat(app).is_editing
            assert [m.content for m in chat(app).conductor.session.messages] == ["one", "first"]

    async def test_an_edit_that_is_stopped_before_its_answer_puts_back_what_was_there(self, scripted):
        app = scripted()
        async with app.run_test(size=(100, 30)) as pilot:
            await talk(pilot, ("one", "first"))
            await pilot.press("alt+e", "!", "enter")
            await pilot.pause()
            await pilot.press("escape")
            assert chat(app).composer.text == "one!"
            assert said(app)[:2] == ["one", "first"]
        assert stored()[:2] == [("one", "done"), ("first", "done")]

    async def test_an_edit_stops_the_answer_it_replaces(self, scripted):
        app = scripted()
        async with app.run_test(size=(100, 30)) as pilot:
            await talk(pilot, ("one", "first"))
            await send(pilot, "two")
            chat(app).conductor.hear(EngineText(2, "half", 1))
            await pilot.press("alt+e", "!", "enter")
            await pilot.pause()
            assert chat(app)._engine.stops == 1
            answer(app, "")
            await pilot.pause()
            assert asked(app)[-1]["content"] == "two!"
            assert [m.content for m in chat(app).conductor.session.messages] == ["one", "first", "two!"]

    async def test_there_may_be_nothing_to_edit(self, scripted):
        app = scripted()
        async with app.run_test(size=(100, 30)) as pilot:
            await talk(pilot)
            await pilot.press("alt+e")
            assert not chat(app).is_editing

    async def test_a_branch_leaves_the_first_conversation_alone(self, scripted):
        app = scripted()
        async with app.run_test(size=(100, 30)) as pilot:
            await talk(pilot, ("one", "first"))
            await send(pilot, "/branch")
            await app.workers.wait_for_complete()
            await talk(pilot, ("two", "second"))
        store = Conversations(paths.database_path())
        found = sorted(store.list(), key=lambda one: one.id)
        assert [[m.content for m in store.messages(one.id)] for one in found] == [
            ["one", "first"],
            ["one", "first", "two", "second"],
        ]
        store.close()


class TestChoosing:
    async def test_a_chosen_message_is_copied_or_edited(self, scripted):
        app = scripted()
        async with app.run_test(size=(100, 30)) as pilot:
            await talk(pilot, ("one", "first"), ("two", "second"))
            await pilot.press("alt+up", "alt+up", "alt+up")
            assert chat(app).transcript.chosen.content == "first"
            await pilot.press("alt+y")
            await until(lambda: copied == ["first"])
            await pilot.press("alt+e")
            assert chat(app).composer.text == "one"
            assert chat(app).transcript.chosen is None

    async def test_beyond_the_last_message_none_is_chosen(self, scripted):
        app = scripted()
        async with app.run_test(size=(100, 30)) as pilot:
            await talk(pilot, ("one", "first"))
            await pilot.press("alt+up", "alt+down")
            assert chat(app).transcript.chosen is None
            await pilot.press("alt+up", "escape")
            assert chat(app).transcript.chosen is None
            await pilot.press("alt+y")
            await until(lambda: copied == ["first"])

    async def test_the_way_up_goes_on_into_messages_that_were_not_loaded(self, scripted):
        app = scripted()
        async with app.run_test(size=(100, 30)) as pilot:
            await talk(pilot, ("one", "first"))
            chat(app).transcript.load([TranscriptMessage("user", f"question {n}") for n in range(70)])
            await pilot.pause()
            for _ in range(60):
                chat(app).action_choose_before()
            await pilot.press("alt+up", "alt+up")
            await until(lambda: chat(app).transcript.chosen.content == "question 8")


class TestCopying:
    async def test_pieces_of_code_the_newest_first(self, scripted):
        app = scripted()
        async with app.run_test(size=(100, 30)) as pilot:
            await talk(pilot, ("code?", CODE))
            for wanted in ("two = 2", "one = 1", "two = 2"):
                await pilot.press("alt+c")
                await until(lambda wanted=wanted: copied[-1:] == [wanted])
            await send(pilot, "/copy code 2")
            await until(lambda: copied[-1] == "one = 1")
            await send(pilot, "/copy all")
            await until(lambda: copied[-1].startswith("code?\n\nTwo ways:"))
            assert len(copied) == 5

    @pytest.mark.parametrize("words", ["/copy", "/copy code", "/copy code 3", "/copy everything"])
    async def test_what_is_not_there_is_not_copied(self, scripted, words):
        app = scripted()
        async with app.run_test(size=(100, 30)) as pilot:
            await talk(pilot)
            await send(pilot, words)
            await pilot.pause()
            assert app._notifications
        assert copied == []


class TestFinding:
    async def test_words_are_found_upwards_in_any_case(self, scripted):
        app = scripted()
        async with app.run_test(size=(100, 20)) as pilot:
            await talk(pilot, ("Where is the needle?", "hay\n\n" * 30 + "a NEEDLE"), ("and now?", "no"))
            await pilot.press("ctrl+f", *"needle")
            await pilot.pause()
            assert "2 of 2" in on_screen(app)
            assert "a NEEDLE" in on_screen(app)
            await pilot.press("enter")
            await pilot.pause()
            assert "1 of 2" in on_screen(app)
            assert "Where is the needle?" in on_screen(app)
            await pilot.press("down")
            await pilot.pause()
            assert "2 of 2" in on_screen(app)
            await pilot.press("x")
            await pilot.pause()
            assert "nowhere here" in on_screen(app)
            await pilot.press("escape")
            assert app.focused is chat(app).composer
            assert not app.screen.query_one(FindBar).has_class("-shown")

    async def test_messages_that_were_not_loaded_are_searched_too(self, scripted):
        app = scripted()
        async with app.run_test(size=(100, 20)) as pilot:
            await talk(pilot)
            hay = [TranscriptMessage("user", "hay") for n in range(70)]
            chat(app).transcript.load([TranscriptMessage("user", "the needle"), *hay])
            await pilot.pause()
            await send(pilot, "/find needle")
            await pilot.pause()
            await until(lambda: "1 of 1" in on_screen(app))

    async def test_a_prompt_of_any_conversation_comes_back(self, scripted):
        app = scripted()
        async with app.run_test(size=(100, 30)) as pilot:
            await talk(pilot, ("how do routers choose?", "x"), ("and pins?", "y"))
            await pilot.press("ctrl+n", "ctrl+r")
            await until(lambda: isinstance(app.screen, PromptsScreen))
            await pilot.press(*"choose router", "enter")
            await until(lambda: app.screen is chat(app))
            assert chat(app).composer.text == "how do routers choose?"
            await pilot.press("ctrl+r")
            await until(lambda: isinstance(app.screen, PromptsScreen))
            await pilot.press("down", "up", "down", "escape")
            assert chat(app).composer.text == "how do routers choose?"

    async def test_what_was_found_in_another_conversation_is_shown_there(self, scripted):
        app = scripted()
        async with app.run_test(size=(100, 30)) as pilot:
            await talk(pilot, ("how do routers choose?", "By a dot product, and a Needle."))
            await pilot.press("ctrl+n", "ctrl+s", *"needle")
            await until(lambda: "and a Needle." in on_screen(app))
            await pilot.press("enter")
            await until(lambda: "1 of 1" in on_screen(app))


class TestFiles:
    async def test_a_file_goes_along_and_is_kept_as_it_was(self, scripted, here: Path):
        (here / "a.py").write_text("x = 1\n")
        app = scripted()
        async with app.run_test(size=(100, 30)) as pilot:
            await talk(pilot)
            await send(pilot, "explain @a.py please")
            await until(lambda: chat(app)._engine.asked)
            assert asked(app)[-1]["content"] == "explain @a.py please\n\na.py:\n```\nx = 1\n```"
            answer(app, "It is a file.")
            await pilot.pause()
            assert "with a.py, 1 line" in on_screen(app)
        (here / "a.py").unlink()
        app = scripted()
        async with app.run_test(size=(100, 30)) as pilot:
            await talk(pilot)
            await until(lambda: "with a.py, 1 line" in on_screen(app))
            await send(pilot, "more")
            assert "x = 1" in asked(app)[0]["content"]

    async def test_a_file_that_cannot_go_along_gives_the_prompt_back(self, scripted, here: Path):
        (here / "a.bin").write_bytes(b"\0")
        app = scripted()
        async with app.run_test(size=(100, 30)) as pilot:
            await talk(pilot)
            await send(pilot, "explain @a.bin")
            await until(lambda: "not a text file" in on_screen(app))
            assert chat(app).composer.text == "explain @a.bin"
            assert chat(app)._engine.asked == []

    async def test_prompts_keep_their_order(self, scripted, here: Path):
        (here / "a.py").write_text("x = 1\n")
        app = scripted()
        async with app.run_test(size=(100, 30)) as pilot:
            await talk(pilot)
            chat(app).send("first @a.py")
            chat(app).send("second")
            await until(lambda: chat(app).conductor.session.queue)
            assert asked(app)[-1]["content"].startswith("first @a.py\n\na.py:")
            assert [prompt.text for prompt in chat(app).conductor.session.queue] == ["second"]

    async def test_paths_are_completed(self, scripted, here: Path):
        (here / "src").mkdir()
        (here / "src" / "main.py").write_text("x")
        app = scripted()
        async with app.run_test(size=(100, 30)) as pilot:
            await talk(pilot)
            await pilot.press(*"see @s")
            await until(lambda: "src/" in on_screen(app))
            await pilot.press("tab")
            await until(lambda: "src/main.py" in on_screen(app))
            await pilot.press("enter")
            assert chat(app).composer.text == "see @src/main.py "


class TestCounting:
    async def test_the_draft_is_counted_with_its_files(self, scripted, here: Path):
        (here / "a.py").write_text("x = 1\n")
        app = scripted()
        async with app.run_test(size=(120, 30)) as pilot:
            await talk(pilot)
            screen, counted = chat(app), chat(app)._engine.counted
            screen.count_draft("explain @a.py")
            await until(lambda: counted)
            assert counted == [(1, "explain @a.py\n\na.py:\n```\nx = 1\n```")]
            screen.post_message(EngineCounted(0, 1, 4090))
            await until(lambda: "0 + 4090/4096" in on_screen(app))
            screen.count_draft("another")
            screen.post_message(EngineCounted(0, 1, 5))
            await pilot.pause()
            assert screen.status.status.draft == 4090, "the answer to an old question is no answer"
            screen.count_draft("")
            assert screen.status.status.draft == 0

    async def test_what_is_typed_is_counted_a_moment_later(self, scripted):
        app = scripted()
        async with app.run_test(size=(120, 30)) as pilot:
            await talk(pilot)
            await pilot.press(*"hello")
            await until(lambda: chat(app)._engine.counted)
            assert chat(app)._engine.counted == [(1, "hello")]


class TestCommands:
    async def test_commands_are_offered_and_taken(self, scripted):
        app = scripted()
        async with app.run_test(size=(100, 30)) as pilot:
            await talk(pilot, ("one", "first"))
            await pilot.press("/", "t", "e")
            assert app.screen.query_one(SuggestionList).display
            assert "/temperature [T|auto]" in on_screen(app)
            await pilot.press("tab")
            assert chat(app).composer.text == "/temperature "
            await pilot.press(*"0.3", "enter")
            await pilot.pause()
            assert "Temperature 0.3 in this conversation" in said(app)[-1]
            assert chat(app).status.status.chosen == ("temperature 0.3",)

    async def test_enter_runs_what_is_marked(self, scripted):
        app = scripted()
        async with app.run_test(size=(100, 30)) as pilot:
            await talk(pilot)
            await pilot.press(*"/pla", "enter")
            await pilot.pause()
            assert "Memory plan" in said(app)[-1]

    async def test_arrows_move_and_escape_hides(self, scripted):
        app = scripted()
        async with app.run_test(size=(100, 30)) as pilot:
            await talk(pilot)
            await pilot.press(*"/export ", "down", "tab")
            assert chat(app).composer.text == "/export json"
            chat(app).composer.draft = ""
            await pilot.press("/")
            assert app.screen.query_one(SuggestionList).display
            await pilot.press("escape")
            await pilot.pause()
            assert not app.screen.query_one(SuggestionList).display
            await pilot.press("up")
            assert chat(app).composer.text == "/", "the arrows are the text's own again"

    async def test_a_click_takes_a_suggestion(self, scripted):
        app = scripted()
        async with app.run_test(size=(100, 30)) as pilot:
            await talk(pilot)
            await pilot.press(*"/export ")
            await pilot.pause()
            await pilot.click(SuggestionList, offset=(2, 1))
            await pilot.pause()
            assert chat(app).composer.text == "/export json"

    async def test_a_prompt_from_the_history_is_not_completed(self, scripted):
        app = scripted()
        async with app.run_test(size=(100, 30)) as pilot:
            await talk(pilot)
            chat(app).composer.set_history(["first", "/new"])
            await pilot.press("up", "up")
            assert chat(app).composer.text == "first"


class TestTheConversation:
    async def test_settings_hold_are_kept_and_come_back(self, scripted):
        app = scripted()
        async with app.run_test(size=(120, 30)) as pilot:
            await talk(pilot)
            await send(pilot, "/system Be brief.")
            await send(pilot, "/seed 7")
            await send(pilot, "/seed seven")
            assert "not a whole number" in said(app)[-1]
            await talk(pilot, ("one", "first"))
            assert asked(app)[0] == {"role": "system", "content": "Be brief."}
            assert chat(app)._engine.samplings[-1].seed == 7
        app = scripted()
        async with app.run_test(size=(120, 30)) as pilot:
            await talk(pilot)
            await until(lambda: chat(app).conductor.session.messages)
            assert chat(app).status.status.chosen == ("system prompt", "seed 7")
            await pilot.press("ctrl+n")
            assert chat(app).status.status.chosen == ()

    async def test_export_writes_a_file_and_says_where(self, scripted, here: Path):
        app = scripted()
        async with app.run_test(size=(120, 30)) as pilot:
            await talk(pilot)
            await send(pilot, "/export")
            await until(lambda: "nothing to export" in said(app)[-1])
            await send(pilot, "/export pdf")
            await until(lambda: "no format" in said(app)[-1])
            await talk(pilot, ("one thing", "first"))
            await send(pilot, "/export json")
            await until(lambda: "Exported to" in said(app)[-1])
            await send(pilot, "/export")
            await until(lambda: (here / "one-thing.md").exists())
        data = json.loads((here / "one-thing.json").read_text())
        assert [m["content"] for m in data["messages"]] == ["one thing", "first"]

    async def test_rename(self, scripted):
        app = scripted()
        async with app.run_test(size=(120, 30)) as pilot:
            await talk(pilot)
            await send(pilot, "/rename Birds")
            await until(lambda: "once something was said" in said(app)[-1])
            await talk(pilot, ("one", "first"))
            await send(pilot, "/rename")
            await pilot.pause()
            assert chat(app).composer.text == "/rename "
            await send(pilot, "/rename Birds of a feather")
            await until(lambda: "“Birds of a feather”" in said(app)[-1])
        store = Conversations(paths.database_path())
        assert store.latest().title == "Birds of a feather"
        store.close()

    async def test_delete_asks_first(self, scripted):
        app = scripted()
        async with app.run_test(size=(120, 30)) as pilot:
            await talk(pilot)
            await send(pilot, "/delete")
            await until(lambda: "nothing to delete" in said(app)[-1])
            await talk(pilot, ("one", "first"))
            await send(pilot, "/delete")
            await until(lambda: "for good" in said(app)[-1])
            chat(app).action_keep()
            await send(pilot, "/delete")
            await pilot.pause()
            await send(pilot, "another thing")
            answer(app, "second")
            await send(pilot, "/delete")
            await pilot.pause()
            assert chat(app).conductor.session.messages
            await send(pilot, "/delete")
            await until(lambda: not chat(app).conductor.session.messages)
        store = Conversations(paths.database_path())
        assert store.list() == []
        store.close()

    async def test_the_editor_writes_the_draft(self, scripted, monkeypatch):
        app = scripted()
        async with app.run_test(size=(100, 30)) as pilot:
            await talk(pilot)
            await pilot.press(*"draft", "ctrl+g")
            assert chat(app).composer.text == "draft", "a terminal that cannot be lent changes nothing"
            assert app._notifications
