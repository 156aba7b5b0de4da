"""Measures an engine, beside the limits of the machine it runs on.

Every figure is the median of several runs over different prompts, after a warm-up that is not counted. Memory and
disk are measured in the same run, so that each speed stands beside what the machine could do at best:

    bound = max(active bytes / memory rate, bytes read / disk rate)        (seconds a token)

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
from .kernels.limits import memory_read_rate
from .kernels.memory import Block

Prompts = Sequence[Sequence[int]]
Counters = npt.NDArray[np.int64]

DISK_SECONDS = 2.0
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
    engine and from the storage device (None where the system does not tell). split: share of the time by part, 0..1.
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


def measure_limits(engine: Engine) -> Limits:
    """Measure memory and disk."""
    return Limits(memory_read_rate(engine.team), disk_read_rate(engine), engine.info.expert_bytes, engine.files.direct)


def random_prompts(vocab: int, length: int, count: int, seed: int = 0) -> list[list[int]]:
    """Prompts of random ids, for models without a tokenizer: uniform routing, the worst case."""
    generator = np.random.default_rng(seed)
    return [generator.integers(0, vocab, length).tolist() for _ in range(count)]


class Bench:
    """Runs the cases of a benchmark on one engine."""

    def __init__(self, engine: Engine, texts: Sequence[Sequence[int]] | None, runs: int, tokens: int) -> None:
        self._engine, self._runs, self._tokens = engine, runs, tokens
        self._texts = texts
        self._turns = 0

    def rows(self, lengths: Sequence[int], limits: Limits, tell: Callable[[str], None]) -> Iterator[Row]:
        """Measure cold and warm decode, then prefill and decode at every prompt length that fits the context."""
        fitting = [length for length in lengths if length + self._tokens + 1 <= self._engine.info.context]
        tell("cold cache")
        yield self._decode(fitting[0], "cold", limits)
        tell("warming up")
        trial = self._engine.model.trial
        for turn in range(WARM_TURNS):
            if turn < 2 or (trial is not None and trial.under_way):
                self._turn(fitting[0], WARM_TOKENS)
        for length in fitting:
            tell(f"prompts of {length:,} tokens")
            yield from self._both(length, limits)

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

    def _decode(self, length: int, cache: str, limits: Limits) -> Row:
        results = []
        for _ in range(self._runs if cache == "warm" else 1):
            if cache == "cold":
                self._engine.drop_experts()
            results.append(self._turn(length, self._tokens + 1))
        return self._decode_row(length, cache, limits, results)

    def _both(self, length: int, limits: Limits) -> Iterator[Row]:
        results = [self._turn(length, self._tokens + 1) for _ in range(self._runs)]
        times = [turn.prefill_s / length for turn, *_ in results]
        changes = [prompt for _, prompt, *_ in results]
        asked = statistics.median(int(change[Counter.BYTES_READ]) / length for change in changes)
        middle, change, *_ = sorted(results, key=lambda result: result[0].prefill_s)[len(results) // 2]
        yield Row(
            kind="prefill",
            context=length,
            cache="warm",
            runs=len(results),
            tok_s=1 / statistics.median(times),
            spread=(1 / max(times), 1 / min(times)),
            seconds=statistics.median(times),
            bound=None,
            hit_rate=_rate(change, Counter.PREFILL_PIN),
            asked=asked,
            device=None,
            split=_split(change, middle.prefill_s),
        )
        yield self._decode_row(length, "warm", limits, results)

    def _decode_row(
        self, length: int, cache: str, limits: Limits, results: list[tuple[Turn, Counters, Counters, int | None]]
    ) -> Row:
        count = self._tokens
        times = [turn.decode_s / count for turn, *_ in results]
        asked = statistics.median(int(reply[Counter.BYTES_READ]) / count for _, _, reply, _ in results)
        total: list[int] = [
            int(prompt[Counter.BYTES_READ] + reply[Counter.BYTES_READ]) for _, prompt, reply, _ in results
        ]
        device = [read for *_, read in results]
        told: list[int] = [read for read in device if read is not None]
        wanted = sum(total)
        share = sum(told) / wanted if len(told) == len(device) and wanted else None
        middle, _, change, _ = sorted(results, key=lambda result: result[0].decode_s)[len(results) // 2]
        seconds = statistics.median(times)
        return Row(
            kind="decode",
            context=length,
            cache=cache,
            runs=len(results),
            tok_s=1 / seconds,
            spread=(1 / max(times), 1 / min(times)),
            seconds=seconds,
            bound=max(self._engine.active_bytes() / limits.memory, asked / limits.disk),
            hit_rate=_rate(change, Counter.HITS_PIN),
            asked=asked,
            device=None if share is None else min(share, 1.0) * asked,
            split=_split(change, middle.decode_s),
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
