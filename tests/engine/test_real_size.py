"""As many layers and experts as the largest models have: opened in seconds, answered, every layer on the map."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from engine import Engine, EngineOptions, Token
from engine.checkpoint.index import Checkpoint
from engine.families import read_spec
from engine.model.weights import Weights
from tests.oracle.real_size import write

SECONDS = 2.0
"""Of processor time, for 60,000 tensors to be indexed; 0.5 were measured. Finding what each is for takes as long."""

PROMPT = list(range(3, 30))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GLM-5.2's 78 layers of 256 experts."""
    folder = tmp_path_factory.mktemp("real") / "glm-5.2"
    assert write(folder, "glm-5.2") > 59_000
    return folder


def test_sixty_thousand_tensors_are_found_at_once(folder: Path) -> None:
    index, find = [], []
    for _ in range(3):  # the shortest: this machine may have more to do
        start = time.process_time()
        checkpoint = Checkpoint.open(folder)
        index.append(time.process_time() - start)
        start = time.process_time()
        weights = Weights(checkpoint, read_spec(checkpoint.config))
        find.append(time.process_time() - start)
        if index[-1] < SECONDS and find[-1] < SECONDS:
            break
    assert min(index) < SECONDS
    assert min(find) < SECONDS
    assert len(checkpoint.tensors) > 59_000
    assert weights.dense_bytes < 10_000_000


def test_it_answers_and_every_layer_is_on_the_map(folder: Path) -> None:
    with Engine.open(folder, EngineOptions(ram=1.0, cap=16, context=64)) as engine:
        assert (engine.info.layers, len(engine.info.moe_layers), engine.info.experts) == (78, 75, 256)
        events = engine.generate(PROMPT, max_tokens=4, ignore_eos=True)
        assert sum(isinstance(event, Token) for event in events) == 4
        heat = engine.board.heat
        assert heat.shape == (78, 256)
        rows = len(PROMPT) + 3
        np.testing.assert_array_equal(heat.sum(axis=1), [0] * 3 + [rows * 8] * 75)
