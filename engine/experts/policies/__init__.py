"""Cache policies: which of a layer's experts stay in memory.

A policy is one module with two compiled functions over a `State`:

    chosen(s, ids, held)           a token chose `ids`, strongest gate first; `held` says which experts are in memory
                                   (`auto` is also told what it chose in the layers before)
    victim(s, among)               the expert that goes first, of those set in `among` (at least one)

Each layer is a cache of its own. A policy is told of every token in order, hits included. When the tokens of a forward
have been told, victims are asked for until the layer holds no more than its cap: an expert that just came in may be one
of them. The engine decides so *before* it reads what is missing, which lets it use the slots of those that leave, and
makes the outcome independent of the order in which reads end.

Pinned experts are never asked about; who is needed by the running forward leaves only once it has been computed.
What was loaded into an empty cache on speculation has never been used: it goes first, by its `ORDER`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import typeof, types

from ... import kernels as _kernels  # noqa: F401 - decides where compiled code is kept, before any is defined
from . import auto, dispatch
from .dispatch import forwards, note, settle
from .near import fill_near
from .state import NEAR, State, zeros

POLICIES: Final[dict[str, int]] = {
    "auto": dispatch.AUTO,
    "lru": dispatch.LRU,
    "lfu": dispatch.LFU,
    "lfuda": dispatch.LFUDA,
    "lfru": dispatch.LFRU,
    "s3fifo": dispatch.S3FIFO,
    "clock": dispatch.CLOCK,
    "streak": dispatch.STREAK,
}
"""Name -> number, as the compiled functions take it."""


def make_state(policy: str, experts: int) -> State:
    """Return a policy's memory of a layer of so many experts, of which it has seen nothing."""
    return zeros(experts, follows=policy == "auto")


def state_bytes(policy: str, experts: int) -> int:
    """Bytes of a policy's memory of a layer."""
    return sum(array.nbytes for array in make_state(policy, experts))


def compile_auto() -> None:
    """Make sure that the parts of the default policy are compiled, which are the largest."""
    state = typeof(make_state("auto", 1))
    ids, flags, numbers = (types.Array(kind, 1, "C") for kind in (types.int32, types.bool_, types.int64))
    auto.chosen.compile((state, ids, types.Array(types.int32, 2, "C"), flags))
    auto.decide.compile((state, flags, flags, types.int64))
    auto.victim.compile((state, numbers))


def compile_policies() -> None:
    """Make sure that what a running engine calls is compiled."""
    ids, kept, flags = np.zeros((1, 1), np.int32), np.ones(1, np.int32), np.zeros(1, np.bool_)
    near, counts = np.zeros((1, NEAR, 1), np.int32), np.zeros(1, np.int64)
    clock = np.zeros((1, 1), np.uint32)
    fill_near(ids, ids, clock, counts, counts, 0, near)
    forwards(POLICIES["auto"], make_state("auto", 1), ids, kept, near, 0, flags, flags.copy(), 1)


__all__ = [
    "NEAR", "POLICIES", "State", "compile_auto", "compile_policies", "fill_near", "forwards", "make_state", "note",
    "settle", "state_bytes",
]  # fmt: skip
