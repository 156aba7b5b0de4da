"""An engine without a model: canned words, believable telemetry, and every misfortune on request.

The model folder's `fake.json` (all keys optional, see `Script`) says what happens. Import string:
`tests.fake_engine:open_engine`. It needs neither a compiler nor weights.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engine import errors
from engine.board import Board, Counter, LayerCell, Phase, Tier
from engine.events import (
    Event,
    Hits,
    Loading,
    MemoryCurve,
    Notice,
    Plan,
    Prefill,
    Ready,
    Repin,
    State,
    StopReason,
    Token,
    Turn,
)
from engine.options import EngineOptions
from engine.plan import describe
from engine.routes import NOBODY, RING
from engine.text.sampler import Sampling

FACTORY = "tests.fake_engine:open_engine"

REPLY = """\
A router scores every expert with a dot product and keeps the **top-k**; only those are read from disk.

1. The hidden state meets the router's matrix: one logit per expert.
2. The best `k` win, and their gates are normalised.
3. Each winner's gate, up and down projections are applied, weighted and summed.

```python
def route(x, router, k):
    logits = router @ x                      # [experts]
    chosen = np.argsort(-logits, kind="stable")[:k]
    return chosen, softmax(logits[chosen])
```

Experts that you use often stay in memory — naïve café, 世界, Ω≈42, 🐦 — so the next answer comes sooner.
"""


@dataclass(frozen=True)
class Script:
    """What a fake model does. Times in seconds."""

    layers: int = 24
    dense_layers: int = 1  # the first ones have no router
    experts: int = 64
    top_k: int = 8
    cap: int = 16
    pins: int = 4  # per layer
    context: int = 4096
    reply: str = REPLY
    reasoning: str = ""  # what comes before the reply of a conversation
    length: int | None = None  # tokens of a reply; None: as many as `reply` has
    token_s: float = 0.0
    prefill_chunk: int = 64
    prefill_s: float = 0.0  # a chunk
    load_steps: int = 3
    load_s: float = 0.0  # a step
    refuse: str = ""  # load ends with this error
    refuse_kind: str = "CheckpointError"
    repins: int = 0  # swaps after a turn
    notice: str = ""  # told at the first token
    turn_error: str = ""  # the turn ends with this ReadError ...
    turn_error_at: int = 0  # ... at this token
    crash: str = ""  # kill | segfault | exception | exit | hang (never heard of again)
    crash_at: int | str = "load"  # load | prefill | the number of a token
    echo_prompt: bool = False  # the reply is the prompt it was asked, as JSON
    echo_sampling: bool = False  # the reply is the sampling it was asked for, as JSON
    save_s: float = 0.0  # time to save a state
    save_error: str = ""  # why a state cannot be saved
    curve_s: float = 0.0  # time that a memory curve takes
    stop_deaf_s: float = 0.0  # time between the start of generate and the moment it hears a stop


def write_model(folder: Path, **script: Any) -> Path:
    """Write a fake model's folder and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "fake"}))
    (folder / "fake.json").write_text(json.dumps({**asdict(Script()), **script}))
    return folder


def open_engine(
    path: str,
    options: EngineOptions,
    *,
    progress: Callable[[Loading | Notice], None],
    shared_board: bool,
) -> FakeEngine:
    """Load as slowly, or refuse as firmly, as the script says."""
    file = Path(path) / "fake.json"
    script = Script(**json.loads(file.read_text())) if file.exists() else Script()
    if file.exists():
        file.with_name("fake.loading").touch()
    for step in range(script.load_steps):
        progress(Loading("reading the dense part", step, script.load_steps))
        time.sleep(script.load_s)
    progress(Loading("reading the dense part", script.load_steps, script.load_steps))
    make = Board.create_shared if shared_board else Board
    board = make(script.layers, script.experts, script.top_k)
    if file.exists():
        with file.with_name("fake.boards").open("a") as names:
            names.write(f"{board.name}\n")
    if script.crash_at == "load":
        _crash(script.crash)
    if script.refuse:
        raise getattr(errors, script.refuse_kind)(script.refuse)
    engine = FakeEngine(Path(path), script, options, board)
    progress(Notice(describe(engine.info.plan)))
    return engine


