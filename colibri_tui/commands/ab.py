"""`colibri-tui ab`: does what was learned help with prompts that it was not learned from?"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ..lab_data import MATRIX_NAME, write_matrix
from ..launch import launch
from .completion import model_names
from .model import model_folder
from .options import EngineCommand, Program, debug_option, engine_options_but, given_flags, profile_option
from .output import Progress

if TYPE_CHECKING:
    from engine.engine import Engine
    from engine.lab.limits import Cost
    from engine.lab.matrix import Matrix
    from engine.lab.prompts import Workload
    from engine.lab.recording import Recording
    from engine.lab.replays import Room
    from engine.lab.rivals import Contest
    from engine.options import Lossy

PROMPTS: Final = Path(__file__).parent.parent / "data" / "prompts"
"""The set that is shipped: a folder for each workload."""

REPLAYED: Final = ("policy", "pin", "repin", "usage", "usage_decay", "learn", "warm", "route_trace")
"""Engine options that have no say here: what they decide is what is compared, or nothing is learned."""

_MB: Final = 1e6


@click.command(cls=EngineCommand)
@click.argument("model", shell_complete=model_names)
@click.option(
    "--prompts",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=PROMPTS,
    metavar="DIR",
    help="prompts, a folder for each workload  [default: those that are shipped]",
)
@click.option("--tokens", type=click.IntRange(2, 4096), default=64, show_default=True, help="tokens a reply")
@click.option("--policy", "policies", metavar="NAME|all", default="auto", show_default=True,
              help="the cache policy; all: compare the policies instead")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
@profile_option
@engine_options_but(*REPLAYED)
@debug_option
@click.pass_context
def ab(
    ctx: click.Context, model: str, prompts: Path, tokens: int, policies: str, as_json: bool, profile: str | None
) -> None:
    """Learn from half of the prompts of each workload, and measure with the other half.

    Every prompt is answered once, greedily; what other caches and pins would have found is replayed with the engine's
    own placement code, which counts exactly as a run would. No history is read or written, except that the profile's
    own history is compared too if it knows the model.

    The lab in the application shows the last matrix.

    With --topk or --topp: what these cost and save, against the exact answers.
    """
    from engine.opening import compile_first

    known = _policies(policies)
    folder = model_folder(model)
    progress = Progress(sys.stderr)
    compile_first(folder, progress.loading)
    from engine.engine import Engine
    from engine.lab.prompts import read_workloads
    from engine.options import Lossy

    workloads = read_workloads(prompts)
    flags = given_flags(ctx)
    lossy = [Lossy(flags.get("topk") and int(flags["topk"]), flags.get("topp") and float(flags["topp"]))]
    if lossy[0].top_k and lossy[0].top_p:
        lossy = [Lossy(lossy[0].top_k), Lossy(None, lossy[0].top_p), *lossy]
    start = launch(ctx.ensure_object(Program).factory, flags, profile=profile, model=folder)
    options, _ = start.options_for(folder)
    history = Path(options.history or "")
    exact = replace(options, topk=None, topp=None, pin="off", learn=False, usage=None, history=None, repin=0,
                    route_trace=None)  # fmt: skip
    with closing(Engine.open(folder, exact, progress=progress.loading)) as engine:
        room = _room(engine)
        found: dict[str, Any] = {"model": engine.info.model, "cap": room.cap(0), "slots": room.slots,
                                 "expert_bytes": room.expert_bytes, "tokens": tokens}  # fmt: skip
        if lossy[0] != Lossy():
            costs = _limits(engine, workloads, tokens, lossy, room, known[0], progress)
            progress.clear()
            _put(as_json, {**found, "limits": [{**asdict(cost), "saved": cost.saved} for cost in costs]},
                 lambda: _show_costs(costs))  # fmt: skip
            return
        training, held_out = _record(engine, workloads, tokens, progress)
        found["workloads"] = {
            work.name: {
                "training": [prompt.name for prompt in work.training],
                "held_out": [prompt.name for prompt in work.held_out],
                "tokens_trained": training[work.name].tokens, "tokens_measured": held_out[work.name].tokens,
            }
            for work in workloads
        }  # fmt: skip
        progress.show("replaying", 0, 0)
        if len(known) > 1:
            result = _contest(room, known, held_out)
            progress.clear()
            _put(as_json, {**found, **asdict(result)}, lambda: _show_contest(result))
            return
        matrix = _matrix(engine, room, known[0], training, held_out, start.profile, history)
        progress.clear()
        found |= {"policy": known[0], **asdict(matrix)}
        if options.history:
            write_matrix(history.with_name(MATRIX_NAME), found)
        _put(as_json, found, lambda: _show_matrix(matrix, known[0]))


def _policies(text: str) -> list[str]:
    from engine.experts.policies import POLICIES

    if text.lower() == "all":
        return list(POLICIES)
    if text.lower() not in POLICIES:
        raise click.UsageError(f"--policy {text!r} is none of all, {', '.join(POLICIES)}")
    return [text.lower()]


def _room(engine: Engine) -> Room:
    from engine.lab.replays import Room

    plan, spec = engine.info.plan, engine.spec
    slots = plan.cap * len(spec.moe_layers)
    return Room(slots, spec.moe_layers, spec.experts, spec.top_k, engine.info.expert_bytes)


def _record(
    engine: Engine, workloads: list[Workload], tokens: int, progress: Progress
) -> tuple[dict[str, Recording], dict[str, Recording]]:
    """Answer every prompt once; returns what was recorded, to learn from and to measure with, by workload."""
    from engine.lab.prompts import ids_of
    from engine.lab.recording import join, record_turn

    total, done = sum(len(work.training) + len(work.held_out) for work in workloads), 0
    parts: list[dict[str, Recording]] = [{}, {}]
    for work in workloads:
        for part, prompts in zip(parts, (work.training, work.held_out), strict=True):
            turns = []
            for prompt in prompts:
                progress.show(f"answering {prompt.name}", done, total)
                turns.append(record_turn(engine, ids_of(engine, prompt, tokens), tokens)[0])
                done += 1
            part[work.name] = join(turns)
    return parts[0], parts[1]


def _matrix(
    engine: Engine,
    room: Room,
    policy: str,
    training: dict[str, Recording],
    held_out: dict[str, Recording],
    profile: str,
    history: Path,
) -> Matrix:
    from engine.experts.usage import read_usage
    from engine.lab.matrix import EVERYTHING, compare

    layers, experts = len(engine.spec.layers), engine.spec.experts
    learned = {name: recording.counts(layers, experts) for name, recording in training.items()}
    if len(learned) > 1:
        learned[EVERYTHING] = sum(learned.values())  # type: ignore[assignment]
    usage = read_usage(history, layers, experts, engine.model_type, frozenset(engine.spec.moe_layers))
    if usage.total:
        learned[f"your {profile}"] = usage.counts[:layers]
    return compare(room, policy, learned, held_out)


def _contest(room: Room, policies: list[str], held_out: dict[str, Recording]) -> Contest:
    from engine.lab.rivals import contest

    return contest(room, policies, held_out)


def _limits(
    engine: Engine,
    workloads: list[Workload],
    tokens: int,
    lossy: list[Lossy],
    room: Room,
    policy: str,
    progress: Progress,
) -> list[Cost]:
    from engine.lab.limits import cost_of, judge_prompt
    from engine.lab.prompts import ids_of

    prompts = [prompt for work in workloads for prompt in work.held_out]
    judged = []
    for done, prompt in enumerate(prompts):
        progress.show(f"judging {prompt.name}", done, len(prompts))
        judged.append(judge_prompt(engine, ids_of(engine, prompt, tokens), tokens, lossy, room, policy))
    return [cost_of(limit, [replies[place] for replies in judged]) for place, limit in enumerate(lossy)]


def _put(as_json: bool, found: dict[str, Any], show: Any) -> None:
    if as_json:
        click.echo(json.dumps(found))
    else:
        show()


def _show_matrix(matrix: Matrix, policy: str) -> None:
    workloads = list(matrix.cold)
    table = _table("learned from", *workloads, "pins", "slots a layer", "first turns, warm")
    table.title = f"hits on held-out prompts, % of all look-ups, policy {policy} (in brackets: what pins change)"
    cold = [f"{100 * matrix.cold[work].rate:.1f}" for work in workloads]
    table.add_row("nothing", *cold, "", str(matrix.cap), "")
    for profile in matrix.profiles:
        cells = [f"{100 * cell.off.rate:.1f} ({100 * cell.gain:+.1f})" for cell in profile.cells]
        table.add_row(profile.name, *cells, f"{profile.pins:,}", str(profile.cap), f"{100 * profile.warmth:+.1f}")
    _print(table)
    bytes_table = _table("learned from", *workloads)
    bytes_table.title = "MB read for a token of the reply, without pins / with"
    bytes_table.add_row("nothing", *(f"{matrix.cold[work].bytes_a_token / _MB:.2f}" for work in workloads))
    for profile in matrix.profiles:
        bytes_table.add_row(
            profile.name,
            *(f"{c.off.bytes_a_token / _MB:.2f} / {c.pinned.bytes_a_token / _MB:.2f}" for c in profile.cells),
        )
    _print(bytes_table)
    for profile in matrix.profiles:
        click.echo(f"{profile.name}: {profile.verdict} ({profile.reason})")
    click.echo("Learned from one half of each workload's prompts, measured with the other; routing recorded on this "
               "model, placement replayed. Pins and cache share the same memory.")  # fmt: skip


def _show_contest(result: Contest) -> None:
    workloads = list(result.rivals[0].workloads)
    table = _table("policy", *workloads, "MB/token")
    table.title = f"hits on held-out prompts, % of all look-ups, {result.cap} slots a layer, no pins"
    for rival in result.rivals:
        figures = rival.workloads.values()
        mean = sum(part.bytes_a_token for part in figures) / len(figures)
        table.add_row(rival.policy, *(f"{100 * part.rate:.1f}" for part in figures), f"{mean / _MB:.2f}")
    _print(table)
    gaps = _table("slots a layer", *map(str, result.caps))
    gaps.title = "share of the way from lru to the optimum (min), %"
    for rival in result.rivals:
        gaps.add_row(rival.policy, *("-" if gap is None else f"{100 * gap:.0f}" for gap in rival.gaps))
    _print(gaps)
    for rival in result.rivals:
        click.echo(f"{rival.policy}: {rival.verdict}")
    click.echo(f"best: {result.best}")


def _show_costs(costs: list[Cost]) -> None:
    table = _table("limit (lossy)", "experts a token", "same word", "KL, nats", "MB/token", "exact MB/token", "saved")
    for cost in costs:
        given = {"--topk": cost.topk, "--topp": cost.topp}
        limit = " ".join(f"{flag} {value:g}" for flag, value in given.items() if value is not None)
        table.add_row(
            limit, f"{cost.kept:.2f}", f"{100 * cost.agreement:.1f} %", f"{cost.divergence:.4f}",
            f"{cost.limited_bytes / _MB:.2f}", f"{cost.exact_bytes / _MB:.2f}", f"{100 * cost.saved:.0f} %",
        )  # fmt: skip
    _print(table)
    click.echo(f"Against the exact greedy answers, {costs[0].positions:,} tokens: both read the same words.")


def _table(*heads: str) -> Any:
    from rich.table import Table

    table = Table(title_justify="left", box=None, pad_edge=False)
    for place, head in enumerate(heads):
        table.add_column(head, justify="right" if place else "left", no_wrap=not place)
    return table


def _print(table: Any) -> None:
    from rich.console import Console

    Console().print(table)
