"""How the policies are compiled."""

from __future__ import annotations

from typing import Any, Final

from numba import njit

inner: Final[Any] = njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""Decorates a function that only compiled code calls. Without an entry from Python it compiles in three quarters of
the time."""
