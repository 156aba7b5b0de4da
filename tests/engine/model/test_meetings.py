"""Which operations follow each other without a barrier when a forward has one row."""

from __future__ import annotations

from typing import Any

from engine.kernels import records as r
from engine.kernels.sync import COUNTERS
from engine.model.meetings import join

INPUT, OTHER, FAR = 0, 1_000, 100_000


def linear(x: int, y: int, n: int = 16) -> dict[str, Any]:
    return {"code": r.LINEAR, "x": x, "x_stride": 64, "y": y, "n": n}


def op(code: int) -> dict[str, Any]:
    return {"code": code}


def joined(*ops: dict[str, Any]) -> list[int]:
    join(ops)
    return [one.get("joined", 0) for one in ops]


def test_matrices_of_one_input_follow_each_other():
    assert joined(linear(INPUT, 5_000), linear(INPUT, 6_000), linear(INPUT, 7_000), op(r.ROTATE)) == [1, 1, 0, 0]


def test_a_matrix_waits_for_its_input():
    assert joined(linear(INPUT, OTHER), linear(OTHER, FAR)) == [0, 0]
    assert joined(linear(INPUT, OTHER), linear(INPUT, FAR), linear(OTHER, 2 * FAR)) == [1, 0, 0]


def test_a_matrix_waits_for_those_who_write_or_read_where_it_writes():
    assert joined(linear(INPUT, OTHER), linear(INPUT, OTHER + 60)) == [0, 0]
    assert joined(linear(INPUT, OTHER), linear(FAR, INPUT)) == [0, 0]


def test_what_one_thread_does_needs_no_meeting_in_between():
    ops = [op(r.EXPERTS_DOWN), op(r.LAYER), op(r.NORM), op(r.QUANTIZE), linear(INPUT, FAR), op(r.ROUTE), op(r.UNION)]
    assert joined(*ops) == [0, 1, 1, 0, 0, 1, 0]
    assert [one["alone"] for one in ops] == [0, 1, 1, 1, 0, 1, 1]


def test_nothing_follows_what_may_pause():
    assert joined(op(r.UNION), op(r.NORM)) == [0, 0]


def test_no_more_than_there_are_counters():
    ops = [op(r.NORM) for _ in range(2 * COUNTERS)]
    assert joined(*ops) == ([1] * (COUNTERS - 1) + [0]) * 2
