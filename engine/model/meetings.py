"""Where the threads of a program need not meet, when a forward has one row.

They meet after every operation, unless the next one does not need its result: matrices that read the same input, or
operations of one thread in a row. That is found here from what operations read and write.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ..kernels import records as r
from ..kernels.sync import COUNTERS

ALONE = frozenset((r.EMBED, r.NORM, r.QUANTIZE, r.GATE, r.SCALE, r.LAYER, r.ROUTE, r.UNION))
"""Operations that one row gives one thread's work."""

Op = dict[str, Any]
Span = tuple[int, int]


def join(ops: Sequence[Op]) -> None:
    """Set `alone` and `joined` of a program's operations."""
    for op in ops:
        op["alone"] = int(op["code"] in ALONE)
    group: list[Op] = []
    for op, following in itertools.pairwise(ops):
        group.append(op)
        op["joined"] = int(len(group) < COUNTERS and _may_follow(group, following))
        if not op["joined"]:
            group.clear()


def _may_follow(group: Sequence[Op], op: Op) -> bool:
    """Whether an operation needs nothing that the threads are still computing."""
    if group[-1]["code"] == r.UNION:  # may pause
        return False
    if op["alone"]:
        return all(other["alone"] for other in group)
    return op["code"] == r.LINEAR and all(other["code"] == r.LINEAR and not _touch(other, op) for other in group)


def _touch(a: Op, b: Op) -> bool:
    """Whether one of two matrices' products writes what the other reads or writes."""
    return any(
        _overlap(_written(one), span) for one, other in ((a, b), (b, a)) for span in (_written(other), _read(other))
    )


def _written(op: Op) -> Span:
    return op["y"], op["y"] + 4 * op["n"]


def _read(op: Op) -> Span:
    return op["x"], op["x"] + op["x_stride"]


def _overlap(a: Span, b: Span) -> bool:
    return a[0] < b[1] and b[0] < a[1]
