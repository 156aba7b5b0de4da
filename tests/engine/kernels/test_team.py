"""A team's members: who is called, with what, how often, and that they go home."""

from __future__ import annotations

import time

import numpy as np
import pytest
from numba import njit

from engine.kernels.pointers import i64
from engine.kernels.sync import atomic_add, barrier, take_share
from engine.kernels.team import Team, entry


@njit(nogil=True)
def _sign_in(job: int, sync: int, threads: int, number: int) -> int:
    """Count the call, by thread and by the team's size; returns 1000 * number + threads."""
    atomic_add(job + 8 * number, 1)
    atomic_add(job + 8 * 16, threads)
    barrier(sync, threads)
    return 1000 * number + threads


@pytest.fixture(scope="module")
def sign_in() -> int:
    return entry(_sign_in)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_thread_of_a_run_is_called_once(sign_in: int, threads: int) -> None:
    team, calls = Team(threads), np.zeros(17, np.int64)
    for run in range(300):
        used = 1 + run % threads
        before = calls.copy()
        assert team.run(sign_in, calls.ctypes.data, used) == used
        change = calls - before
        assert change[:used].tolist() == [1] * used
        assert not change[used:16].any()
        assert change[16] == used * used
    team.close()


def test_members_that_fell_asleep_are_woken(sign_in: int) -> None:
    team, calls = Team(3), np.zeros(17, np.int64)
    for _ in range(3):
        time.sleep(0.02)
        team.run(sign_in, calls.ctypes.data)
    assert calls[:3].tolist() == [3, 3, 3]
    team.close()


def test_closing_ends_the_threads_awake_or_asleep(sign_in: int) -> None:
    for pause in (0.0, 0.02):
        team, calls = Team(4), np.zeros(17, np.int64)
        team.run(sign_in, calls.ctypes.data)
        time.sleep(pause)
        team.close()
        assert not any(member.is_alive() for member in team._members)


@njit(nogil=True)
def _share(job: int, sync: int, threads: int, number: int) -> int:
    """Mark every piece that is taken; job: int64 pieces, rows, runs taken, then a cell for each piece."""
    cells = i64(job)
    while True:
        first, after = take_share(sync, cells[0], threads, cells[1])
        if first == after:
            break
        atomic_add(job + 16, 1)
        for piece in range(first, after):
            atomic_add(job + 8 * (3 + piece), 1)
    barrier(sync, threads)
    return 0


@pytest.fixture(scope="module")
def share() -> int:
    return entry(_share)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("rows", [1, 3, 256])
def test_shares_cover_every_piece_once(share: int, threads: int, rows: int) -> None:
    team = Team(threads)
    for pieces in (0, 1, 2, 3, 5, 64, 129, 1000):
        job = np.zeros(3 + pieces, np.int64)
        job[:2] = pieces, rows
        team.run(share, job.ctypes.data)
        assert job[3:].tolist() == [1] * pieces
        assert job[2] <= 2 * threads * 12, "most of the work goes in a few long runs"
    team.close()
