"""A small application around the transcript and the composer, for tests."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import App, ComposeResult
from textual.events import Key
from textual.message import Message
from textual.pilot import Pilot

from colibri_tui.widgets.composer import Composer
from colibri_tui.widgets.message_log import MessageLog
from colibri_tui.widgets.message_view import MessageView, TranscriptMessage
from colibri_tui.widgets.transcript import Transcript


class ChatHost(App[None]):
    """Transcript above, composer below; messages of both are collected."""

    CSS = "Screen { layout: vertical; overflow: hidden; }"

    def __init__(self, messages: list[TranscriptMessage] | None = None, *, ansi: bool | None = None) -> None:
        super().__init__(ansi_color=ansi)
        self.messages = messages or []
        self.posted: list[Message] = []

    def compose(self) -> ComposeResult:
        yield Transcript()
        yield Composer(placeholder="message")

    def on_mount(self) -> None:
        self.transcript.load(self.messages)
        self.composer.focus()

    @property
    def transcript(self) -> Transcript:
        return self.query_one(Transcript)

    @property
    def log_view(self) -> MessageLog:
        return self.query_one(MessageLog)

    @property
    def composer(self) -> Composer:
        return self.query_one(Composer)

    @property
    def views(self) -> list[MessageView]:
        return list(self.query(MessageView))

    def on_composer_scroll_requested(self, event: Composer.ScrollRequested) -> None:
        self.transcript.scroll_messages(event.how)

    def on_composer_submitted(self, event: Composer.Submitted) -> None:
        self.posted.append(event)

    def on_composer_draft_changed(self, event: Composer.DraftChanged) -> None:
        self.posted.append(event)

    def on_transcript_action(self, event: Transcript.Action) -> None:
        self.posted.append(event)

    def on_transcript_copy_requested(self, event: Transcript.CopyRequested) -> None:
        self.posted.append(event)

    def screen_lines(self) -> list[str]:
        """Return what the terminal shows, one string a row, without the scroll bar."""
        rows = self.screen._compositor.render_strips()
        return ["".join(segment.text for segment in row).rstrip(" ▁▂▃▄▅▆▇█") for row in rows]

    def top(self) -> str:
        """Return the first row of the transcript."""
        return self.screen_lines()[0].strip()


def conversation(turns: int, lines: int = 6) -> list[TranscriptMessage]:
    """Return questions and answers, every line of which is different."""
    messages = []
    for turn in range(turns):
        messages.append(TranscriptMessage("user", f"question {turn}"))
        text = "\n".join(f"answer {turn} line {line}" for line in range(lines))
        messages.append(TranscriptMessage("assistant", text, note=f"note {turn}"))
    return messages


def burst(app: App[None], *keys: str) -> None:
    """Press keys faster than the application can handle any of them."""
    for key in keys:
        app.post_message(Key(key, key if len(key) == 1 else None))


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    """Let the application run until something is true."""
    for _ in range(200):
        if condition():
            return
        await pilot.pause(0.01)
    raise AssertionError("it never came true")
