"""What a policy is told of the layers before: by the running engine from its ring, by a replay from a trace."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.experts.policies import NEAR
from engine.experts.recent import ROOM, RecentChoices
from engine.experts.trace_reader import LayerTrace, linked, near_of

EXPERTS = 9
choice = st.lists(st.integers(0, EXPERTS - 1), min_size=1, max_size=3, unique=True)


def note(ring: RecentChoices, layer: int, clock: int, rows: list[list[int]]) -> None:
    """As native code does."""
    width = int(ring.widths[layer])
    for row in rows:
        at = int(ring.count[layer]) % ROOM
        ring.ids[layer, at * width : at * width + len(row)] = row
        ring.kept[layer, at], ring.clock[layer, at] = len(row), clock
        ring.count[layer] += 1


def trace_of(rows: list[list[int]]) -> LayerTrace:
    ends = np.cumsum([0, *map(len, rows)])
    return LayerTrace(EXPERTS, np.arange(len(rows) + 1), ends, np.array([e for row in rows for e in row], np.int32))


def names(near: Any) -> list[list[list[int]]]:
    """By token and layer, without what fills the rows up."""
    return [[[int(e) for e in row if e >= 0] for row in token] for token in near]


@given(
    layers=st.integers(1, 6).flatmap(
        lambda tokens: st.lists(st.lists(choice, min_size=tokens, max_size=tokens), min_size=1, max_size=6)
    )
)
def test_both_tell_the_same(layers: list[list[list[int]]]) -> None:
    """Every other layer has a router; rows are of different lengths."""
    ring = RecentChoices(2 * len(layers), 3)
    for place, rows in enumerate(layers):
        note(ring, 2 * place + 1, 7, rows)
    traces = linked({2 * place + 1: trace_of(rows) for place, rows in enumerate(layers)})
    for place, (layer, trace) in enumerate(traces.items()):
        expected = [
            [layers[place - back][token] if place >= back else [] for back in range(NEAR, 0, -1)]
            for token in range(len(layers[0]))
        ]
        assert names(ring.near(layer, len(layers[0]))) == expected
        told = names(near_of(trace))
        assert told == (expected if place else [[]] * len(layers[0]))


def test_rows_of_a_forward_that_was_stopped_are_nobodys() -> None:
    ring = RecentChoices(2, 2)
    note(ring, 0, 1, [[1, 2]])
    note(ring, 1, 1, [[3, 4]])
    note(ring, 0, 2, [[5, 6]])  # and no more of it
    note(ring, 0, 3, [[7, 8]])
    note(ring, 1, 3, [[0, 1]])
    assert names(ring.near(1, 2)) == [[[], [], [1, 2]], [[], [], [7, 8]]]


def test_a_curve_is_drawn_from_forwards_that_all_layers_hold_whole() -> None:
    ring = RecentChoices(2, 2)
    for clock in range(1, 6):
        note(ring, 0, clock, [[clock, 0], [clock, 8]])
        if clock != 3:  # stopped between the layers
            note(ring, 1, clock, [[clock, 1], [clock]])
    note(ring, 0, 6, [[6, 0]])  # under way
    first, second = ring.read([0, 1], [2, 2], EXPERTS).values()
    assert [ids.tolist() for ids in np.split(first.ids, first.rows[1:-1])] == [
        [clock, other] for clock in (1, 2, 4, 5) for other in (0, 8)
    ]
    assert second.ids.tolist() == [e for clock in (1, 2, 4, 5) for e in (clock, 1, clock)]
    assert first.calls.tolist() == second.calls.tolist() == [0, 2, 4, 6, 8]
    assert second.before == (first,)


def test_a_layer_that_lacks_tokens_tells_nothing() -> None:
    first, second = trace_of([[1], [2]]), trace_of([[3]])
    assert linked({0: first, 1: second})[1].before == ()
