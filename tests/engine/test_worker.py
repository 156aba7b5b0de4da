"""The engine's process: order of events, stops, refusals and every way to die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.errors import CheckpointError, EngineError, WorkerDiedError
from engine.events import Counted, HistoryUsed, Loading, MemoryCurve, Notice, Prefill, Ready, State, Token, Turn
from engine.options import EngineOptions
from engine.wire import Failure, Forget, LoadState, SaveState, Tagged, UseHistory
from engine.worker import Worker
from tests.fake_engine import FACTORY, Sampling, write_model

PATIENCE = 60.0
GREEDY = Sampling()
HELLO = [{"role": "user", "content": "hello there"}]
LONG = [{"role": "user", "content": "word " * 2000}]

Start = Callable[..., Worker]


def wait_until(condition: Callable[[], bool], patience: float = PATIENCE) -> bool:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return condition()


@pytest.fixture(autouse=True)
def _nothing_leaks(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    yield
    boards = [line for file in tmp_path.rglob("fake.boards") for line in file.read_text().split()]
    for name in boards:
        assert wait_until(lambda path=Path("/dev/shm", name): not path.exists(), 5.0), "shared memory was left behind"
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start workers on fake models; they are closed at the end of the test."""
    workers: list[Worker] = []

    def begin(options: EngineOptions | None = None, **script: Any) -> Worker:
        folder = write_model(tmp_path / f"model{len(workers)}", **script)
        workers.append(Worker.start(folder, options or EngineOptions(), FACTORY))
        return workers[-1]

    yield begin
    for worker in workers:
        worker.close()


def receive(worker: Worker) -> Tagged:
    tagged = worker.receive(PATIENCE)
    assert tagged is not None, "no event came"
    return tagged


def until(worker: Worker, *kinds: type) -> list[Any]:
    """Events up to and including the first of one of these kinds."""
    events = [receive(worker).event]
    while not isinstance(events[-1], kinds):
        events.append(receive(worker).event)
    return events


def ready(worker: Worker) -> Worker:
    until(worker, Ready)
    return worker


def death(worker: Worker) -> str:
    """Read to the bitter end."""
    with pytest.raises(WorkerDiedError) as caught:
        until(worker, type(None))
    text = str(caught.value)
    assert "\n" not in text
    return text


class TestATurn:
    def test_loading_is_told_before_ready(self, start: Start) -> None:
        worker = start(load_steps=2)
        events = until(worker, Ready)
        assert [type(event) for event in events] == [Loading, Loading, Loading, Notice, Ready]
        assert worker.info == events[-1]
        assert worker.defaults is not None

    def test_events_of_a_turn_come_in_order_and_carry_its_number(self, start: Start) -> None:
        worker = ready(start(length=3, notice="warm", prefill_chunk=2))
        worker.chat(7, HELLO, GREEDY)
        tagged = [receive(worker)]
        while not isinstance(tagged[-1].event, Turn):
            tagged.append(receive(worker))
        assert {item.turn for item in tagged} == {7}
        kinds = [type(item.event) for item in tagged]
        assert kinds == [Prefill, Prefill, Prefill, Notice, Token, Token, Token, Turn]
        turn = tagged[-1].event
        assert isinstance(turn, Turn)
        assert (turn.tokens, turn.stop) == (3, "eos")

    def test_the_sampling_reaches_the_engine(self, start: Start) -> None:
        worker = ready(start(length=100))
        worker.chat(1, HELLO, Sampling(max_tokens=5))
        turn = until(worker, Turn)[-1]
        assert (turn.tokens, turn.stop) == (5, "length")

    @pytest.mark.parametrize("prompt", [[5, 6, 7], "three plain words"])
    def test_a_prompt_without_a_template(self, start: Start, prompt: list[int] | str) -> None:
        worker = ready(start(length=1))
        worker.complete(1, prompt, GREEDY)
        assert until(worker, Turn)[-1].prompt_tokens == 3

    def test_a_second_turn_is_refused_until_the_first_has_ended(self, start: Start) -> None:
        worker = ready(start(length=3))
        worker.chat(1, HELLO, GREEDY)
        with pytest.raises(EngineError, match="answering already"):
            worker.chat(2, HELLO, GREEDY)
        until(worker, Turn)
        worker.chat(2, HELLO, GREEDY)
        assert until(worker, Turn)[-1].tokens == 3

    def test_an_error_ends_the_turn_and_not_the_engine(self, start: Start) -> None:
        worker = ready(start(length=5, turn_error="shard 3:\nread failed\x1b[31m", turn_error_at=2))
        worker.chat(1, HELLO, GREEDY)
        failure = until(worker, Failure)[-1]
        assert failure == Failure("ReadError", "shard 3:\\nread failed\\x1b[31m")
        worker.chat(2, HELLO, Sampling(max_tokens=1))
        assert until(worker, Turn)[-1].tokens == 1

    def test_a_prompt_over_the_context_fails_the_turn(self, start: Start) -> None:
        worker = ready(start(context=10))
        worker.chat(1, LONG, GREEDY)
        failure = until(worker, Failure)[-1]
        assert failure.kind == "ContextOverflowError"

    def test_the_board_is_live(self, start: Start) -> None:
        worker = ready(start(length=4, layers=5, experts=16))
        board = worker.board
        assert board is not None
        before = board.heat.sum()
        worker.chat(1, HELLO, GREEDY)
        until(worker, Turn)
        chosen = 4 + 1  # layers with a router x (tokens + prefill chunks)
        assert board.heat.sum() - before == 4 * 8 * chosen

    def test_two_workers_do_not_meet(self, start: Start) -> None:
        one, two = start(length=2), start(length=5)
        ready(one).chat(1, HELLO, GREEDY)
        ready(two).chat(1, HELLO, GREEDY)
        assert until(two, Turn)[-1].tokens == 5
        assert until(one, Turn)[-1].tokens == 2
        assert one.board is not None
        assert two.board is not None
        assert one.board.name != two.board.name


