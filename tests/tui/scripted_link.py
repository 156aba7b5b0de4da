"""An engine link without an engine: the test says what the engine says."""

from __future__ import annotations

from pathlib import Path

from colibri_tui.engine_link import LinkState
from engine.board import Board
from engine.errors import EngineError as EngineFailure
from engine.events import Hits, Plan, Ready, Turn
from engine.options import EngineOptions
from engine.text.sampler import Sampling
from engine.wire import Between

PLAN = Plan(
    budget=4 * 10**9, available=8 * 10**9, dense=1, kv=1, runtime=1, work=1, cache=1, free=1, cap=2, slots=4,
    slot_bytes=1, context=100, chunk=8,
)  # fmt: skip
READY = Ready("fake", "fake", 2, (0, 1), 4, 2, 1, 1, 100, PLAN)
TURN = Turn(5, 3, 0.2, 0.2, 1.0, 3.0, Hits(1, 1, 1), Hits(0, 0, 3), 10, 2.0, "eos")


class Link:
    """An engine link that a test plays the engine of."""

    def __init__(self) -> None:
        self.state = LinkState.STOPPED
        self.board: Board | None = None
        self.defaults: Sampling | None = Sampling()
        self.started: list[tuple[Path, EngineOptions]] = []
        self.asked: list[tuple[list[dict[str, str]], bool]] = []
        self.samplings: list[Sampling] = []
        self.counted: list[tuple[int, str]] = []
        self.between: list[Between] = []
        self.stops = 0
        self.broken = False

    def start(self, folder: Path, options: EngineOptions) -> None:
        self.started.append((folder, options))
        self.state, self.board = LinkState.LOADING, None

    def chat(self, messages: list[dict[str, str]], sampling: Sampling, *, continue_final: bool = False) -> int:
        assert self.state is LinkState.READY
        if self.broken:
            raise EngineFailure("the engine cannot answer now: it is dead")
        self.state = LinkState.BUSY
        self.asked.append((messages, continue_final))
        self.samplings.append(sampling)
        return len(self.asked)

    def count(self, number: int, text: str) -> None:
        self.counted.append((number, text))

    def between_turns(self, command: Between) -> bool:
        if self.state not in (LinkState.READY, LinkState.BUSY):
            return False
        self.between.append(command)
        return True

    def draw_curve(self) -> bool:
        return self.state in (LinkState.READY, LinkState.BUSY)

    def stop(self) -> None:
        self.stops += 1

    def close(self) -> None:
        self.state = LinkState.STOPPED
