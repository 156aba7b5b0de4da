"""What a conversion says when it is done: how matrices are kept, why, and how far the result is from its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from ..render.clean import clean

if TYPE_CHECKING:
    from engine.convert.check import Quality

PARTS: Final = {"gate, up": "experts' gate and up", "down": "experts' down"}
"""Names of a record's notes on experts, and what they are called here; the rest is dense."""

Notes = Mapping[str, Mapping[str, Any]]


def _notes(record: Mapping[str, Any]) -> Iterator[tuple[str, Notes]]:
    """(kind-layer, notes) of each file of a record."""
    for file, said in record["files"].items():
        yield file.removesuffix(".safetensors"), said["matrices"]


def choices(record: Mapping[str, Any]) -> Iterator[str]:
    """A line for each kind of matrix and way of keeping it: how many, what it costs, what others would have cost."""
    kinds: dict[str, list[Mapping[str, Any]]] = {title: [] for title in (*PARTS.values(), "dense matrices")}
    for _, notes in _notes(record):
        for name, note in notes.items():
            kinds[PARTS.get(name, "dense matrices")].append(note)
    for kind, of_kind in kinds.items():
        for way in sorted({note["kept"] for note in of_kind}):
            kept = [note for note in of_kind if note["kept"] == way]
            yield f"  {kind}: {len(kept)} of {len(of_kind)} {_title(way)}, {_reason(way, kept)}"


def _title(way: str) -> str:
    """ "int4/32" -> "int4 in groups of 32"."""
    bits, _, group = way.partition("/")
    return f"{bits} in groups of {group}" if group else bits


def _reason(way: str, kept: list[Mapping[str, Any]]) -> str:
    """What it costs, and what the other ways would have cost, on average."""
    others: dict[str, list[float]] = {}
    for note in kept:
        for name, cost in note["tried"].items():
            if name != way:
                others.setdefault(name, []).append(cost)
    told = [f"{name} would be {_mean(costs)}" for name, costs in others.items()]
    if way != "float16":
        told.insert(0, f"error {_mean([note['error'] for note in kept])}")
    return ", ".join(told)


def _mean(costs: list[float]) -> str:
    return f"{sum(costs) / len(costs):.1%}"


def show_quality(quality: Quality, record: Mapping[str, Any]) -> None:
    """Print how far the container is from its source, and what rounding cost in each layer."""
    from rich.console import Console
    from rich.table import Table

    before, after = quality.perplexity
    console = Console(highlight=False)
    console.print(
        f"\nagainst the source, over {quality.positions:,} positions of the shipped texts:\n"
        f"  divergence (KL)   {quality.kl:.4f} nats on average, {quality.kl_95:.4f} for the worst twentieth\n"
        f"  same first choice {quality.agreement:.1%}\n"
        f"  perplexity        {after:.2f}, the source's is {before:.2f}\n"
    )
    table = Table(box=None, padding=(0, 1))
    for title in ("layer", "gate and up", "down", "dense, worst tensor"):
        table.add_column(title, justify="right")
    layers: dict[str, dict[str, str]] = {}
    for file, notes in _notes(record):
        layer = file.partition("-")[2]
        row = layers.setdefault(layer.lstrip("0") or "0" if layer.isdigit() else clean(layer), {})
        row |= {name: _cell(notes[name]) for name in PARTS if name in notes}
        dense = [note for name, note in notes.items() if name not in PARTS and note["kept"] != "float16"]
        if dense:
            row["dense"] = _cell(max(dense, key=lambda note: note["error"]))
    for layer, cells in layers.items():
        table.add_row(layer, *(cells.get(name, "") for name in (*PARTS, "dense")))
    console.print("error of rounding, relative to the weights (empty: kept as floats)")
    console.print(table)


def _cell(note: Mapping[str, Any]) -> str:
    return f"{note['kept']} {note['error']:.2%}"
