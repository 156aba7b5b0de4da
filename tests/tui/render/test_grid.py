import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri_tui.render import grid as g
from colibri_tui.render.shades import FIRED_PLACE, HEAT_LEVELS, SHADES, Heat, Place
from engine.board import Tier

sizes = st.tuples(st.integers(1, 100), st.integers(1, 400), st.integers(1, 300), st.integers(1, 80))


@given(sizes, st.booleans())
def test_every_layer_and_expert_has_a_place_inside_the_space(size, halves):
    layers, experts, width, height = size
    grid = g.fit(layers, experts, width, height, halves=halves)
    assert grid.width <= width
    assert grid.rows <= height
    assert max(np.diff([*grid.bin_starts, experts])) - min(np.diff([*grid.bin_starts, experts])) <= 1
    shown = [layer for row in range(0, grid.rows, grid.stretch) for layer in grid.layers_of_row(row)]
    assert shown == list(range(layers))


@given(sizes, st.booleans())
def test_cells_cover_the_grid(size, halves):
    layers, experts, width, height = size
    grid = g.fit(layers, experts, width, height, halves=halves)
    heat = np.ones((layers, experts), np.uint32)
    tier = np.full((layers, experts), Tier.DISK, np.uint8)
    cells = g.cells(g.heat_shades(heat, tier, grid), grid)
    assert cells.shape == (grid.rows, grid.columns)
    if grid.half and grid.bands % 2:
        assert (cells[-1] % SHADES == Heat.BLANK).all()


@pytest.mark.parametrize(
    ("model", "space", "expected"),
    [
        ((75, 256), (256, 38), (256, 38, True, 75)),  # one to one, two layers a row
        ((75, 256), (64, 19), (64, 19, True, 38)),
        ((16, 64), (43, 33), (43, 32, False, 16)),  # two rows a layer
        ((75, 256), (30, 1), (30, 1, True, 2)),  # one line: two groups of layers
        ((32, 8), (43, 32), (40, 32, False, 32)),  # five columns an expert
    ],
)
def test_layouts(model, space, expected):
    grid = g.fit(*model, *space, halves=True)
    assert (grid.width, grid.rows, grid.half, grid.bands) == expected


def test_heat_levels_rise_with_counts_and_zero_alone_is_cold():
    levels = g.heat_levels(np.array([[0.0, 1, 3, 10, 40, 200, 1000, 5000]]))[0]
    assert levels[0] == 0
    assert levels[1] == 1
    assert levels[-1] == HEAT_LEVELS - 1
    assert (np.diff(levels) >= 0).all()
    assert len(set(levels.tolist())) >= HEAT_LEVELS - 1


def test_a_young_profile_looks_young():
    assert g.heat_levels(np.array([[0.0, 1, 2]])).max() < HEAT_LEVELS // 2


def test_heat_of_a_bin_is_the_mean_of_its_experts():
    heat = np.zeros((2, 8), np.uint32)
    heat[0, :4] = 250
    heat[1, 7] = 1000
    tier = np.full(heat.shape, Tier.DISK, np.uint8)
    shades = g.heat_shades(heat, tier, g.fit(2, 8, 2, 2, halves=True))
    middle = HEAT_LEVELS // 2
    assert shades.tolist() == [[Heat.LEVEL + middle, Heat.LEVEL], [Heat.LEVEL, Heat.LEVEL + middle]]


def test_a_few_that_are_used_far_more_or_less_do_not_take_the_ramp_from_the_others():
    uses = np.random.default_rng(3).uniform(100, 400, 200)
    usual = g.heat_levels(uses)
    assert len(set(usual.tolist())) >= HEAT_LEVELS - 2
    extremes = g.heat_levels(np.concatenate((uses, [1, 1_000_000])))
    assert np.abs(extremes[:-2].astype(int) - usual).max() <= 1
    assert extremes[-2:].tolist() == [1, HEAT_LEVELS - 1]


