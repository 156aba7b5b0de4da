"""What a terminal shows of half blocks, whichever way they were written."""

from __future__ import annotations

from typing import Any

import pyte


def seen(screen: pyte.Screen) -> list[Any]:
    """What is seen of every cell: colours of upper and lower half, or the character with its looks."""
    cells: list[Any] = []
    for line in range(screen.lines):
        for column in range(screen.columns):
            cell = screen.buffer[line][column]
            match cell.data:
                case "▀":
                    cells.append((cell.fg, cell.bg))
                case "▄":
                    cells.append((cell.bg, cell.fg))
                case " " if not cell.reverse:
                    cells.append((cell.bg, cell.bg))
                case _:
                    cells.append(cell)
    return cells
