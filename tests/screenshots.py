"""Takes the README's pictures: the real application on the demo model, driven by keys, as SVG.

    make screenshots        (or: python -m tests.screenshots [FOLDER] [--png])

The demo model is built first if it is missing. Nothing of the user's is touched: settings, conversations and history
live in a folder of their own.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from html import unescape
from pathlib import Path

from rich.cells import cell_len

from colibri_tui import paths
from colibri_tui.app import ColibriApp
from colibri_tui.models import demo_folder, is_model

MIDDLE = (120, 40)
SIZES = ((80, 24), MIDDLE, (200, 60))
PROMPTS = (
    "Hi! Who are you, and what can you do?",
    "Write a Python function that returns the n-th Fibonacci number, and explain it.",
)
PATIENCE_S = 300.0
LONG_ENOUGH = 1200
"""Characters after which an answer is stopped."""


def _keys(text: str) -> list[str]:
    return ["space" if character == " " else character for character in text]


async def _until(condition: object, pilot: object) -> None:
    """Wait until the condition holds."""
    end = asyncio.get_running_loop().time() + PATIENCE_S
    while not condition():  # type: ignore[operator]
        if asyncio.get_running_loop().time() > end:
            raise SystemExit("the application did not get there in time")
        await asyncio.sleep(0.1)


_TEXT = re.compile(r'(<text [^>]*?x=")([\d.]+)("[^>]*? textLength=")[\d.]+("[^>]*>)([^<]*)(</text>)')
_SPACE = "&#160;"
_COLUMN = 12.2
"""Width of a column in the pictures."""


def tidy(svg: str) -> str:
    """Return a picture that every program draws alike.

    Some drop spaces at the ends of a text, which moves what is left, and spaces within are as wide as another font
    has them: so every few words are put where they belong. A font with ligatures would show what is not on the screen.
    """

    def placed(match: re.Match[str]) -> str:
        head, x, middle, tail, text, end = match.groups()
        column, parts = 0, []
        for part in re.split(f"((?:{_SPACE}){{2,}})", text):
            words = part.removeprefix(_SPACE).removesuffix(_SPACE)
            at = column + part.startswith(_SPACE)
            column += cell_len(unescape(part))
            if words.replace(_SPACE, ""):
                width = cell_len(unescape(words)) * _COLUMN
                parts.append(f"{head}{float(x) + at * _COLUMN:g}{middle}{width:g}{tail}{words}{end}")
        return "".join(parts)

    plain = 'text { font-variant-ligatures: none; font-feature-settings: "calt" 0 }</style>'
    return _TEXT.sub(placed, svg).replace("</style>", plain, 1)


SCREENS = (
    ("commands", ("/", "t"), ("escape", "ctrl+c")),
    ("edit", ("alt+e",), ("escape",)),
    ("find", ("ctrl+f", *"function"), ("escape",)),
    ("settings", ("f8",), ("escape",)),
    ("themes", ("ctrl+t",), ("escape",)),
    ("profiles", ("alt+p",), ("escape",)),
    ("conversations", ("ctrl+s",), ("escape",)),
    ("help", ("f1",), ("escape",)),
)
"""What is taken besides the chat: a name, the keys that open it, those that close it again."""
THEMES = ("colibri-light", "ember", "okabe", "contrast", "ansi16")


async def _take(folder: Path, model: Path, size: tuple[int, int]) -> ColibriApp:
    """Take the pictures of one size; return the application, which has ended."""
    from colibri_tui.engine_link import LinkState
    from colibri_tui.launch import launch
    from engine.worker import ENGINE

    app = ColibriApp(launch(ENGINE, {}, profile="default", model=model))
    name = f"{size[0]}x{size[1]}"

    def save(what: str) -> None:
        (folder / f"{what}-{name}.svg").write_text(tidy(app.export_screenshot(title="colibri-tui")))

    def answer() -> str:
        return app.screen.transcript.last_answer()  # type: ignore[attr-defined, no-any-return]

    def is_longer(than: int, before: str) -> bool:
        """Whether there is an answer of so many characters, other than the one before, or one that has ended."""
        return link.state is LinkState.READY or (answer() != before and len(answer()) > than)

    async with app.run_test(size=size) as pilot:
        link = app.screen._engine  # type: ignore[attr-defined]
        await _until(lambda: link.state is LinkState.READY, pilot)
        await pilot.press("ctrl+n")
        await pilot.press(*_keys("/temperature 0.3"), "enter")
        for prompt in PROMPTS:
            before = answer()
            await pilot.press(*_keys(prompt), "enter")
            await _until(lambda: link.state is LinkState.BUSY, pilot)
            if prompt is PROMPTS[-1]:
                await _until(partial(is_longer, min(size[0] * size[1] // 8, 700), before), pilot)
                save("answering")
            # A small model may not find an end.
            await _until(partial(is_longer, LONG_ENOUGH, before), pilot)
            await pilot.press("escape")
            await _until(lambda: link.state is LinkState.READY, pilot)
        await asyncio.sleep(0.5)
        save("chat")
        await pilot.press("f2")
        await asyncio.sleep(0.5)
        save("atlas")
        await pilot.press("f2")
        if size != MIDDLE:
            return app
        for screen, opening, closing in SCREENS:
            await pilot.press(*opening)
            await asyncio.sleep(0.7)
            save(screen)
            await pilot.press(*closing)
        for theme in THEMES:
            app.theme = theme
            await asyncio.sleep(0.7)
            save(f"theme-{theme}")
        app.theme = "colibri"
        await asyncio.sleep(0.7)
        app.screen.action_practice()  # type: ignore[attr-defined]
        await pilot.press("down", "enter")
        await asyncio.sleep(6.0)
        save("practice")
        await pilot.press("escape")
    return app


def _pngs(folder: Path) -> None:
    """Draw the pictures as PNG too, where the system can."""
    if shutil.which("rsvg-convert") is None:
        print("no rsvg-convert here (librsvg2-bin): SVG only")
        return
    for picture in sorted(folder.glob("*.svg")):
        subprocess.run(["rsvg-convert", "-z", "1.5", "-o", picture.with_suffix(".png"), picture], check=True)


def main() -> None:
    """Take all pictures."""
    os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
    os.environ.pop("NO_COLOR", None)
    named = [argument for argument in sys.argv[1:] if argument != "--png"]
    folder = Path(named[0]) if named else Path(__file__).parent.parent / "screenshots"
    model = demo_folder()
    if not is_model(model):
        from colibri_tui.commands.model import build_demo

        build_demo()
    folder.mkdir(exist_ok=True)
    paths.cache_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        data = Path(home) / "data" / "models"
        data.mkdir(parents=True)
        (data / "demo").symlink_to(model)
        (Path(home) / "cache").symlink_to(paths.cache_dir())  # kernels are compiled already
        os.environ["COLIBRI_TUI_HOME"] = home
        for size in SIZES:
            asyncio.run(_take(folder, data / "demo", size)).join(PATIENCE_S)  # the engine saves what it learned
    if "--png" in sys.argv:
        _pngs(folder)


if __name__ == "__main__":
    main()
