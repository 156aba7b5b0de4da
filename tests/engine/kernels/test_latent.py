"""The kernels of latent and sparse attention, for every instruction set this processor has."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from llvmlite import ir

from engine.kernels import index_scores, isa, values
from engine.kernels.formats import F16, F32
from engine.kernels.index_scores import choose_best
from engine.kernels.records import KEY_TILE as TILE

from .native import LEVELS, PLAIN_CPU, machine, optimised

DTYPES = {F32: np.float32, F16: np.float16}


class Kernels:
    """The kernels of one level."""

    def __init__(self, level: str) -> None:
        target = isa.target(level, isa.FEATURES)
        module = ir.Module()
        weigh = [values.write_weigh(module, target, fmt) for fmt in DTYPES]
        for written in [*weigh, index_scores.write_index_scores(module, target)]:
            written.linkage = "external"
        x86 = llvm.get_process_triple().startswith("x86_64")
        cpu = PLAIN_CPU.get(level) if x86 else None
        features = "" if cpu else llvm.get_host_cpu_features().flatten()
        tm = machine(llvm.get_process_triple(), cpu or llvm.get_host_cpu_name(), features)
        self._engine = llvm.create_mcjit_compiler(optimised(module, tm), tm)
        self._engine.finalize_object()

    def call(self, name: str, *arguments: int) -> None:
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(arguments))
        kind(self._engine.get_function_address(name))(*arguments)


@cache
def kernels(level: str) -> Kernels:
    return Kernels(level)


def weigh(level: str, fmt: int, weights: Any, rows: Any, dim: int, start: Any) -> Any:
    out = start.copy()
    kernels(level).call(
        f"colibri_weigh_{fmt}", weights.ctypes.data, weights.strides[0], rows.ctypes.data, rows.strides[0], len(rows),
        dim, out.ctypes.data, len(weights),
    )  # fmt: skip
    return out


@pytest.mark.parametrize("fmt", DTYPES)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("heads", "keys", "dim"), [(1, 64, 96), (3, 7, 37), (4, 1, 64), (6, 33, 150), (16, 64, 131)])
def test_weigh_heads(level: str, fmt: int, heads: int, keys: int, dim: int) -> None:
    draw = np.random.default_rng(heads * keys)
    weights = draw.random((heads, TILE), np.float32)
    rows = draw.standard_normal((keys, dim + 9)).astype(DTYPES[fmt])
    start = draw.standard_normal((heads, dim)).astype(np.float32)
    got = weigh(level, fmt, weights, rows, dim, start)
    exact = start + weights[:, :keys].astype(np.float64) @ rows[:, :dim].astype(np.float64)
    np.testing.assert_allclose(got, exact, rtol=0, atol=1e-5 * keys)
    for head in range(heads):  # a head's sums do not depend on the heads beside it
        alone = weigh(level, fmt, weights[head : head + 1], rows, dim, start[head : head + 1])
        np.testing.assert_array_equal(got[head], alone[0])
    half = keys // 2  # nor on how the keys are cut
    first = weigh(level, fmt, weights, rows[:half], dim, start)
    np.testing.assert_array_equal(weigh(level, fmt, weights[:, half:], rows[half:], dim, first), got)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("heads", [1, 16, 33])
def test_index_scores(level: str, heads: int) -> None:
    draw = np.random.default_rng(heads)
    products = draw.standard_normal((heads, TILE)).astype(np.float32)
    weights = draw.standard_normal(heads).astype(np.float32)
    scale, out = np.array([0.3], np.float32), np.full(TILE, np.nan, np.float32)
    kernels(level).call(
        "colibri_index_scores", products.ctypes.data, weights.ctypes.data, heads, scale.ctypes.data, out.ctypes.data
    )
    exact = weights.astype(np.float64) @ np.maximum(products.astype(np.float64) * 0.3, 0)
    np.testing.assert_allclose(out, exact, rtol=0, atol=1e-5)


FEW = st.sampled_from([-2.0, -1.0, 0.0, 1e-40, 0.5, 3.0])
"""Scores with many ties."""


@settings(deadline=None)  # the first call compiles
@given(
    scores=arrays.arrays(np.float32, st.integers(2, 70), elements=FEW | st.floats(-(2.0**99), 2.0**99, width=32)),
    share=st.floats(0, 1, exclude_max=True),
)
def test_the_best_are_chosen_and_of_equals_the_first(scores: Any, share: float) -> None:
    best = 1 + int(share * (len(scores) - 1))
    scores = scores + np.float32(0)  # a score is a sum that starts at zero: never -0
    wanted = sorted(sorted(range(len(scores)), key=lambda key: (-scores[key], key))[:best])
    chosen, scratch, work = np.full(best, -1, np.int32), np.empty(256, np.int64), scores.copy()
    choose_best(work.ctypes.data, len(work), best, scratch.ctypes.data, chosen.ctypes.data)
    assert chosen.tolist() == wanted
