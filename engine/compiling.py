"""When kernels are compiled: on the first start on a machine, if possible before what needs them is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .events import Loading
from .experts.policies import compile_policies
from .kernels import CACHE_FOLDER, parts
from .kernels.cache import cache_root, is_complete
from .kernels.warm import Progress, compile_ahead, compile_here, useful_processes
from .plan import available_memory

COMPILING: Final = "compiling kernels, once per machine"
"""The stage that is told of."""

_PROCESS_BYTES: Final = 400 << 20  # what a process that compiles takes, and some more

__all__ = ["cache_root", "compile_elsewhere", "is_compiled", "load_kernels"]

Tell = Callable[[Loading], None]


def is_compiled() -> bool:
    """Whether everything was compiled on an earlier start."""
    return is_complete(CACHE_FOLDER)


def compile_elsewhere(tell: Tell) -> None:
    """Compile everything in other processes: as many as there are processors and memory for, which may be none.

    Returns at once when it was done before; what fails is left to `load_kernels`.
    """
    compile_ahead(_telling(tell), min(useful_processes(), available_memory() // _PROCESS_BYTES))


def load_kernels(tell: Tell) -> None:
    """Load what an engine calls, compiling what has not been."""
    compile_here([parts.program, parts.sampling, compile_policies], _telling(tell))


def _telling(tell: Tell) -> Progress:
    return lambda done, total: tell(Loading(COMPILING, done, total))
