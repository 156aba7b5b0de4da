from hypothesis import given
from hypothesis import strategies as st

from colibri_tui.render.arrange import TWO_COLUMNS_FROM, Wish, arrange

wishes = st.lists(
    st.builds(
        lambda name, least, more: Wish(str(name), least, least + more),
        st.integers(0, 99), st.integers(1, 20), st.integers(0, 60),
    ),
    min_size=1, max_size=8, unique_by=lambda wish: wish.name,
)  # fmt: skip


@given(wishes, st.integers(1, 250), st.integers(1, 90))
def test_places_lie_inside_apart_and_have_what_they_need(wishes, width, height):
    places = arrange(wishes, width, height)
    assert wishes[0].name in places
    needs = {wish.name: wish.least for wish in wishes}
    seen = set()
    for name, place in places.items():
        assert place.x >= 0
        assert place.x + place.width <= width
        assert place.y >= 0
        assert place.y + place.height <= height
        if name != wishes[0].name:
            assert place.height >= needs[name]
        cells = {(x, y) for x in range(place.x, place.x + place.width) for y in range(place.y, place.y + place.height)}
        assert not cells & seen
        seen |= cells


@given(wishes, st.integers(1, TWO_COLUMNS_FROM - 1), st.integers(1, 90))
def test_a_column_leaves_no_row_unused(wishes, width, height):
    rows = sum(place.height for place in arrange(wishes, width, height).values())
    assert rows == height


def test_earlier_panes_come_first_when_there_is_little_room():
    wanted = [Wish("atlas", 8, 30), Wish("tiers", 9, 14), Wish("speed", 7, 10), Wish("swaps", 5, 9)]
    assert list(arrange(wanted, 58, 20)) == ["atlas", "tiers"]
    assert list(arrange(wanted, 58, 34)) == ["atlas", "tiers", "speed"]
    assert arrange(wanted, 58, 34)["atlas"].height >= 15
    assert list(arrange(wanted, 58, 50)) == ["atlas", "tiers", "speed", "swaps"]


def test_wide_windows_have_the_first_on_top_and_two_columns_below():
    wanted = [Wish("atlas", 8, 30), Wish("tiers", 9, 14), Wish("speed", 7, 10), Wish("swaps", 5, 9)]
    places = arrange(wanted, 130, 58)
    assert places["atlas"].width == 130
    assert places["tiers"].x == 0
    assert places["speed"].x == 65
    assert places["tiers"].y == places["speed"].y == places["atlas"].height


def test_nothing_has_no_place():
    assert arrange([], 80, 24) == {}
    assert arrange([Wish("atlas", 8, 30)], 0, 24) == {}
