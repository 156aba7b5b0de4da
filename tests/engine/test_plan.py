"""The memory plan: its arithmetic, its refusals, and that a run stays within it."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import EngineOptions, Plan
from engine.errors import BudgetError, EngineError
from engine.plan import (
    CHUNKS,
    DEFAULT_CONTEXT,
    GB,
    RUNTIME_MARGIN,
    SMALLEST_CONTEXT,
    Needs,
    available_memory,
    describe,
    make_plan,
    resident_bytes,
)
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import write

MB = 1_000_000
AVAILABLE = 64 * GB
RESIDENT = 200 * MB


def plan_of(needs: Needs, options: EngineOptions, available: int = AVAILABLE) -> tuple[Plan, list[str]]:
    """Plan on a machine of known memory."""
    with (
        patch("engine.plan.available_memory", return_value=available),
        patch("engine.plan.resident_bytes", return_value=RESIDENT),
    ):
        return make_plan(needs, options)


@dataclass(frozen=True)
class PerToken:
    """A cache that grows by so many bytes a token."""

    nbytes: int

    def __call__(self, context: int) -> int:
        return context * self.nbytes


def some_needs(**changes: object) -> Needs:
    """A model of 1 GB dense, 16 layers of 64 experts of 10 MB."""
    values: dict[str, object] = {
        "dense": GB, "kv": PerToken(100_000), "slot_bytes": 10 * MB, "moe_layers": 16, "experts": 64, "top_k": 8,
        "work_fixed": MB, "work_per_row": 100_000, "max_context": 32768, **changes,
    }  # fmt: skip
    return Needs(**values)  # type: ignore[arg-type]


@st.composite
def any_needs(draw: st.DrawFn) -> Needs:
    experts = draw(st.integers(1, 300))
    return Needs(
        dense=draw(st.integers(0, 20 * GB)),
        kv=PerToken(draw(st.integers(0, 2 * MB))),
        slot_bytes=draw(st.integers(1, 200 * MB)),
        moe_layers=draw(st.integers(1, 90)),
        experts=experts,
        top_k=draw(st.integers(1, experts)),
        work_fixed=draw(st.integers(0, 100 * MB)),
        work_per_row=draw(st.integers(0, MB)),
        max_context=draw(st.integers(1, 1 << 18)),
    )


any_options = st.builds(
    EngineOptions,
    ram=st.none() | st.floats(0.05, 80),
    cap=st.none() | st.integers(1, 400),
    context=st.none() | st.integers(16, 1 << 18),
)


@given(any_needs(), any_options)
def test_a_plan_adds_up_and_stays_within_the_budget(needs: Needs, options: EngineOptions) -> None:
    try:
        plan, _ = plan_of(needs, options)
    except BudgetError:
        return
    assert plan.total == plan.dense + plan.kv + plan.runtime + plan.work + plan.cache
    assert plan.free == plan.budget - plan.total >= 0
    assert plan.budget <= plan.available == AVAILABLE + RESIDENT
    assert plan.dense == needs.dense
    assert plan.kv == needs.kv(plan.context)
    assert plan.runtime == RESIDENT + RUNTIME_MARGIN
    assert plan.chunk in CHUNKS
    assert plan.work == needs.work_fixed + plan.chunk * needs.work_per_row
    assert plan.cache == plan.slots * needs.slot_bytes
    assert 1 <= plan.cap <= needs.experts
    everything = needs.moe_layers * needs.experts
    # An expert on its way through needs a slot that no layer keeps, unless every expert is kept.
    assert plan.cap * needs.moe_layers + (plan.cap < needs.experts) <= plan.slots <= everything


@given(any_needs(), any_options)
def test_what_a_person_chose_is_obeyed_or_refused(needs: Needs, options: EngineOptions) -> None:
    try:
        plan, _ = plan_of(needs, options)
    except BudgetError:
        return
    if options.cap is not None:
        assert plan.cap == min(options.cap, needs.experts)
    if options.context is not None:
        assert plan.context == min(options.context, needs.max_context)
    else:
        assert min(SMALLEST_CONTEXT, needs.max_context) <= plan.context <= min(DEFAULT_CONTEXT, needs.max_context)


@given(any_needs(), st.none() | st.floats(0.05, 80), st.none() | st.integers(16, 1 << 18))
def test_memory_is_not_left_idle(needs: Needs, ram: float | None, context: int | None) -> None:
    """One expert more a layer would not fit, or there is none."""
    try:
        plan, _ = plan_of(needs, EngineOptions(ram=ram, context=context))
    except BudgetError:
        return
    assert plan.cap == needs.experts or plan.free < needs.moe_layers * needs.slot_bytes


@given(any_needs(), st.floats(0.05, 20), st.none() | st.integers(1, 400), st.none() | st.integers(16, 1 << 18))
def test_the_number_a_refusal_names_is_enough(needs: Needs, ram: float, cap: int | None, context: int | None) -> None:
    try:
        plan_of(needs, EngineOptions(ram=ram, cap=cap, context=context), 10_000 * GB)
    except BudgetError as error:
        text = str(error)
        named = re.search(r"= (\d+\.\d\d) GB; raise --ram, or lower --context or --cap$", text)
        assert named is not None, text
        assert "\n" not in text
        assert f"the budget of {ram:.2f} GB is too small" in text
        plan, _ = plan_of(needs, EngineOptions(ram=float(named[1]), cap=cap, context=context), 10_000 * GB)
        assert plan.total <= plan.budget


def test_a_refusal_adds_up() -> None:
    with pytest.raises(BudgetError) as refusal:
        plan_of(some_needs(), EngineOptions(ram=1.0, cap=4))
    numbers = [float(number) for number in re.findall(r"(\d+\.\d\d)", str(refusal.value))]
    assert numbers[0] == 1.0
    assert sum(numbers[1:5]) == pytest.approx(numbers[5], abs=0.03)
    assert "1.00 dense" in str(refusal.value)
    assert "context of 512" in str(refusal.value)


def test_a_window_nobody_chose_shrinks_before_anything_is_refused() -> None:
    needs = some_needs(kv=PerToken(MB))
    roomy, tight = (plan_of(needs, EngineOptions(ram=ram))[0] for ram in (12.0, 4.0))
    assert (roomy.context, tight.context) == (DEFAULT_CONTEXT, 2048)
    with pytest.raises(BudgetError, match="context of 8,192"):
        plan_of(needs, EngineOptions(ram=4.0, context=8192))


def test_more_memory_means_more_experts() -> None:
    caps = [plan_of(some_needs(), EngineOptions(ram=ram, context=1024))[0].cap for ram in (2, 3, 4, 8, 16)]
    assert caps == sorted(set(caps))
    assert caps[-1] == 64


def test_more_than_there_is_cannot_be_planned_with() -> None:
    plan, notices = plan_of(some_needs(), EngineOptions(ram=500.0, context=99999), available=9 * GB)
    assert plan.budget == plan.available == 9 * GB + RESIDENT
    assert plan.context == 32768
    assert any("--ram 500" in notice and "9.2 GB" in notice for notice in notices)
    assert any("--context 99,999" in notice and "32,768" in notice for notice in notices)


def test_auto_leaves_the_machine_some_room() -> None:
    plan, notices = plan_of(some_needs(), EngineOptions(), available=5 * GB)
    assert plan.budget == int(0.88 * (5 * GB + RESIDENT))
    assert not notices


def test_the_plan_in_one_line() -> None:
    plan, _ = plan_of(some_needs(), EngineOptions(ram=4.0))
    line = describe(plan)
    assert line.startswith("memory plan: 1.00 dense")
    assert f"({plan.cap} a layer)" in line
    assert f"({plan.context:,} tokens)" in line
    assert line.endswith("of 4.00 GB")


@pytest.mark.parametrize("values", [{"ram": 0.01}, {"ram": float("nan")}, {"cap": 0}, {"context": 3}, {"topp": 0.0}])
def test_options_out_of_range_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(EngineError, match="outside"):
        EngineOptions(**values)  # type: ignore[arg-type]


def test_this_process_and_machine_can_be_measured() -> None:
    assert 10 * MB < resident_bytes() < available_memory() + 64 * GB


RUN = """
import re, sys
import psutil
from engine import Engine, EngineError, EngineOptions
process = psutil.Process()
try:
    Engine.open(sys.argv[1], EngineOptions(ram=0.05, context=1024))
