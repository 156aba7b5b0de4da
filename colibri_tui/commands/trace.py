"""`colibri-tui trace`: what a route trace (`--route-trace FILE`) says, and what another cache would have made of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console
from rich.table import Table

from engine.errors import EngineError
from engine.files import reason

from ..render.clean import clean
from .options import debug_option
from .output import Progress

if TYPE_CHECKING:
    from engine.experts.simulator import Outcome
    from engine.experts.trace_reader import Lines, TraceReader

OPTIMUM: Final = "min"
"""Stands for Belady's optimum among the policies."""

CAP_SHARES: Final = (1 / 8, 1 / 4, 3 / 8, 1 / 2, 3 / 4)
"""Sizes that are tried unless `--cap` names others, in shares of a layer's experts."""

_file = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
_json = click.option("--json", "as_json", is_flag=True, help="print one JSON object")


@click.group()
def trace() -> None:
    """Study a route trace, as `--route-trace FILE` writes it."""


@trace.command()
@_file
@click.option("--cap", "caps", metavar="N,N,...", help="cache slots a layer  [default: a few shares of its experts]")
@click.option("--policy", "policies", metavar="NAME,NAME,...", help="policies to try  [default: all]")
@click.option("--per-layer", is_flag=True, help="print every layer apart")
@_json
@debug_option
def simulate(file: Path, caps: str | None, policies: str | None, per_layer: bool, as_json: bool) -> None:
    """Replay FILE through caches of several sizes and policies.

    The hit rates are what the engine would have counted, over the distinct experts of every forward and layer. MIN is
    the optimum of a cache that knows the future.
    """
    from engine.experts.policies import POLICIES
    from engine.experts.simulator import replay_all
    from engine.experts.trace_reader import TraceReader, read_layers

    names = _names(policies, [*POLICIES, OPTIMUM])
    sizes = _sizes(caps)
    progress = Progress(sys.stderr)
    reader = TraceReader(file)
    layers = read_layers(_shown(reader, progress))
    sizes = sizes or _default_sizes(max(layer.experts for layer in layers.values()))
    outcomes: dict[tuple[int, str, int], Outcome] = {}
    for done, (index, layer) in enumerate(layers.items()):
        progress.show("replaying", done, len(layers))
        outcomes |= replay_all({index: layer}, list(dict.fromkeys([*names, "lru", OPTIMUM])), sizes)
    progress.clear()
    _complain(reader)
    groups: dict[int | None, list[int]] = {layer: [layer] for layer in layers} if per_layer else {None: list(layers)}
    results = [row for layer, members in groups.items() for row in _results(outcomes, layer, members, names, sizes)]
    if as_json:
        click.echo(json.dumps({"trace": str(file), "lines": reader.lines, "malformed": reader.malformed,
                               "layers": list(layers), "results": results}))  # fmt: skip
    else:
        for group in groups:
            title = "all layers" if group is None else f"layer {group}"
            _show_results(title, [row for row in results if row["layer"] == group], names)


@trace.command()
@_file
@_json
@debug_option
def stats(file: Path, as_json: bool) -> None:
    """Tell how FILE's experts are used, layer by layer, and how well their use could have been foreseen."""
    from engine.experts.lookahead import Lookahead
    from engine.experts.trace_reader import TraceReader, whole_forwards
    from engine.experts.trace_stats import TraceStats

    progress = Progress(sys.stderr)
    reader, gathered, lookahead = TraceReader(file), TraceStats(), Lookahead()
    for lines in whole_forwards(_shown(reader, progress)):
        gathered.add(lines)
        lookahead.add(lines)
    progress.clear()
    _complain(reader)
    recall = {
        "previous_token": lookahead.previous_token,
        "one_layer_on": lookahead.layers_on(1),
        "two_layers_on": lookahead.layers_on(2),
    }
    rows = [
        {
            "layer": index, "tokens": layer.tokens, "forwards": layer.forwards, "prefills": layer.prefills,
            "experts_a_token": layer.choices / layer.tokens, "experts_used": layer.used, "entropy": layer.entropy,
            "top_quarter": layer.top_quarter,
        }
        for index, layer in sorted(gathered.layers.items())
    ]  # fmt: skip
    if as_json:
        click.echo(json.dumps({"trace": str(file), "lines": reader.lines, "malformed": reader.malformed,
                               "recall": recall, "layers": rows}))  # fmt: skip
        return
    heads = ("layer", "tokens", "forwards", "prefills", "experts a token", "experts used", "entropy", "top quarter")
    table = _table("use of experts", heads)
    for row in rows:
        cells = [f"{value:.3f}" if isinstance(value, float) else f"{value:,}" for value in row.values()]
        table.add_row(*cells)
    Console().print(table)
    for name, share in recall.items():
        if share is not None:
            click.echo(f"{name.replace('_', ' ')}: {100 * share:.1f} % of the experts foreseen")


