"""The link between the engine's process and the screen."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import pytest
from textual import on
from textual.app import App
from textual.message import Message

from colibri_tui.engine_link import (
    INTERVAL_S,
    EngineCounted,
    EngineCurve,
    EngineDied,
    EngineError,
    EngineLink,
    EngineLoading,
    EngineMessage,
    EngineNotice,
    EnginePrefill,
    EngineReady,
    EngineRepin,
    EngineText,
    EngineTurn,
    LinkState,
)
from engine import EngineError as EngineFailure
from engine.board import Tier
from engine.options import EngineOptions
from tests.fake_engine import FACTORY, Sampling, write_model

PATIENCE = 60.0
HELLO = [{"role": "user", "content": "hello there"}]
LONG = [{"role": "user", "content": "word " * 2000}]
GREEDY = Sampling()

Kind = TypeVar("Kind", bound=EngineMessage)


class Screen:
    """Takes messages, and when each came."""

    def __init__(self) -> None:
        self.messages: list[EngineMessage] = []
        self.times: list[float] = []

    def post_message(self, message: Message, /) -> bool:
        assert isinstance(message, EngineMessage)
        self.times.append(time.monotonic())
        self.messages.append(message)
        return True

    def wait_for(self, kind: type[Kind], count: int = 1) -> Kind:
        """Wait for the n-th message of a kind and return it."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = [message for message in list(self.messages) if isinstance(message, kind)]
            if len(found) >= count:
                return found[count - 1]
            time.sleep(0.005)
        raise AssertionError(f"no {kind.__name__} among {self.messages}")


@pytest.fixture
def screen() -> Screen:
    return Screen()


Load = Callable[..., EngineLink]


@pytest.fixture
def load(tmp_path: Path, screen: Screen) -> Iterator[Load]:
    """Return a link whose engine was started on a fake model, and is ready unless `wait` says otherwise."""
    links: list[EngineLink] = []

    def begin(wait: bool = True, **script: Any) -> EngineLink:
        link = EngineLink(screen, FACTORY)
        links.append(link)
        link.start(write_model(tmp_path / "model", **script), EngineOptions())
        if wait:
            screen.wait_for(EngineReady)
        return link

    yield begin
    for link in links:
        link.close()
        assert link.join()


def test_loading_then_ready(load: Load, screen: Screen) -> None:
    link = load(wait=False, load_s=0.02)
    assert link.state is LinkState.LOADING
    assert link.info is None
    ready = screen.wait_for(EngineReady)
    assert isinstance(screen.messages[0], EngineLoading)
    assert link.state is LinkState.READY
    assert link.info is ready.info
    assert link.board is not None
    assert link.board.heat.shape == (24, 64)
    assert link.defaults is not None


def test_a_turn(load: Load, screen: Screen) -> None:
    link = load(length=5, notice="warm")
    turn = link.chat(HELLO, GREEDY)
    assert link.state is LinkState.BUSY
    end = screen.wait_for(EngineTurn)
    assert link.state is LinkState.READY
    messages = [message for message in screen.messages if message.turn]
    assert {message.turn for message in messages} == {turn}
    kinds = [type(message) for message in messages]
    assert kinds[0] is EnginePrefill
    assert kinds[kinds.index(EngineText) - 1] is EngineNotice
    assert kinds[-1] is EngineTurn
    texts = [message for message in messages if isinstance(message, EngineText)]
    assert end.text == "".join(text.text for text in texts)
    assert end.summary.tokens == sum(text.tokens for text in texts) == 5


def test_swaps_are_told_before_the_turn_ends(load: Load, screen: Screen) -> None:
    link = load(length=2, repins=2)
    link.chat(HELLO, GREEDY)
    screen.wait_for(EngineTurn)
    swaps = [message.swap for message in screen.messages if isinstance(message, EngineRepin)]
    assert [swap.layer for swap in swaps] == [1, 2]
    assert link.board is not None
    assert link.board.tier[1, swaps[0].in_] == Tier.PIN
    assert link.board.tier[1, swaps[0].out] != Tier.PIN
    assert isinstance(screen.messages[-1], EngineTurn)


def test_texts_are_merged_and_the_first_is_not_kept_waiting(load: Load, screen: Screen) -> None:
    link = load(length=300, token_s=0.001)
    link.chat(HELLO, GREEDY)
    screen.wait_for(EngineTurn)
    texts = [message for message in screen.messages if isinstance(message, EngineText)]
    times = [at for at, message in zip(screen.times, screen.messages, strict=True) if isinstance(message, EngineText)]
    assert texts[0].tokens == 1
    gaps = [later - earlier for earlier, later in pairwise(times[:-1])]
    assert gaps
    assert min(gaps) > INTERVAL_S * 0.9  # but for the last, which the end of the turn pushes out
    assert sum(text.tokens for text in texts) == 300


def test_progress_is_merged_but_its_end_is_told(load: Load, screen: Screen) -> None:
    link = load(length=1, prefill_chunk=1, layers=2, experts=8, top_k=2, context=10**6)
    link.chat(LONG, GREEDY)
    screen.wait_for(EngineTurn)
    progress = [message for message in screen.messages if isinstance(message, EnginePrefill)]
    assert progress[-1].done == progress[-1].total == 2002
    assert len(progress) < 200