class TestStop:
    def test_during_the_reply(self, start: Start) -> None:
        worker = ready(start(length=10**6, token_s=0.005))
        worker.chat(1, HELLO, GREEDY)
        until(worker, Token)
        worker.stop(1)
        assert until(worker, Turn)[-1].stop == "user"

    def test_during_prefill(self, start: Start) -> None:
        worker = ready(start(prefill_chunk=1, prefill_s=0.01, context=10**6))
        worker.chat(1, LONG, GREEDY)
        until(worker, Prefill)
        worker.stop(1)
        events = until(worker, Turn)
        assert events[-1].stop == "user"
        assert not any(isinstance(event, Token) for event in events)

    def test_before_the_turn_began(self, start: Start) -> None:
        worker = start(load_s=0.2, length=10**6, token_s=0.01)
        worker.chat(1, HELLO, GREEDY)  # while it loads
        worker.stop(1)
        events = until(worker, Turn)
        assert (events[-1].stop, events[-1].tokens) == ("user", 0)

    def test_while_the_engine_is_deaf(self, start: Start) -> None:
        """A stop between the start of a turn and the first look at it is not lost."""
        worker = ready(start(stop_deaf_s=0.3, length=10**6, token_s=0.05))
        worker.chat(1, HELLO, GREEDY)
        time.sleep(0.1)
        worker.stop(1)
        assert until(worker, Turn)[-1].stop == "user"

    def test_a_late_stop_does_not_touch_the_next_turn(self, start: Start) -> None:
        worker = ready(start(length=3))
        worker.chat(1, HELLO, GREEDY)
        until(worker, Turn)
        worker.stop(1)
        worker.chat(2, HELLO, GREEDY)
        turn = until(worker, Turn)[-1]
        assert (turn.stop, turn.tokens) == ("eos", 3)


