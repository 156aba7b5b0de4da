"""`colibri-tui run`: one answer on stdout, in this process, without a screen."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from engine.options import EngineOptions
from engine.worker import EngineLike, Factory, find_factory, state_event

from ..launch import launch
from .completion import model_names
from .model import model_folder
from .options import EngineCommand, Program, debug_option, engine_options, given_flags, profile_option
from .output import JsonOutput, Output, Progress, TextOutput
from .stopping import stopping

if TYPE_CHECKING:
    from engine.text.sampler import Sampling

INTERRUPTED: Final = 130


@dataclass(frozen=True, slots=True)
class Request:
    """What to ask. One of: ids; text without a template; a conversation.

    sampling: the fields of `Sampling` that were asked for; the others are the model's own.
    """

    ids: list[int] | None = None
    text: str | None = None
    messages: list[dict[str, str]] = field(default_factory=list)
    sampling: dict[str, Any] = field(default_factory=dict)

    def prompt(self, engine: EngineLike) -> list[int]:
        """Return the prompt's ids."""
        if self.ids is not None:
            return self.ids
        if self.text is not None:
            return engine.encode(self.text)
        return engine.render(self.messages)


def run_prompt(
    factory: Factory, folder: Path, options: EngineOptions, request: Request, output: Output, state: Path | None = None
) -> int:
    """Load a model, answer one request, close; return the exit code.

    state: a file that the engine's memory is taken from, if it exists, and kept in afterwards.

    Raises EngineError, and what the output raises.
    """
    with closing(factory(str(folder), options, progress=output.tell, shared_board=False)) as engine:
        output.tell(engine.info)
        sampling: Sampling = replace(engine.defaults, **request.sampling)
        prompt = request.prompt(engine)
        if state is not None and state.exists():
            output.tell(state_event("loaded", str(state), lambda: engine.load_state(str(state))))
        with stopping(engine) as interrupted:
            for event in engine.generate(prompt, chat=bool(request.messages), **asdict(sampling)):
                output.tell(event)
        if state is not None:
            output.tell(state_event("saved", str(state), lambda: engine.save_state(str(state))))
    return INTERRUPTED if interrupted else 0


def _ids(_ctx: click.Context, _param: click.Parameter, text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of token ids such as 1,2,3") from None


@click.command(cls=EngineCommand)
@click.argument("model", shell_complete=model_names)
@click.argument("prompt", required=False)
@click.option("--ids", callback=_ids, metavar="1,2,3", help="token ids instead of a prompt (no template)")
@click.option("--max-tokens", type=click.IntRange(min=1), metavar="N", envvar="NGEN", help="end after this many tokens")
@click.option("--temperature", type=click.FloatRange(0, 100), metavar="T", help="0 is greedy")
@click.option("--nucleus", type=click.FloatRange(0, 1), metavar="P", envvar="NUCLEUS", help="share of probability kept")
@click.option("--seed", type=click.IntRange(min=0), metavar="N", envvar="SEED", help="makes the answer repeatable")
@click.option("--system", metavar="TEXT", help="the system prompt")
@click.option("--raw", is_flag=True, help="continue the text: no chat template")
@click.option("--show-reasoning", is_flag=True, help="print what is thought before the answer too, in <think> tags")
@click.option(
    "--state",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="keep what was read in FILE: a later prompt that begins the same is not read again",
)
@click.option("--json", "as_json", is_flag=True, help="print events, one JSON object a line")
@click.option("--quiet", "-q", is_flag=True, help="print the answer and nothing else")
@profile_option
@engine_options
@debug_option
@click.pass_context
def run(
    ctx: click.Context,
    /,
    *,
    model: str,
    prompt: str | None,
    ids: list[int] | None,
    system: str | None,
    raw: bool,
    state: Path | None,
    show_reasoning: bool,
    as_json: bool,
    quiet: bool,
    profile: str | None,
    **sampling: Any,
) -> int:
    """Print one answer of MODEL.

    PROMPT is what to say to it; with `-`, or without one at the end of a pipe, stdin is read.
    """
    if ids is not None and (prompt is not None or system is not None or raw):
        raise click.UsageError("--ids takes the place of PROMPT, --system and --raw", ctx)
    if raw and system is not None:
        raise click.UsageError("--raw continues plain text, which has no --system", ctx)
    if show_reasoning and (as_json or raw or ids is not None):
        raise click.UsageError("--show-reasoning is for answers of a chat printed as text; --json tells it anyway", ctx)
    if (raw or ids is not None) and "template" in given_flags(ctx):
        raise click.UsageError("--raw and --ids use no --template", ctx)
    request = Request(ids=ids, sampling={name: value for name, value in sampling.items() if value is not None})
    if ids is None:
        text = _prompt(ctx, prompt)
        if raw:
            request = replace(request, text=text)
        else:
            system_message = [{"role": "system", "content": _decoded(system)}] if system is not None else []
            request = replace(request, messages=[*system_message, {"role": "user", "content": text}])
    progress = Progress(sys.stderr, quiet=quiet)
    start = launch(ctx.ensure_object(Program).factory, given_flags(ctx), profile=profile)
    folder = model_folder(model, quiet=quiet)
    options, _ = start.options_for(folder)
    output: Output = (
        JsonOutput(sys.stdout, progress)
        if as_json
        else TextOutput(sys.stdout, sys.stderr, progress, quiet=quiet, reasoning=show_reasoning)
    )
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        return run_prompt(find_factory(start.factory), folder, options, request, output, state)
    except BrokenPipeError:  # whoever reads the answer has enough
        return 0


def _prompt(ctx: click.Context, prompt: str | None) -> str:
    """Return the prompt; of what a pipe brings, without the line end that `echo` adds."""
    if prompt is None and sys.stdin.isatty():
        raise click.UsageError("Missing argument 'PROMPT': a text, or - for stdin", ctx)
    if prompt is None or prompt == "-":
        return sys.stdin.buffer.read().decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
    return _decoded(prompt)


def _decoded(argument: str) -> str:
    """Return an argument of the command line without the surrogates that stand for bytes that are no UTF-8."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
