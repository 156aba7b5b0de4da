"""The machine: processor, memory, disk, terminal."""

from __future__ import annotations

import locale
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich.console import Console

from engine.control_groups import memory_left
from engine.disk import read_speed, scratch_file
from engine.errors import EngineError
from engine.plan import AUTO_SHARE, available_memory
from engine.processor import processor as this_processor

from .. import paths
from ..render.units import size
from .findings import Finding, fail, ok, warn

EXPERT_BYTES: Final = 2 << 20
"""Of a read, when no model says how large its experts are: about Qwen3-30B-A3B's in int4."""

_SLOW_DISK: Final = 500_000_000
_SMALL_READ: Final = 1 << 19
"""Reads below this are slow on any disk."""
_LITTLE_MEMORY: Final = 3_000_000_000
_LITTLE_ROOM: Final = 20_000_000_000

_COLOURS: Final = {"truecolor": "16 million", "256": "256", "standard": "16", "windows": "16"}

_SPEEDS: Final = {
    "vnni512": "512-bit vectors with integer dot products", "vnni256": "256-bit vectors with integer dot products",
    "avx2": "256-bit vectors", "neon": "128-bit vectors with integer dot products", "generic": "no vectors",
}  # fmt: skip


def processor() -> Iterator[Finding]:
    """Which kernels run."""
    found = this_processor()
    level = found.level
    text = f"{level} kernels ({_SPEEDS[level]}), {found.cores} cores"
    if found.is_held_back:
        yield warn(
            "processor", text, f"COLIBRI_ISA={level} is set; without it {found.best} kernels would run, which is faster"
        )
    elif level == "generic":
        yield warn("processor", text, "this processor has none of AVX2, AVX-512 and NEON dot products: it will be slow")
    else:
        yield ok("processor", text)


def memory() -> Iterator[Finding]:
    """How much there is, and what limits it."""
    free, left = available_memory(), memory_left()
    text = f"{size(free)} available; --ram auto plans with {size(AUTO_SHARE * free)}"
    if left is not None and left <= free:
        text += f"; a control group (container, systemd) leaves {size(left)}"
    if free < _LITTLE_MEMORY:
        yield warn("memory", text, "close other programs, or choose a small model (see 'colibri-tui models')")
    else:
        yield ok("memory", text)


def disk(files: list[Path] | None = None, expert_bytes: int = EXPERT_BYTES) -> Iterator[Finding]:
    """How fast experts come from the disk that holds `files`, or the models' folder."""
    try:
        if files:
            speed = read_speed(files, expert_bytes)
        else:
            paths.models_dir().mkdir(parents=True, exist_ok=True)
            with scratch_file(paths.models_dir()) as file:
                speed = read_speed([file], expert_bytes)
    except EngineError as error:
        yield fail("disk", str(error), "check the disk and the permissions of its folders")
        return
    text = f"{size(speed.rate)}/s in random reads of {size(speed.nbytes)}"
    if not speed.direct:
        yield warn(
            "disk", f"{text}, through the page cache: direct reads (O_DIRECT) are refused here",
            "part of this is memory's speed, not the disk's; put models on a local ext4, xfs or btrfs file system",
        )  # fmt: skip
    elif speed.rate < _SLOW_DISK and speed.nbytes >= _SMALL_READ:
        yield warn(
            "disk", f"{text}, direct", "models larger than memory will be slow; an NVMe drive gives 2 GB/s and more"
        )
    else:
        yield ok("disk", f"{text}, direct")


def room() -> Iterator[Finding]:
    """How much fits on the disk."""
    folder = paths.models_dir()
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    text = f"{size(free)} free for models in {paths.models_dir()}"
    if free < _LITTLE_ROOM:
        yield warn("room", text, "a 30-billion-parameter model takes 17 GB; set COLIBRI_TUI_HOME to another disk")
    else:
        yield ok("room", text)


def terminal() -> Iterator[Finding]:
    """What it can draw."""
    if not sys.stdout.isatty():
        yield ok("terminal", "none: this is a pipe or a file; 'colibri-tui run' works without one")
        return
    console = Console()
    colours = _COLOURS.get(console.color_system or "")
    text = f"{console.width} x {console.height}, {colours or 'no'} colours, {locale.getencoding()}"
    problems = []
    if "utf" not in locale.getencoding().lower():
        problems.append("set LANG to a UTF-8 locale, for blocks and braille")
    if colours != "16 million" and "NO_COLOR" not in os.environ:
        problems.append("set COLORTERM=truecolor if the terminal has all colours (most do; screen and old tmux do not)")
    if console.width < 80 or console.height < 24:
        problems.append("make the window at least 80 x 24")
    yield warn("terminal", text, "; ".join(problems)) if problems else ok("terminal", text)
