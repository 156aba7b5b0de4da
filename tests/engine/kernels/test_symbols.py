"""What is compiled by name takes nothing from the C library."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import njit

from engine.kernels import program  # noqa: F401 - all kernels are linked


def test_the_c_librarys_functions_are_still_themselves() -> None:
    """An emitted function of the same name would be called instead."""

    @njit
    def apply(x: np.ndarray, out: np.ndarray) -> None:
        for i in range(len(x)):
            out[0, i], out[1, i], out[2, i] = math.exp(x[i]), round(x[i]), math.tanh(x[i])

    x = np.array([-1.7, -0.2, 0.4, 2.6])
    out = np.zeros((3, 4))
    apply(x, out)
    assert out == pytest.approx(np.stack([np.exp(x), np.round(x), np.tanh(x)]))
