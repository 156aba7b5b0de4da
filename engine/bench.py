"""Measures an engine, beside the limits of the machine it runs on.

Every figure is the median of several runs over different prompts, after a warm-up that is not counted. Memory and
disk are measured before each run and after it, because both change within minutes, so that each speed stands beside
what the machine could do at best in that minute:

    bound = max(active bytes / memory rate, bytes needed / disk rate)        (seconds a token)

What was read on a guess that came to nothing was not needed. The disk is read as the engine reads it: experts in random
order, each with the same reads, as many at a time.

Reads are counted twice: what the engine asked for, and what reached the storage device. The difference came from the
page cache and is not disk speed.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .board import Counter
from .checkpoint.files import aligned_span
from .engine import Engine
from .events import Turn
from .kernels.limits import fresh_read_rate, memory_read_rate
from .kernels.memory import Block

Prompts = Sequence[Sequence[int]]
Counters = npt.NDArray[np.int64]

DISK_SECONDS = 2.0
BESIDE_SECONDS = 0.7
"""How long the disk is measured beside a run."""
UNCACHED = 96 << 20
"""Bytes that are more than caches hold."""

WARM_TOKENS, WARM_TURNS = 24, 12
"""Length and number of the turns before anything is measured: two, or until it is known whether to look ahead."""

FLAT = 100.0
"""The temperature for models without a tokenizer: any token is as likely as another, as in `random_prompts`. What such
a model says by itself repeats soon, and then always needs the same experts."""

SPLIT = {
    "read": Counter.READ_WAIT_NS,
    "experts": Counter.EXPERTS_NS,
    "attn": Counter.ATTENTION_NS,
    "dense": Counter.DENSE_NS,
    "head": Counter.HEAD_NS,
    "sample": Counter.SAMPLING_NS,
}
"""Where a token's time goes; what is left over is Python."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the machine can do, in bytes a second, and over how many bytes a disk read went."""

    memory: float
    disk: float
    expert_bytes: int
    direct: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One measured case: medians over its runs.

    kind: prefill or decode. context: tokens before (decode) or in the prompt (prefill). cache: cold or warm. seconds: a
    token. bound: seconds a token that the machine's limits allow (decode only). asked, device: bytes a token, from the
    engine and from the storage device (None where the system does not tell). wasted: those of `asked` that were read on
    a guess and not used. split: share of the time by part, 0..1.
    """

    kind: str
    context: int
    cache: str
    runs: int
    tok_s: float
    spread: tuple[float, float]
    seconds: float
    bound: float | None
    hit_rate: float
    asked: float
    wasted: float
    device: float | None
    split: dict[str, float]


def disk_read_rate(engine: Engine, seconds: float = DISK_SECONDS) -> float:
    """Bytes a second of reading experts in random order, as the engine reads them, with as many readers."""
    source = engine.model.source
    keys = list(source.reads)
    random.Random(0).shuffle(keys)
    readers = engine.readers
    block = Block(source.slot_bytes * readers.count * 2)
    free = [block.view[i * source.slot_bytes : (i + 1) * source.slot_bytes] for i in range(readers.count * 2)]
    busy: dict[int, memoryview] = {}
    before, done, ticket = time.perf_counter(), 0, 0
    while time.perf_counter() - before < seconds:
        while free:
            busy[ticket] = free.pop()
            readers.fetch(ticket, source.reads[keys[ticket % len(keys)]], busy[ticket])
            ticket += 1
        loaded = readers.next_loaded(wait=True)
        assert loaded is not None
        fetched = source.reads[keys[loaded.ticket % len(keys)]]
        done += sum(aligned_span(read.offset, read.nbytes)[1] for read in fetched.reads)
        free.append(busy.pop(loaded.ticket))
    elapsed = time.perf_counter() - before
    while busy:
        loaded = readers.next_loaded(wait=True)
        assert loaded is not None
        busy.pop(loaded.ticket)
    return done / elapsed


def read_rate(engine: Engine) -> float:
    """Bytes a second of reading memory: the model's dense part, so that a benchmark keeps to the engine's plan."""
    address, nbytes = engine.weights.memory
    return memory_read_rate(engine.team, address, nbytes) if nbytes >= UNCACHED else fresh_read_rate(engine.team, 128)


def measure_limits(engine: Engine) -> Limits:
    """Measure memory and disk."""
    return Limits(read_rate(engine), disk_read_rate(engine), engine.info.expert_bytes, engine.files.direct)


def random_prompts(vocab: int, length: int, count: int, seed: int = 0) -> list[list[int]]:
    """Prompts of random ids, for models without a tokenizer: uniform routing, the worst case."""
    generator = np.random.default_rng(seed)
    return [generator.integers(0, vocab, length).tolist() for _ in range(count)]


@dataclass(frozen=True, slots=True)
class _Run:
    """A turn, how the counters changed over its prompt and over its reply, what the device read for it, and the
    machine's rates beside it, bytes a second."""

    turn: Turn
    prompt: Counters
    reply: Counters
    device: int | None
    memory: float
    disk: float


