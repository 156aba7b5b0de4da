"""The engine: opens a model, answers, closes. One turn at a time.

Engine is the only class of this package that others need. It holds one conversation: the ids whose keys and values are
in the cache. A new prompt that begins like it goes on from the longest common prefix.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from . import state_file
from .board import Board, Counter, Phase, Tier
from .checkpoint.files import ModelFiles
from .compiling import COMPILING, compile_elsewhere, load_kernels
from .errors import ContextOverflowError, EngineError
from .events import Event, Loading, MemoryCurve, Notice, Plan, Ready, Repin, State, Turn
from .experts.async_reader import is_small, open_readers
from .experts.pilot import Pilot
from .experts.placement import Placement
from .experts.streaming import Streamer
from .experts.trace import RouteTrace
from .forecast import memory_curve
from .headers import read_headers, spec_of
from .kernels.team import Team, physical_cores
from .learning import Learning
from .model.buffers import HEAD_ROWS, buffer_sizes
from .model.conversation import Conversation
from .model.forward import Model, OnRoute, StoppedError
from .model.kv import KV_NAMES, KVCache, kv_format
from .model.spec import ModelSpec
from .model.trial import Looking
from .model.weights import Weights
from .model.workspace import Workspace
from .needs import model_needs
from .options import EngineOptions, Lossy
from .plan import describe, make_plan
from .routed import routed_of
from .text import AnswerReader, ChatTemplate, GenerationDefaults, Message, Sampling, Tokenizer
from .text.opening import open_text
from .turn import TurnRun

Progress = Callable[[Loading | Notice], None]


def _tell_all(told: Sequence[OnRoute], *routing: Any) -> None:
    for on_route in told:
        on_route(*routing)


def _log(event: Loading | Notice) -> None:
    """Progress nobody asked for: only what makes a machine's first start so slow is worth a word."""
    if isinstance(event, Loading) and event.stage == COMPILING and event.done == 1:
        logging.getLogger(__name__).warning("%s; this may take a minute", COMPILING)


