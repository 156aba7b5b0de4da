"""`colibri-tui plan`: what a model takes and does on this machine, before it is loaded or downloaded."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engine.errors import BudgetError, EngineError

from .. import NAME
from ..launch import launch
from ..models import resolve_model
from ..profiles import model_key, usage_path
from ..render.clean import clean
from ..render.units import rate, seconds, size
from ..settings import resolve_options
from .completion import model_names
from .options import EngineCommand, Program, debug_option, engine_options, given_flags, profile_option
from .output import Progress

if TYPE_CHECKING:
    from engine.expectations import Machine
    from engine.options import EngineOptions
    from engine.outlook import Examined, Facts, Outlook

    from ..launch import Launch

_REPO = re.compile(r"(https?://.*|[\w.-]+/[\w.-]+(@[^:]+)?(:.+)?)")


@click.command(cls=EngineCommand)
@click.argument("model", metavar="MODEL|REPO", shell_complete=model_names)
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
@profile_option
@engine_options
@debug_option
@click.pass_context
def plan(ctx: click.Context, model: str, as_json: bool, profile: str | None) -> None:
    """Tell what MODEL takes and does on this machine, before it is loaded.

    REPO is OWNER/NAME on a hub, or OWNER/NAME:Q4_K_M for one of several GGUF files: only headers are read. Disk and
    memory are measured here; the expected hit rate is that of the profile where it knows the model, else from published
    measurements.
    """
    from engine.outlook import learned, outlook, outlooks

    from ..machine_speed import machine_speed

    start = launch(ctx.ensure_object(Program).factory, given_flags(ctx), profile=profile)
    progress = Progress(sys.stderr)
    progress.show("reading headers", 0, 0)
    try:
        found, options, history, is_here = _find(model, start)
        counts, turns = learned(history, found) if history else (None, [])
        facts = found.forms[0]
        machine = machine_speed(found.files if is_here else [], facts.expert, progress.show)
    finally:
        progress.clear()
    rows: list[tuple[Facts, Outlook | None, str]] = []
    for form in found.forms:
        try:
            rows.append((form, outlook(found, form, options, machine, counts, turns), ""))
        except BudgetError as error:
            rows.append((form, None, str(error)))
    best = next((form for form, view, _ in rows if form.form == "int4"), facts)
    others = outlooks(found, best, options, machine, counts) if options.cap is None else []
    if as_json:
        click.echo(json.dumps(_json(found, machine, rows)))
    else:
        _show(found, machine, rows, best, others, is_here)


def _find(model: str, start: Launch) -> tuple[Examined, EngineOptions, Path | None, bool]:
    """The model, its options, its history, and whether it is on this machine."""
    from engine.outlook import examine, of_checkpoint

    try:
        path = resolve_model(model)
    except EngineError:
        if not _REPO.fullmatch(model):
            raise
    else:
        options, _ = start.options_for(path)
        return examine(path, options), options, usage_path(start.profile, model_key(path)), True
    from ..hub.listing import choose, list_repository, split_name
    from ..hub.remote import remote_checkpoint
    from ..hub.transfer import get_small

    repo, revision, pattern = split_name(model)
    listing = list_repository(repo, revision)
    wanted = choose(listing, pattern, lambda file: get_small(listing, file))
    options, _ = resolve_options(start.flags, os.environ, start.settings)
    checkpoint = remote_checkpoint(listing, wanted, Path(repo))
    called = repo + (f":{pattern}" if pattern else "")
    return of_checkpoint(f"{called}@{listing.commit[:8]}", checkpoint, options), options, None, False


def _json(found: Examined, machine: Machine, rows: list[tuple[Facts, Outlook | None, str]]) -> dict[str, Any]:
    spec = found.spec
    return {
        "model": found.name, "family": spec.family, "layers": len(spec.layers), "moe_layers": len(spec.moe_layers),
        "experts": spec.experts, "top_k": spec.top_k, "context": spec.max_context, "machine": asdict(machine),
        "forms": [
            {
                "form": form.form, "disk_bytes": form.disk, "dense_bytes": form.dense, "expert_bytes": form.expert,
                "kv_bytes_per_1000_tokens": form.kv, "problem": problem or None,
                "plan": asdict(view.plan) if view else None, "hits": asdict(view.hits) if view else None,
                "forecast": asdict(view.speed) if view else None,
                "worst": asdict(view.worst) if view else None,
            }
            for form, view, problem in rows
        ],
    }  # fmt: skip


def _show(
    found: Examined,
    machine: Machine,
    rows: list[tuple[Facts, Outlook | None, str]],
    best: Facts,
    others: list[tuple[float, Outlook | None]],
    is_here: bool,
) -> None:
    from rich.console import Console
    from rich.table import Table

    width = None if sys.stdout.isatty() else 120
    console, spec = Console(highlight=False, markup=False, width=width), found.spec
    console.print(
        f"{clean(found.name)} ({spec.family}): {len(spec.layers)} layers, {len(spec.moe_layers)} of them with "
        f"{spec.experts} experts, {spec.top_k} for a token\n"
        f"machine: memory {machine.memory / 1e9:.1f} GB/s, disk {machine.disk / 1e9:.2f} GB/s"
        f"{'' if machine.direct else ' (through the page cache)'}, both measured now\n"
    )
    table = Table(box=None, padding=(0, 1))
    for title in ("", "on disk", "dense", "an expert", "1,000 tokens", "in memory", "hits", "forecast"):
        table.add_column(title, justify="left" if not title else "right", no_wrap=True)
    for form, view, _ in rows:
        sizes = [form.form, size(form.disk), size(form.dense), size(form.expert), size(form.kv)]
        table.add_row(*sizes, *(_view(view, spec.experts) if view else ("does not fit", "", "")))
    console.print(table)
    for form, view, problem in rows:
        if view is None:
            console.print(f"\n{form.form}: {clean(problem)}", soft_wrap=True)
    shown = next((view for _, view, _ in rows if view), None)
    if shown is not None:
        console.print(
            f"\nbudget {shown.plan.budget / 1e9:.1f} GB (--ram changes it); hit rate: {shown.hits.source}; a token: "
            f"{_ms(shown.speed.compute_s)} of computing, {_ms(shown.speed.read_s)} of reading"
            + (
                f"; if every expert were chosen equally often, as in no real model: {rate(shown.worst.tok_s)}"
                if shown.plan.cap < spec.experts
                else ""
            ),
            soft_wrap=True,
        )
    if others:
        console.print(f"\nwith other budgets ({best.form}):")
        budgets = Table(box=None, padding=(0, 1))
        for title in ("--ram", "in memory", "hits", "forecast"):
            budgets.add_column(title, justify="right")
        for ram, view in others:
            budgets.add_row(f"{ram:g}", *(_view(view, spec.experts) if view else ("does not fit", "", "")))
        console.print(budgets)
    if not is_here:
        repo = found.name.partition("@")[0]
        smaller = " --convert int4" if len(rows) > 1 and not found.is_gguf else ""
        console.print(f"\nget it with '{NAME} pull {clean(repo)}{smaller}'", soft_wrap=True)


def _view(view: Outlook, experts: int) -> tuple[str, str, str]:
    return f"{view.plan.cap} of {experts}", f"{view.hits.value:.0%}", rate(view.speed.tok_s)


def _ms(duration: float) -> str:
    return f"{1000 * duration:.0f} ms" if duration < 1 else seconds(duration)
