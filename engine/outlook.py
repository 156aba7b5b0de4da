"""What a model would take and do on this machine, from its headers: nothing is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .checkpoint.index import Checkpoint
from .convert.container import FORMATS
from .convert.jobs import plan_jobs
from .errors import BudgetError
from .events import Plan
from .expectations import CONTEXT, Forecast, HitRate, Machine, Token, expected, forecast
from .experts.source import merged_bytes
from .experts.usage import read_usage
from .headers import read_headers, spec_of
from .kernels.formats import F16
from .kernels.team import physical_cores
from .model.kv import kv_bytes
from .model.spec import ModelSpec
from .model.weights import Weights
from .needs import model_needs
from .options import EngineOptions
from .plan import Needs, available_memory, make_plan
from .routed import routed_of
from .turn_log import LoggedTurn, log_path, read_turns

_KV_TOKENS: Final = 1000

Counts = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Facts:
    """A model in one form: as it is, or converted.

    disk: bytes. dense: in memory; dense_read: those that a token reads. expert: bytes of one. kv: of 1,000 tokens.
    """

    form: str
    disk: int
    dense: int
    dense_read: int
    expert: int
    kv: int
    needs: Needs

    def token(self, chosen: int, hits: float, layers: int) -> Token:
        """What a token takes that uses `chosen` experts, of all layers, and finds that share of them in memory."""
        cache = self.needs.kv(CONTEXT)
        return Token(self.dense_read, cache, chosen * self.expert, (1 - hits) * chosen, self.expert, layers)


@dataclass(frozen=True, slots=True)
class Examined:
    """A model whose headers were read.

    files: those that hold experts. bits: of a weight of an expert, as it is. packed: whether its experts lie as our
    conversion leaves them.
    """

    name: str
    is_gguf: bool
    spec: ModelSpec
    config: dict[str, Any]
    forms: list[Facts]
    files: list[Path]
    bits: float
    packed: bool


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a form does within a budget. worst: the forecast when every expert is chosen equally often."""

    facts: Facts
    plan: Plan
    hits: HitRate
    speed: Forecast
    worst: Forecast

    @property
    def share(self) -> float:
        """Share of the experts that memory holds, 0..1."""
        return min(1.0, self.plan.cap / self.facts.needs.experts)


def examine(path: Path, options: EngineOptions) -> Examined:
    """Read the headers of a model on this machine. Raises EngineError."""
    checkpoint = read_headers(path)
    return of_checkpoint(path.absolute().name, checkpoint, options)


def of_checkpoint(name: str, checkpoint: Checkpoint, options: EngineOptions) -> Examined:
    """The same for headers that were read already. Raises EngineError for a model that cannot be run."""
    spec = spec_of(checkpoint)
    weights = Weights(checkpoint, spec)
    needs = model_needs(spec, weights, options, options.threads or physical_cores())
    total = sum(entry.nbytes for entry in checkpoint.tensors.values())
    forms = [
        Facts(
            "as it is", total, weights.dense_bytes, weights.read_per_token(), weights.experts.expert_bytes,
            needs.kv(_KV_TOKENS), needs,
        )
    ]  # fmt: skip
    if not weights.experts.packed:
        forms += [_converted(spec, weights, needs, fmt) for fmt in FORMATS]
    values = 3 * spec.hidden * spec.mixture(spec.moe_layers[0]).width
    return Examined(
        name, bool(checkpoint.metadata), spec, checkpoint.config, forms, weights.experts.files(),
        8 * weights.experts.expert_bytes / values, weights.experts.packed,
    )  # fmt: skip


def _converted(spec: ModelSpec, weights: Weights, needs: Needs, fmt: str) -> Facts:
    jobs = plan_jobs(weights, spec, FORMATS[fmt])
    dense = sum(job.nbytes for job in jobs if job.experts is None)
    mixture = spec.mixture(spec.moe_layers[0])
    expert = merged_bytes((FORMATS[fmt], FORMATS[fmt]), spec.hidden, mixture.width)

    def kv(context: int) -> int:
        return kv_bytes(spec, context, F16)

    smaller = replace(needs, dense=dense, slot_bytes=expert, kv=kv)
    read = round(weights.read_per_token() / max(1, weights.dense_bytes) * dense)
    return Facts(fmt, sum(job.nbytes for job in jobs), dense, read, expert, kv(_KV_TOKENS), smaller)


def outlook(
    model: Examined,
    facts: Facts,
    options: EngineOptions,
    machine: Machine,
    counts: Counts | None = None,
    turns: Sequence[LoggedTurn] = (),
) -> Outlook:
    """What a form does within the budget of the options. Raises BudgetError when that is too small."""
    plan, _ = make_plan(facts.needs, options)
    spec = model.spec
    top_k, layers = min(spec.top_k, options.topk or spec.top_k), len(spec.layers)
    hits = expected(spec.family, plan.cap, spec.experts, top_k, counts, turns)
    chosen, even = top_k * len(spec.moe_layers), min(1.0, plan.cap / spec.experts)
    speed, worst = (forecast(facts.token(chosen, share, layers), machine) for share in (hits.value, even))
    return Outlook(facts, plan, hits, speed, worst)


def outlooks(
    model: Examined, facts: Facts, options: EngineOptions, machine: Machine, counts: Counts | None
) -> list[tuple[float, Outlook | None]]:
    """The same for other budgets in GB; None where it does not fit."""
    found: list[tuple[float, Outlook | None]] = []
    for ram in (4.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0):
        if ram * 1e9 > available_memory():
            break
        try:
            found.append((ram, outlook(model, facts, replace(options, ram=ram), machine, counts)))
        except BudgetError:
            found.append((ram, None))
        if found[-1][1] is not None and found[-1][1].plan.cap >= model.spec.experts:
            break
    return found


def learned(history: Path, model: Examined) -> tuple[Counts | None, list[LoggedTurn]]:
    """What a profile knows of a model: its counts and its turns. Raises EngineError when they cannot be read."""
    routed = routed_of(model.spec, model.config)
    if not history.exists():
        return None, []
    usage = read_usage(history, routed.layers, routed.experts, routed.model_type, set(routed.moe_layers))
    return usage.counts, read_turns(log_path(history))
