"""What an atlas frame costs: CPU milliseconds for 76 layers x 256 experts, drawn one to one.

    python -m tests.benchmarks.bench_atlas

Prints medians over frames in which every layer fires eight other experts, so that every row changes. "frame" is
sampling the board, computing the picture and writing what changed over the last one, with what the terminal gets for
it; "repaint" is drawing all rows anew, which is done when another part of the screen moves.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable

from textual.app import App, ComposeResult
from textual.drivers.headless_driver import HeadlessDriver

from colibri_tui.render.glyphs import BLOCKS
from colibri_tui.render.looks import Looks
from colibri_tui.render.ramps import Depth
from colibri_tui.telemetry import Telemetry
from colibri_tui.themes import builtin_themes
from colibri_tui.widgets.atlas import Atlas
from tests.tui.boards import fire, lived_in

LAYERS, EXPERTS, FRAMES = 76, 256, 60


class CountingDriver(HeadlessDriver):
    """A terminal that only counts what is written to it."""

    written = 0

    @property
    def is_headless(self) -> bool:
        """Not for those who ask: they would not write."""
        return False

    def write(self, data: str) -> None:
        """Count bytes."""
        self.written += len(data.encode())


class Host(App[None]):
    """An atlas and nothing else."""

    def __init__(self, depth: Depth) -> None:
        super().__init__()
        self.depth = depth

    def _build_driver(self, headless: bool, inline: bool, mouse: bool, size: tuple[int, int] | None) -> CountingDriver:
        return CountingDriver(self, mouse=mouse, size=size)

    def compose(self) -> ComposeResult:
        yield Atlas(Looks(builtin_themes()["colibri"].palette, BLOCKS, self.depth))


def timed(work: Callable[[], object]) -> float:
    """Return the CPU milliseconds of one call."""
    start = time.thread_time()
    work()
    return (time.thread_time() - start) * 1000


async def measure(depth: Depth, *, ranked: bool) -> None:
    """Print one line."""
    board = lived_in(LAYERS, EXPERTS)
    telemetry = Telemetry(board, range(LAYERS))
    async with Host(depth).run_test(size=(EXPERTS + 8, LAYERS // 2 + 2)) as pilot:
        atlas = pilot.app.query_one(Atlas)
        atlas.ranked = ranked
        driver, console = pilot.app._driver, pilot.app.console
        assert isinstance(driver, CountingDriver)
        frames, sizes, repaints, whole = [], [], [], 0
        atlas.show(telemetry.sample(live=True))
        await pilot.pause()
        for n in range(FRAMES):
            fire(board, top_k=8, seed=n)
            driver.written = 0
            frames.append(timed(lambda: atlas.show(telemetry.sample(live=True))))
            sizes.append(driver.written)

            def repaint() -> None:
                nonlocal whole
                strips = atlas.render_lines(atlas.size.region)
                whole = len("".join(strip.render(console) for strip in strips).encode())

            repaints.append(timed(repaint))
        rows = atlas.size.height - 2
        print(
            f"{depth.value:>10} {'by use' if ranked else 'by number':>10}  {rows} rows"
            f"  frame {statistics.median(frames):5.2f} ms {statistics.median(sizes) / 1024:4.0f} KiB"
            f"  repaint {statistics.median(repaints):5.2f} ms {whole / 1024:4.0f} KiB",
            file=sys.__stdout__,
        )


if __name__ == "__main__":
    for depth in (Depth.TRUECOLOR, Depth.XTERM):
        for ranked in (False, True):
            asyncio.run(measure(depth, ranked=ranked))
