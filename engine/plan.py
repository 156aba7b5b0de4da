"""The memory plan: what the process will hold, decided before anything large is allocated.

    budget = dense part + KV cache + runtime + work buffers + expert slots

Everything but the slots is fixed by the model and the context; the slots get the rest. The plan is shown, and the
process stays within it: the arena never grows.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from .control_groups import memory_left
from .errors import BudgetError
from .events import Plan
from .experts.pins import pin_slots
from .model.spec import MOST_ROWS
from .options import EngineOptions

GB = 1_000_000_000
AUTO_SHARE = 0.88
"""Share of the available memory that `--ram auto` plans with."""

RUNTIME_MARGIN = 64 << 20
"""On top of what the interpreter and the compiled kernels hold when the plan is made."""

DEFAULT_CONTEXT = 8192
SMALLEST_CONTEXT = 512
CHUNKS = (MOST_ROWS, 128, 64, 32, 16)
WORK_SHARE = 0.1
"""The prompt is read in the largest block of rows whose buffers stay below this share of the budget."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a model needs, in bytes. `work` depends on the rows of a block: fixed part plus so much a row."""

    dense: int
    kv: Callable[[int], int]  # of a context in tokens
    slot_bytes: int
    moe_layers: int
    experts: int
    top_k: int
    work_fixed: int
    work_per_row: int
    max_context: int


class Pinnable(NamedTuple):
    """What a history offers to pin: so many experts, by so many selections (None: a person named it)."""

    experts: int
    selections: int | None


NOTHING_TO_PIN = Pinnable(0, 0)


def available_memory() -> int:
    """Bytes this process could still take: the machine's available memory, or what its control groups leave."""
    available = _meminfo("MemAvailable") or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    left = memory_left()
    return available if left is None else min(available, left)


def _meminfo(key: str) -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    except OSError:
        return None
    return None


def resident_bytes() -> int:
    """The process's resident set now."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if os.uname().sysname == "Darwin" else 1024)


def make_plan(needs: Needs, options: EngineOptions, pinnable: Pinnable = NOTHING_TO_PIN) -> tuple[Plan, list[str]]:
    """Divide the budget. Returns the plan and notices; BudgetError says how much is needed at least."""
    notices: list[str] = []
    runtime = resident_bytes() + RUNTIME_MARGIN
    available = available_memory() + runtime - RUNTIME_MARGIN
    budget = int(AUTO_SHARE * available) if options.ram is None else int(options.ram * GB)
    if budget > available:
        notices.append(f"--ram {options.ram:g} is more than the {available / GB:.1f} GB available; using those")
        budget = available
    context = min(options.context or DEFAULT_CONTEXT, needs.max_context)
    if options.context and options.context > needs.max_context:
        notices.append(f"--context {options.context:,} is more than the model's {needs.max_context:,}; using that")
    if options.cap and options.cap > needs.experts:
        notices.append(f"--cap {options.cap:,} is more than the {needs.experts:,} experts of a layer; using those")
    fewest = _slots(needs, options.cap or 1, 1) * needs.slot_bytes
    shortest = context if options.context else min(context, SMALLEST_CONTEXT)
    rest = needs.dense + runtime + needs.kv(shortest) + fewest
    chunk = _chunk(needs, min(int(WORK_SHARE * budget), budget - rest))
    work = needs.work_fixed + chunk * needs.work_per_row
    fixed = needs.dense + runtime + work
    if options.context is None:
        # A window chosen by us may shrink, so that a small budget still runs; one the person chose may not.
        while context > SMALLEST_CONTEXT and fixed + needs.kv(context) + fewest > budget:
            context = max(SMALLEST_CONTEXT, context // 2)
    kv = needs.kv(context)
    room = budget - fixed - kv
    if room < fewest:
        # Rounded up: the number named is enough when it is given to --ram.
        least = math.ceil((fixed + kv + fewest) / GB * 100) / 100
        raise BudgetError(
            f"the budget of {budget / GB:.2f} GB is too small: {needs.dense / GB:.2f} dense + {kv / GB:.2f} for a "
            f"context of {context:,} + {(runtime + work) / GB:.2f} runtime + {fewest / GB:.2f} for the fewest "
            f"expert slots = {least:.2f} GB; raise --ram, or lower --context or --cap"
        )
    most = min(room // needs.slot_bytes, needs.moe_layers * needs.experts)
    pins, cap, slots = _divide(needs, options, most, pinnable)
    cache = (slots - pins) * needs.slot_bytes
    pinned = pins * needs.slot_bytes
    total = fixed + kv + pinned + cache
    return Plan(
        budget=budget,
        available=available,
        dense=needs.dense,
        kv=kv,
        runtime=runtime,
        work=work,
        cache=cache,
        free=budget - total,
        cap=cap,
        slots=slots,
        slot_bytes=needs.slot_bytes,
        context=context,
        chunk=chunk,
        pins=pinned,
    ), notices


def _divide(needs: Needs, options: EngineOptions, most: int, pinnable: Pinnable) -> tuple[int, int, int]:
    """Divide at most so many slots: those for pins, those of a layer's cache, all."""
    layers, everything = needs.moe_layers, needs.moe_layers * needs.experts
    reserve = layers * min(options.cap or needs.top_k, needs.experts) + needs.top_k
    wanted = None if options.pin_gb is None else options.pin_gb * GB / needs.slot_bytes
    pins = 0
    if options.pin != "off":
        pins = min(pin_slots(most, reserve, layers, pinnable.selections, wanted), pinnable.experts)
    if most == everything and (options.cap or needs.experts) >= needs.experts:
        return pins, needs.experts, everything
    rest = most - pins
    wanted_working = needs.top_k * (2 if options.pilot else 1)
    working = max(1, min(wanted_working, rest - layers * (options.cap or 1)))
    cap = options.cap or max(1, (rest - working) // layers)
    return pins, cap, pins + _slots(needs, cap, working)


def _chunk(needs: Needs, most: int) -> int:
    """The largest block of rows whose buffers take at most so many bytes, or the smallest of all."""
    return next((rows for rows in CHUNKS if needs.work_fixed + rows * needs.work_per_row <= most), CHUNKS[-1])


def _slots(needs: Needs, cap: int, working: int) -> int:
    """Slots for `cap` experts a layer and, unless all experts fit, some on their way through."""
    cap = min(cap, needs.experts)
    return cap * needs.moe_layers + (0 if cap == needs.experts else working)


def describe(plan: Plan) -> str:
    """The plan in one line."""
    pins = f" + {plan.pins / GB:.2f} pinned experts ({plan.pins // plan.slot_bytes:,})" if plan.pins else ""
    parts = (
        f"{plan.dense / GB:.2f} dense + {plan.kv / GB:.2f} context ({plan.context:,} tokens) + "
        f"{(plan.runtime + plan.work) / GB:.2f} runtime{pins} + {plan.cache / GB:.2f} experts ({plan.cap} a layer)"
    )
    return f"memory plan: {parts} = {plan.total / GB:.2f} of {plan.budget / GB:.2f} GB"
