"""The engine: opens a model, answers, closes. One turn at a time.

Engine is the only class of this package that others need. It holds one conversation: the ids whose keys and values are
in the cache. A new prompt that begins like it goes on from the longest common prefix.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from .board import Board, Counter, Phase, Tier
from .checkpoint.files import ModelFiles
from .checkpoint.index import Checkpoint
from .errors import ContextOverflowError, EngineError
from .events import Event, Hits, Loading, Notice, Plan, Prefill, Ready, Repin, StopReason, Token, Turn
from .experts.placement import Placement
from .experts.policies import FUNCTIONS, compile_policies
from .experts.reader import ReaderPool
from .experts.streaming import Streamer
from .experts.trace import RouteTrace
from .families import read_spec
from .kernels.team import Team, physical_cores
from .kernels.warm import compile_all, compile_kernels
from .learning import Learning, Routed
from .model.build import Lossy
from .model.forward import Model, OnRoute, StoppedError
from .model.kv import KVCache, kv_bytes, kv_format
from .model.spec import ModelSpec
from .model.weights import Weights
from .model.workspace import HEAD_ROWS, Workspace, is_packed, work_bytes
from .options import EngineOptions
from .plan import Needs, describe, make_plan
from .text import ChatTemplate, GenerationDefaults, IncrementalDecoder, Message, Sampler, Sampling, Tokenizer

Progress = Callable[[Loading | Notice], None]

_RECENT = 256
"""Tokens that the repetition penalty looks back on."""


def _silent(event: Loading | Notice) -> None:
    """Progress nobody asked for."""


class Engine:
    """A loaded model. Use `Engine.open`; `close` it or use it as a context manager.

    info: what was loaded. board: live telemetry. defaults: how the model wants to be sampled. notices: what a person
    should know about the loading.
    """

    def __init__(self, folder: Path, options: EngineOptions, progress: Progress, shared_board: bool) -> None:
        self._options, self._folder = options, folder
        self._stopping = threading.Event()
        self._held: list[int] = []
        self._tokenizer: Tokenizer | None = None
        self._template: ChatTemplate | None = None
        self.notices: list[str] = []
        checkpoint = Checkpoint.open(folder)
        self.spec: ModelSpec = read_spec(checkpoint.config)
        self.weights = weights = Weights(checkpoint, self.spec)
        generation = GenerationDefaults.load(folder, checkpoint.config)
        self.eos_ids, self.defaults = generation.eos_ids, generation.sampling()
        if (folder / "tokenizer.json").exists():
            self._tokenizer = Tokenizer.load(folder)
            self._template = ChatTemplate.load(folder, self._tokenizer)
        threads = options.threads or physical_cores()
        compile_kernels(lambda done, total: progress(Loading("compiling kernels, once per machine", done, total)))
        compile_all(
            compile_policies, FUNCTIONS, lambda done, total: progress(Loading("compiling cache policies", done, total))
        )
        self._learning = Learning(self._routed(checkpoint), options)
        plan, notices = make_plan(self._needs(weights, threads), options, self._learning.pinnable)
        for text in (*self._learning.notices, *notices, describe(plan)):
            self._notice(text, progress)
        with ExitStack() as opened:
            self._trace = RouteTrace(Path(options.route_trace)) if options.route_trace else None
            if self._trace is not None:
                opened.callback(self._trace.close)
            self.files = ModelFiles(options.direct)
            opened.callback(self.files.close)
            weights.load(self.files, lambda done, total: progress(Loading("reading the dense part", done, total)))
            self.board = self._make_board(shared_board)
            opened.callback(self.board.close)
            self.readers = ReaderPool(self.files, weights.experts)
            opened.callback(self.readers.close)
            self.team = Team(threads)
            opened.callback(self.team.close)
            placement = self._make_placement(plan)
            self._learning.attach(self.board, placement, self.readers, weights.experts, plan.pins // plan.slot_bytes)
            opened.callback(self._learning.close)
            self.model = self._make_model(weights, plan, threads, placement)
            self._opened = opened.pop_all()
        self._on_route: OnRoute | None = self._trace.write if self._trace else None
        self.info = Ready(
            model=folder.absolute().name,
            family=self.spec.family,
            layers=len(self.spec.layers),
            moe_layers=self.spec.moe_layers,
            experts=self.spec.experts,
            top_k=min(self.spec.top_k, options.topk or self.spec.top_k),
            dense_bytes=weights.dense_bytes,
            expert_bytes=weights.experts.expert_bytes,
            context=plan.context,
            plan=plan,
        )

    @classmethod
    def open(
        cls,
        path: str | Path,
        options: EngineOptions | None = None,
        *,
        progress: Progress | None = None,
        shared_board: bool = False,
    ) -> Self:
        """Load the model in the folder `path`.

        progress: told of loading steps and notices. shared_board: put the board into shared memory, for another
        process. Raises EngineError (one line: what, where, what to do) before anything large is allocated when the
        model cannot be run right.
        """
        return cls(Path(path), options or EngineOptions(), progress or _silent, shared_board)

    # opening

    def _notice(self, text: str, progress: Progress) -> None:
        self.notices.append(text)
        progress(Notice(text))

    def _needs(self, weights: Weights, threads: int) -> Needs:
        spec, fmt = self.spec, self._kv_format(weights)
        fixed, per_row = work_bytes(spec, threads)
        return Needs(
            dense=weights.dense_bytes,
            kv=lambda context: kv_bytes(spec, context, fmt),
            slot_bytes=weights.experts.slot_bytes,
            moe_layers=len(spec.moe_layers),
            experts=spec.experts,
            top_k=spec.top_k,
            work_fixed=fixed,
            work_per_row=per_row,
            max_context=spec.max_context,
        )

    def _kv_format(self, weights: Weights) -> int:
        return kv_format(self._options.kv, is_packed(weights.experts.fmt))

    def _make_board(self, shared: bool) -> Board:
        layers, experts = len(self.spec.layers), self.spec.experts
        board = Board.create_shared(layers, experts) if shared else Board(layers, experts)
        board.tier[:] = Tier.NONE
        for layer in self.spec.moe_layers:
            board.tier[layer, : self.spec.mixture(layer).experts] = Tier.DISK
        return board

    def _routed(self, checkpoint: Checkpoint) -> Routed:
        spec = self.spec
        return Routed(len(spec.layers), spec.experts, str(checkpoint.config["model_type"]), spec.moe_layers)

    def _make_placement(self, plan: Plan) -> Placement:
        policy = self._options.policy or "auto"
        return Placement(self.board, plan.slots, plan.slot_bytes, plan.cap, self.spec.top_k, policy)

    def _make_model(self, weights: Weights, plan: Plan, threads: int, placement: Placement) -> Model:
        options, spec = self._options, self.spec
        return Model(
            spec,
            weights,
            Workspace(spec, plan.chunk, threads),
            KVCache(spec, plan.context, self._kv_format(weights)),
            placement,
            Streamer(weights.experts, placement, self.readers, self.board, self._learning.pins),
            self.board,
            self.team,
            Lossy(options.topk, options.topp),
        )

    # text

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer; EngineError when its folder has none."""
        if self._tokenizer is None:
            raise EngineError(f"{self._folder / 'tokenizer.json'}: missing; only token ids (--ids) can be used")
        return self._tokenizer

    @property
    def tokenizer_or_none(self) -> Tokenizer | None:
        """The model's tokenizer, if its folder has one."""
        return self._tokenizer

    def render(self, messages: Sequence[Message], *, continue_final: bool = False) -> list[int]:
        """Turn a conversation into ids with the model's chat template."""
        if self._template is None:
            name = "chat template" if self._tokenizer else "tokenizer.json"
            raise EngineError(f"{self._folder}: the model has no {name}; use --raw to continue plain text")
        return self._template.render(messages, continue_final=continue_final)

    def encode(self, text: str) -> list[int]:
        """Turn plain text into ids, with the special tokens the tokenizer adds by itself."""
        return self.tokenizer.encode_prompt(text)

    # computing

    def stop(self) -> None:
        """End the running turn within one layer. From any thread; does nothing when no turn runs."""
        self._stopping.set()
        self.model.stop()

    def logits(self, ids: Sequence[int], on_route: OnRoute | None = None) -> npt.NDArray[np.float32]:
        """Logits of every position of a prompt, float32 [len(ids), vocab].

        A fresh forward from position 0: the engine forgets the conversation it held. `on_route` is told of every
        routing decision.
        """
        tokens = self._checked(ids)
        self._begin()
        self._held = []
        self.model.on_route = on_route or self._on_route
        result = np.empty((len(tokens), self.spec.vocab), np.float32)
        try:
            for start in range(0, len(tokens), self.info.plan.chunk):
                block = tokens[start : start + self.info.plan.chunk]
                self._forward(block, start, Phase.PREFILL)
                for row in range(0, len(block), HEAD_ROWS):
                    count = min(HEAD_ROWS, len(block) - row)
                    result[start + row : start + row + count] = self.model.logits(row, count)
        finally:
            self.board.counters[Counter.PHASE] = Phase.IDLE
        return result

    def generate(
        self,
        ids: Sequence[int],
        *,
        max_tokens: int | None = None,
        temperature: float = 0.0,
        nucleus: float = 1.0,
        seed: int | None = None,
        repetition: float = 1.0,
        ignore_eos: bool = False,
    ) -> Iterator[Event]:
        """Answer a prompt: Prefill events, Token events, possibly Notices, one Turn at the end.

        Continues the engine's conversation where `ids` begins like it. max_tokens None: until an end-of-sequence token
        or the end of the context. ContextOverflowError before anything is computed when the prompt does not fit; other
        EngineErrors come after the Turn, whose stop is then "error".
        """
        tokens = self._checked(ids)
        sampling = Sampling(max_tokens, temperature, nucleus, seed, repetition)
        return _Turn(self, tokens, sampling, frozenset() if ignore_eos else self.eos_ids).run()

    def _checked(self, ids: Sequence[int]) -> npt.NDArray[np.int64]:
        tokens = np.asarray(ids, np.int64)
        if tokens.ndim != 1 or not len(tokens):
            raise EngineError("the prompt is empty")
        outside = np.flatnonzero((tokens < 0) | (tokens >= self.spec.vocab))
        if len(outside):
            raise EngineError(
                f"token id {tokens[outside[0]]} at place {outside[0]} is outside the vocabulary of {self.spec.vocab:,}"
            )
        if len(tokens) > self.info.context:
            raise ContextOverflowError(
                f"the prompt has {len(tokens):,} tokens, the context window {self.info.context:,}; shorten it, start a "
                "new conversation, or raise --context"
            )
        return tokens

    def forget(self) -> None:
        """Forget the conversation; what was learned stays."""
        self._held = []

    def drop_experts(self) -> None:
        """Empty the expert cache, as after a start."""
        self.model.placement.drop()

    def active_bytes(self) -> int:
        """Bytes of weights that one token reads from memory: the dense part without the embedding, and its experts."""
        experts = self.info.top_k * len(self.spec.moe_layers) * self.info.expert_bytes
        return self.weights.read_per_token() + experts

    def _begin(self) -> None:
        self._stopping.clear()
        self.model.clear_stop()

    def _forward(self, block: npt.NDArray[np.int64], position: int, phase: Phase) -> None:
        counters = self.board.counters
        counters[Counter.PHASE] = phase
        # What stands at and after `position` is being overwritten: it is held again only once it is whole.
        del self._held[position:]
        self.model.forward(block, position, phase)
        self._held.extend(block.tolist())
        counters[Counter.CONTEXT_USED] = len(self._held)

    def repin_for(self, history: str | Path) -> list[str]:
        """Go on with another history (a profile's), between turns: save this one, load that, pin what it ranks highest.

        Only what is missing is read, in the background. Returns notices.
        """
        return self._learning.repin_for(Path(history))

    def _after_turn(self, tokens: int) -> list[Notice | Repin]:
        """Save what was learned; returns what is to be told, after a turn of so many tokens."""
        told: list[str] = []
        if self._trace is not None:
            self._trace.flush()
            if self._trace.failed:
                told.append(self._trace.failed)
                self._trace = self._on_route = None
        notices, exchanges = self._learning.after_turn(tokens)
        return [*map(Notice, told + notices), *exchanges]

    def close(self) -> None:
        """Save what was learned, end the threads, close the files. The engine cannot be used afterwards.

        A second call does nothing.
        """
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Turn:
    """One turn: its clocks, its counters, its end."""

    def __init__(
        self, engine: Engine, tokens: npt.NDArray[np.int64], sampling: Sampling, eos_ids: frozenset[int]
    ) -> None:
        self._engine, self._tokens, self._sampling, self._eos_ids = engine, tokens, sampling, eos_ids
        self._sampler = Sampler(sampling)
        self._counters = engine.board.counters
        self._before = self._counters.copy()
        self._started = time.perf_counter()
        self._prefilled = self._first = self._last = 0.0
        self._made = 0

    def run(self) -> Iterator[Event]:
        """See Engine.generate."""
        engine = self._engine
        engine._begin()
        engine.model.on_route = engine._on_route
        stop: StopReason = "error"
        failure: EngineError | None = None
        try:
            yield from self._prefill()
            self._prefilled = time.perf_counter()
            stop = yield from self._decode()
        except StoppedError:
            stop = "user"
        except EngineError as error:
            failure = error
        finally:
            self._counters[Counter.PHASE] = Phase.IDLE
            summary = self._summary(stop)
            told = engine._after_turn(int(self._counters[Counter.PREFILL_DONE]) + self._made)
        yield from told
        yield summary
        if failure is not None:
            raise failure

    def _prefill(self) -> Iterator[Event]:
        engine, tokens = self._engine, self._tokens
        kept = _common_prefix(engine._held, tokens)
        start = min(kept, len(tokens) - 1)  # the last token's logits are needed
        total = len(tokens) - start
        self._counters[Counter.PREFILL_DONE], self._counters[Counter.PREFILL_TOTAL] = 0, total
        yield Prefill(0, total)
        rows = 0
        for at in range(start, len(tokens), engine.info.plan.chunk):
            rows = min(engine.info.plan.chunk, len(tokens) - at)
            engine._forward(tokens[at : at + rows], at, Phase.PREFILL)
            self._counters[Counter.PREFILL_DONE] = at + rows - start
            yield Prefill(at + rows - start, total)
        self._logits = engine.model.logits(rows - 1, 1)[0]

    def _decode(self) -> Generator[Event, None, StopReason]:
        """Yield tokens; returns why it ended."""
        engine, sampling = self._engine, self._sampling
        decoder = IncrementalDecoder(engine.tokenizer) if engine._tokenizer is not None else None
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
            text = ""
            if decoder is not None:
                # Bytes of a character that will never be finished come with the last token.
                text = ("" if ended else decoder.push(chosen)) + (decoder.flush() if last else "")
            yield Token(chosen, text)
            if last:
                return "eos" if ended else "length"
            if engine._stopping.is_set():
                return "user"
            before = time.perf_counter_ns()
            engine._forward(np.array([chosen], np.int64), position, Phase.DECODE)
            self._logits = engine.model.logits(0, 1)[0]
            self._counters[Counter.DECODE_NS] += time.perf_counter_ns() - before
            recent = [*recent[-_RECENT + 1 :], chosen]
            position += 1
        return "length"

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


def _common_prefix(held: Sequence[int], tokens: npt.NDArray[np.int64]) -> int:
    """How many ids two sequences share from the start."""
    count = min(len(held), len(tokens))
    different = np.flatnonzero(np.asarray(held[:count], np.int64) != tokens[:count])
    return int(different[0]) if len(different) else count


def open_engine(path: str, options: EngineOptions, *, progress: Progress, shared_board: bool) -> Engine:
    """The factory that the worker process calls."""
    return Engine.open(path, options, progress=progress, shared_board=shared_board)
