"""Which panes are seen and where: a column of them, or the first across the top and the others in two columns below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

TWO_COLUMNS_FROM = 112
"""Columns from which panes stand side by side."""
FIRST_SHARE = 0.45
"""In one column the first pane keeps as much of the height, if it has use for it, before later ones are let in."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a pane asks for: rows it cannot do without, and rows it has use for; its title line included.

    good: rows from which on it need not be coarse; the first pane gets them if they are at most half of all.
    """

    name: str
    least: int
    most: int
    good: int = 0


class Place(NamedTuple):
    """Where a pane stands."""

    x: int
    y: int
    width: int
    height: int


def arrange(wishes: Sequence[Wish], width: int, height: int) -> dict[str, Place]:
    """Return the places of those that fit, the first ones before the later ones; what is left over is the first one's.

    The first pane always has a place if there is any room at all.
    """
    if not wishes or width < 1 or height < 1:
        return {}
    if width >= TWO_COLUMNS_FROM and len(wishes) > 2:
        return _with_top(wishes, width, height)
    return _stack(wishes, 0, 0, width, height)


def _stack(wishes: Sequence[Wish], x: int, y: int, width: int, height: int) -> dict[str, Place]:
    """One above the other."""
    first = wishes[0]
    share = max(int(height * FIRST_SHARE), first.good if 2 * first.good <= height else 0)
    seen, left = [first], height - max(first.least, min(first.most, share))
    for wish in wishes[1:]:
        if wish.least <= left:
            seen.append(wish)
            left -= wish.least
    heights = {wish.name: wish.least for wish in seen}
    spare = height - sum(heights.values())
    for wish in seen:
        more = max(0, min(spare, wish.most - wish.least))
        heights[wish.name] += more
        spare -= more
    heights[first.name] += spare
    places = {}
    for wish in seen:
        places[wish.name] = Place(x, y, width, max(heights[wish.name], 1))
        y += heights[wish.name]
    return places


def _with_top(wishes: Sequence[Wish], width: int, height: int) -> dict[str, Place]:
    """The first across the top; the others, in turn, in whichever column is shorter."""
    first, columns = wishes[0], _columns(wishes[1:])
    least, most = (max(sum(rows(wish) for wish in column) for column in columns) for rows in (_least, _most))
    top = max(height - most, min(first.most, height - least), first.least)
    top = min(top, height)
    half = width // 2
    places = {first.name: Place(0, 0, width, top)}
    for column, x, wide in ((columns[0], 0, half - 1), (columns[1], half, width - half)):
        if column and height - top >= column[0].least:
            places |= _stack(column, x, top, wide, height - top)
    if len(places) == 1:
        places[first.name] = Place(0, 0, width, height)
    return places


def _least(wish: Wish) -> int:
    return wish.least


def _most(wish: Wish) -> int:
    return wish.most


def _columns(wishes: Sequence[Wish]) -> tuple[list[Wish], list[Wish]]:
    left: list[Wish] = []
    right: list[Wish] = []
    for wish in wishes:
        shorter = left if sum(w.least for w in left) <= sum(w.least for w in right) else right
        shorter.append(wish)
    return left, right
