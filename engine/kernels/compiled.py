"""How functions are compiled that only compiled code calls.

Most of the time that compiling takes goes into code that is thrown away: numba optimises a function together with all
that it calls, and again inside each of its callers. So nothing is generated that kernels do not use: no entry from
Python, no reference counts (arrays belong to the caller; a kernel allocates nothing), no exceptions for divisions.
"""

from __future__ import annotations

from typing import Any, Final

from numba import njit

native: Final[Any] = njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
"""Decorates functions that Python calls, too. They allocate nothing and return no array."""

inner: Final[Any] = njit(
    cache=True, nogil=True, error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True
)
"""Decorates functions that only compiled code calls."""

inlined: Final[Any] = njit(cache=True, nogil=True, inline="always")
"""Decorates functions that become part of their callers before those are compiled: what only chooses whom to call."""
