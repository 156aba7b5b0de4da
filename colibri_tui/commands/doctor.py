"""`colibri-tui doctor`: what is wrong, and what to do about it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from engine.errors import EngineError

from ..launch import launch
from ..models import resolve_model
from ..render.clean import clean
from ..settings import resolve_options
from .completion import model_names
from .options import EngineCommand, Program, debug_option, engine_options, given_flags
from .output import Progress

if TYPE_CHECKING:
    from engine.options import EngineOptions

    from ..doctor.findings import Finding

_MARK: Final = {"ok": ("ok", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "red")}


@click.command(cls=EngineCommand)
@click.argument("model", required=False, shell_complete=model_names)
@click.option("--verify", is_flag=True, help="also read every file of MODEL and compare it with its digest")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object a line")
@engine_options
@debug_option
@click.pass_context
def doctor(ctx: click.Context, model: str | None, verify: bool, as_json: bool) -> int:
    """Examine the machine, the installation, what was learned, and MODEL if it is named.

    Every line is ok, warn or fail and says what to do. The exit code is 1 if anything failed.
    """
    progress = Progress(sys.stderr)
    count = {"ok": 0, "warn": 0, "fail": 0}
    try:
        start = launch(ctx.ensure_object(Program).factory, given_flags(ctx))
        options, _ = resolve_options(start.flags, os.environ, start.settings)
    except EngineError:  # a mistake in the settings is a finding of its own
        options = None
    for finding in examine(model, options, verify, progress):
        count[finding.level] += 1
        progress.clear()
        _show(finding, as_json)
    if not as_json:
        click.echo(f"\n{count['ok']} ok, {count['warn']} to look at, {count['fail']} failed")
    return 1 if count["fail"] else 0


def examine(model: str | None, options: EngineOptions | None, verify: bool, progress: Progress) -> Iterator[Finding]:
    """Run every check there is, one after another."""
    from ..doctor.findings import examined, fail, failed

    try:
        from ..doctor import installation, learned, machine
    except ImportError as error:
        yield fail("packages", f"incomplete: {error}", "install colibri-tui again, into an environment of its own")
        return
    from engine.options import EngineOptions

    progress.show("measuring", 0, 0)
    checks = [
        ("processor", machine.processor), ("memory", machine.memory), ("room", machine.room),
        ("terminal", machine.terminal), ("packages", installation.packages), ("folders", installation.folders),
        ("settings", installation.settings), ("kernels", installation.kernels), ("histories", learned.histories),
        ("conversations", learned.conversations),
    ]  # fmt: skip
    for area, check in checks:
        yield from examined(area, check)
    if model is None:
        yield from examined("disk", machine.disk)
        return
    try:
        path = resolve_model(model)
    except EngineError as error:
        yield failed("model", error)
        return
    yield from _examine_model(path, options or EngineOptions(), verify)


def _examine_model(path: Path, options: EngineOptions, verify: bool) -> Iterator[Finding]:
    from ..doctor.findings import examined
    from ..doctor.model import ModelCheck

    one = ModelCheck(path, options, verify=verify)
    for area, check in (
        ("files", one.files), ("contents", one.digests), ("config", one.config), ("tensors", one.tensors),
        ("text", one.text), ("fit", one.fit), ("disk", one.disk),
    ):  # fmt: skip
        yield from examined(area, check)


def _show(finding: Finding, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(asdict(finding)))
        return
    mark, colour = _MARK[finding.level]
    text = " ".join(clean(f"{finding.text}").split())
    click.echo(click.style(f"{mark:<5}", fg=colour) + f"{finding.area:<14}{text}")
    if finding.remedy:
        click.echo(f"{'':19}-> {' '.join(clean(finding.remedy).split())}")
