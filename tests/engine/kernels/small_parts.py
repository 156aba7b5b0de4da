"""Parts that helpers compile in a moment, and some that go wrong."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from numba import int64

from engine.kernels.compiled import inner, native


@inner
def twice(x: int) -> int:
    """Called by the others."""
    return 2 * x


@native
def fourfold(x: int) -> int:
    """Another one's callee."""
    return twice(twice(x))


@native
def sixfold(x: int) -> int:
    """A third function."""
    return fourfold(x) + twice(x)


def compile_twice() -> None:
    """Compile the leaf."""
    twice.compile((int64,))


def compile_fourfold() -> None:
    """Compile what calls the leaf."""
    fourfold.compile((int64,))


def compile_sixfold() -> None:
    """Compile what calls both."""
    sixfold.compile((int64,))


def fail() -> None:
    """A part that cannot be compiled."""
    raise ValueError("on purpose")


def be_killed() -> None:
    """A part at which memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def take_long() -> None:
    """A part that ends with the process; it leaves the process's id in the folder of the kernels."""
    folder = Path(os.environ["COLIBRI_KERNELS"])
    (folder / "begun").write_text(str(os.getpid()))
    time.sleep(600)