def test_a_memory_curve_comes_beside_a_turn(load: Load, screen: Screen) -> None:
    link = load(length=20, token_s=0.02, curve_s=0.1)
    turn = link.chat(HELLO, GREEDY)
    first = screen.wait_for(EngineText)
    assert link.draw_curve()
    told = screen.wait_for(EngineCurve)
    assert told.turn == turn
    assert told.curve.rates.keys() >= {"auto", "lru", "min"}
    assert screen.wait_for(EngineTurn).text.startswith(first.text)


def test_tokens_are_counted_once_there_is_an_engine(load: Load, screen: Screen) -> None:
    EngineLink(screen, FACTORY).count(1, "nobody answers")
    link = load(length=1)
    link.count(7, "three short words")
    told = screen.wait_for(EngineCounted)
    assert (told.number, told.tokens) == (7, 3)


def test_turns_are_numbered_and_do_not_mix(load: Load, screen: Screen) -> None:
    link = load(length=20)
    first = link.chat(HELLO, GREEDY)
    screen.wait_for(EngineTurn)
    second = link.chat(HELLO, GREEDY)
    screen.wait_for(EngineTurn, 2)
    turns = [message.turn for message in screen.messages]
    assert turns == sorted(turns)
    assert (first, second) == (1, 2)


@pytest.mark.parametrize("wait", [True, False])
def test_chat_is_refused_unless_ready(load: Load, wait: bool) -> None:
    link = load(wait=wait, load_s=5.0 if not wait else 0.0, token_s=0.01)
    if wait:
        link.chat(HELLO, GREEDY)
    with pytest.raises(EngineFailure, match="cannot answer now"):
        link.chat(HELLO, GREEDY)


class TestStop:
    def test_while_it_answers(self, load: Load, screen: Screen) -> None:
        link = load(length=10**6, token_s=0.005)
        link.chat(HELLO, GREEDY)
        screen.wait_for(EngineText)
        link.stop()
        assert screen.wait_for(EngineTurn).summary.stop == "user"
        assert link.state is LinkState.READY

    def test_before_the_first_token(self, load: Load, screen: Screen) -> None:
        link = load(length=10**6, token_s=0.01, prefill_chunk=1, prefill_s=0.01)
        link.chat(LONG, GREEDY)
        link.stop()
        end = screen.wait_for(EngineTurn)
        assert (end.summary.stop, end.text) == ("user", "")

    def test_while_it_loads(self, load: Load, screen: Screen) -> None:
        link = load(wait=False, load_s=30.0)
        screen.wait_for(EngineLoading)
        link.stop()
        assert link.state is LinkState.STOPPED
        assert link.join()
        assert not any(isinstance(message, EngineDied | EngineReady) for message in screen.messages)

    def test_with_nothing_to_stop(self, load: Load, screen: Screen) -> None:
        link = load(length=3)
        link.stop()
        link.chat(HELLO, GREEDY)
        assert screen.wait_for(EngineTurn).summary.stop == "eos"


class TestMisfortune:
    def test_a_refused_model(self, load: Load, screen: Screen) -> None:
        link = load(wait=False, refuse="config.json: unknown family 'x'")
        error = screen.wait_for(EngineError)
        assert error.fatal
        assert link.state is LinkState.DEAD
        assert link.error == error.text == "config.json: unknown family 'x'"
        assert link.join()
        assert not any(isinstance(message, EngineDied) for message in screen.messages)

    def test_an_error_in_a_turn(self, load: Load, screen: Screen) -> None:
        link = load(turn_error="disk gone", turn_error_at=2)
        turn = link.chat(HELLO, GREEDY)
        error = screen.wait_for(EngineError)
        assert (error.turn, error.text, error.fatal) == (turn, "disk gone", False)
        assert link.state is LinkState.READY

    @pytest.mark.parametrize("moment", ["load", "prefill", 3])
    def test_death_is_explained_and_a_restart_works(
        self, load: Load, screen: Screen, tmp_path: Path, moment: str | int
    ) -> None:
        link = load(wait=moment != "load", crash="kill", crash_at=moment)
        if moment != "load":
            link.chat(HELLO, GREEDY)
        died = screen.wait_for(EngineDied)
        assert "out of memory" in died.text
        assert link.state is LinkState.DEAD
        assert link.error == died.text
        ready = sum(isinstance(message, EngineReady) for message in screen.messages)
        write_model(tmp_path / "model", length=2)
        link.restart(EngineOptions(ram=1.0))
        assert link.options.ram == 1.0
        screen.wait_for(EngineReady, ready + 1)
        assert link.error == ""
        turn = link.chat(HELLO, GREEDY)
        assert screen.wait_for(EngineTurn).turn == turn

    def test_what_was_said_before_the_death_comes_before_the_news(self, load: Load, screen: Screen) -> None:
        link = load(length=50, crash="exit", crash_at=40)
        link.chat(HELLO, GREEDY)
        screen.wait_for(EngineDied)
        assert isinstance(screen.messages[-1], EngineDied)
        assert sum(m.tokens for m in screen.messages if isinstance(m, EngineText)) == 40

    def test_the_last_picture_outlives_the_engine(self, load: Load, screen: Screen) -> None:
        link = load(crash="kill", crash_at=3)
        link.chat(HELLO, GREEDY)
        screen.wait_for(EngineDied)
        assert link.board is not None
        assert link.board.last_use.max() > 0