class TestTheEnd:
    def test_close_is_orderly(self, start: Start, tmp_path: Path) -> None:
        worker = ready(start())
        worker.close()
        assert (tmp_path / "model0" / "fake.log").exists()
        assert not psutil.pid_exists(worker.pid)
        assert worker.board is None

    def test_close_during_a_reply(self, start: Start, tmp_path: Path) -> None:
        worker = ready(start(length=10**6, token_s=0.01))
        worker.chat(1, HELLO, GREEDY)
        until(worker, Token)
        worker.close()
        assert (tmp_path / "model0" / "fake.log").exists()

    def test_close_during_load_does_not_wait_for_it(self, start: Start) -> None:
        worker = start(load_s=30.0)
        receive(worker)
        begun = time.monotonic()
        worker.close()
        assert time.monotonic() - begun < 10.0
        assert not psutil.pid_exists(worker.pid)

    def test_a_hanging_engine_is_killed(self, start: Start) -> None:
        worker = ready(start(crash="hang", crash_at="prefill"))
        worker.chat(1, HELLO, GREEDY)
        wait_until(lambda: psutil.Process(worker.pid).status() == "sleeping")
        worker.close(timeout=0.2)
        assert not psutil.pid_exists(worker.pid)

    def test_commands_to_a_closed_worker_say_so(self, start: Start) -> None:
        worker = ready(start())
        worker.close()
        worker.stop(1)
        with pytest.raises(WorkerDiedError, match="was closed"):
            worker.chat(1, HELLO, GREEDY)

    def test_a_refusal_is_told_with_its_kind(self, start: Start) -> None:
        worker = start(refuse="model-2.safetensors is missing: download it again")
        failure = until(worker, Failure)[-1]
        assert failure.kind == "CheckpointError"
        error = failure.error()
        assert isinstance(error, CheckpointError)
        assert str(error).startswith("model-2.safetensors")

    def test_ctrl_c_in_the_terminal_does_not_reach_it(self, start: Start) -> None:
        worker = ready(start(length=2))
        os.kill(worker.pid, signal.SIGINT)
        worker.chat(1, HELLO, GREEDY)
        assert until(worker, Turn)[-1].tokens == 2

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
    def test_a_signal_closes_in_order(self, start: Start, tmp_path: Path, number: signal.Signals) -> None:
        worker = ready(start(length=10**6, token_s=0.01))
        worker.chat(1, HELLO, GREEDY)
        until(worker, Token)
        os.kill(worker.pid, number)
        assert "told to end" in death(worker)
        assert (tmp_path / "model0" / "fake.log").exists()


class TestDeath:
    @pytest.mark.parametrize("moment", ["load", "prefill", 2])
    def test_killed(self, start: Start, moment: str | int) -> None:
        worker = start(EngineOptions(ram=3.0), crash="kill", crash_at=moment)
        worker.chat(1, HELLO, GREEDY)
        text = death(worker)
        assert "out of memory" in text
        assert "--ram; it had 3.0 GB" in text

    def test_killed_from_outside_during_a_reply(self, start: Start) -> None:
        worker = ready(start(length=10**6, token_s=0.001))
        worker.chat(1, HELLO, GREEDY)
        until(worker, Token)
        os.kill(worker.pid, signal.SIGKILL)
        assert "killed" in death(worker)

    def test_a_crash_names_the_place(self, start: Start) -> None:
        worker = ready(start(crash="segfault", crash_at=1))
        worker.chat(1, HELLO, GREEDY)
        text = death(worker)
        assert "segmentation fault in _crash (fake_engine.py:" in text

    def test_an_exception_is_quoted(self, start: Start) -> None:
        worker = ready(start(crash="exception", crash_at=1))
        worker.chat(1, HELLO, GREEDY)
        assert "IndexError: index 64 is out of bounds" in death(worker)

    def test_an_exit_without_a_word(self, start: Start) -> None:
        worker = ready(start(crash="exit", crash_at=1))
        worker.chat(1, HELLO, GREEDY)
        assert "exit code 3" in death(worker)

    def test_a_factory_that_is_not_there(self, tmp_path: Path) -> None:
        worker = Worker.start(tmp_path, EngineOptions(), "no_such_module:open_engine")
        assert "no_such_module" in death(worker)
        worker.close()

    @pytest.mark.skipif(sys.platform != "linux", reason="Linux chooses by a score")
    def test_when_memory_runs_out_it_goes_first(self, start: Start) -> None:
        worker = ready(start())
        assert int(Path(f"/proc/{worker.pid}/oom_score_adj").read_text()) > 0


