"""What comes from outside, long conversations, and windows that change: nothing of it breaks the screen."""

import time

import pytest
from rich.cells import cell_len

from colibri_tui.engine_link import EngineText, EngineTurn, LinkState
from colibri_tui.widgets.message_view import MessageView, TranscriptMessage
from tests.tui.screens.conftest import chat, load, on_screen, said, send, until
from tests.tui.scripted_link import TURN

SCRIPTS = {
    "chinese": "专家路由器如何选择专家？它给每个专家打分，然后保留最好的几个。" * 4,
    "emoji": "🐦👩‍👩‍👧‍👦🏳️‍🌈👍🏽🇨🇭 " * 20,
    "arabic": "كيف يختار الموجه الخبراء؟ يعطي كل خبير درجة " * 6,
    "hebrew": "איך הנתב בוחר מומחים? " * 10,
    "combining": "Z̸̧̛a̶͓l̵g̷o̴ ñ é " * 20,
    "long word": "x" * 500,
    "hostile": "\x1b[2J\x1b]0;title\x07\x9b31m\u202etxt.exe\u2066 \x1bP1;1q\x1b\\ \r\b",
}


def rows(app) -> list[str]:
    return [strip.text for strip in app.screen._compositor.render_strips()]


@pytest.mark.parametrize("size", [(120, 40), (40, 12), (20, 6)], ids=lambda size: "x".join(map(str, size)))
async def test_every_script_keeps_its_place(scripted, size):
    app = scripted()
    async with app.run_test(size=size) as pilot:
        load(app)
        for name, text in SCRIPTS.items():
            chat(app).transcript.load([TranscriptMessage("user", text), TranscriptMessage("assistant", f"- {text}")])
            chat(app).composer.draft = text
            await pilot.pause()
            for row in rows(app):
                assert cell_len(row) == size[0], (name, row)
                assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or c in "\u202e\u2066" for c in row), name


async def test_the_window_changes_while_an_answer_comes(scripted):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        await send(pilot, "hello")
        for number, size in enumerate([(60, 20), (200, 60), (30, 10), (10, 3), (1, 1), (120, 40)]):
            chat(app).conductor.hear(EngineText(1, f"words {number} of a **growing** answer\n\n", 3))
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert all(cell_len(row) == size[0] for row in rows(app))
        chat(app)._engine.state = LinkState.READY
        chat(app).conductor.hear(EngineTurn(1, TURN, "x"))
        await pilot.pause()
        assert "words 5 of a growing answer" in on_screen(app)
        assert said(app)[-1].count("words") == 6


async def test_ten_thousand_lines_scroll(scripted):
    lines = [f"line {number} of a very long conversation" for number in range(100)]
    messages = [TranscriptMessage("assistant", "\n\n".join(lines)) for _ in range(60)]
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        chat(app).transcript.load(messages)
        await pilot.pause()
        log = chat(app).transcript._log
        assert log.virtual_size.height > 10_000
        before = time.thread_time()
        for _ in range(20):
            log.action_page_up()
            await pilot.pause()
        spent = time.thread_time() - before
        assert log.scroll_y < log.max_scroll_y - 500
        assert spent / 20 < 0.25, "a page takes a moment, not a second"


async def test_only_the_newest_messages_of_a_long_conversation_are_widgets(scripted):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        chat(app).transcript.load([TranscriptMessage("user", f"{number}") for number in range(5000)])
        await pilot.pause()
        assert len(chat(app).transcript.query(MessageView)) == 60
        await pilot.press("alt+up", "alt+up")
        assert chat(app).transcript.chosen.content == "4998"


async def test_everything_can_be_reached_without_a_mouse(scripted):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        load(app)
        seen = set()
        for _ in range(10):
            await pilot.press("tab")
            seen.add(type(app.focused).__name__)
        assert {"Composer", "MessageLog"} <= seen
        for key in ("f1", "f8", "ctrl+t", "alt+p"):
            await pilot.press(key)
            await until(lambda: app.screen is not chat(app), key)
            await pilot.press("escape")
            await until(lambda: app.screen is chat(app), key)
