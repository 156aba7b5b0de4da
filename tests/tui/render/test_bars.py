from hypothesis import given
from hypothesis import strategies as st

from colibri_tui.render.bars import cells, meter, shares

counts = st.lists(st.integers(0, 10**12), min_size=1, max_size=5)


@given(counts, st.integers(0, 200))
def test_parts_add_up(values, whole):
    parts = shares(values, whole)
    assert sum(parts) == (whole if sum(values) else 0)
    assert all(part >= 0 for part in parts)
    assert sum(cells(values, whole)) == sum(parts)


@given(st.lists(st.integers(1, 10**12), min_size=3, max_size=3), st.integers(3, 80))
def test_what_occurred_is_seen(values, width):
    assert min(cells(values, width)) >= 1


def test_nothing_counted_is_nothing_drawn():
    assert shares([0, 0, 0], 100) == [0, 0, 0]
    assert cells([0, 0, 0], 10) == [0, 0, 0]


def test_percentages_of_a_known_split():
    assert shares([1, 1, 1], 100) == [34, 33, 33]
    assert shares([614, 307, 79], 100) == [61, 31, 8]


def test_a_meter_is_clipped_to_its_ends():
    assert meter(0.5, 4, "#", ".") == "##.."
    assert meter(7.0, 4, "#", ".") == "####"
    assert meter(-1.0, 4, "#", ".") == "...."
