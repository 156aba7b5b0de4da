"""Runs a model: blocks of token ids in, logits out.

Python does little here: it sets a few cells of the state, starts the native program on the team, and serves its pauses.
A token whose experts are all in memory is one native call.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..board import Board, Counter, Foreseer, Phase
from ..experts.guesses import PairGuesses
from ..experts.pilot import Foresight
from ..experts.placement import EMPTY, Choices, Placement
from ..experts.streaming import Coming, Streamer
from ..kernels import records as r
from ..kernels.program import run
from ..kernels.team import Team, entry
from ..options import Lossy
from .buffers import HEAD_ROWS
from .build import Builder, Program
from .foreseeing import Ahead
from .kv import KVCache
from .mixtures import Mixtures
from .passage import Passage
from .spec import ModelSpec
from .threads import ThreadChoice
from .trial import Looking, Trial
from .weights import Weights
from .workspace import Workspace

Floats = npt.NDArray[np.float32]
THREAD_BYTES = 4 << 20
"""Weights for which it pays to wake one more thread, when one token's experts come in one by one."""

SURE = 2
"""Choices of a block for each expert that there is, from which on nearly every expert is chosen."""

OnRoute = Callable[[int, npt.NDArray[np.int32], Floats, npt.NDArray[np.int32]], None]
"""Told of every routing: (layer, ids [rows, k], weights [rows, k], kept [rows])."""


class StoppedError(Exception):
    """The forward was asked to stop; the rows it was computing are not in the conversation."""


