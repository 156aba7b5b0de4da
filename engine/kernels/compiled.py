"""How functions are compiled that only compiled code calls."""

from __future__ import annotations

from typing import Any, Final

from numba import njit

inner: Final[Any] = njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""Decorates them. Without an entry from Python a function compiles in three quarters of the time."""
