"""What an examination finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from engine.errors import EngineError
from engine.files import reason

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line. area: what was looked at. remedy: what to do about it, empty when all is well."""

    level: Level
    area: str
    text: str
    remedy: str = ""


Check = Callable[[], Iterable[Finding]]


def ok(area: str, text: str) -> Finding:
    """All is well."""
    return Finding("ok", area, text)


def warn(area: str, text: str, remedy: str) -> Finding:
    """It works, but not as well as it could."""
    return Finding("warn", area, text, remedy)


def fail(area: str, text: str, remedy: str) -> Finding:
    """It does not work."""
    return Finding("fail", area, text, remedy)


def failed(area: str, error: EngineError) -> Finding:
    """What an error of the engine says: what is wrong and, after the last semicolon, what to do."""
    text, _, remedy = str(error).rpartition("; ")
    return fail(area, text, remedy) if text else fail(area, remedy, "")


def examined(area: str, check: Check) -> Iterator[Finding]:
    """Run a check; what stops it is its last finding."""
    try:
        yield from check()
    except EngineError as error:
        yield failed(area, error)
    except OSError as error:
        yield fail(area, f"{error.filename or area}: {reason(error)}", "check the disk and the permissions")