class Model:
    """A model ready to compute. One forward at a time; `stop` may be called from any thread."""

    def __init__(
        self,
        spec: ModelSpec,
        weights: Weights,
        space: Workspace,
        kv: KVCache,
        placement: Placement,
        streamer: Streamer,
        board: Board,
        team: Team,
        lossy: Lossy,
        looking: Looking,
        guesses: PairGuesses,
    ) -> None:
        self.spec = spec
        self._space, self._board, self._team, self._streamer = space, board, team, streamer
        self.placement, self.source = placement, weights.experts
        self._keep = (weights, kv)  # the program holds their addresses
        self._build: Callable[[Lossy, Ahead | None], Program] = lambda lossy, ahead: Builder(
            spec, weights, space, kv, Mixtures(weights.experts, placement, board, lossy), ahead
        ).build(self._state)
        self._foresight, self._guesses = Foresight(len(spec.layers), spec.top_k), guesses
        self._looking = looking
        self.trial = Trial(looking.ways) if looking.pilot else None
        self._timespec = np.zeros(2, np.int64)
        self._passage = Passage(board, space, spec.moe_layers, spec.top_k)
        self._place = {layer: place for place, layer in enumerate(spec.moe_layers)}
        self._state = self._make_state()
        self._entry = entry(run)
        self._single: dict[tuple[int, int], Choices] = {}
        self._limit(lossy)
        self._ids = space.array("ids", (space.rows,), np.int64)
        self._logits = space.array("logits", (HEAD_ROWS, spec.vocab), np.float32)
        self._job_expert = space.array("job_expert", (spec.experts,), np.int64)
        self._active = space.array("active_jobs", (spec.experts,), np.int64)
        self.on_route: OnRoute | None = None
        self._choice = ThreadChoice(team.threads)
        self._threads = team.threads
        self._more = False
        self._together_ns = self._used_ns = 0  # time and processor time of the forward at hand on all its threads

    def _make_state(self) -> npt.NDArray[np.int64]:
        at = self._space.address
        state = np.zeros(r.STATE_CELLS, np.int64)
        state[r.COUNTERS] = self._board.counters.ctypes.data
        state[r.JOB_EXPERT], state[r.JOB_FIRST] = at["job_expert"], at["job_first"]
        state[r.JOB_PAIRS], state[r.ACTIVE_JOBS] = at["job_pairs"], at["active_jobs"]
        state[r.EXPERT_COUNT], state[r.SCRATCH] = at["expert_count"], at["scratch"]
        state[r.TIMESPEC], state[r.LAYER_BEGAN] = self._timespec.ctypes.data, self._passage.began.ctypes.data
        state[r.MAX_ROWS], state[r.SCRATCH_BYTES] = self._space.rows, self._space.thread_scratch
        return state

    def limit(self, lossy: Lossy) -> None:
        """Route with other limits from the next forward on."""
        self.placement.log.count[:] = self.placement.recent.count[:] = 0  # their rows had another width
        self._limit(lossy)

    def _limit(self, lossy: Lossy) -> None:
        self._program = self._running = self._build(lossy, None)
        looka = self._looking.looka
        ways = [*([Foreseer.NONE] if looka else []), *(self._looking.ways if self._looking.pilot else [])]
        self._ahead = {by: self._build(lossy, Ahead(self._foresight, self._guesses, by, looka)) for by in ways}

    def _choose_program(self, one_token: bool) -> Program:
        """The program that looks ahead, where that is wanted, for one token."""
        by = self.trial.by if self.trial is not None else Foreseer.NONE
        return self._ahead.get(by, self._program) if one_token else self._program

    def stop(self) -> None:
        """Ask the running forward to end at its next layer."""
        self._state[r.STOP] = 1

    def clear_stop(self) -> None:
        """Forget an earlier stop."""
        self._state[r.STOP] = 0

    def forward(self, ids: npt.NDArray[np.int64], position: int, phase: Phase, more: bool = False) -> None:
        """Compute a block of rows, at most the workspace's, that stand at `position` and after.

        more: another block of the prompt follows, so what it will need can be read already.
        Raises StoppedError when `stop` was called, ReadError when an expert cannot be read.
        """
        rows, decoding = len(ids), phase == Phase.DECODE
        self._more = more
        program = self._running = self._choose_program(decoding and rows == 1)
        state, began = self._state, time.perf_counter_ns()
        self._ids[:rows] = ids
        for table in program.ropes:
            table.fill(position, rows)
        counters = self._board.counters
        counters[Counter.CLOCK] += 1
        state[r.ROWS], state[r.POSITION], state[r.CLOCK] = rows, position, counters[Counter.CLOCK]
        state[r.HIT_COUNTER] = Counter.HITS_PIN if decoding else Counter.PREFILL_PIN
        state[r.KEPT_COUNTER] = Counter.KEFF_SUM if decoding else -1
        state[r.ALWAYS_PAUSE] = self.on_route is not None
        self._threads = self._choice.count if decoding else self._team.threads
        self._together_ns = self._used_ns = at = 0
        if decoding:
            self._passage.begin()
        else:
            self._passage.interrupt()
        while True:
            at = self._run(at, program.body_end, self._threads)
            if at == program.body_end:
                break
            if program.ops["code"][at - 1] != r.UNION:  # a layer began, and a stop was asked for
                raise StoppedError
            at = self._serve(at, rows)
        if decoding:
            self._passage.end(int(ids[0]))
            self._note((time.perf_counter_ns() - began) / 1e9)

    def _note(self, seconds: float) -> None:
        """Tell those that try how a token is computed best how long this one took. They try one after another."""
        trial, choice = self.trial, self._choice
        trying = trial is not None and trial.under_way and choice.settled
        if not trying:
            choice.note(self._together_ns / 1e9, self._used_ns / 1e9)
        if trial is not None and (trying or not trial.under_way):
            trial.note(seconds)
            self._board.counters[Counter.AHEAD_ON] = trial.by
            if trial.gain is not None:
                self._board.counters[Counter.AHEAD_GAIN] = round(1000 * trial.gain)

    def _run(self, start: int, end: int, threads: int) -> int:
        program = self._running
        before, used = time.perf_counter_ns(), time.process_time_ns()
        reached = self._team.run(self._entry, program.job.part(start, end), threads)
        spent = time.perf_counter_ns() - before
        if threads == self._threads:
            self._together_ns += spent
            self._used_ns += time.process_time_ns() - used
        self._board.counters[Counter.COMPUTE_NS] += spent
        return reached

    def _serve(self, after_union: int, rows: int) -> int:
        """A mixture paused: write the trace, stream what is missing, compute. Returns where to go on."""
        state, program = self._state, self._running
        layer, top_k, combine = program.pauses[after_union]
        choices = self._choices(layer, rows, top_k)
        if self.on_route is not None:
            weights = self._routing("route_weights", np.float32, layer, rows, top_k)
            self.on_route(layer, choices.ids, weights, choices.kept)

        def compute(jobs: list[int]) -> None:
            self._active[: len(jobs)] = jobs
            state[r.ACTIVE] = len(jobs)
            share = self._threads if rows > 1 else -(-len(jobs) * self.source.expert_bytes // THREAD_BYTES)
            self._run(after_union, combine, min(self._threads, share))

        experts = self._job_expert[: state[r.JOBS]].copy()
        self._passage.paused(layer, choices.ids[0, : choices.kept[0]])
        waited = int(self._board.counters[Counter.READ_WAIT_NS])
        counter, coming = Counter(int(state[r.HIT_COUNTER])), None
        if layer in program.next_of:
            by, target = program.next_of[layer]
            coming = Coming(target, self._foresight.of(by, target), self.spec.top_k)
        elif rows > 1 and self._looking.pilot:
            coming = self._coming_block(layer, rows)
        self._streamer.run(layer, experts, choices, counter, compute, coming)
        self._passage.waited(layer, int(self._board.counters[Counter.READ_WAIT_NS]) - waited)
        return combine

    def _coming_block(self, layer: int, rows: int) -> Coming | None:
        """What a block of rows will need next, in the next mixture or the next block's first: if it has rows enough,
        nearly everything, so what is missing there, hottest first."""
        place, layers = self._place[layer] + 1, self.spec.moe_layers
        if place == len(layers) and not self._more:
            return None
        target = layers[place % len(layers)]
        experts = self.spec.mixture(target).experts
        if rows * self.spec.top_k < SURE * experts:
            return None
        missing = np.flatnonzero(self.placement.slot_of[target, :experts] == EMPTY)
        hottest = missing[np.argsort(self._board.heat[target, missing], kind="stable")[::-1]]
        return Coming(target, hottest.tolist(), self.spec.top_k)

    def _choices(self, layer: int, rows: int, top_k: int) -> Choices:
        """What the rows chose in a layer, views of native memory; those of single tokens are made once."""
        known = self._single.get((layer, top_k)) if rows == 1 else None
        if known is None:
            kept = self._space.array("route_kept", (rows,), np.int32, 4 * self._space.rows * self._place[layer])
            known = Choices(self._routing("route_ids", np.int32, layer, rows, top_k), kept)
            if rows == 1:
                self._single[layer, top_k] = known
        return known

    def _routing(self, buffer: str, dtype: Any, layer: int, rows: int, top_k: int) -> npt.NDArray[Any]:
        skip = 4 * self._space.rows * self.spec.top_k * self._place[layer]
        return self._space.array(buffer, (rows, top_k), dtype, skip)

    def logits(self, first: int, count: int) -> Floats:
        """Logits of rows first..first+count-1 of the last block, float32 [count, vocab]; count <= HEAD_ROWS.

        The array is the workspace's own and is overwritten by the next call.
        """
        state = self._state
        state[r.HEAD_FROM], state[r.HEAD_TO] = first, first + count
        self._run(self._running.body_end, len(self._running.ops), self._threads)
        view: Floats = self._logits[:count]
        return view
