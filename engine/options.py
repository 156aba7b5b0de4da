"""Every knob of the engine, once: default, range, environment name, flag, and whether it changes answers.

`EngineOptions` has one field per knob. The command line, the settings file and the settings screen are built
from `KNOBS`; nothing else lists options.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal

from .errors import EngineError


@dataclass(frozen=True, slots=True)
class Knob:
    """One option. `kind` is how its text is read; `low`/`high` bound numbers, inclusive; None = unbounded."""

    name: str
    kind: Literal["int", "float", "bool", "path", "choice"]
    help: str
    env: str | None = None
    low: float | None = None
    high: float | None = None
    auto: bool = False  # the word "auto" is allowed and is the default
    lossy: bool = False  # changes what the model answers: marked wherever it is shown
    choices: tuple[str, ...] = ()  # all there are for a choice; for a path, words that are none
    unlimited: str = ""  # for a number, the word that means infinity

    @property
    def flag(self) -> str:
        """The long command line flag."""
        return "--" + self.name.replace("_", "-")

    def parse(self, text: str, where: str) -> Any:
        """Read the value from text; `where` names its origin in the error.

        Raises EngineError when the text is not a value of this knob.
        """
        word = text.lower()
        if self.auto and word == "auto":
            return None
        if self.unlimited and word == self.unlimited:
            return math.inf
        if self.kind == "path" and word in self.choices:
            return word
        try:
            value: Any = _PARSERS[self.kind](text)
        except ValueError:
            raise EngineError(f"{where}: {text!r} is not {_ARTICLE[self.kind]} for {self.flag}") from None
        return self.check(value, where)

    def check(self, value: Any, where: str) -> Any:
        """Return the value if it lies in range, else raise EngineError."""
        if value is None or self.kind in ("bool", "path"):
            return value
        if self.kind == "choice":
            if value not in self.choices:
                raise EngineError(f"{where}: {self.flag} {value} is none of {', '.join(self.choices)}")
            return value
        if (
            value != value
            or (self.low is not None and value < self.low)
            or (self.high is not None and value > self.high)
        ):
            low = "" if self.low is None else f"{self.low:g}"
            high = "" if self.high is None else f"{self.high:g}"
            raise EngineError(f"{where}: {self.flag} {value:g} is outside {low}..{high}")
        return value


_ARTICLE = {"int": "a whole number", "float": "a number", "bool": "yes or no"}


def parse_bool(text: str) -> bool:
    """Read yes or no. Raises ValueError."""
    word = text.strip().lower()
    if word in ("1", "yes", "true", "on"):
        return True
    if word in ("0", "no", "false", "off", ""):
        return False
    raise ValueError(text)


_PARSERS: dict[str, Callable[[str], Any]] = {
    "int": int, "float": float, "bool": parse_bool, "path": str, "choice": str.lower,
}  # fmt: skip

KNOBS: tuple[Knob, ...] = (
    Knob("ram", "float", "memory budget in GB for everything the engine holds", "RAM_GB", 0.05, 1e6, auto=True),
    Knob("cap", "int", "cache slots per layer, one expert each", None, 1, 65536, auto=True),
    Knob("context", "int", "context window in tokens", "CTX", 16, 10_000_000, auto=True),
    Knob(
        "kv",
        "choice",
        "numbers of the conversation's cache; auto: f16 for converted models, else f32",
        None,
        auto=True,
        choices=("f32", "f16"),
    ),
    Knob("threads", "int", "compute threads", None, 1, 256, auto=True),
    Knob(
        "topp", "float", "keep the experts that carry this share of the router's weight", "TOPP", 0.01, 1.0, lossy=True
    ),
    Knob("topk", "int", "use at most this many experts a token and layer", "TOPK", 1, 1024, lossy=True),
    Knob("direct", "bool", "read experts past the page cache (O_DIRECT); buffered where the disk refuses", "DIRECT"),
    Knob("usage", "path", "learned history to start from and to save to (.coli_usage)", "COLI_USAGE"),
    Knob("learn", "bool", "save what was used to the history after every turn", "USAGE_SAVE"),
    Knob(
        "usage_decay",
        "float",
        "what every save multiplies the history's counts by, so that old habits fade; 1: nothing fades",
        "COLI_USAGE_DECAY",
        1e-6,
        1.0,
    ),
    Knob("warm", "bool", "begin with what the history ranks highest in the cache, or with all experts if they fit"),
    Knob(
        "policy",
        "choice",
        "who stays in the expert cache; auto: learns in every layer how far back to look",
        None,
        auto=True,
        choices=("lru", "lfu", "lfuda", "lfru", "s3fifo", "clock", "streak"),
    ),
    Knob(
        "pin",
        "path",
        "experts kept in memory from the start: none, those the history ranks highest, or another's",
        "PIN",
        choices=("off", "auto"),
    ),
    Knob("pin_gb", "float", "memory for pinned experts", "PIN_GB", 0, auto=True, unlimited="all"),
    Knob(
        "repin",
        "int",
        "tokens after which pinned experts that went cold make room for hot ones; 0: never",
        "REPIN",
        0,
        1_000_000_000,
    ),
    Knob("template", "path", "chat template to use instead of the model's own, a Jinja file"),
    Knob(
        "pilot",
        "bool",
        "look one layer ahead and read what it will need, where a trial while answering shows that this saves time",
        "PILOT",
    ),
    Knob(
        "pilot_by",
        "choice",
        "what look-ahead goes by: the next layer's router, pairs of experts that were learned (.coli_pairs), or both; "
        "auto: whichever the trial finds fastest",
        None,
        auto=True,
        choices=("router", "pairs", "both"),
    ),
    Knob("looka", "bool", "measure how well experts can be foreseen one and two layers ahead; reads nothing", "LOOKA"),
    Knob("route_trace", "path", "write every routing decision to this file", "ROUTE_TRACE"),
)

KNOB = {knob.name: knob for knob in KNOBS}


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How a model is opened. None means: chosen by the engine, and reported in the plan."""

    ram: float | None = None
    cap: int | None = None
    context: int | None = None
    kv: str | None = None
    threads: int | None = None
    topp: float | None = None
    topk: int | None = None
    direct: bool = True
    usage: str | None = None
    learn: bool = True
    usage_decay: float | None = None
    warm: bool = True
    policy: str | None = None
    pin: str = "off"
    pin_gb: float | None = None
    repin: int = 0
    pilot: bool = True
    pilot_by: str | None = None
    looka: bool = False
    template: str | None = None
    route_trace: str | None = None
    history: str | None = None  # where a profile keeps its history: used when no person names a file (`usage`)

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name in KNOB:
                KNOB[field.name].check(getattr(self, field.name), "option")


@dataclass(frozen=True, slots=True)
class Lossy:
    """Routing as a person has limited it: fewer experts than the config, or only those that carry `top_p`."""

    top_k: int | None = None
    top_p: float | None = None