class TestTheParent:
    """A process of its own starts a worker and is killed."""

    PARENT = """
import sys, time
sys.path[:] = sys.argv[2:]
from engine.events import Ready, Token
from engine.options import EngineOptions
from engine.worker import Worker
from tests.fake_engine import FACTORY, Sampling
worker = Worker.start(sys.argv[1], EngineOptions(), FACTORY)
while not isinstance(event := worker.receive().event, {awaited}):
    if isinstance(event, Ready):
        worker.chat(1, [dict(role="user", content="hello")], Sampling())
print(worker.pid, flush=True)
time.sleep(60)
"""

    @pytest.mark.parametrize("awaited", ["Token", "object"])
    def test_killed(self, tmp_path: Path, awaited: str) -> None:
        folder = write_model(tmp_path / "model", length=10**6, token_s=0.001, load_s=0.05)
        code = self.PARENT.format(awaited=awaited)
        parent = subprocess.Popen(
            [sys.executable, "-c", code, str(folder), *sys.path], stdout=subprocess.PIPE, text=True
        )
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        parent.wait()
        gone, _ = psutil.wait_procs([child], timeout=10.0)
        assert gone, "the engine outlived its parent"
        parent.stdout.close()
        if awaited == "Token":
            assert (folder / "fake.log").exists(), "it did not close in order"


def test_a_state_is_saved_after_the_turn_that_runs(start: Start, tmp_path: Path) -> None:
    worker = ready(start(token_s=0.02))
    file = tmp_path / "kept" / "one.state"
    worker.chat(1, HELLO, GREEDY)
    until(worker, Token)
    worker.between_turns(SaveState(str(file)))
    worker.stop(1)
    *_, turn = until(worker, Turn)
    assert turn.stop == "user"
    saved = until(worker, State)[-1]
    assert (saved.done, saved.path, saved.error) == ("saved", str(file), "")
    assert saved.tokens > 2
    assert file.read_text() == HELLO[0]["content"]
    worker.between_turns(Forget())
    worker.between_turns(LoadState(str(file)))
    assert until(worker, State)[-1] == State("loaded", str(file), 2, saved.nbytes)


def test_what_cannot_be_kept_or_taken_up_is_told(start: Start, tmp_path: Path) -> None:
    worker = ready(start(save_error="no space"))
    worker.between_turns(SaveState("here"))
    worker.between_turns(LoadState(str(tmp_path / "missing")))
    saved, loaded = receive(worker), receive(worker)
    assert (saved.turn, saved.event) == (0, State("saved", "here", error="here: no space"))
    assert isinstance(loaded.event, State)
    assert "missing" in loaded.event.error
    worker.chat(1, HELLO, GREEDY)
    assert until(worker, Turn)[-1].stop == "eos"


def test_closing_waits_for_a_state_that_is_being_saved(start: Start, tmp_path: Path) -> None:
    worker = ready(start(save_s=0.6))
    worker.between_turns(SaveState(str(tmp_path / "state")))
    worker.close(timeout=0.05)
    assert (tmp_path / "state").exists()


def test_another_history(start: Start, tmp_path: Path) -> None:
    worker = ready(start())
    worker.between_turns(UseHistory(str(tmp_path / "coding" / "model" / ".coli_usage"), False))
    *_, notice, used = until(worker, HistoryUsed)
    assert notice.text == "learning from coding"
    assert worker.board is not None
    assert used.selections == worker.board.heat.sum()


def test_a_memory_curve_comes_while_a_turn_runs(start: Start) -> None:
    worker = ready(start(token_s=0.02, curve_s=0.1))
    worker.chat(1, HELLO, GREEDY)
    until(worker, Token)
    worker.draw_curve()
    worker.draw_curve()
    events = until(worker, Turn)
    curves = [event for event in events if isinstance(event, MemoryCurve)]
    assert len(curves) == 1
    assert curves[0].cap in curves[0].caps


def test_tokens_are_counted_while_a_turn_runs(start: Start) -> None:
    worker = ready(start(token_s=0.02, length=50))
    worker.count(1, "three short words")
    assert until(worker, Counted)[-1] == Counted(1, 3)
    worker.chat(1, HELLO, GREEDY)
    until(worker, Token)
    worker.count(2, "two words")
    assert Counted(2, 2) in until(worker, Turn)


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="the scheduler knows no groups of sessions")
def test_the_process_lets_others_go_first(start: Start) -> None:
    worker = ready(start())
    assert psutil.Process(worker.pid).nice() == 10
    assert Path(f"/proc/{worker.pid}/autogroup").read_text().split()[-2:] == ["nice", "10"], "its session does as well"