@trace.command()
@_file
@_json
@debug_option
def coverage(file: Path, as_json: bool) -> None:
    """Tell how many experts FILE's choices take: for a share of all choices, and for its first tokens."""
    from engine.experts.trace_reader import TraceReader
    from engine.experts.trace_stats import COVERED, TraceStats

    progress = Progress(sys.stderr)
    reader, gathered = TraceReader(file), TraceStats()
    for lines in _shown(reader, progress):
        gathered.add(lines)
    progress.clear()
    _complain(reader)
    layers = sorted(gathered.layers.items())
    known = sum(len(layer.counts) for _, layer in layers)
    tokens = max(layer.tokens for _, layer in layers)
    steps = [step for step in (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536) if step < tokens] + [tokens]
    touched = {step: sum(layer.touched(step) for _, layer in layers) / known for step in steps}
    cover = {index: {share: layer.cover(share) for share in COVERED} for index, layer in layers}
    if as_json:
        click.echo(json.dumps({"trace": str(file), "lines": reader.lines, "malformed": reader.malformed,
                               "experts": {index: len(layer.counts) for index, layer in layers},
                               "cover": cover, "touched": touched}))  # fmt: skip
        return
    table = _table("experts for a share of the choices", ("layer", "experts", *(f"{100 * s:g} %" for s in COVERED)))
    for index, layer in layers:
        table.add_row(str(index), str(len(layer.counts)), *(str(count) for count in cover[index].values()))
    Console().print(table)
    table = _table("experts chosen at least once", ("tokens", "share of all experts"))
    for step, share in touched.items():
        table.add_row(f"{step:,}", f"{100 * share:.1f} %")
    Console().print(table)


@trace.command()
@_file
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="where to write  [default: .coli_pairs beside the trace]")  # fmt: skip
@debug_option
def pairs(file: Path, out: Path | None) -> None:
    """Write which expert follows which in FILE, as colibrì's .coli_pairs."""
    from engine.experts.pairs import write_pairs
    from engine.experts.trace_reader import TraceReader

    progress = Progress(sys.stderr)
    reader = TraceReader(file)
    target = out or file.with_name(".coli_pairs")
    try:
        lines = write_pairs(_shown(reader, progress), target)
    except OSError as error:
        raise EngineError(f"{target}: cannot be written ({reason(error)})") from error
    finally:
        progress.clear()
    _complain(reader)
    click.echo(f"{target}: {lines:,} experts with their followers")


def _shown(reader: TraceReader, progress: Progress) -> Iterator[Lines]:
    """Read, and show how far it is."""
    for lines in reader:
        progress.show("reading the trace", reader.position, reader.size)
        yield lines


def _complain(reader: TraceReader) -> None:
    for complaint in reader.complaints:
        click.echo(clean(complaint), err=True)
    if reader.malformed > len(reader.complaints):
        click.echo(f"{reader.malformed - len(reader.complaints):,} more malformed lines were skipped", err=True)


def _names(text: str | None, known: Sequence[str]) -> list[str]:
    names = list(dict.fromkeys(text.lower().split(","))) if text else list(known)
    for name in names:
        if name not in known:
            raise click.UsageError(f"--policy {name!r} is none of {', '.join(known)}")
    return names


def _sizes(text: str | None) -> list[int]:
    if text is None:
        return []
    try:
        sizes = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise click.UsageError(f"--cap {text!r}: expected whole numbers separated by commas") from None
    if sizes[0] < 1:
        raise click.UsageError(f"--cap {text!r}: a cache has at least one slot")
    return sizes


def _default_sizes(experts: int) -> list[int]:
    return sorted({max(1, round(share * experts)) for share in CAP_SHARES})


def _results(
    outcomes: dict[tuple[int, str, int], Outcome],
    layer: int | None,
    members: list[int],
    names: list[str],
    caps: list[int],
) -> Iterator[dict[str, Any]]:
    """One result for each size and policy, summed over some layers."""
    from engine.experts.simulator import NOTHING, gap_share

    for cap in caps:
        lru, best = (sum((outcomes[member, name, cap] for member in members), NOTHING) for name in ("lru", OPTIMUM))
        for name in names:
            outcome = sum((outcomes[member, name, cap] for member in members), NOTHING)
            yield {
                "layer": layer, "cap": cap, "policy": name, **outcome._asdict(), "decode_rate": outcome.rate,
                "prefill_rate": outcome.prefill_rate, "rate": outcome.total_rate,
                "gap_share": gap_share(outcome, lru, best),
            }  # fmt: skip


def _show_results(title: str, results: list[dict[str, Any]], names: list[str]) -> None:
    rates = _table(f"{title}: hits, % of all look-ups", ("slots a layer", *names))
    shares = _table(f"{title}: share of the way from lru to the optimum, %", ("slots a layer", *names))
    for cap in dict.fromkeys(row["cap"] for row in results):
        here = {row["policy"]: row for row in results if row["cap"] == cap}
        rates.add_row(str(cap), *(f"{100 * here[name]['rate']:.1f}" for name in names))
        gaps = [here[name]["gap_share"] for name in names]
        shares.add_row(str(cap), *("-" if gap is None else f"{100 * gap:.1f}" for gap in gaps))
    Console().print(rates)
    Console().print(shares)


def _table(title: str, heads: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for head in heads:
        table.add_column(head, justify="right")
    return table
