"""What the engine learns from one turn to the next: the history, what it loads ahead, and the exchange of pins."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .board import Board, Counter
from .errors import EngineError
from .events import Plan, Repin, Turn
from .experts.ahead import Ahead
from .experts.history import UsageHistory
from .experts.pair_history import NAME as PAIRS_NAME
from .experts.pair_history import PairHistory
from .experts.pair_learner import Mixtures, PairLearner
from .experts.pins import SELECTIONS_MIN, rank
from .experts.placement import Placement
from .experts.reader import ReaderPool
from .experts.repin import Repinner
from .experts.source import ExpertSource
from .experts.usage import read_usage
from .options import EngineOptions
from .plan import NOTHING_TO_PIN, Pinnable
from .routed import Routed
from .turn_log import LoggedTurn, append_turn, log_path


class Learning:
    """Opened with the history, before the plan is made; `attach` gives it the running engine's parts.

    notices: what a person should know about the histories. pinnable: what there is to pin, for the plan.
    """

    def __init__(self, routed: Routed, options: EngineOptions, folder: Path) -> None:
        """folder: the model's. Raises EngineError when `--pin FILE` cannot be used."""
        self._routed, self._options, self._folder = routed, options, folder
        self.notices: list[str] = []
        self.pinnable = NOTHING_TO_PIN
        self._history: UsageHistory | None = None
        self._ranking: list[tuple[int, int]] = []
        self._repinner: Repinner | None = None
        self._log_path: Path | None = None
        path = options.usage or options.history
        if path is not None:
            self._history = self._open(Path(path), named=options.usage is not None, learn=options.learn)
        self._pair_history = self._open_pairs(path, named=options.usage is not None, learn=options.learn)
        if options.pin == "auto" and self._history is not None:
            self._rank_history(self._history)
        elif options.pin != "off":
            self._rank_file(Path(options.pin))

    def attach(
        self,
        board: Board,
        placement: Placement,
        readers: ReaderPool,
        source: ExpertSource,
        pin_slots: int,
        mixtures: Mixtures,
    ) -> None:
        """Begin: set the board's heat, pin what is ranked highest, fill the cache; both load in the background."""
        self.pairs = PairLearner(self._pair_history, placement.recent, mixtures)
        self._board, self._placement, self._pin_slots = board, placement, pin_slots
        self.ahead = Ahead(placement, readers, source, board)
        if self._history is not None:
            board.heat[:] = self._history.counts
        if self._options.repin:
            self._repinner = Repinner(board, self._options.repin, lfru=self._options.policy == "lfru")
        self._pin()
        if self._options.warm:
            self.fill(source)

    def fill(self, source: ExpertSource) -> None:
        """Begin to load what the history ranks highest into the cache; where every expert fits, all others follow."""
        ranking = [] if self._history is None else rank(self._history.counts, self._routed.moe_layers)
        if self._placement.holds_all:  # in the order of layers: the file is read from one end to the other
            ranking = list(dict.fromkeys([*ranking, *sorted(source.reads)]))
        self.ahead.fill(ranking)

    @property
    def warm(self) -> bool:
        """Whether the cache begins with what the history ranks highest."""
        return self._history is not None and self._options.warm

    def after_turn(self, computed: int, decode_bytes: int, summary: Turn, plan: Plan) -> tuple[list[str], list[Repin]]:
        """Save the history, log the turn and exchange pins; returns notices and exchanges.

        computed: tokens, the prompt's included. decode_bytes: read for the reply.
        """
        notices = self._save() + self._save_pairs() + self._log(computed, decode_bytes, summary, plan)
        exchanges: list[Repin] = []
        if self._repinner is not None:
            try:
                self._exchange(self._repinner, computed, exchanges)
            except EngineError as error:
                notices.append(str(error))
        if self.ahead.failed is not None:
            notices.append(self.ahead.failed)
            self.ahead.failed = None
        return notices, exchanges

    def repin_for(self, history: Path, learn: bool) -> list[str]:
        """Go on with another history, between turns: save this one, load that, and pin what it ranks highest.

        learn: whether turns are saved to it. Only what is missing is read, in the background. Returns notices.
        """
        notices = self._save()
        self.notices.clear()
        self._history = self._open(history, named=False, learn=learn)
        self.pairs.follow(self._open_pairs(history, named=False, learn=learn))
        self._board.heat[:] = self._history.counts
        if self._repinner is not None:
            self._repinner.restart()
        if self._options.pin == "auto":
            self._rank_history(self._history)
            self._pin()
        return notices + self.notices

    def close(self) -> None:
        """Stop loading ahead and save the history."""
        self.ahead.stop()
        self._save()

    def _open(self, path: Path, *, named: bool, learn: bool) -> UsageHistory:
        routed = self._routed
        self._log_path = log_path(path) if learn and not named else None
        history = UsageHistory.open(
            path,
            routed.layers,
            routed.experts,
            routed.model_type,
            frozenset(routed.moe_layers),
            named=named,
            learn=learn,
            decay=self._options.usage_decay,
        )
        self.notices.extend(history.notices)
        return history

    def _open_pairs(self, history: str | Path | None, *, named: bool, learn: bool) -> PairHistory:
        """The pairs that lie beside a history; beside one that a person named nothing is written."""
        routed, seed = self._routed, self._folder / PAIRS_NAME
        pairs = PairHistory(
            None if history is None else Path(history).with_name(PAIRS_NAME),
            routed.layers,
            routed.experts,
            frozenset(routed.moe_layers),
            learn=learn and not named,
            seed=seed if seed.is_file() else None,
        )
        self.notices.extend(pairs.notices)
        return pairs

    def _rank_history(self, history: UsageHistory) -> None:
        trusted = history.total >= SELECTIONS_MIN
        self._ranking = rank(history.counts, self._routed.moe_layers) if trusted else []
        self.pinnable = Pinnable(len(self._ranking), history.total)

    def _rank_file(self, path: Path) -> None:
        routed = self._routed
        if not path.is_file():
            raise EngineError(f"--pin {path}: no such file; give off, auto or a history (.coli_usage)")
        usage = read_usage(
            path, routed.layers, routed.experts, routed.model_type, frozenset(routed.moe_layers), named=True
        )
        self.notices.extend(usage.notices)
        self._ranking = rank(usage.counts[: routed.layers], routed.moe_layers)
        self.pinnable = Pinnable(len(self._ranking), None)

    def _pin(self) -> None:
        self.ahead.pin(self._ranking[: self._pin_slots])

    def _save(self) -> list[str]:
        if self._history is None:
            return []
        try:
            return list(self._history.save(self._board.heat))
        except EngineError as error:
            return [str(error)]

    def _save_pairs(self) -> list[str]:
        try:
            return list(self.pairs.after_turn())
        except EngineError as error:
            return [str(error)]

    def _log(self, computed: int, decode_bytes: int, summary: Turn, plan: Plan) -> list[str]:
        """Add the turn to the profile's log; a history that a person named has none."""
        if self._log_path is None or not computed:
            return []
        turn = LoggedTurn(
            at=round(time.time(), 1),
            prompt=computed - summary.tokens,
            tokens=summary.tokens,
            hits=summary.hits,
            prefill_hits=summary.prefill_hits,
            bytes_read=summary.bytes_read,
            decode_bytes=decode_bytes,
            tok_s=summary.tok_s,
            cap=plan.cap,
            pinned=int(np.count_nonzero(self._placement.pinned)),
            memory=plan.total,
        )
        try:
            append_turn(self._log_path, turn)
        except EngineError as error:
            return [str(error)]
        return []

    def _exchange(self, repinner: Repinner, tokens: int, exchanges: list[Repin]) -> None:
        clock = int(self._board.counters[Counter.CLOCK])
        pinned: npt.NDArray[np.bool_] = self._placement.pinned
        for layer, swap in repinner.swaps(tokens, clock, pinned):
            before = time.perf_counter()
            self.ahead.swap(layer, swap.out, swap.expert)
            ms = round(1000 * (time.perf_counter() - before), 3)
            exchanges.append(Repin(layer, swap.out, swap.expert, swap.out_heat, swap.heat, ms))
