"""The number of threads a token is computed with follows what is measured."""

from __future__ import annotations

from engine.model.threads import LATEST, SOONEST, ThreadChoice


def _run(choice: ThreadChoice, tokens: int, seconds: dict[int, float]) -> list[int]:
    """Compute tokens that take so long with so many threads; returns the numbers used."""
    used = []
    for _ in range(tokens):
        used.append(choice.count)
        choice.note(seconds[choice.count])
    return used


def test_a_quiet_machine_keeps_all_threads() -> None:
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
