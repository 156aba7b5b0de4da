"""Opens an engine for a process that has not imported one yet.

Importing the engine compiles its largest kernels when nobody has before, without a word and on one processor. So on a
machine's first start everything is compiled by other processes first.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .compiling import compile_elsewhere, is_compiled
from .headers import read_headers, spec_of
from .options import EngineOptions

if TYPE_CHECKING:
    from .engine import Engine, Progress


def open_engine(path: str | Path, options: EngineOptions, *, progress: Progress, shared_board: bool = False) -> Engine:
    """Like `Engine.open`. The factory that the worker process calls."""
    folder = Path(path)
    compile_first(folder, progress)
    from .engine import Engine

    return Engine.open(folder, options, progress=progress, shared_board=shared_board)


def compile_first(model: Path, progress: Progress) -> None:
    """Compile what has not been, before the engine is imported for this model. Raises EngineError if it cannot be run.

    After it `engine.engine`, and what imports that, is loaded soon.
    """
    if not is_compiled():
        spec_of(read_headers(model))  # a model that cannot be run is refused before anything is compiled for it
        compile_elsewhere(progress)