class Bench:
    """Runs the cases of a benchmark on one engine."""

    def __init__(self, engine: Engine, texts: Sequence[Sequence[int]] | None, runs: int, tokens: int) -> None:
        self._engine, self._runs, self._tokens = engine, runs, tokens
        self._texts = texts
        self._turns = 0

    def rows(self, lengths: Sequence[int], tell: Callable[[str], None]) -> Iterator[Row]:
        """Measure cold and warm decode, then prefill and decode at every prompt length that fits the context."""
        fitting = [length for length in lengths if length + self._tokens + 1 <= self._engine.info.context]
        tell("cold cache")
        yield self._cold(fitting[0])
        tell("loading experts")
        self._engine.load_experts()
        tell("warming up")
        trial = self._engine.model.trial
        for turn in range(WARM_TURNS):
            if turn < 2 or (trial is not None and trial.under_way):
                self._turn(fitting[0], WARM_TOKENS)
        for length in fitting:
            tell(f"prompts of {length:,} tokens")
            yield from self._both(length)

    def _prompt(self, length: int) -> list[int]:
        """The next prompt, never the same twice: a text's ids cut or repeated to length, else random ids."""
        self._turns += 1
        if not self._texts:
            return random_prompts(self._engine.spec.vocab, length, 1, self._turns)[0]
        rotated = [*self._texts[self._turns % len(self._texts) :], *self._texts[: self._turns % len(self._texts)]]
        ids = [token for text in rotated for token in text]
        return (ids * (length // len(ids) + 1))[:length]

    def _turn(self, length: int, tokens: int) -> tuple[Turn, Counters, Counters, int | None]:
        """Run one turn; returns its summary, the counters' change over the prompt and over the reply, device bytes."""
        engine = self._engine
        engine.forget()
        before, device = engine.board.counters.copy(), _device_bytes()
        after_prompt = before
        turn: Turn | None = None
        for event in engine.generate(
            self._prompt(length),
            max_tokens=tokens,
            temperature=1.0 if self._texts else FLAT,
            nucleus=1.0,
            seed=self._turns,
            ignore_eos=True,
        ):
            if event.event == "token" and after_prompt is before:
                after_prompt = engine.board.counters.copy()
            if isinstance(event, Turn):
                turn = event
        assert turn is not None
        now = _device_bytes()
        read = None if device is None or now is None else now - device
        return turn, after_prompt - before, engine.board.counters - after_prompt, read

    def _runs_of(self, length: int, count: int) -> list[_Run]:
        """Turns of a prompt and a reply, each between two looks at the machine."""
        rates, runs = [self._rates()], []
        for _ in range(count):
            results = self._turn(length, self._tokens + 1)
            rates.append(self._rates())
            runs.append(_Run(*results, *(statistics.fmean(both) for both in zip(*rates[-2:], strict=True))))
        return runs

    def _rates(self) -> tuple[float, float]:
        engine = self._engine
        return read_rate(engine), disk_read_rate(engine, BESIDE_SECONDS)

    def _cold(self, length: int) -> Row:
        self._engine.drop_experts()
        return self._decode_row(length, "cold", self._runs_of(length, 1))

    def _both(self, length: int) -> Iterator[Row]:
        results = self._runs_of(length, self._runs)
        times = [run.turn.prefill_s / length for run in results]
        middle = sorted(results, key=lambda run: run.turn.prefill_s)[len(results) // 2]
        yield Row(
            kind="prefill",
            context=length,
            cache="warm",
            runs=len(results),
            tok_s=1 / statistics.median(times),
            spread=(1 / max(times), 1 / min(times)),
            seconds=statistics.median(times),
            bound=None,
            hit_rate=_rate(middle.prompt, Counter.PREFILL_PIN),
            asked=statistics.median(int(run.prompt[Counter.BYTES_READ]) / length for run in results),
            wasted=statistics.median(self._wasted(run.prompt) / length for run in results),
            device=None,
            split=_split(middle.prompt, middle.turn.prefill_s),
        )
        yield self._decode_row(length, "warm", results)

    def _wasted(self, change: Counters) -> int:
        return int(change[Counter.AHEAD_WASTED]) * self._engine.info.expert_bytes

    def _bound(self, run: _Run) -> float:
        """Seconds a token that the machine could have answered in."""
        needed = int(run.reply[Counter.BYTES_READ]) - self._wasted(run.reply)
        return max(self._engine.active_bytes() / run.memory, needed / self._tokens / run.disk)

    def _decode_row(self, length: int, cache: str, results: list[_Run]) -> Row:
        count = self._tokens
        times = [run.turn.decode_s / count for run in results]
        asked = statistics.median(int(run.reply[Counter.BYTES_READ]) / count for run in results)
        total = sum(int(run.prompt[Counter.BYTES_READ] + run.reply[Counter.BYTES_READ]) for run in results)
        told = [run.device for run in results if run.device is not None]
        share = sum(told) / total if len(told) == len(results) and total else None
        middle = sorted(results, key=lambda run: run.turn.decode_s)[len(results) // 2]
        seconds = statistics.median(times)
        return Row(
            kind="decode",
            context=length,
            cache=cache,
            runs=len(results),
            tok_s=1 / seconds,
            spread=(1 / max(times), 1 / min(times)),
            seconds=seconds,
            bound=seconds / statistics.median(run.turn.decode_s / count / self._bound(run) for run in results),
            hit_rate=_rate(middle.reply, Counter.HITS_PIN),
            asked=asked,
            wasted=statistics.median(self._wasted(run.reply) / count for run in results),
            device=None if share is None else min(share, 1.0) * asked,
            split=_split(middle.reply, middle.turn.decode_s),
        )


def _rate(change: Counters, first: Counter) -> float:
    hits, total = int(change[first] + change[first + 1]), int(change[first : first + 3].sum())
    return hits / total if total else 0.0


def _split(change: Counters, seconds: float) -> dict[str, float]:
    shares = {name: int(change[counter]) / 1e9 / seconds for name, counter in SPLIT.items()}
    shares["python"] = max(0.0, 1.0 - sum(shares.values()))
    return shares


def _device_bytes() -> int | None:
    """Bytes this process has made the storage device read; None where the system does not tell."""
    try:
        for line in Path("/proc/self/io").read_text(encoding="ascii").splitlines():
            if line.startswith("read_bytes:"):
                return int(line.split()[1])
    except OSError:
        return None
    return None