def test_a_restart_silences_the_old_engine(load: Load, screen: Screen) -> None:
    link = load(length=10**6, token_s=0.001)
    old = link.chat(HELLO, GREEDY)
    screen.wait_for(EngineText)
    link.restart()
    said = len(screen.messages)
    screen.wait_for(EngineReady, 2)
    assert not any(isinstance(message, EngineText | EngineTurn) for message in screen.messages[said:])
    assert link.chat(HELLO, GREEDY) == old + 1


def test_close_is_orderly_and_final(load: Load, screen: Screen, tmp_path: Path) -> None:
    link = load(length=10**6, token_s=0.001)
    link.chat(HELLO, GREEDY)
    screen.wait_for(EngineText)
    link.close()
    said = len(screen.messages)
    assert link.state is LinkState.STOPPED
    assert link.board is None
    assert link.join()
    assert len(screen.messages) == said
    assert (tmp_path / "model" / "fake.log").exists()


def test_a_view_of_the_board_survives_a_close(load: Load) -> None:
    link = load()
    assert link.board is not None
    view = link.board.heat
    total = int(view.sum())
    link.close()
    assert link.join()
    assert int(view.sum()) == total
    del view
    link.close()  # lets go of it


def test_inside_a_textual_app(tmp_path: Path) -> None:
    """Textual's stand-in for stderr has no descriptor; starting processes must not mind."""

    class Host(App[None]):
        def __init__(self) -> None:
            super().__init__()
            self.link = EngineLink(self, FACTORY)
            self.seen: list[str] = []

        def on_mount(self) -> None:
            self.link.start(write_model(tmp_path / "model", length=5), EngineOptions())

        @on(EngineReady)
        def ready(self) -> None:
            self.link.chat(HELLO, GREEDY)

        @on(EngineText)
        def text(self, message: EngineText) -> None:
            self.seen.append(message.text)

        @on(EngineTurn)
        def end(self, message: EngineTurn) -> None:
            assert "".join(self.seen) == message.text
            self.link.close()
            self.exit()

        @on(EngineDied)
        def died(self, message: EngineDied) -> None:
            raise AssertionError(message.text)

    async def run() -> Host:
        host = Host()
        async with host.run_test():
            for _ in range(int(PATIENCE / 0.02)):
                if host.link.state is LinkState.STOPPED:
                    break
                await asyncio.sleep(0.02)
        return host

    host = asyncio.run(run())
    assert host.seen
    assert host.link.join()


LIGHT = """
import sys
sys.path[:] = sys.argv[2:]
import time
from pathlib import Path
import colibri_tui.engine_link as link_module
from engine.options import EngineOptions
class Screen:
    ready = False
    def post_message(self, message):
        self.ready = self.ready or isinstance(message, link_module.EngineReady)
        return True
screen = Screen()
link = link_module.EngineLink(screen, "tests.fake_engine:open_engine")
link.start(Path(sys.argv[1]), EngineOptions())
while not screen.ready:
    time.sleep(0.01)
link.close()
link.join()
print(sorted(name for name in sys.modules if name.split(".")[0] in ("numba", "llvmlite")
             or name in ("engine.engine", "engine.model", "engine.kernels")))
"""


def test_the_screens_process_stays_light(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    result = subprocess.run(
        [sys.executable, "-c", LIGHT, str(folder), *sys.path], capture_output=True, text=True, timeout=60
    )
    assert (result.stdout.strip(), result.stderr) == ("[]", "")


ABANDONED = """
import os, sys
sys.path[:] = sys.argv[2:]
import time
from pathlib import Path
from colibri_tui.engine_link import EngineLink, LinkState
from engine.options import EngineOptions
class Screen:
    def post_message(self, message): return True
link = EngineLink(Screen(), "tests.fake_engine:open_engine")
link.start(Path(sys.argv[1]), EngineOptions())
while link.state is not LinkState.READY:
    time.sleep(0.01)
"""


def test_a_link_that_nobody_closes_does_not_keep_the_program(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    result = subprocess.run(
        [sys.executable, "-c", ABANDONED, str(folder), *sys.path], timeout=60, capture_output=True, text=True
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    deadline = time.monotonic() + 10.0
    while not (folder / "fake.log").exists():
        assert time.monotonic() < deadline, "the engine did not close in order"
        time.sleep(0.01)


def test_killed_from_outside(load: Load, screen: Screen) -> None:
    import psutil

    load()
    (child,) = [p for p in psutil.Process().children() if "worker_host" in " ".join(p.cmdline())]
    os.kill(child.pid, signal.SIGKILL)
    assert "killed" in screen.wait_for(EngineDied).text
