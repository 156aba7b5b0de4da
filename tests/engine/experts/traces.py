"""Route traces to test with."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

Row = tuple[int, int, int, list[int]]
"""(call, row, layer, experts)."""


def trace_of(forwards: list[dict[int, list[list[int]]]]) -> list[Row]:
    """Number the calls of forwards, each a map from layer to what its rows chose."""
    rows: list[Row] = []
    call = 0
    for forward in forwards:
        for layer in sorted(forward):
            rows += [(call, row, layer, chosen) for row, chosen in enumerate(forward[layer])]
            call += 1
    return rows


def text_of(rows: list[Row]) -> str:
    return "".join(
        f"{call} {row} {layer} " + " ".join(f"{expert}:0.2500" for expert in chosen) + "\n"
        for call, row, layer, chosen in rows
    )


def write_trace(path: Path, rows: list[Row]) -> Path:
    path.write_text(text_of(rows))
    return path


chosen = st.lists(st.integers(0, 300), min_size=1, max_size=5, unique=True)
traces = st.lists(
    st.dictionaries(st.integers(0, 4), st.lists(chosen, min_size=1, max_size=4), min_size=1), min_size=1, max_size=8
).map(trace_of)
