"""Takes the README's pictures: the real application on the demo model, driven by keys, as SVG.

    make screenshots        (or: python -m tests.screenshots [FOLDER])

The demo model is built first if it is missing. Nothing of the user's is touched: settings, conversations and history
live in a folder of their own.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from colibri_tui.models import demo_folder, is_model

SIZES = ((80, 24), (120, 40), (200, 60))
PROMPTS = (
    "Hi! Who are you, and what can you do?",
    "Write a Python function that returns the n-th Fibonacci number, and explain it.",
)
PATIENCE_S = 300.0


async def _until(condition: object, pilot: object) -> None:
    """Wait until the condition holds."""
    end = asyncio.get_running_loop().time() + PATIENCE_S
    while not condition():  # type: ignore[operator]
        if asyncio.get_running_loop().time() > end:
            raise SystemExit("the application did not get there in time")
        await asyncio.sleep(0.1)


async def _take(folder: Path, model: Path, size: tuple[int, int]) -> None:
    from colibri_tui.app import ColibriApp
    from colibri_tui.engine_link import LinkState
    from colibri_tui.launch import launch
    from engine.worker import ENGINE

    app = ColibriApp(launch(ENGINE, {}, profile="default", model=model))
    name = f"{size[0]}x{size[1]}"
    async with app.run_test(size=size) as pilot:
        link = app.screen._engine  # type: ignore[attr-defined]
        await _until(lambda: link.state is LinkState.READY, pilot)
        await pilot.press("ctrl+n")
        for prompt in PROMPTS:
            await pilot.press(*(("space" if c == " " else c) for c in prompt))
            await pilot.press("enter")
            await _until(lambda: link.state is LinkState.BUSY, pilot)
            if prompt is PROMPTS[-1]:
                await asyncio.sleep(3.0)
                (folder / f"answering-{name}.svg").write_text(app.export_screenshot(title="colibri-tui"))
            await _until(lambda: link.state is LinkState.READY, pilot)
        await asyncio.sleep(0.5)
        (folder / f"chat-{name}.svg").write_text(app.export_screenshot(title="colibri-tui"))
        await pilot.press("f2")
        await asyncio.sleep(0.5)
        (folder / f"atlas-{name}.svg").write_text(app.export_screenshot(title="colibri-tui"))


def main() -> None:
    """Take all pictures."""
    os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
    os.environ.pop("NO_COLOR", None)
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "screenshots"
    model = demo_folder()
    if not is_model(model):
        from colibri_tui.commands.demo import build

        build()
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        data = Path(home) / "data" / "models"
        data.mkdir(parents=True)
        (data / "demo").symlink_to(model)
        os.environ["COLIBRI_TUI_HOME"] = home
        for size in SIZES:
            asyncio.run(_take(folder, data / "demo", size))


if __name__ == "__main__":
    main()