class FakeEngine:
    """Speaks the door's protocol (`engine.worker.EngineLike`)."""

    def __init__(self, path: Path, script: Script, options: EngineOptions, board: Board) -> None:
        self._script, self.board = script, board
        self._router = _Router(script, board, options)
        self._stop = threading.Event()
        self._asked = ""
        self._held = 0  # tokens of the conversation
        self._log = path / "fake.log"
        slot = 1_000_000
        plan = Plan(
            budget=int((options.ram or 4.0) * 1e9),
            available=16 * 10**9,
            dense=800_000_000,
            kv=50_000_000,
            runtime=200_000_000,
            work=slot * script.top_k,
            cache=slot * script.cap * script.layers,
            free=10**9,
            cap=script.cap,
            slots=script.cap * script.layers,
            slot_bytes=slot,
            context=options.context or script.context,
            chunk=script.prefill_chunk,
        )
        self.info = Ready(
            model=path.name,
            family="fake",
            layers=script.layers,
            moe_layers=tuple(range(script.dense_layers, script.layers)),
            experts=script.experts,
            top_k=script.top_k,
            dense_bytes=plan.dense,
            expert_bytes=slot,
            context=plan.context,
            plan=plan,
        )
        self.defaults = Sampling(temperature=0.7, nucleus=0.95)

    def render(self, messages: list[dict[str, str]], *, continue_final: bool = False) -> list[int]:
        """One id a word, and one for each message's head."""
        self._asked = "|".join(message.get("reasoning_content", "") + message["content"] for message in messages)
        ids = [word for message in messages for word in (1, *_words(message["content"]))]
        return ids if continue_final else [*ids, 1]

    def encode(self, text: str) -> list[int]:
        """One id a word."""
        self._asked = text
        return _words(text)

    def generate(
        self,
        ids: list[int],
        *,
        max_tokens: int | None = None,
        temperature: float = 0.0,
        nucleus: float = 1.0,
        seed: int | None = None,
        repetition: float = 1.0,
        chat: bool = False,
    ) -> Iterator[Event]:
        """Say the script's reply, whatever was asked."""
        script, board = self._script, self.board
        if len(ids) > self.info.context:
            raise errors.ContextOverflowError(
                f"the prompt has {len(ids)} tokens, the context window {self.info.context}: shorten it"
            )
        time.sleep(script.stop_deaf_s)
        self._stop.clear()
        board.by_layer[:] = 0
        start = time.perf_counter()
        stop: StopReason = "eos"
        before = self._router.hits()
        yield Prefill(0, len(ids))
        yield from self._prefill(ids)
        prefilled = time.perf_counter()
        after_prefill = self._router.hits()
        board.counters[Counter.PHASE] = Phase.DECODE
        asked = Sampling(max_tokens, temperature, nucleus, seed, repetition)
        reply = json.dumps(asdict(asked)) if script.echo_sampling else script.reply
        reply = json.dumps(self._asked) if script.echo_prompt else reply
        pieces = re.findall(r"\s*\S+|\s+$", reply)
        thoughts = re.findall(r"\s*\S+|\s+$", script.reasoning) if chat else []
        length = len(pieces) + len(thoughts) if script.length is None else script.length
        tokens = 0
        while not self._stop.is_set():
            if tokens == length or (max_tokens is not None and tokens == max_tokens):
                stop = "eos" if tokens == length else "length"
                break
            if script.crash_at == tokens:
                _crash(script.crash)
            if script.turn_error and script.turn_error_at == tokens:
                stop = "error"
                break
            if tokens == 0 and script.notice:
                yield Notice(script.notice)
            began = time.perf_counter_ns()
            self._router.token()
            self._stop.wait(script.token_s)
            self._router.note(3 + tokens % 1000, tokens, time.perf_counter_ns() - began)
            if tokens < len(thoughts):
                yield Token(3 + tokens % 1000, "", thoughts[tokens])
            else:
                yield Token(3 + tokens % 1000, pieces[(tokens - len(thoughts)) % len(pieces)])
            tokens += 1
            board.counters[Counter.TOKENS] += 1
            board.counters[Counter.CONTEXT_USED] = self._held = len(ids) + tokens
        else:
            stop = "user"
        board.counters[Counter.PHASE] = Phase.IDLE
        end = time.perf_counter()
        for layer in self.info.moe_layers[: script.repins]:
            yield self._router.repin(layer)
        decode = max(end - prefilled, 1e-9)
        hits = _difference(self._router.hits(), after_prefill)
        yield Turn(
            prompt_tokens=len(ids),
            tokens=tokens,
            ttft_s=prefilled - start,
            prefill_s=prefilled - start,
            decode_s=decode,
            tok_s=tokens / decode,
            hits=hits,
            prefill_hits=_difference(after_prefill, before),
            bytes_read=hits.disk * self.info.expert_bytes,
            keff=float(script.top_k),
            stop=stop,
        )
        if stop == "error":
            raise errors.ReadError(script.turn_error)

    def save_state(self, path: str, most: int | None = None) -> State:
        """A file that says what was asked last."""
        time.sleep(self._script.save_s)
        if self._script.save_error:
            raise errors.StateError(f"{path}: {self._script.save_error}")
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(self._asked)
        return State("saved", path, self._held, 85_000_000)

    def load_state(self, path: str) -> State:
        """Any file that there is."""
        try:
            self._held = len(_words(Path(path).read_text()))
        except OSError as error:
            raise errors.StateError(f"{path}: cannot be read") from error
        return State("loaded", path, self._held, 85_000_000)

    def forget(self) -> None:
        """Hold nothing."""
        self._held = 0

    def repin_for(self, history: str, learn: bool = True) -> list[str]:
        """Say so."""
        return [f"learning {'into' if learn else 'from'} {Path(history).parents[1].name}"]

    def memory_curve(self) -> MemoryCurve:
        """More memory, more hits."""
        time.sleep(self._script.curve_s)
        experts, caps = self._script.experts, (2, 4, 8)
        rates = {
            "auto": tuple(0.9 * cap / experts for cap in caps),
            "lru": tuple(0.8 * cap / experts for cap in caps),
            "min": tuple(cap / experts for cap in caps),
        }
        return MemoryCurve(caps, (2 << 20, 4 << 20, 8 << 20), rates, (None, 4.0, 8.0), 4, "auto", 300, 3)

    def stop(self) -> None:
        """End the turn at its next token or chunk."""
        self._stop.set()

    def close(self) -> None:
        """Leave a sign of having been closed in order, if there is a folder to leave it in."""
        if self._log.parent.is_dir():
            self._log.write_text("closed\n")
        self.board.close()

    def _prefill(self, ids: list[int]) -> Iterator[Event]:
        chunk, counters = self._script.prefill_chunk, self.board.counters
        counters[Counter.PHASE] = Phase.PREFILL
        counters[Counter.PREFILL_TOTAL] = len(ids)
        if self._script.crash_at == "prefill":
            _crash(self._script.crash)
        for done in range(0, len(ids), chunk):
            self._stop.wait(self._script.prefill_s)
            if self._stop.is_set():
                return
            self._router.token(prefill=True)
            reached = min(done + chunk, len(ids))
            counters[Counter.PREFILL_DONE] = reached
            yield Prefill(reached, len(ids))


