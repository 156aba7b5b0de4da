"""What a person sets for one conversation: the system prompt, and how answers are drawn.

It is kept with the conversation and holds for its next answers. What is not set is the model's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from engine.errors import EngineError

if TYPE_CHECKING:
    from engine.text.sampler import Sampling

_NUMBERS: Final[dict[str, Callable[[str], float]]] = {
    "temperature": float,
    "nucleus": float,
    "max_tokens": int,
    "seed": int,
}
"""Settings that are numbers, and how each is read."""
UNSET: Final = ("auto", "default", "off", "none")
"""Words that give a setting back to the model."""


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """See `engine.text.sampler.Sampling`; None, and '' for the system prompt: not set."""

    system: str = ""
    temperature: float | None = None
    nucleus: float | None = None
    max_tokens: int | None = None
    seed: int | None = None

    def sampling(self, defaults: Sampling) -> Sampling:
        """Return how answers are drawn, where `defaults` is what the model says."""
        return replace(defaults, **self.numbers)

    @property
    def numbers(self) -> dict[str, Any]:
        """What is set besides the system prompt."""
        return {name: value for name in _NUMBERS if (value := getattr(self, name)) is not None}

    @property
    def words(self) -> tuple[str, ...]:
        """What is set, in the words of the screen."""
        said = tuple(f"{name.replace('_', ' ')} {value:g}" for name, value in self.numbers.items())
        return ("system prompt", *said) if self.system else said

    def changed(self, name: str, text: str) -> ChatSettings:
        """Return the settings with one of them read from text. Raises EngineError when that is no value for it."""
        text = text.strip()
        if text.lower() in UNSET:
            unset: Any = "" if name == "system" else None
            return replace(self, **{name: unset})
        if name == "system":
            return replace(self, system=text)
        words = name.replace("_", " ")
        try:
            value: Any = _NUMBERS[name](text)
        except ValueError:
            kind = "a whole number" if _NUMBERS[name] is int else "a number"
            raise EngineError(f"{words}: {text!r} is not {kind}; 'auto' gives it back to the model") from None
        from engine.text.sampler import Sampling

        Sampling(**{name: value})  # refuses what is out of range
        return replace(self, **{name: value})


def dump(settings: ChatSettings) -> str:
    """Return the settings as they are stored; '' if nothing is set."""
    return json.dumps(asdict(settings)) if settings != ChatSettings() else ""


def load(text: str) -> ChatSettings:
    """Return stored settings; what is missing or not understood is not set."""
    try:
        stored = json.loads(text) if text else {}
    except ValueError:
        stored = {}
    settings = ChatSettings()
    for name in ("system", *_NUMBERS) if isinstance(stored, dict) else ():
        if stored.get(name) not in (None, ""):
            try:
                settings = settings.changed(name, str(stored[name]))
            except EngineError:
                continue
    return settings


def setting_text(name: str, settings: ChatSettings, defaults: Sampling | None) -> str:
    """Return a line about one setting: what holds for the next answers, and since when nothing else does."""
    words = name.replace("_", " ").capitalize()
    value = getattr(settings, name)
    if name == "system":
        return f"System prompt: {value}" if value else "No system prompt. /system TEXT sets one for this conversation."
    if value is not None:
        return f"{words} {value:g} in this conversation. 'auto' gives it back to the model."
    own = getattr(defaults, name, None)
    return f"{words}: the model's own" + (f", {own:g}." if own is not None else ".")
