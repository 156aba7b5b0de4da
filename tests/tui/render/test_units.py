import pytest

from colibri_tui.render.units import rate, seconds, size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.6, "1.00 kB"),
        (12_340_000, "12.3 MB"),
        (123_400_000, "123 MB"),
        (9_996_000, "10.0 MB"),
        (999_700_000, "1.00 GB"),
        (5e15, "5000 TB"),
    ],
)
def test_sizes(count, text):
    assert size(count) == text


@pytest.mark.parametrize(("speed", "text"), [(0.123, "0.12 tok/s"), (9.96, "10.0 tok/s"), (153.0, "153.0 tok/s")])
def test_rates(speed, text):
    assert rate(speed) == text


@pytest.mark.parametrize(
    ("duration", "text"),
    [(0.04, "0.0 s"), (9.96, "10 s"), (119.4, "119 s"), (119.6, "2 min 00 s"), (3725, "62 min 05 s")],
)
def test_durations(duration, text):
    assert seconds(duration) == text
