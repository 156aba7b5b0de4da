import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from colibri_tui.render.columns import columns, fit_columns, stacks
from colibri_tui.render.glyphs import ASCII, BLOCKS

shares = arrays.arrays(np.float64, st.integers(1, 40), elements=st.floats(0, 1))


@given(shares, st.integers(1, 6))
def test_columns_have_the_height_of_their_values(values, height):
    rows = columns(values, height, BLOCKS)
    assert [len(row) for row in rows] == [len(values)] * height
    for n, value in enumerate(values):
        halves = sum({"█": 2, "▄": 1, " ": 0}[row[n]] for row in rows)
        assert halves == np.ceil(value * 2 * height)


def test_columns_without_a_value_are_empty_and_ascii_stays_ascii():
    assert columns(np.array([np.nan, 1.0]), 2, ASCII) == [" #", " #"]


@given(shares, st.integers(1, 40))
def test_narrower_charts_show_means(values, width):
    fitted = fit_columns(values, width)
    assert len(fitted) == min(len(values), width)
    assert values.min() - 1e-9 <= fitted.min()
    assert fitted.max() <= values.max() + 1e-9


def test_means_leave_out_what_is_not_known():
    fitted = fit_columns(np.array([np.nan, 1.0, np.nan, np.nan]), 2)
    assert fitted[0] == 1.0
    assert np.isnan(fitted[1])


@given(arrays.arrays(np.float32, (7, 4), elements=st.floats(0, 100, width=32)), st.integers(1, 12))
def test_stacks_grow_from_the_ground_without_gaps(parts, halves):
    picture = stacks(parts, 200.0, halves)
    assert picture.shape == (halves, 7)
    for column, values in zip(picture.T, parts, strict=True):
        filled = column[column >= 0]
        assert (column[: len(filled)] >= 0).all()
        assert (np.diff(filled) >= 0).all(), "parts in their order"
        assert len(filled) <= halves
        if values.sum() > 0.01:
            assert len(filled) >= 1
