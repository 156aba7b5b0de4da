"""What the transcript costs: CPU milliseconds of the screen's thread per fed piece, key, resize, theme.

    python -m tests.benchmarks.bench_transcript [--messages 100] [--pieces 400]

Fifty tokens a second arrive in twenty pieces; the pieces here come as fast as they are drawn, and CPU time is what
counts, so the machine's load does not matter much. The answers have prose, lists, tables and code.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

from textual.events import AppBlur, AppFocus

from colibri_tui.widgets.message_view import TranscriptMessage
from tests.tui.widgets.hosts import ChatHost

PARAGRAPH = (
    "A router scores **every** expert with a dot product and keeps the `top-k`; only those are read from disk. " * 4
)
ITEMS = "\n".join(f"- item {n} says *something* about `slot_of[{n}]` and goes on for a while" for n in range(12))
TABLE = "| tier | hits | note |\n|:--|--:|--|\n" + "\n".join(f"| t{n} | {n} | some words |" for n in range(8))
CODE = (
    "```python\n" + "\n".join(f"def f{n}(x: int) -> str:\n    return str(x + {n})  # note\n" for n in range(20)) + "```"
)
ANSWER = f"## Answer\n\n{PARAGRAPH}\n\n{ITEMS}\n\n{TABLE}\n\n{CODE}\n\n{PARAGRAPH}\n"
PIECE = 10
"""Characters: fifty tokens of four characters a second in twenty pieces."""


async def settle(app: ChatHost, seconds: float = 0.02) -> None:
    """Let the application draw."""
    await asyncio.sleep(seconds)
    while app.screen._layout_required or app.screen._dirty_widgets:
        await asyncio.sleep(0.005)


def report(name: str, times: list[float]) -> None:
    """Print mean, median, 90th and 99th percentile of CPU milliseconds."""
    ordered = sorted(times)
    at = [ordered[min(int(len(ordered) * share), len(ordered) - 1)] for share in (0.5, 0.9, 0.99)]
    print(f"{name:34s} mean {statistics.mean(times):7.2f}  p50 {at[0]:7.2f}  p90 {at[1]:7.2f}  p99 {at[2]:7.2f} ms")


async def measure(name: str, times: int, app: ChatHost, action: Callable[[int], Awaitable[None] | None]) -> None:
    """Run an action some times and report the CPU time of each, drawing included."""
    spent = []
    for number in range(times):
        start = time.thread_time()
        if (result := action(number)) is not None:
            await result
        await settle(app)
        spent.append((time.thread_time() - start) * 1e3)
    report(name, spent)


def type_key(app: ChatHost, number: int) -> None:
    """Type one letter."""
    app.composer.insert(chr(ord("a") + number))


def change_focus(app: ChatHost, number: int) -> None:
    """Let the terminal lose the focus, or get it again."""
    app.post_message(AppFocus() if number % 2 else AppBlur())


async def main(messages: int, pieces: int, size: tuple[int, int]) -> None:
    """Measure one conversation."""
    history = [
        TranscriptMessage("user" if n % 2 == 0 else "assistant", ANSWER if n % 2 else "why?") for n in range(messages)
    ]
    app = ChatHost()
    async with app.run_test(size=size) as pilot:
        await settle(app)
        print(f"{size[0]}x{size[1]}, {messages} messages")
        await measure("nothing (20 ms of an idle loop)", 20, app, lambda _: None)
        await measure("load the conversation", 1, app, lambda _: app.transcript.load(history))
        app.transcript.start_reply()
        await settle(app)
        text = ANSWER * (pieces * PIECE // len(ANSWER) + 1)
        feeding = []
        spent = []
        for number in range(pieces):
            start = time.thread_time()
            app.transcript.feed(text[number * PIECE : (number + 1) * PIECE])
            feeding.append((time.thread_time() - start) * 1e3)
            await settle(app)
            spent.append((time.thread_time() - start) * 1e3)
        report("feed, until it returns", feeding)
        report("feed, drawing included", spent)
        await measure("key in the composer", 20, app, lambda n: type_key(app, n))
        await measure(
            "page up and down", 10, app, lambda n: app.transcript.scroll_messages("page_down" if n % 2 else "page_up")
        )
        await measure("finish the answer", 1, app, lambda _: app.transcript.finish_reply("done", "note") and None)
        themes = ["textual-light", "textual-dark"]
        await measure("theme", 4, app, lambda n: setattr(app, "theme", themes[n % 2]))
        await measure("focus of the terminal", 4, app, lambda n: change_focus(app, n))
        await measure("resize", 4, app, lambda n: pilot.resize_terminal(size[0] - n % 2 * 10, size[1]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100)
    parser.add_argument("--pieces", type=int, default=400)
    parser.add_argument("--size", default="120x40")
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    asyncio.run(main(options.messages, options.pieces, (width, height)))
