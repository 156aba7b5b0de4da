"""What a new profile is taken through: a few typical prompts, then whether pins help on others like them.

Some prompts of a workload are answered, and the history learns from them. The others are held out: they are answered
twice, with pins off and on, without learning, greedily, so that both times the same tokens ask for the same experts.
How far that has come is kept beside the history, so that it can be left at any point.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from colibri_tui.profiles import usage_path
from colibri_tui.render.units import rate, size
from colibri_tui.sample_texts import PROMPTS_FOLDER
from engine.errors import EngineError
from engine.events import Turn
from engine.files import reason, replace_file

Stage = Literal["learn", "off", "on", "done"]

HELD_OUT_EVERY: Final = 4
"""Every so many-th prompt is held out."""
LEARN_TOKENS: Final = 96
MEASURE_TOKENS: Final = 48
"""Tokens of an answer, at most."""
OWN: Final = "your own"
WORKLOADS: Final = {
    "coding": "writing and mending programs",
    "chat": "questions and conversation",
    "multilingual": "several languages",
    "long-context": "questions about long texts",
}
_PROMPT_MAX: Final = 20_000
_PROMPTS_MAX: Final = 64


@dataclass(slots=True)
class Totals:
    """What the held-out prompts took, one way: look-ups by place, bytes read, tokens and seconds of the answers."""

    pin: int = 0
    cache: int = 0
    disk: int = 0
    bytes_read: int = 0
    tokens: int = 0
    seconds: float = 0.0
    pinned_bytes: int = 0

    def add(self, turn: Turn) -> None:
        """Count a turn in."""
        for hits in (turn.hits, turn.prefill_hits):
            self.pin += hits.pin
            self.cache += hits.cache
            self.disk += hits.disk
        self.bytes_read += turn.bytes_read
        self.tokens += turn.tokens
        self.seconds += turn.decode_s

    @property
    def from_memory(self) -> float:
        """Share of look-ups that needed no read, 0..1."""
        total = self.pin + self.cache + self.disk
        return (self.pin + self.cache) / total if total else 0.0

    @property
    def tok_s(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds if self.seconds else 0.0


@dataclass(slots=True)
class Practice:
    """How far a profile has come. learned: how many of `prompts` were answered. off, on: the measurements so far."""

    workload: str
    prompts: list[str]
    held_out: list[str]
    learned: int = 0
    off: Totals | None = None
    on: Totals | None = None

    @property
    def stage(self) -> Stage:
        """What comes next."""
        if self.learned < len(self.prompts):
            return "learn"
        return "off" if self.off is None else "on" if self.on is None else "done"

    def skip(self) -> None:
        """Learn from no more prompts."""
        self.learned = len(self.prompts)


def begin(workload: str, own: str = "") -> Practice:
    """Begin with a workload that comes with the program, or with a person's own prompts, one a paragraph.

    Raises EngineError when there are too few of them, or too long ones.
    """
    if workload == OWN:
        prompts = [part.strip() for part in re.split(r"\n\s*\n", own) if part.strip()]
        if len(prompts) < 2:
            raise EngineError("write at least two prompts, with an empty line between them: one is held out")
        if len(prompts) > _PROMPTS_MAX or max(map(len, prompts)) > _PROMPT_MAX:
            raise EngineError(f"at most {_PROMPTS_MAX} prompts of {_PROMPT_MAX:,} characters are taken")
    else:
        files = sorted((PROMPTS_FOLDER / workload).glob("*.txt"))
        prompts = [file.read_text(encoding="utf-8").strip() for file in files]
    every = min(HELD_OUT_EVERY, len(prompts))
    held_out = prompts[every - 1 :: every]
    return Practice(workload, [prompt for prompt in prompts if prompt not in held_out], held_out)


def path_for(profile: str, key: str) -> Path:
    """Return where the practice of a profile with a model is kept."""
    return usage_path(profile, key).with_name("practice.json")


def save(path: Path, practice: Practice) -> None:
    """Keep how far it has come. Raises EngineError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(asdict(practice)).encode(), path.with_name(f"{path.name}.new"))
    except OSError as error:
        raise EngineError(f"{path}: cannot be written ({reason(error)})") from error


def load(path: Path) -> Practice | None:
    """Return how far it had come; None if it was never begun, or what is there is not understood."""
    try:
        stored: Any = json.loads(path.read_bytes())
        practice = Practice(
            str(stored["workload"]),
            [str(prompt) for prompt in stored["prompts"]],
            [str(prompt) for prompt in stored["held_out"]],
            int(stored["learned"]),
            _totals(stored["off"]),
            _totals(stored["on"]),
        )
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return practice if practice.held_out and practice.learned >= 0 else None


def _totals(stored: Any) -> Totals | None:
    if stored is None:
        return None
    return Totals(**{name: type(default)(stored[name]) for name, default in asdict(Totals()).items()})


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came out: `helps` is whether fewer experts were read with pins; words for the reader, a line each."""

    helps: bool
    lines: Sequence[str] = field(default_factory=tuple)


def _row(name: str, off: str, on: str) -> str:
    return f"{name:12}{off:>11}{on:>12}"


def verdict(off: Totals, on: Totals) -> Verdict:
    """Say what the measurement shows, as it is."""
    if not on.pinned_bytes:
        return Verdict(False, ("Nothing would be pinned: the history is still too small for the memory there is.",))
    fewer = 1 - on.disk / off.disk if off.disk else 0.0
    lines = [
        f"Pins take {size(on.pinned_bytes)} of the expert cache's memory. One run each way:",
        "",
        _row("", "without", "with pins"),
        _row("From memory", f"{100 * off.from_memory:.1f} %", f"{100 * on.from_memory:.1f} %"),
        _row("Experts read", f"{off.disk:,}", f"{on.disk:,}"),
        _row("Speed", rate(off.tok_s), rate(on.tok_s)),
        "",
    ]
    if not off.disk and not on.disk:
        lines.append("Everything fits into memory: pins change nothing here.")
    elif fewer > 0:
        lines.append(f"On prompts it has not seen, this profile reads {100 * fewer:.1f} % fewer experts with pins.")
    elif fewer == 0:
        lines.append("On prompts it has not seen, pins make no difference.")
    else:
        lines.append(f"On prompts it has not seen, pins make it worse: {-100 * fewer:.1f} % more experts are read.")
    return Verdict(fewer > 0, tuple(lines))
