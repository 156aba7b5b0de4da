"""Whether the memory of the screen's process stays flat over many turns.

    python -m tests.benchmarks.bench_turns [--turns 1000]

The whole application with an engine that is a script: every turn has a question, an answer of some kilobytes of
Markdown in pieces, and frames of a board of 76 x 256 experts that was used meanwhile. Prints the resident set after
every tenth of the turns; what it grows by after the first fifth is what one would have to worry about.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import psutil

from colibri_tui.app import ColibriApp
from colibri_tui.engine_link import EngineReady, EngineText, EngineTurn, LinkState
from colibri_tui.launch import Launch
from colibri_tui.screens.chat import ChatScreen
from colibri_tui.settings import Settings
from tests.benchmarks.bench_transcript import ANSWER
from tests.fake_engine import write_model
from tests.tui.boards import fire, lived_in
from tests.tui.scripted_link import READY, TURN, Link

LAYERS, EXPERTS = 76, 256
PIECES = 12


async def turn(app: ColibriApp, screen: ChatScreen, number: int) -> None:
    """Ask, let the answer arrive and be drawn."""
    link = screen._engine
    screen.conductor.submit(f"question {number}")
    while screen.conductor.session.running is None:
        await asyncio.sleep(0.001)
    size = len(ANSWER) // PIECES + 1
    for n in range(PIECES):
        fire(link.board, top_k=8, seed=number * PIECES + n)
        piece = ANSWER[n * size : (n + 1) * size]
        screen.post_message(EngineText(link.turns, piece, 1, pieces=(piece,)))
        screen._beat()
        screen._beat()
        await asyncio.sleep(0)
    link.state = LinkState.READY
    screen.post_message(EngineTurn(link.turns, replace(TURN, tokens=PIECES), ANSWER))
    while screen.conductor.session.running is not None:
        await asyncio.sleep(0.001)
    while app.screen._layout_required or app.screen._dirty_widgets:
        await asyncio.sleep(0.001)


class CountingLink(Link):
    """A scripted link that knows its turn's number."""

    @property
    def turns(self) -> int:
        """Number of the turn that was asked for last."""
        return len(self.asked)


async def main(turns: int) -> None:
    """Run and print."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["COLIBRI_TUI_HOME"] = folder
        model = write_model(Path(folder) / "fake-moe")
        app = ColibriApp(Launch(Settings(Path(folder) / "settings.toml"), "default", model))
        script = patch("colibri_tui.screens.chat.EngineLink", lambda target, factory: CountingLink())
        with script:
            await run(app, turns)


async def run(app: ColibriApp, turns: int) -> None:
    """Run the application, and print."""
    async with app.run_test(size=(200, 60)):
        screen = app.screen_stack[0]
        assert isinstance(screen, ChatScreen)
        await asyncio.sleep(0.2)
        screen._engine.board = lived_in(LAYERS, EXPERTS)
        screen._engine.state = LinkState.READY
        ready = replace(READY, layers=LAYERS, experts=EXPERTS, moe_layers=tuple(range(LAYERS)), context=10**9)
        screen.conductor.hear(EngineReady(0, ready))
        process, sizes = psutil.Process(), []
        for number in range(1, turns + 1):
            await turn(app, screen, number)
            screen._engine.asked[:-1] = [([], False)] * (len(screen._engine.asked) - 1)  # the script keeps nothing
            if number % max(1, turns // 10) == 0:
                gc.collect()
                sizes.append((number, process.memory_info().rss / 1e6))
                print(f"{number:>6} turns  {sizes[-1][1]:7.1f} MB", flush=True)
        first, last = sizes[min(1, len(sizes) - 1)], sizes[-1]
        print(f"growth after turn {first[0]}: {last[1] - first[1]:+.1f} MB in {last[0] - first[0]} turns")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=1000)
    asyncio.run(main(parser.parse_args().turns))
