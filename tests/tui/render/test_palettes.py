"""Colours carry meaning here, so that every reader must be able to tell them apart."""

from itertools import combinations, pairwise

import pytest
from rich.color import Color

from colibri_tui.render.ramps import Depth, Ink
from colibri_tui.themes import builtin_themes
from tests.tui.colour_science import VISION, difference, lab

PAINTED = [theme for theme in builtin_themes().values() if not theme.theme.ansi]
DEPTHS = [depth for depth in Depth if depth.paints]


def seen(ink: Ink, depth: Depth, vision: str = "normal"):
    return lab(tuple(ink.at(depth).get_truecolor()), vision)


@pytest.fixture(params=PAINTED, ids=lambda theme: theme.theme.name)
def theme(request):
    return request.param


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("vision", VISION)
def test_neighbouring_heat_levels_differ(theme, depth, vision):
    steps = [difference(seen(a, depth, vision), seen(b, depth, vision)) for a, b in pairwise(theme.palette.heat)]
    assert min(steps) > (8 if depth is Depth.TRUECOLOR else 3)


@pytest.mark.parametrize("depth", DEPTHS)
def test_heat_is_ordered_by_lightness_alone(theme, depth):
    lightness = [seen(ink, depth)[0] for ink in theme.palette.heat]
    assert lightness == sorted(lightness, reverse=not theme.theme.dark)
    assert len(set(lightness)) == len(lightness)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("vision", VISION)
def test_what_fires_stands_out_at_every_level(theme, depth, vision):
    p = theme.palette
    for cold, fired in [*zip(p.heat[1:], p.fired, strict=True), *zip(p.places, p.fired_places, strict=True)]:
        assert difference(seen(cold, depth, vision), seen(fired, depth, vision)) > 15


@pytest.mark.parametrize("depth", DEPTHS)
def test_what_fires_is_ordered_by_lightness_too(theme, depth):
    lightness = [seen(ink, depth)[0] for ink in theme.palette.fired]
    assert lightness == sorted(lightness, reverse=not theme.theme.dark)


@pytest.mark.parametrize("depth", DEPTHS)
def test_experts_that_are_used_often_hardly_flicker(theme, depth):
    """Light that comes and goes ten times a second is hard to bear: hue changes more than lightness does."""
    for cold, fired in list(zip(theme.palette.heat[1:], theme.palette.fired, strict=True))[4:]:
        assert abs(seen(cold, depth)[0] - seen(fired, depth)[0]) < 16


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("vision", VISION)
def test_places_are_told_apart(theme, depth, vision):
    for places in (theme.palette.places[1:], theme.palette.fired_places[1:]):
        for one, other in combinations(places, 2):
            assert difference(seen(one, depth, vision), seen(other, depth, vision)) > 15


@pytest.mark.parametrize("depth", DEPTHS)
def test_places_differ_in_lightness_too(theme, depth):
    lightness = [seen(ink, depth)[0] for ink in theme.palette.places]
    steps = [later - earlier for earlier, later in pairwise(lightness)]
    if not theme.theme.dark:
        steps = [-step for step in steps]
    assert min(steps[1:]) > 10
    assert steps[0] > 2


@pytest.mark.parametrize("name", ["foreground", "primary", "accent", "warning", "error", "success", "text-muted"])
def test_text_has_contrast(theme, name):
    def luminance(colour: str) -> float:
        return ((lab(tuple(Color.parse(colour).get_truecolor()))[0] + 16) / 116) ** 3

    colour = getattr(theme.theme, name, None) or theme.theme.variables[name]
    bright, dark = sorted((luminance(colour), luminance(theme.theme.background)), reverse=True)
    assert (bright + 0.05) / (dark + 0.05) >= 4.5
