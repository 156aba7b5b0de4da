"""Emits what foresees, for programs of one token: see `experts.pilot`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..board import Foreseer
from ..experts.couplings import DISTANCES
from ..experts.guesses import PairGuesses
from ..experts.pilot import SECOND, Foresight
from ..kernels import records as r
from ..kernels.formats import is_packed

if TYPE_CHECKING:
    from .build import Builder, Lossy

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


def look_ahead(builder: Builder, layer: int, lossy: Lossy, ahead: Ahead) -> tuple[dict[str, Any], NextOf]:
    """Foresee what the next mixtures choose; returns what this one's own record says of it, and where it stops."""
    sight, moe = ahead.foresight, builder.spec.moe_layers
    found: dict[str, Any] = {}
    if ahead.measure or ahead.by in (Foreseer.ROUTER, Foreseer.BOTH):
        _apply_routers(builder, layer, lossy, ahead, found)
    place = moe.index(layer)
    if place and layer - moe[place - 1] <= DISTANCES:
        found["paired"], found["paired_kept"] = sight.place(Foreseer.PAIRS, layer)
    if place + 1 == len(moe):
        return found, {}
    target = moe[place + 1]
    if target - layer <= DISTANCES:
        found |= _pair(builder, layer, target, lossy, ahead)
    by = ahead.by
    if by == Foreseer.BOTH:
        if "next_foreseen" in found and "next_paired" in found:
            found["both"], found["both_kept"] = sight.place(by, target)
        else:
            by = Foreseer.ROUTER if "next_foreseen" in found else Foreseer.PAIRS
    if _GOES_BY.get(by) not in found:
        return found, {}
    found["ahead"], found["ahead_kept"] = sight.place(by, target)
    found["ahead_slots"] = builder.placement.slot_of[target].ctypes.data
    return found, {layer: (by, target)}


def _apply_routers(builder: Builder, layer: int, lossy: Lossy, ahead: Ahead, found: dict[str, Any]) -> None:
    """Apply the routers of the next mixtures to this one's input."""
    spec, sight, moe = builder.spec, ahead.foresight, builder.spec.moe_layers
    place = moe.index(layer)
    for distance, kind, name in ((1, Foreseer.ROUTER, "foreseen"), (2, SECOND, "foreseen2"))[: 1 + ahead.measure]:
        if place >= distance and _sees(builder, moe[place - distance]) and _sees(builder, layer):
            found[name], found[f"{name}_kept"] = sight.place(kind, layer)
        if place + distance >= len(moe) or not (_sees(builder, moe[place + distance]) and _sees(builder, layer)):
            continue
        target = moe[place + distance]
        mixture = spec.mixture(target)
        normed, logits = builder.rows("ahead_normed", spec.hidden), builder.rows("ahead_router", mixture.experts)
        builder.norm("post_norm", target, builder.rows("residual", spec.hidden), normed)
        builder.linear(builder.weights.matrix("router", target), normed, logits, scale=mixture.router.logit_scale)
        values = builder.mixture_record(target, mixture, lossy, builder.weights.experts.packed)
        ids, kept = sight.place(kind, target)
        values |= {"logits": logits.address, "ids": ids, "kept": kept, "weights": sight.weights.ctypes.data}
        builder.emit(r.ROUTE, index=builder.record("mixtures", values))
        if distance == 1:
            found["next_foreseen"], found["next_foreseen_kept"] = ids, kept


def _pair(builder: Builder, layer: int, target: int, lossy: Lossy, ahead: Ahead) -> dict[str, Any]:
    """Go by who usually follows those that this mixture chose."""
    mixture, guesses = builder.spec.mixture(target), ahead.guesses
    ids, kept = ahead.foresight.place(Foreseer.PAIRS, target)
    return {
        "pair_ids": guesses.ids[layer].ctypes.data, "pair_weights": guesses.weights[layer].ctypes.data,
        "pair_base": guesses.base[layer].ctypes.data, "pair_rest": guesses.rest[layer].ctypes.data,
        "pair_known": guesses.known[layer:].ctypes.data, "next_experts": mixture.experts,
        "next_paired": ids, "next_paired_kept": kept,
        "next_top_k": min(mixture.router.top_k, lossy.top_k or mixture.router.top_k),
    }  # fmt: skip


def _sees(builder: Builder, layer: int) -> bool:
    """Whether a mixture reads what its layer's second norm makes of the residual, with a router in float32."""
    norms, mixture = builder.spec.layers[layer].norms, builder.spec.mixture(layer)
    return norms != "behind" and not mixture.apart and not is_packed(builder.weights.matrix("router", layer).fmt)
