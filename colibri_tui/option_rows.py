"""Every option of the engine as the settings screen shows it: what it is, where that came from, what else it may be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from colibri_tui.render.units import size
from colibri_tui.settings import Origin
from engine.events import Ready
from engine.options import KNOBS, EngineOptions, Knob

_UNITS: Final = {"ram": " GB", "pin_gb": " GB"}


@dataclass(frozen=True, slots=True)
class OptionRow:
    """One option. value: what holds; chosen: what the engine made of it where it was left to it, '' otherwise.

    origin: where the value comes from, in words. waits: whether the engine runs with another value as yet.
    """

    knob: Knob
    value: str
    chosen: str
    origin: str
    waits: bool


def option_rows(
    options: EngineOptions,
    origins: Mapping[str, Origin],
    running: EngineOptions | None,
    ready: Ready | None,
) -> list[OptionRow]:
    """Return a row for every option. options: what the next start takes; running: what the engine was started with."""
    return [
        OptionRow(
            knob,
            value_text(knob, getattr(options, knob.name)),
            _chosen(knob, getattr(options, knob.name), ready),
            _origin(knob, origins[knob.name]),
            running is not None and getattr(running, knob.name) != getattr(options, knob.name),
        )
        for knob in KNOBS
    ]


def value_text(knob: Knob, value: Any) -> str:
    """Return a value as one would type it."""
    if value is None:
        return "auto" if knob.auto else "not set"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return knob.unlimited if math.isinf(value) else f"{value:g}"
    return str(value)


def _number(value: float) -> str:
    """Return a bound in digits that everybody reads."""
    return f"{value:,.0f}" if value >= 1e6 else f"{value:g}"


def range_text(knob: Knob) -> str:
    """Return what the option may be."""
    words = [*knob.choices]
    if knob.kind in ("int", "float"):
        unit = _UNITS.get(knob.name, "")
        kind = "a whole number" if knob.kind == "int" else "a number"
        low = f" from {_number(knob.low)}" if knob.low is not None else ""
        high = f" to {_number(knob.high)}" if knob.high is not None else ""
        words.append(f"{kind}{low}{high}{unit}")
    elif knob.kind == "path":
        words.append("a file")
    elif knob.kind == "bool":
        words.append("on or off")
    words += [word for word in (knob.unlimited, "auto" if knob.auto else "") if word]
    return " or ".join(words)


def next_value(knob: Knob, value: Any) -> Any:
    """Return what comes after a value of an option that has only a few: on and off, or its choices."""
    if knob.kind == "bool":
        return not value
    values: list[Any] = [*([None] if knob.auto else []), *knob.choices]
    return values[(values.index(value) + 1) % len(values)] if value in values else values[0]


def has_few(knob: Knob) -> bool:
    """Whether the option can be gone through one value after the other."""
    return knob.kind in ("bool", "choice")


def _origin(knob: Knob, origin: Origin) -> str:
    match origin:
        case "flag":
            return knob.flag
        case "environment":
            return f"${knob.env}"
        case "settings":
            return "settings file"
        case "command":
            return f"/{knob.name}"
        case _:
            return origin


def _chosen(knob: Knob, value: Any, ready: Ready | None) -> str:
    """Return what the plan made of an option that was left to it."""
    if value is not None or ready is None:
        return ""
    plan = ready.plan
    match knob.name:
        case "ram":
            return size(plan.budget)
        case "cap":
            return f"{plan.cap} a layer"
        case "context":
            return f"{plan.context} tokens"
        case "pin_gb":
            return size(plan.pins)
    return ""
