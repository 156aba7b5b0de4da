import pytest
from rich.color import Color

from colibri_tui.themes import (
    DEFAULT_THEME,
    LIGHT_THEME,
    PLAIN_THEME,
    ThemeError,
    builtin_themes,
    load_themes,
    parse_theme,
    stamp,
)
from tests.tui.colour_science import lab


def _atlas() -> str:
    """A table of inks whose indices count from 0."""
    lines = ["[atlas]"]
    for key, count in (("heat", 8), ("fired", 7), ("places", 4), ("fired-places", 4)):
        inks = ", ".join(f'["#00000{n}", {n}]' for n in range(count))
        lines.append(f"{key} = [{inks}]")
    return "\n".join(lines)


ATLAS = _atlas()
PLAIN = 'name = "mine"\n[colors]\nprimary = "#123456"\n'


def test_six_themes_are_built_in():
    themes = builtin_themes()
    assert next(iter(themes)) == DEFAULT_THEME
    assert set(themes) == {"colibri", "colibri-light", "ember", "okabe", "contrast", "ansi16"}
    assert themes[PLAIN_THEME].theme.ansi
    assert not themes["colibri-light"].theme.dark


def test_a_users_theme_is_added_and_may_borrow_our_ramp(tmp_path):
    (tmp_path / "mine.toml").write_text(PLAIN)
    themes, problems = load_themes(tmp_path)
    assert problems == []
    assert themes["mine"].theme.primary == "#123456"
    assert themes["mine"].palette == themes[DEFAULT_THEME].palette


def test_a_users_theme_may_have_a_ramp_of_its_own():
    theme = parse_theme(PLAIN + ATLAS)
    assert [ink.index for ink in theme.palette.heat] == list(range(8))


def test_a_users_theme_replaces_ours_of_the_same_name(tmp_path):
    (tmp_path / "x.toml").write_text(PLAIN.replace("mine", DEFAULT_THEME))
    assert load_themes(tmp_path)[0][DEFAULT_THEME].theme.primary == "#123456"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("name = ", "not TOML"),
        ('name = "A b"', "name must be"),
        ('name = "a"', "lacks primary"),
        (PLAIN + 'sky = "#000000"', "unknown colour 'sky'"),
        (PLAIN + 'accent = "blurple"', "colors.accent is not a colour"),
        (PLAIN + "accent = 3", "colors.accent is not a colour"),
        ("dark = 3\n" + PLAIN, "must be true or false"),
        (PLAIN + "[variables]\nx = 3", "variables.x must be a string"),
        ('colors = 3\nname = "a"', "must be a table"),
        (PLAIN, r"\[atlas\] is missing"),
        (PLAIN + ATLAS.replace("fired =", "tired ="), "atlas.fired must list 7"),
        (PLAIN + ATLAS.replace('["#000007", 7]', '["#000007", 999]'), r"atlas.heat\[7\] must be"),
        (PLAIN + ATLAS.replace(', ["#000007", 7]', ""), "must list 8"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text, reason):
    with pytest.raises(ThemeError, match=reason) as caught:
        parse_theme(text)
    assert "\n" not in str(caught.value)


def test_a_bad_file_is_left_out_with_a_reason(tmp_path):
    (tmp_path / "bad.toml").write_text("name = ")
    (tmp_path / "big.toml").write_text("#" * 70_000)
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    themes, problems = load_themes(tmp_path)
    assert set(themes) == set(builtin_themes())
    assert [line.split(":")[0] for line in problems] == [
        "theme bad.toml",
        "theme big.toml",
        "theme bytes.toml",
    ]


def test_a_light_theme_borrows_the_light_ramp(tmp_path):
    (tmp_path / "mine.toml").write_text("dark = false\n" + PLAIN)
    themes = load_themes(tmp_path)[0]
    assert themes["mine"].palette == themes[LIGHT_THEME].palette


def test_high_contrast_is_high():
    theme = builtin_themes()["contrast"].theme
    ground = luminance(theme.background)
    for name in ("foreground", "primary", "secondary", "accent", "warning", "error", "success"):
        assert (luminance(getattr(theme, name)) + 0.05) / (ground + 0.05) >= 7
    assert (luminance(theme.variables["text-muted"]) + 0.05) / (ground + 0.05) >= 7


def luminance(colour: str) -> float:
    return ((lab(tuple(Color.parse(colour).get_truecolor()))[0] + 16) / 116) ** 3


def test_a_stamp_tells_every_change(tmp_path):
    seen = {stamp(tmp_path)}
    (tmp_path / "mine.toml").write_text(PLAIN)
    seen.add(stamp(tmp_path))
    (tmp_path / "mine.toml").write_text(PLAIN + "\n")
    seen.add(stamp(tmp_path))
    (tmp_path / "mine.toml").rename(tmp_path / "other.toml")
    seen.add(stamp(tmp_path))
    assert len(seen) == 4
    assert stamp(tmp_path) in seen
    assert stamp(tmp_path / "nothing") == ()


def test_no_folder_is_no_problem(tmp_path):
    assert load_themes(tmp_path / "nothing")[1] == []
