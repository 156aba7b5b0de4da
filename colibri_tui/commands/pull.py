"""`colibri-tui pull`: get a model from a hub."""

from __future__ import annotations

import json
import re
import sys

import click

from engine.errors import EngineError

from .. import NAME, paths
from ..models import disk_use
from ..render.clean import clean
from ..render.units import size
from .convert import json_progress
from .options import debug_option
from .output import Progress


@click.command()
@click.argument("repo")
@click.option("--convert", "bits", type=click.Choice(["auto", "int4", "int8"]), metavar="auto|int4|int8",
              help="convert while it comes: the original never lies on the disk as a whole")  # fmt: skip
@click.option("--file", "pattern", metavar="TEXT", help="which GGUF file to take, by a part of its name")
@click.option("--name", metavar="NAME", help="what to call the model here")
@click.option("--json", "as_json", is_flag=True, help="print progress and result, one JSON object a line")
@debug_option
def pull(repo: str, bits: str | None, pattern: str | None, name: str | None, as_json: bool) -> None:
    """Download the model REPO, which is OWNER/NAME or OWNER/NAME@REVISION.

    OWNER/NAME:Q4_K_M is one of several GGUF files, by a part of its name.
    Only the files that the model needs are fetched. A download that was interrupted goes on when the same command is
    given again. HF_ENDPOINT names another hub, HF_TOKEN a token for models that are gated or private.
    """
    from ..hub.listing import RECORD, split_name
    from ..hub.pull import Request
    from ..hub.pull import pull as get
    from .conversion_report import choices

    repo, revision, behind = split_name(repo)
    if behind and pattern:
        raise click.UsageError("a GGUF file is named twice: behind the : and by --file")
    pattern = behind or pattern
    called = name or repo.rpartition("/")[2] + (f"-{bits}" if bits in ("int4", "int8") else "")
    if pattern and not name and re.fullmatch(r"[\w.-]+", pattern):
        called += f"-{pattern}"
    if not called or "/" in called or called.startswith("."):
        raise EngineError(f"{called!r} is no name for a model: letters, digits, dots and dashes, no / and no dot first")
    target = paths.models_dir() / called
    progress = Progress(sys.stderr)
    try:
        fresh = get(Request(repo, revision, target, pattern, bits), json_progress if as_json else progress.show_bytes)
    finally:
        progress.clear()
    if as_json:
        click.echo(json.dumps({"event": "done", "path": str(target), "bytes": disk_use(target)}))
        return
    state = "verified" if fresh else "already here"
    click.echo(clean(f"{target}: {size(disk_use(target))}, {state}; open it with '{NAME} {called}'"))
    if fresh and bits in ("int4", "int8"):
        for line in choices(json.loads((target / RECORD).read_bytes())):
            click.echo(line)
