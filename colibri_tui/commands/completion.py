"""Completion of commands, options and models by the shell."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import CompletionItem, get_completion_class

from engine.errors import EngineError

from .. import NAME
from ..models import DEMO, cached_models, list_models
from .options import debug_option

VARIABLE: Final = "_COLIBRI_TUI_COMPLETE"
_FILES: Final = {
    "bash": "~/.bashrc", "zsh": "~/.zshrc", "fish": "~/.config/fish/completions/colibri-tui.fish",
}  # fmt: skip


@click.command(epilog="For good: colibri-tui completion bash >> ~/.bashrc")
@click.argument("shell", type=click.Choice(sorted(_FILES)))
@debug_option
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what makes SHELL complete commands, options and models; put it into the shell's start file."""
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(ctx.find_root().command, {}, NAME, VARIABLE).source())


def model_names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a MODEL: the names there are, and folders."""
    try:
        names = [DEMO, *(path.name for path in list_models()), *cached_models()]
    except EngineError:
        names = [DEMO]
    found = [CompletionItem(name) for name in dict.fromkeys(names) if name.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="dir")]