class Engine:
    """A loaded model. Use `Engine.open`; `close` it or use it as a context manager.

    listener: told of every routing of a turn, when it is set before the turn. info: what was loaded. model_type:
    config.json's. board: live telemetry. defaults: how the model wants to be sampled. notices: what a person should
    know about the loading.
    """

    def __init__(self, folder: Path, options: EngineOptions, progress: Progress, shared_board: bool) -> None:
        self._options, self._folder = options, folder
        self._stopping = threading.Event()
        self._tokenizer: Tokenizer | None
        self._template: ChatTemplate | None
        self.notices: list[str] = []
        self.listener: OnRoute | None = None
        checkpoint = read_headers(folder)
        self.spec: ModelSpec = spec_of(checkpoint)
        self.weights = weights = Weights(checkpoint, self.spec)
        generation = GenerationDefaults.load(folder, checkpoint.config)
        self.eos_ids, self.defaults = generation.eos_ids, generation.sampling()
        self._tokenizer, self._template = open_text(folder, checkpoint.metadata, options.template)
        fingerprint = state_file.fingerprint(checkpoint)
        threads = options.threads or physical_cores()
        compile_elsewhere(progress)
        load_kernels(progress)
        routed = routed_of(self.spec, checkpoint.config)
        self.model_type = routed.model_type
        self._learning = Learning(routed, options, folder if folder.is_dir() else folder.parent)
        plan, notices = make_plan(model_needs(self.spec, weights, options, threads), options, self._learning.pinnable)
        for text in (*self._learning.notices, *notices, describe(plan)):
            self._notice(text, progress)
        with ExitStack() as opened:
            self._trace = RouteTrace(Path(options.route_trace)) if options.route_trace else None
            if self._trace is not None:
                opened.callback(self._trace.close)
            self.files = ModelFiles(options.direct)
            opened.callback(self.files.close)
            weights.load(self.files, lambda done, total: progress(Loading("reading the dense part", done, total)))
            self.files.open_all(weights.experts.files())
            self.board = self._make_board(shared_board)
            opened.callback(self.board.close)
            self.readers = open_readers(self.files, weights.experts)
            opened.callback(self.readers.close)
            self.team = Team(threads)
            opened.callback(self.team.close)
            placement = Placement(self.board, plan.slots, plan.slot_bytes, plan.cap, self.spec.top_k, self._policy)
            pins = plan.pins // plan.slot_bytes
            self._learning.attach(
                self.board, placement, self.readers, weights.experts, pins, self.spec.choices(self._top_k)
            )
            opened.callback(self._learning.close)
            kv = KVCache(self.spec, plan.context, kv_format(options.kv, weights.experts.packed))
            self.model = self._make_model(weights, plan, threads, placement, kv)
            self.conversation = Conversation(self.model, kv, self.board)
            self._identity = state_file.Identity(fingerprint, KV_NAMES[kv.fmt], options.topk, options.topp)
            self._opened = opened.pop_all()
        self._on_route: OnRoute | None = self._trace.write if self._trace else None
        self.info = Ready(
            model=folder.absolute().name,
            family=self.spec.family,
            layers=len(self.spec.layers),
            moe_layers=self.spec.moe_layers,
            experts=self.spec.experts,
            top_k=self._top_k,
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

        progress: told of loading steps and notices; without it a first start, which compiles, logs a warning.
        shared_board: put the board into shared memory, for another process. Raises EngineError (one line: what, where,
        what to do) before anything large is allocated when the model cannot be run right.
        """
        return cls(Path(path), options or EngineOptions(), progress or _log, shared_board)

    # opening

    def _notice(self, text: str, progress: Progress) -> None:
        self.notices.append(text)
        progress(Notice(text))

    @property
    def _top_k(self) -> int:
        """Experts that a token uses in a layer, at most."""
        return min(self.spec.top_k, self._options.topk or self.spec.top_k)

    @property
    def _policy(self) -> str:
        return self._options.policy or "auto"

    def _make_board(self, shared: bool) -> Board:
        make = Board.create_shared if shared else Board
        board = make(len(self.spec.layers), self.spec.experts, self._top_k)
        board.tier[:] = Tier.NONE
        for layer in self.spec.moe_layers:
            board.tier[layer, : self.spec.mixture(layer).experts] = Tier.DISK
        return board

    def _make_model(self, weights: Weights, plan: Plan, threads: int, placement: Placement, kv: KVCache) -> Model:
        options, spec, source = self._options, self.spec, weights.experts
        self._pilot = Pilot(placement, self.readers, source, self.board)
        return Model(
            spec,
            weights,
            Workspace(buffer_sizes(spec, plan.chunk, threads, weights.planes), plan.chunk, threads),
            kv,
            placement,
            Streamer(source, placement, self.readers, self.board, self._learning.ahead, self._pilot),
            self.board,
            self.team,
            Lossy(options.topk, options.topp),
            Looking(options.pilot and not (placement.holds_all or is_small(source)), options.pilot_by, options.looka),
            self._learning.pairs.guesses,
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

    @property
    def starts_warm(self) -> bool:
        """Whether the cache began with what the history ranks highest."""
        return self._learning.warm

    @property
    def has_template(self) -> bool:
        """Whether the model has a chat template, so that `render` works."""
        return self._template is not None

    def render(self, messages: Sequence[Message], *, continue_final: bool = False) -> list[int]:
        """Turn a conversation into ids with the model's chat template; what was said in this one keeps its tokens."""
        if self._template is None:
            raise EngineError(
                f"{self.tokenizer.origin}: the model has no chat template; give one with --template FILE, or use --raw "
                "to continue plain text"
            )
        asked = self._template.render(messages, continue_final=continue_final)
        return self.tokenizer.as_said(self.conversation.ids, asked)

    def encode(self, text: str) -> list[int]:
        """Turn plain text into ids, with the special tokens the tokenizer adds by itself."""
        return self.tokenizer.encode_prompt(text)

    # computing

    def stop(self) -> None:
        """End the running turn within one layer. From any thread; does nothing when no turn runs."""
        self._stopping.set()
        self.model.stop()

    def logits(self, ids: Sequence[int], on_route: OnRoute | None = None, *, start: int = 0) -> npt.NDArray[np.float32]:
        """Logits of every position of a prompt from `start` on, float32 [len(ids) - start, vocab].

        A fresh forward from position 0: the engine forgets the conversation it held. `on_route` is told of every
        routing decision.
        """
        tokens = self._checked(ids)
        self.begin_turn()
        self.conversation.forget()
        self.model.on_route = on_route or self._on_route
        result = np.empty((len(tokens) - start, self.spec.vocab), np.float32)
        try:
            for begin in range(0, len(tokens), self.info.plan.chunk):
                block = tokens[begin : begin + self.info.plan.chunk]
                self.conversation.forward(block, Phase.PREFILL)
                for row in range(max(0, start - begin), len(block), HEAD_ROWS):
                    count = min(HEAD_ROWS, len(block) - row)
                    at = begin + row - start
                    result[at : at + count] = self.model.logits(row, count)
        except StoppedError:
            raise EngineError("stopped before the logits were computed") from None
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
        chat: bool = False,
    ) -> Iterator[Event]:
        """Answer a prompt: Prefill events, Token events, possibly Notices, one Turn at the end.

        chat: the ids are a conversation from `render`, in whose answer reasoning is told apart.

        Continues the engine's conversation where `ids` begins like it. max_tokens None: until an end-of-sequence token
        or the end of the context. ContextOverflowError before anything is computed when the prompt does not fit; other
        EngineErrors come after the Turn, whose stop is then "error".
        """
        tokens = self._checked(ids)
        sampling = Sampling(max_tokens, temperature, nucleus, seed, repetition)
        reader = None
        if chat and self._template is not None:
            reader = self._template.reader(ids)
        elif self._tokenizer is not None:
            reader = AnswerReader(self._tokenizer, ids, None)
        return TurnRun(self, tokens, sampling, frozenset() if ignore_eos else self.eos_ids, reader).run()

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
        self.conversation.forget()

    def save_state(self, path: str | Path, most: int | None = None) -> State:
        """Keep the conversation's memory in a file, between turns: the old file stays until the new one is whole.

        Raises StateError when that is not possible, takes more than `most` bytes, or nothing is held.
        """
        return state_file.save(Path(path), self._identity, self.conversation, most)

    def load_state(self, path: str | Path) -> State:
        """Take up the conversation kept in a file, between turns; StateError if it is damaged or does not fit."""
        return state_file.load(Path(path), self._identity, self.conversation, self.spec.vocab, self.info.context)

    def limit(self, lossy: Lossy) -> None:
        """Route with these limits from now on, whatever the engine was opened with; forgets the conversation."""
        self.conversation.forget()
        self.model.limit(lossy)
        self._learning.pairs.restart()
        self._identity = replace(self._identity, top_k=lossy.top_k, top_p=lossy.top_p)

    def drop_experts(self) -> None:
        """Empty the expert cache, as after a start without a history; pinned experts stay."""
        self._learning.ahead.stop()
        self.model.placement.drop()

    def load_experts(self) -> None:
        """Load what the cache begins with after a start, and wait until it is there."""
        self._learning.fill(self.model.source)
        self._learning.ahead.finish()

    def active_bytes(self) -> int:
        """Bytes of weights that one token reads from memory: the dense part without the embedding, and its experts."""
        experts = self.info.top_k * len(self.spec.moe_layers) * self.info.expert_bytes
        return self.weights.read_per_token() + experts

    @property
    def stopping(self) -> bool:
        """Whether the running turn was asked to stop."""
        return self._stopping.is_set()

    def begin_turn(self) -> None:
        """Forget an earlier stop, and tell of routing whom it concerns."""
        self._stopping.clear()
        self.model.clear_stop()
        told = [on_route for on_route in (self._on_route, self.listener) if on_route is not None]
        self.model.on_route = told[0] if len(told) == 1 else partial(_tell_all, told) if told else None
        self.board.by_layer[:] = 0

    def repin_for(self, history: str | Path, learn: bool = True) -> list[str]:
        """Go on with another history (a profile's), between turns: save this one, load that, pin what it ranks highest.

        learn: whether turns are saved to it. Only what is missing is read, in the background. Returns notices.
        """
        return self._learning.repin_for(Path(history), learn)

    def memory_curve(self) -> MemoryCurve:
        """What more or less memory would do, going by the last tokens. From any thread; takes seconds."""
        placement, plan = self.model.placement, self.info.plan
        widths = placement.recent.widths[list(self.spec.moe_layers)].tolist()
        return memory_curve(self.spec, widths, placement, self.board.counters.copy(), self._policy, plan)

    def end_guesses(self) -> None:
        """Read no more on a guess; what was read so far is counted when this returns."""
        self._pilot.stop()

    def after_turn(self, computed: int, decode_bytes: int, summary: Turn) -> list[Notice | Repin]:
        """Save what was learned from a turn; returns what is to be told.

        computed: tokens, the prompt's included. decode_bytes: read for the reply.
        """
        told: list[str] = []
        if self._trace is not None:
            self._trace.flush()
            if self._trace.failed:
                told.append(self._trace.failed)
                self._trace = self._on_route = None
        notices, exchanges = self._learning.after_turn(computed, decode_bytes, summary, self.info.plan)
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
