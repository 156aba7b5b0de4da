"""Pictures of the chat half of the screen. `pytest --snapshot-update` renews them; look at them before committing."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot

from colibri_tui.widgets import tail_view
from colibri_tui.widgets.message_view import TranscriptMessage
from tests.tui.widgets.hosts import ChatHost

ANSWER = """\
## How a router chooses

It scores every expert with a **dot product**, keeps the *best eight* of `softmax(x @ w)`, and only those are
read from disk; see [the paper](https://arxiv.org/abs/1701.06538).

1. Compute the logits
   - cheap, the router is small
2. Read the misses

```python
def route(x: Array, w: Array, k: int = 8) -> Array:
    \"\"\"Return the ids of the k best experts.\"\"\"
    return np.argsort(x @ w)[-k:]  # [experts]
```

| tier | hits | note |
|:-----|-----:|------|
| pin  | 61 % | never evicted |
| disk |  8 % | read with `preadv` |

> Placement never changes tokens.
"""
CONVERSATION = [
    TranscriptMessage("user", "How does the router choose experts?"),
    TranscriptMessage("assistant", ANSWER, "stopped", "stopped · 41 tokens · 12.3 tok/s"),
]


@pytest.fixture(autouse=True)
def _draw_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no feed wait because this machine was slow with the one before."""
    monkeypatch.setattr(tail_view, "SHARE", 0)


async def finished(pilot: Pilot[None]) -> None:
    """Show a conversation with a draft."""
    app = pilot.app
    assert isinstance(app, ChatHost)
    app.composer.draft = "And what if\nnone fits?"
    await pilot.pause()


async def running(pilot: Pilot[None]) -> None:
    """Show a notice, and an answer in the middle of some code."""
    app = pilot.app
    assert isinstance(app, ChatHost)
    app.transcript.notice("The engine ran out of memory.", "error", [("restart", "Restart with 2 GB"), ("log", "Log")])
    app.transcript.add_user("Once more, please")
    app.transcript.start_reply()
    app.transcript.feed(ANSWER[:420])
    await pilot.pause()


async def reading(pilot: Pilot[None]) -> None:
    """Show progress before the first token, seen from further up."""
    await running(pilot)
    app = pilot.app
    assert isinstance(app, ChatHost)
    await pilot.press("pageup")
    app.transcript.feed(ANSWER)
    await pilot.pause()


@pytest.mark.parametrize(
    ("size", "state", "theme"),
    [
        ((80, 24), finished, "textual-dark"),
        ((80, 24), reading, "ansi-dark"),
        ((120, 40), running, "textual-dark"),
    ],
    ids=["finished-80x24", "scrolled-up-ansi-80x24", "running-120x40"],
)
def test_the_chat_looks_right(snap_compare: Any, size: tuple[int, int], state: Any, theme: str) -> None:
    app = ChatHost(CONVERSATION)
    app.theme = theme
    assert snap_compare(app, terminal_size=size, run_before=state)
