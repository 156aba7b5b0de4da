"""The number of threads a token is computed with follows what is measured."""

from __future__ import annotations

from engine.model.threads import LATEST, SOONEST, ThreadChoice


def _run(choice: ThreadChoice, tokens: int, seconds: dict[int, float], busy: float = 0.6) -> list[int]:
    """Compute tokens that take so long with so many threads; returns the numbers used. busy: how much of all cores."""
    used = []
    for _ in range(tokens):
        used.append(choice.count)
        share = busy if choice.count > 1 else 1.0
        choice.note(seconds[choice.count], seconds[choice.count] * choice.count * share)
    return used


def test_threads_that_have_their_cores_are_left_alone() -> None:
    assert set(_run(ThreadChoice(2), 500, {2: 3.0, 1: 1.0}, busy=0.97)) == {2}


def test_a_machine_that_becomes_busy_is_noticed() -> None:
    choice = ThreadChoice(2)
    _run(choice, 100, {2: 1.0, 1: 1.5}, busy=0.99)
    _run(choice, 20, {2: 3.0, 1: 1.5})
    assert choice.count == 1


def test_all_threads_are_kept_where_they_are_faster_all_the_same() -> None:
    choice = ThreadChoice(4)
    used = _run(choice, 2000, {4: 1.0, 1: 3.0})
    assert choice.count == 4
    assert used.count(1) < 0.03 * len(used), "probing costs little"


def test_a_busy_machine_ends_with_one_thread() -> None:
    choice = ThreadChoice(2)
    used = _run(choice, 200, {2: 3.0, 1: 1.0})
    assert choice.count == 1
    assert used.count(2) < 40


def test_it_comes_back_when_the_machine_is_quiet_again() -> None:
    choice = ThreadChoice(2)
    _run(choice, 100, {2: 3.0, 1: 1.0})
    _run(choice, LATEST + SOONEST, {2: 0.5, 1: 1.0})
    assert choice.count == 2


def test_equal_speed_changes_nothing() -> None:
    choice = ThreadChoice(2)
    _run(choice, 1000, {2: 1.0, 1: 1.0})
    assert choice.count == 2


def test_one_thread_is_never_another() -> None:
    choice = ThreadChoice(1)
    assert set(_run(choice, 100, {1: 1.0})) == {1}