class _Router:
    """Skewed routing, an LRU cache of `cap` slots a layer and the pins of a made-up history, on the board."""

    def __init__(self, script: Script, board: Board, options: EngineOptions) -> None:
        self._board, self._k, self._cap = board, script.top_k, options.cap or script.cap
        self._moe = np.arange(script.dense_layers, script.layers)
        self._random = np.random.default_rng(7)
        ranks = np.argsort(self._random.random((len(self._moe), script.experts)), axis=1)
        self._scores = -1.1 * np.log(ranks + 1.0)
        board.heat[self._moe] = (2000 / (ranks + 1.0)).astype(np.uint32)
        board.routes.ids[:] = NOBODY
        self._found = np.zeros((script.layers, script.top_k), np.uint8)
        self._chosen = np.zeros((len(self._moe), script.top_k), np.int64)
        board.tier[:] = Tier.NONE
        board.tier[self._moe] = np.where(ranks < script.pins, Tier.PIN, Tier.DISK)

    def hits(self) -> npt.NDArray[np.int64]:
        """pin, cache, disk so far."""
        counters = self._board.counters
        first, second = Counter.HITS_PIN, Counter.PREFILL_PIN
        return counters[first : first + 3] + counters[second : second + 3]

    def repin(self, layer: int) -> Repin:
        """Swap a layer's coldest pinned expert and its hottest other one."""
        heat, tier = self._board.heat[layer], self._board.tier[layer]
        pinned = tier == Tier.PIN
        out = int(np.argmin(np.where(pinned, heat, np.iinfo(np.uint32).max)))
        into = int(np.argmax(np.where(pinned, 0, heat)))
        tier[out], tier[into] = tier[into], tier[out]
        return Repin(layer, out, into, int(heat[out]), int(heat[into]), 0.5)

    def token(self, *, prefill: bool = False) -> None:
        """Choose top-k experts in every layer and move them through the tiers."""
        board, counters = self._board, self._board.counters
        counters[Counter.CLOCK] += 1
        noise = self._random.gumbel(size=self._scores.shape)
        chosen = np.argsort(-(self._scores + noise), axis=1)[:, : self._k]
        base = Counter.PREFILL_PIN if prefill else Counter.HITS_PIN
        cell = LayerCell.PREFILL_PIN if prefill else LayerCell.PIN
        for layer, experts in zip(self._moe, chosen, strict=True):
            tiers = board.tier[layer, experts]
            found = [np.count_nonzero(tiers == tier) for tier in (Tier.PIN, Tier.CACHE, Tier.DISK)]
            counters[base : base + 3] += found
            board.by_layer[layer, cell : cell + 3] += found
            missed = experts[tiers == Tier.DISK]
            counters[Counter.BYTES_READ] += len(missed) * 1_000_000
            board.heat[layer, experts] += 1
            board.last_use[layer, experts] = counters[Counter.CLOCK]
            board.tier[layer, missed] = Tier.CACHE
            cached = np.flatnonzero(board.tier[layer] == Tier.CACHE)
            surplus = len(cached) - self._cap
            if surplus > 0:
                oldest = cached[np.argsort(board.last_use[layer, cached], kind="stable")[:surplus]]
                board.tier[layer, oldest] = Tier.DISK
                counters[Counter.EVICTIONS] += surplus
            self._found[layer] = tiers
        self._chosen = chosen
        if not prefill:
            counters[Counter.KEFF_SUM] += self._k * len(self._moe)
            counters[Counter.KEFF_ROWS] += len(self._moe)
            board.by_layer[self._moe, LayerCell.KEPT] = self._k
            board.by_layer[self._moe, LayerCell.KEPT_SUM] += self._k
            board.by_layer[self._moe, LayerCell.KEPT_ROWS] += 1

    def note(self, token: int, number: int, took_ns: int) -> None:
        """Write the token's row of `Board.routes`, but for the first token of an answer, which the prompt brought."""
        board, routes = self._board, self._board.routes
        if number == 0:
            return
        row = int(board.counters[Counter.ROUTED]) % RING
        routes.tokens[row] = board.counters[Counter.TOKENS], token
        routes.ids[row, self._moe] = self._chosen
        routes.gates[row, self._moe] = np.linspace(2 / self._k, 0, self._k)
        routes.found[row, self._moe] = self._found[self._moe]
        missed = np.count_nonzero(routes.found[row] == Tier.DISK, axis=1) * (routes.ids[row, :, 0] != NOBODY)
        routes.layer_ms[row] = took_ns / 1e6 * (1 + missed) / (len(missed) + missed.sum())
        routes.wait_ms[row] = routes.layer_ms[row] * missed / (1 + missed)
        wait = float(routes.wait_ms[row].sum())
        rest = took_ns / 1e6 - wait
        routes.spent[row] = wait, 0.6 * rest, 0.3 * rest, 0.1 * rest
        board.counters[Counter.ROUTED] += 1


def _words(text: str) -> list[int]:
    return [3 + sum(word.encode()) % 1000 for word in text.split()]


def _difference(now: npt.NDArray[np.int64], before: npt.NDArray[np.int64]) -> Hits:
    pin, cache, disk = (int(count) for count in now - before)
    return Hits(pin, cache, disk)


def _crash(how: str) -> None:
    match how:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exception":
            raise IndexError("index 64 is out of bounds for axis 1 with size 64")
        case "exit":
            os._exit(3)
        case "hang":
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
            time.sleep(3600)
