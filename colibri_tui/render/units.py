"""Numbers in the units of the screen: powers of a thousand, as disks and the `--ram` option count."""

from __future__ import annotations

UNITS = ("B", "kB", "MB", "GB", "TB")


def size(count: float) -> str:
    """Return bytes with three significant digits at most: '0 B', '12.3 MB', '1.20 GB'."""
    step = 0
    while abs(count) >= 999.5 and step < len(UNITS) - 1:
        count, step = count / 1000, step + 1
    digits = 0 if step == 0 or abs(count) >= 99.95 else 1 if abs(count) >= 9.995 else 2
    return f"{count:.{digits}f} {UNITS[step]}"


def rate(per_second: float) -> str:
    """Return a speed in tokens a second."""
    return f"{per_second:.1f} tok/s" if per_second >= 9.95 else f"{per_second:.2f} tok/s"


def tokens(count: int) -> str:
    """Return a number of tokens in words: '1 token', '12 tokens'."""
    return f"{count} token" if count == 1 else f"{count} tokens"


def seconds(duration: float) -> str:
    """Return a duration: '0.8 s', '12 s', '3 min 20 s'."""
    if duration < 9.95:
        return f"{duration:.1f} s"
    whole = round(duration)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60:02} s"
