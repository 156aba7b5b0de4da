"""Emits what foresees, for programs of one token: see `experts.pilot`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..board import Foreseer
from ..experts.couplings import DISTANCES
from ..experts.guesses import PairGuesses
from ..experts.pilot import SECOND, Foresight
from ..kernels import records as r
from ..kernels.formats import TAKES_FLOATS, takes
from .mixtures import Mixtures, mixture_record
from .writer import Writer

NextOf = dict[int, tuple[Foreseer, int]]
"""From a layer to what foresees the choices of which other."""

_GOES_BY = {Foreseer.ROUTER: "next_foreseen", Foreseer.PAIRS: "next_paired", Foreseer.BOTH: "both"}


@dataclass(frozen=True, slots=True)
class Ahead:
    """For programs of one token: mixtures foresee what the next ones will choose.

    by: stop at a mixture whose next one is expected, by this, to choose what is not in memory; NONE: do not stop.
    measure: foresee in every way there is, and two mixtures ahead, for the counters alone.
    """

    foresight: Foresight
    guesses: PairGuesses
    by: Foreseer
    measure: bool


def look_ahead(writer: Writer, parts: Mixtures, layer: int, ahead: Ahead) -> tuple[dict[str, Any], NextOf]:
    """Foresee what the next mixtures choose; returns what this one's own record says of it, and where it stops."""
    sight, moe = ahead.foresight, writer.spec.moe_layers
    found: dict[str, Any] = {}
    if ahead.measure or ahead.by in (Foreseer.ROUTER, Foreseer.BOTH):
        _apply_routers(writer, parts, layer, ahead, found)
    place = moe.index(layer)
    if place and layer - moe[place - 1] <= DISTANCES:
        found["paired"], found["paired_kept"] = sight.place(Foreseer.PAIRS, layer)
    if place + 1 == len(moe):
        return found, {}
    target = moe[place + 1]
    if target - layer <= DISTANCES:
        found |= _pair(writer, parts, layer, target, ahead)
    by = ahead.by
    if by == Foreseer.BOTH:
        if "next_foreseen" in found and "next_paired" in found:
            found["both"], found["both_kept"] = sight.place(by, target)
        else:
            by = Foreseer.ROUTER if "next_foreseen" in found else Foreseer.PAIRS
    if _GOES_BY.get(by) not in found:
        return found, {}
    found["ahead"], found["ahead_kept"] = sight.place(by, target)
    found["ahead_slots"] = parts.placement.slot_of[target].ctypes.data
    return found, {layer: (by, target)}


def _apply_routers(writer: Writer, parts: Mixtures, layer: int, ahead: Ahead, found: dict[str, Any]) -> None:
    """Apply the routers of the next mixtures to this one's input."""
    spec, sight, moe = writer.spec, ahead.foresight, writer.spec.moe_layers
    place = moe.index(layer)
    for distance, kind, name in ((1, Foreseer.ROUTER, "foreseen"), (2, SECOND, "foreseen2"))[: 1 + ahead.measure]:
        if place >= distance and _sees(writer, moe[place - distance]) and _sees(writer, layer):
            found[name], found[f"{name}_kept"] = sight.place(kind, layer)
        if place + distance >= len(moe) or not (_sees(writer, moe[place + distance]) and _sees(writer, layer)):
            continue
        target = moe[place + distance]
        mixture = spec.mixture(target)
        normed, logits = writer.rows("ahead_normed", spec.hidden), writer.rows("ahead_router", mixture.experts)
        writer.norm("post_norm", target, writer.rows("residual", spec.hidden), normed)
        writer.linear(writer.weights.matrix("router", target), normed, logits, scale=mixture.router.logit_scale)
        values = mixture_record(writer, parts, target)
        ids, kept = sight.place(kind, target)
        values |= {"logits": logits.address, "ids": ids, "kept": kept, "weights": sight.weights.ctypes.data}
        writer.emit(r.ROUTE, index=writer.record("mixtures", values))
        if distance == 1:
            found["next_foreseen"], found["next_foreseen_kept"] = ids, kept


def _pair(writer: Writer, parts: Mixtures, layer: int, target: int, ahead: Ahead) -> dict[str, Any]:
    """Go by who usually follows those that this mixture chose."""
    mixture, guesses = writer.spec.mixture(target), ahead.guesses
    ids, kept = ahead.foresight.place(Foreseer.PAIRS, target)
    return {
        "pair_ids": guesses.ids[layer].ctypes.data, "pair_weights": guesses.weights[layer].ctypes.data,
        "pair_base": guesses.base[layer].ctypes.data, "pair_rest": guesses.rest[layer].ctypes.data,
        "pair_known": guesses.known[layer:].ctypes.data, "next_experts": mixture.experts,
        "next_paired": ids, "next_paired_kept": kept,
        "next_top_k": min(mixture.router.top_k, parts.lossy.top_k or mixture.router.top_k),
    }  # fmt: skip


def _sees(writer: Writer, layer: int) -> bool:
    """Whether a mixture reads what its layer's second norm makes of the residual, with a router in float32."""
    norms, mixture = writer.spec.layers[layer].norms, writer.spec.mixture(layer)
    router = writer.weights.matrix("router", layer)
    return norms != "behind" and not mixture.apart and takes(router.fmt) == TAKES_FLOATS
