"""Runs Mixture-of-Experts models larger than memory: experts stay on disk and stream through a learning cache.

    from engine import Engine, EngineOptions
    with Engine.open("path/to/model", EngineOptions(ram=4.0)) as engine:
        for event in engine.generate(engine.encode("Hello"), max_tokens=64):
            ...

Importing this package is cheap: the engine itself, and with it the compiler, is loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .board import Board
from .errors import EngineError
from .events import Event, Hits, Loading, Notice, Plan, Prefill, Ready, Repin, Token, Turn
from .options import EngineOptions

if TYPE_CHECKING:
    from .engine import Engine

__all__ = [
    "Board",
    "Engine",
    "EngineError",
    "EngineOptions",
    "Event",
    "Hits",
    "Loading",
    "Notice",
    "Plan",
    "Prefill",
    "Ready",
    "Repin",
    "Token",
    "Turn",
]


def __getattr__(name: str) -> Any:
    if name == "Engine":
        from .engine import Engine

        return Engine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
