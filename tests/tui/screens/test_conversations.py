"""Finding, resuming, renaming and deleting conversations."""

import time

import pytest

from colibri_tui import paths
from colibri_tui.conversations import Conversations, ConversationSummary
from colibri_tui.screens.conversations import ConversationsScreen, ago, row, when
from tests.tui.screens.conftest import chat, load, on_screen, said, until

HOUR = 3600.0


@pytest.fixture
def three(home):
    store = Conversations(paths.database_path())
    for title in ("about routers", "about kernels", "about birds"):
        number = store.create("other-00000000", "default")
        store.add(number, "user", title)
        store.add(number, "assistant", f"An answer {title}.")
    store.close()


async def listed(app) -> list[str]:
    await until(lambda: isinstance(app.screen, ConversationsScreen) and app.screen._found)
    return [summary.title for summary in app.screen._found]


async def test_resuming_one(scripted, three):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        await pilot.press("ctrl+s")
        assert await listed(app) == ["about birds", "about kernels", "about routers"]
        await pilot.press("down", "enter")
        await until(lambda: "An answer about kernels." in said(app))


async def test_a_draft_stays_with_its_conversation(scripted, three):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        await pilot.press(*"goes along", "ctrl+s")
        await listed(app)
        await pilot.press("enter")
        await until(lambda: "An answer about birds." in said(app))
        assert chat(app).composer.text == "goes along", "it belonged to no conversation"
        await pilot.press("!", "ctrl+s")
        await listed(app)
        await pilot.press("down", "enter")
        await until(lambda: "An answer about kernels." in said(app))
        assert chat(app).composer.text == ""
        await pilot.press("ctrl+s")
        await listed(app)
        await pilot.press("enter")
        await until(lambda: "An answer about birds." in said(app) and chat(app).composer.text == "goes along!")


async def test_searching_titles_and_messages(scripted, three):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("ctrl+s")
        await listed(app)
        await pilot.press(*"routers")
        await until(lambda: [s.title for s in app.screen._found] == ["about routers"])
        await pilot.press(*"xyz")
        await until(lambda: app.screen._found == [])
        assert "nothing found" in on_screen(app)
        await pilot.press("enter", "escape")
        assert app.screen is chat(app)


async def test_renaming(scripted, three):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("ctrl+s")
        await listed(app)
        await pilot.press("ctrl+r", "escape")
        assert not app.screen.has_class("-renaming")
        await pilot.press("ctrl+r")
        app.screen.title_input.value = "birds of prey"
        await pilot.press("enter")
        await until(lambda: app.screen._found[0].title == "birds of prey")
        await pilot.press("ctrl+r")
        app.screen.title_input.value = "  "
        await pilot.press("enter")
        await until(lambda: "needs a title" in on_screen(app))


async def test_deleting_asks_once(scripted, three):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("ctrl+s")
        await listed(app)
        await pilot.press("ctrl+d")
        await until(lambda: "again deletes" in on_screen(app))
        await pilot.press("down")
        await until(lambda: "again deletes" not in on_screen(app))
        await pilot.press("ctrl+d", "ctrl+d")
        await until(lambda: len(app.screen._found) == 2)
        assert [summary.title for summary in app.screen._found] == ["about birds", "about routers"]


async def test_deleting_the_one_that_is_shown(scripted, three):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        await pilot.press("ctrl+s")
        await listed(app)
        await pilot.press("enter")
        await until(lambda: "An answer about birds." in said(app))
        await pilot.press("ctrl+s")
        await listed(app)
        await pilot.press("ctrl+d", "ctrl+d")
        await until(lambda: len(app.screen._found) == 2)
        await pilot.press("escape")
        assert "An answer about birds." not in said(app)


@pytest.mark.parametrize(
    ("since", "words", "sentence"),
    [
        (0, "now", "just now"),
        (59, "now", "just now"),
        (61, "1 min", "1 min ago"),
        (3 * HOUR, "3 h", "3 h ago"),
        (25 * HOUR, "1 day", "1 day ago"),
        (50 * HOUR, "2 days", "2 days ago"),
        (-5, "now", "just now"),
    ],
)
def test_how_long_ago(since, words, sentence):
    assert when(1_000_000.0 - since, 1_000_000.0) == words
    assert ago(1_000_000.0 - since, 1_000_000.0) == sentence


def test_long_ago_is_a_date():
    then = time.mktime((2024, 5, 6, 12, 0, 0, 0, 0, -1))
    assert when(then, then + 30 * 24 * HOUR) == "2024-05-06"
    assert ago(then, then + 30 * 24 * HOUR) == "on 2024-05-06"


def test_titles_from_outside_are_made_safe():
    summary = ConversationSummary(1, "\x1b[31mred", "m\x07-1", "p\x9b", 0.0, 0.0, 2)
    assert not any(ord(c) < 32 and c != "\n" for c in row(summary, 0.0).plain)
