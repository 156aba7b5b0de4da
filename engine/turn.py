"""One turn of an engine: the prompt is read, tokens are drawn one by one, the sum is told."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from .board import Board, Counter, Phase
from .errors import EngineError
from .events import Event, Hits, Notice, Prefill, Ready, Repin, StopReason, Token, Turn
from .model.conversation import Conversation
from .model.forward import Model, StoppedError
from .text import AnswerReader, Sampler, Sampling
from .text.reasoning import NOTHING

_RECENT = 256
"""Tokens that the repetition penalty looks back on."""

_BEFORE_END = 8
"""Ids before a prompt's end from where it can be taken up again, if the model cannot go back to any place. A template
may end a prompt with a few that it leaves out once there is an answer."""


class Turnable(Protocol):
    """What a turn needs of its engine."""

    info: Ready
    board: Board
    model: Model
    conversation: Conversation

    @property
    def stopping(self) -> bool:
        """Whether the turn was asked to stop."""

    def begin_turn(self) -> None:
        """Forget an earlier stop."""

    def end_guesses(self) -> None:
        """Read no more on a guess; what was read so far is counted when this returns."""

    def after_turn(self, computed: int, decode_bytes: int, summary: Turn) -> list[Notice | Repin]:
        """Save what was learned from a turn; returns what is to be told.

        computed: tokens, the prompt's included. decode_bytes: read for the reply.
        """


class TurnRun:
    """One turn: its clocks, its counters, its end. `run` is called once."""

    def __init__(
        self,
        engine: Turnable,
        tokens: npt.NDArray[np.int64],
        sampling: Sampling,
        eos_ids: frozenset[int],
        reader: AnswerReader | None,
    ) -> None:
        """reader: makes text of the answer; None where the model has no tokenizer."""
        self._engine, self._tokens, self._sampling, self._eos_ids = engine, tokens, sampling, eos_ids
        self._reader = reader
        self._sampler = Sampler(sampling)
        self._counters = engine.board.counters
        self._before = self._counters.copy()
        self._started = time.perf_counter()
        self._prefilled = self._first = self._last = 0.0
        self._made = 0
        self._prefill_bytes: int | None = None  # the board's count of bytes when the prompt was read

    def run(self) -> Iterator[Event]:
        """See Engine.generate."""
        engine = self._engine
        engine.begin_turn()
        stop: StopReason = "error"
        failure: EngineError | None = None
        try:
            yield from self._prefill()
            self._prefilled = time.perf_counter()
            self._prefill_bytes = int(self._counters[Counter.BYTES_READ])
            stop = yield from self._decode()
        except StoppedError:
            stop = "user"
        except EngineError as error:
            failure = error
        finally:
            self._counters[Counter.PHASE] = Phase.IDLE
            engine.conversation.mark()
            engine.end_guesses()
            summary = self._summary(stop)
            computed = int(self._counters[Counter.PREFILL_DONE]) + self._made
            told = engine.after_turn(computed, self._decode_bytes(), summary)
        yield from told
        yield summary
        if failure is not None:
            raise failure

    def _prefill(self) -> Iterator[Event]:
        engine, tokens = self._engine, self._tokens
        held = engine.conversation
        start = held.resume(tokens)
        total = len(tokens) - start
        more = total > _BEFORE_END  # else an answer goes on or is given again, which the marks there are serve
        if more:
            held.mark_window(start)
        self._counters[Counter.PREFILL_DONE], self._counters[Counter.PREFILL_TOTAL] = 0, total
        yield Prefill(0, total)
        rows = 0
        at = start
        marked = len(tokens) - _BEFORE_END if held.recurrent else 0
        while at < len(tokens):
            if at == marked:
                held.mark()
            rows = min(engine.info.plan.chunk, (marked if at < marked else len(tokens)) - at)
            held.forward(tokens[at : at + rows], Phase.PREFILL, more=at + rows < len(tokens))
            at += rows
            self._counters[Counter.PREFILL_DONE] = at - start
            yield Prefill(at - start, total)
        if more:
            held.mark_window(len(tokens) - _BEFORE_END)
        self._logits = engine.model.logits(rows - 1, 1)[0]

    def _decode(self) -> Generator[Event, None, StopReason]:
        """Yield tokens; returns why it ended."""
        engine, sampling = self._engine, self._sampling
        recent = self._tokens[-_RECENT:].tolist()
        limit = sampling.max_tokens if sampling.max_tokens is not None else engine.info.context
        position = len(self._tokens)
        while self._made < limit:
            before = time.perf_counter_ns()
            chosen = self._sampler.sample(self._logits, recent)
            self._counters[Counter.SAMPLING_NS] += time.perf_counter_ns() - before
            self._made += 1
            self._counters[Counter.TOKENS] += 1
            self._last = time.perf_counter()
            self._first = self._first or self._last
            ended = chosen in self._eos_ids
            last = ended or self._made >= limit or position >= engine.info.context
            yield self._told(chosen, ended=ended, last=last)
            if last:
                return "eos" if ended else "length"
            if engine.stopping:
                return "user"
            before = time.perf_counter_ns()
            engine.conversation.forward(np.array([chosen], np.int64), Phase.DECODE)
            self._logits = engine.model.logits(0, 1)[0]
            self._counters[Counter.DECODE_NS] += time.perf_counter_ns() - before
            recent = [*recent[-_RECENT + 1 :], chosen]
            position += 1
        return "length"

    def _decode_bytes(self) -> int:
        before = self._prefill_bytes
        return 0 if before is None else int(self._counters[Counter.BYTES_READ]) - before

    def _told(self, chosen: int, *, ended: bool, last: bool) -> Token:
        """The event of a token; what was held back, such as half a character, comes with the last one."""
        split = NOTHING
        if self._reader is not None:
            if not ended:
                split = self._reader.push(chosen)
            if last:
                split = split.joined(self._reader.end())
        return Token(chosen, split.answer, split.reasoning)

    def _summary(self, stop: StopReason) -> Turn:
        change = self._counters - self._before
        now = time.perf_counter()
        first = self._first or now
        prefill = (self._prefilled or now) - self._started
        decode = self._last - first if self._made > 1 else 0.0
        kept, rows = int(change[Counter.KEFF_SUM]), int(change[Counter.KEFF_ROWS])

        def hits(start: Counter) -> Hits:
            return Hits(int(change[start]), int(change[start + 1]), int(change[start + 2]))

        return Turn(
            prompt_tokens=len(self._tokens),
            tokens=self._made,
            ttft_s=round(first - self._started, 4),
            prefill_s=round(prefill, 4),
            decode_s=round(decode, 4),
            tok_s=round((self._made - 1) / decode, 3) if decode > 0 else 0.0,
            hits=hits(Counter.HITS_PIN),
            prefill_hits=hits(Counter.PREFILL_PIN),
            bytes_read=int(change[Counter.BYTES_READ]),
            keff=round(kept / rows, 3) if rows else 0.0,
            stop=stop,
        )
