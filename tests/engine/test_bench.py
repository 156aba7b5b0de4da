"""What a benchmark calls the machine's limit."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import pytest

from engine import Engine, EngineOptions
from engine.bench import Bench, Row
from engine.board import Foreseer
from engine.model.trial import Trial
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import write

TOKENS = 20


class Always(Trial):
    """Looks ahead whatever the clock says; nothing is being tried."""

    under_way = False  # type: ignore[assignment]

    def note(self, seconds: float) -> None:
        self.by = Foreseer.ROUTER


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    olmoe = CASES["olmoe"]
    config = {**olmoe.config, "num_experts": 16, "num_hidden_layers": 4}
    model = write(tmp_path_factory.mktemp("bench") / "model", replace(olmoe, config=config))
    with pytest.MonkeyPatch.context() as patch:
        disk = cycle((1e6, 3e6))
        patch.setattr("engine.bench.read_rate", lambda engine: 1e15)
        patch.setattr("engine.bench.disk_read_rate", lambda engine, seconds: next(disk))
        patch.setattr("engine.experts.async_reader.SMALL", 0)
        with Engine.open(model, EngineOptions(cap=4, threads=1, context=256, pilot=True)) as engine:
            engine.model.trial = Always([Foreseer.ROUTER])
            return list(Bench(engine, None, 3, TOKENS).rows([8, 300], lambda text: None))


def test_every_length_that_fits_has_its_rows(rows: list[Row]) -> None:
    assert [(row.kind, row.context, row.cache, row.runs) for row in rows] == [
        ("decode", 8, "cold", 1), ("prefill", 8, "warm", 3), ("decode", 8, "warm", 3),
    ]  # fmt: skip


def test_a_bound_counts_what_was_needed_at_the_rate_measured_beside_the_run(rows: list[Row]) -> None:
    """The disk was measured with 1 and with 3 MB/s by turns, so with 2 around each run."""
    cold, _, warm = rows
    assert cold.bound == pytest.approx((cold.asked - cold.wasted) / 2e6)
    assert warm.bound is not None
    assert 0 < warm.wasted < warm.asked
    assert 0 < warm.bound < warm.asked / 2e6
