"""What an engine tells while it loads and while a turn runs.

Every event is a small frozen dataclass. `to_json` gives the objects that `colibri-tui run --json` prints, one a
line; the same dataclasses travel through the worker's pipe.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

StopReason = Literal["eos", "length", "user", "error"]


@dataclass(frozen=True, slots=True)
class Hits:
    """Where the experts of a turn were found, counted over distinct (layer, expert) per forward."""

    pin: int = 0
    cache: int = 0
    disk: int = 0

    @property
    def total(self) -> int:
        """All look-ups."""
        return self.pin + self.cache + self.disk

    @property
    def rate(self) -> float:
        """Share of look-ups that needed no read, 0..1; 0 when nothing was looked up."""
        return (self.pin + self.cache) / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The memory plan, in bytes: computed before anything large is allocated, shown, and obeyed.

    pins and cache are what the expert `slots` take: those for pinned experts, and all others (`cap` a layer, and a few
    for experts on their way through).
    """

    budget: int
    available: int
    dense: int
    kv: int
    runtime: int
    work: int
    cache: int
    free: int
    cap: int
    slots: int
    slot_bytes: int
    context: int
    chunk: int
    pins: int = 0

    @property
    def total(self) -> int:
        """What the process will hold at most."""
        return self.dense + self.kv + self.runtime + self.work + self.pins + self.cache


@dataclass(frozen=True, slots=True)
class Loading:
    """Progress before the model is ready. `stage` is a short phrase such as 'compiling kernels'."""

    event: ClassVar[str] = "loading"
    stage: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Ready:
    """The model is loaded. `layers` counts all layers; `moe_layers` lists those with a router."""

    event: ClassVar[str] = "ready"
    model: str
    family: str
    layers: int
    moe_layers: tuple[int, ...]
    experts: int
    top_k: int
    dense_bytes: int
    expert_bytes: int
    context: int
    plan: Plan


@dataclass(frozen=True, slots=True)
class Prefill:
    """`done` of `total` prompt tokens have been read (tokens kept from the last turn are not counted)."""

    event: ClassVar[str] = "prefill"
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Token:
    """One new token: what it adds to the answer, and to the reasoning before it.

    Both may be empty while a character is still incomplete, or for a control token.
    """

    event: ClassVar[str] = "token"
    id: int
    text: str
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """The sum of a turn. Times in seconds; `keff` is the mean number of experts a token used per layer."""

    event: ClassVar[str] = "turn"
    prompt_tokens: int
    tokens: int
    ttft_s: float
    prefill_s: float
    decode_s: float
    tok_s: float
    hits: Hits
    prefill_hits: Hits
    bytes_read: int
    keff: float
    stop: StopReason


@dataclass(frozen=True, slots=True)
class Repin:
    """Between turns, expert `in_` of a layer took the place of the pinned expert `out`, in `ms` milliseconds.

    The heats are how often each was chosen lately; older choices count less.
    """

    event: ClassVar[str] = "repin"
    layer: int
    out: int
    in_: int
    out_heat: int
    in_heat: int
    ms: float


@dataclass(frozen=True, slots=True)
class MemoryCurve:
    """What more or less memory for experts would do, going by the last tokens; asked for with `Engine.memory_curve`.

    caps: slots a layer, ascending. bytes: what experts take then, pinned ones included. rates: by policy ("min" is the
    optimum of a cache that knows the future), for each cap the share of decode look-ups that need no read. tok_s: the
    forecast with the present policy, None where nothing was measured that it could go by. cap, policy: the present
    ones. tokens: how many it goes by; 0 while there are too few, and everything else is empty then. layers: how many
    of the model's were replayed.
    """

    event: ClassVar[str] = "memory_curve"
    caps: tuple[int, ...]
    bytes: tuple[int, ...]
    rates: dict[str, tuple[float, ...]]
    tok_s: tuple[float | None, ...]
    cap: int
    policy: str
    tokens: int
    layers: int


@dataclass(frozen=True, slots=True)
class Counted:
    """A text that somebody asked about, by their number, has so many tokens."""

    event: ClassVar[str] = "counted"
    number: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the person should know; never an error that ends the turn."""

    event: ClassVar[str] = "notice"
    text: str


@dataclass(frozen=True, slots=True)
class State:
    """A conversation's state was saved to a file, or loaded from one: so many tokens, the file's bytes.

    path: the file. error: one line when that failed, '' otherwise.
    """

    event: ClassVar[str] = "state"
    done: Literal["saved", "loaded"]
    path: str
    tokens: int = 0
    nbytes: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class HistoryUsed:
    """The engine learns into another history from now on; so many choices of experts were learned there before."""

    event: ClassVar[str] = "history"
    selections: int


Event = Loading | Ready | Prefill | Token | Turn | Repin | MemoryCurve | Notice | State | HistoryUsed | Counted


def to_json(event: Event) -> dict[str, Any]:
    """Return the event as the JSON object of the command line contract, `event` first.

    A token has a field `reasoning` only if it brings some.
    """
    fields = {name.removesuffix("_"): value for name, value in asdict(event).items()}
    if isinstance(event, Token) and not event.reasoning:
        del fields["reasoning"]
    return {"event": event.event, **fields}