def test_experts_that_are_used_alike_get_the_middle_of_the_ramp():
    levels = g.heat_levels(np.random.default_rng(3).uniform(380, 420, 200))
    assert set(levels.tolist()) <= {HEAT_LEVELS // 2, HEAT_LEVELS // 2 + 1}


def test_layers_without_experts_stay_blank():
    tier = np.array([[Tier.DISK, Tier.NONE], [Tier.NONE, Tier.NONE]], np.uint8)
    grid = g.fit(2, 2, 2, 2, halves=True)
    for shades in (
        g.heat_shades(np.zeros((2, 2), np.uint32), tier, grid),
        g.tier_shades(np.zeros((2, 2), np.uint32), tier, grid),
    ):
        assert shades[1].tolist() == [Heat.BLANK, Heat.BLANK]
        assert shades[0, 0] != Heat.BLANK
        assert shades[0, 1] == Heat.BLANK


def test_tier_of_a_bin_is_where_most_of_it_lies():
    tier = np.array(
        [
            [Tier.PIN, Tier.CACHE, Tier.DISK, Tier.DISK],
            [Tier.PIN, Tier.CACHE, Tier.WORKING, Tier.WORKING],
            [Tier.PIN, Tier.DISK, Tier.PIN, Tier.PIN],
        ],
        np.uint8,
    )
    heat = np.array([[1, 1, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1]], np.uint32)
    shades = g.tier_shades(heat, tier, g.fit(3, 4, 2, 3, halves=True))
    assert shades.tolist() == [
        [Place.PIN, Place.UNUSED],
        [Place.PIN, Place.CACHE],
        [Place.PIN, Place.PIN],
    ]


def test_one_expert_that_fires_marks_its_bin_which_keeps_its_level():
    grid = g.fit(2, 8, 4, 2, halves=True)
    shades = np.full((2, 4), Heat.LEVEL + 5, np.uint8)
    shades[0, 0] = Heat.BLANK
    fired = np.zeros((2, 8), bool)
    fired[1, 5] = fired[0, 0] = True
    g.fire_heat(shades, fired, grid)
    cold = Heat.LEVEL + 5
    assert shades.tolist() == [[Heat.BLANK, cold, cold, cold], [cold, cold, Heat.FIRED + 5, cold]]


def test_a_coarse_map_shows_where_more_fire_than_usual():
    grid = g.fit(2, 8, 2, 2, halves=True)
    shades = np.full((2, 2), Heat.LEVEL + 5, np.uint8)
    fired = np.array([[1, 1, 1, 0, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1, 0, 0]], bool)
    g.fire_heat(shades, fired, grid)
    assert (shades > Heat.FIRED).tolist() == [[True, False], [True, False]]


def test_an_expert_that_fires_before_its_count_says_so_is_seen():
    grid = g.fit(1, 1, 1, 1, halves=True)
    shades = np.full((1, 1), Heat.LEVEL, np.uint8)
    g.fire_heat(shades, np.ones((1, 1), bool), grid)
    assert shades.tolist() == [[Heat.FIRED + 1]]


def test_places_that_fire_are_still_told_apart():
    grid = g.fit(1, 4, 4, 1, halves=True)
    shades = np.array([[Place.BLANK, Place.DISK, Place.CACHE, Place.PIN]], np.uint8)
    g.fire_places(shades, np.ones((1, 4), bool), grid)
    assert shades.tolist() == [[Place.BLANK, *(place + FIRED_PLACE for place in (Place.DISK, Place.CACHE, Place.PIN))]]


def test_halves_pair_the_upper_and_the_lower_layer():
    grid = g.fit(2, 2, 2, 1, halves=True)
    shades = np.array([[Place.PIN, Place.DISK], [Place.CACHE, Place.PIN]], np.uint8)
    assert g.cells(shades, grid).tolist() == [[Place.PIN * SHADES + Place.CACHE, Place.DISK * SHADES + Place.PIN]]


def test_rank_order_sorts_each_layer_and_keeps_equals_by_id():
    heat = np.array([[5, 9, 5, 0]], np.uint32)
    assert g.rank_order(heat).tolist() == [[1, 0, 2, 3]]
