"""Bars on a fixed scale of 0 to 1. A bar that scales to its own data shows a steady ratio as noise."""

from __future__ import annotations

from collections.abc import Sequence


def shares(counts: Sequence[int], whole: int) -> list[int]:
    """Split `whole` in proportion to the counts, in integers that add up; all zero when nothing was counted.

    The largest remainders get what rounding down leaves over.
    """
    total = sum(counts)
    if total <= 0 or whole <= 0:
        return [0] * len(counts)
    exact = [count * whole / total for count in counts]
    parts = [int(share) for share in exact]
    for n in sorted(range(len(counts)), key=lambda n: parts[n] - exact[n])[: whole - sum(parts)]:
        parts[n] += 1
    return parts


def cells(counts: Sequence[int], width: int) -> list[int]:
    """Split a bar of `width` cells; what occurred at all keeps a cell as long as there are enough."""
    parts = shares(counts, width)
    for n, count in enumerate(counts):
        largest = parts.index(max(parts))
        if count > 0 and parts[n] == 0 and parts[largest] > 1:
            parts[n], parts[largest] = 1, parts[largest] - 1
    return parts


def meter(share: float, width: int, full: str, rest: str) -> str:
    """Return a bar of `width` cells of which `share`, clipped to 0..1, is full."""
    filled = round(min(max(share, 0.0), 1.0) * width)
    return full * filled + rest * (width - filled)


def joined(parts: Sequence[str], width: int, gap: str = "  ") -> str:
    """Return as many of the parts, from the first on, as fit into `width` columns; the first one always."""
    words = list(parts)
    while len(text := gap.join(words)) > width and len(words) > 1:
        words.pop()
    return text
