"""What a model would take and do on this machine, from its headers: nothing is loaded."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from engine.checkpoint.index import Checkpoint
from engine.convert.container import FORMATS
from engine.convert.jobs import plan_jobs
from engine.disk import read_speed, scratch_file
from engine.errors import BudgetError
from engine.events import Plan
from engine.expectations import CONTEXT, Forecast, HitRate, Machine, Token, expected, forecast
from engine.experts.source import merged_bytes
from engine.experts.usage import read_usage
from engine.files import replace_file
from engine.headers import read_headers, spec_of
from engine.kernels.formats import F16
from engine.kernels.limits import memory_read_rate
from engine.kernels.team import Team, physical_cores
from engine.model.kv import kv_bytes
from engine.model.spec import ModelSpec
from engine.model.weights import Weights
from engine.needs import model_needs
from engine.options import EngineOptions
from engine.plan import Needs, available_memory, make_plan
from engine.routed import routed_of
from engine.turn_log import LoggedTurn, log_path, read_turns

from . import paths

SPEEDS: Final = "speeds.json"
"""In the cache folder: this machine's speeds as last measured."""

_FRESH_S: Final = 30 * 86400
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
    """A model whose headers were read."""

    name: str
    is_gguf: bool
    spec: ModelSpec
    config: dict[str, Any]
    forms: list[Facts]
    files: list[Path]


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
    return Examined(name, bool(checkpoint.metadata), spec, checkpoint.config, forms, weights.experts.files())


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


def machine_speed(
    files: Sequence[Path], expert_bytes: int, tell: Callable[[str, int, int], None], *, fresh: bool = True
) -> Machine:
    """This machine's speeds: measured, or (`fresh` false) as measured in the last month. Raises ReadError."""
    known = None if fresh else _known_speed()
    if known is not None:
        return known
    tell("measuring the disk", 0, 0)
    if files:
        disk = read_speed(files, expert_bytes)
    else:
        paths.models_dir().mkdir(parents=True, exist_ok=True)
        with scratch_file(paths.models_dir()) as file:
            disk = read_speed([file], min(expert_bytes, 16 << 20))
    tell("measuring memory", 0, 0)
    team = Team(physical_cores())
    try:
        memory = memory_read_rate(team, max(64, min(512, available_memory() >> 22)))
    finally:
        team.close()
    found = Machine(memory, disk.rate, disk.direct)
    _remember(found)
    return found


def _known_speed() -> Machine | None:
    try:
        said = json.loads((paths.cache_dir() / SPEEDS).read_bytes())
        if not 0 <= time.time() - said.pop("at") < _FRESH_S:
            return None
        found = Machine(float(said["memory"]), float(said["disk"]), bool(said["direct"]))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return found if found.memory > 0 and found.disk > 0 else None


def _remember(machine: Machine) -> None:
    path = paths.cache_dir() / SPEEDS
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps({**asdict(machine), "at": time.time()}).encode(), path.with_suffix(".new"))
    except OSError:  # measured again next time
        return
