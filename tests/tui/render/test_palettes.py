"""Colours carry meaning here, so that every reader must be able to tell them apart."""

from itertools import pairwise

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
def test_tiers_and_fired_are_told_apart(theme, depth, vision):
    p = theme.palette
    for group in ((p.pin, p.cache, p.disk, p.fired_tier), (p.fired, *p.heat)):
        for n, one in enumerate(group[:1] if p.fired in group else group):
            for other in group[n + 1 :]:
                assert difference(seen(one, depth, vision), seen(other, depth, vision)) > 15


@pytest.mark.parametrize("depth", DEPTHS)
def test_tiers_differ_in_lightness_too(theme, depth):
    p = theme.palette
    pin, cache, disk, unused = (seen(ink, depth)[0] for ink in (p.pin, p.cache, p.disk, p.unused))
    steps = [pin - cache, cache - disk, disk - unused]
    if not theme.theme.dark:
        steps = [-step for step in steps]
    assert min(steps[:2]) > 10
    assert steps[2] > 2


@pytest.mark.parametrize("name", ["foreground", "primary", "accent", "warning", "error", "success", "text-muted"])
def test_text_has_contrast(theme, name):
    def luminance(colour: str) -> float:
        return ((lab(tuple(Color.parse(colour).get_truecolor()))[0] + 16) / 116) ** 3

    colour = getattr(theme.theme, name, None) or theme.theme.variables[name]
    bright, dark = sorted((luminance(colour), luminance(theme.theme.background)), reverse=True)
    assert (bright + 0.05) / (dark + 0.05) >= 4.5