except EngineError as refusal:
    least = float(re.search(r"= ([0-9.]+) GB;", str(refusal))[1])
with Engine.open(sys.argv[1], EngineOptions(ram=least + 0.01, context=1024)) as engine:
    plan = engine.info.plan
    prompt = [(7 * n * n + 5 * n + 3) % engine.spec.vocab for n in range(600)]
    most = 0
    for event in engine.generate(prompt, max_tokens=20, ignore_eos=True):
        most = max(most, process.memory_info().rss)
    used = int((engine.board.heat > 0).sum()) * engine.info.expert_bytes
    print(most, plan.total, plan.cache, used)
"""


def test_a_run_stays_within_its_plan(tmp_path: Path) -> None:
    """Measured in a process of its own, on a model whose experts would not fit. Generous: five in a hundred more."""
    olmoe = CASES["olmoe"]
    larger = {**olmoe.config, "hidden_size": 128, "intermediate_size": 256, "num_experts": 64, "num_hidden_layers": 4}
    folder = write(tmp_path / "model", replace(olmoe, config=larger))
    command = [sys.executable, "-c", RUN, str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    most, total, cache, used = map(int, result.stdout.split())
    assert used > 1.5 * cache
    assert most <= 1.05 * total


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (EngineOptions(ram=100), ["--ram 100 is more than the 64.2 GB available; using those"]),
        (EngineOptions(cap=65), ["--cap 65 is more than the 64 experts of a layer; using those"]),
        (EngineOptions(context=40_000), ["--context 40,000 is more than the model's 32,768; using that"]),
        (EngineOptions(ram=60, cap=64, context=32_768), []),
    ],
)
def test_what_is_clamped_is_told(options: EngineOptions, told: list[str]) -> None:
    plan, notices = plan_of(some_needs(), options)
    assert notices == told
    assert plan.budget <= AVAILABLE + RESIDENT
    assert plan.cap <= 64
    assert plan.context <= 32_768
