"""Prompts to experiment with: text files, a folder for each workload."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..engine import Engine
from ..errors import EngineError
from ..files import reason

PROMPT_MAX = 1 << 20
FILES_MAX = 1000


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt: the file's name with its folder's, its text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Workload:
    """Prompts of one kind of work, those to learn from and those to measure with."""

    name: str
    training: tuple[Prompt, ...]
    held_out: tuple[Prompt, ...]


def read_prompt(file: Path) -> Prompt:
    """Read a prompt. Raises EngineError when that cannot be, or there is nothing in it."""
    try:
        with file.open("rb") as stream:
            data = stream.read(PROMPT_MAX + 1)
    except OSError as error:
        raise EngineError(f"{file}: the prompt cannot be read ({reason(error)})") from error
    if len(data) > PROMPT_MAX:
        raise EngineError(f"{file}: larger than {PROMPT_MAX >> 20} MB, so no prompt")
    text = data.decode("utf-8", "replace").strip()
    if not text:
        raise EngineError(f"{file}: the prompt is empty")
    return Prompt(f"{file.absolute().parent.name}/{file.name}", text)


def prompt_files(folder: Path) -> list[Path]:
    """The files of a folder that may hold prompts, by name. Raises EngineError when it cannot be read."""
    try:
        files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    except OSError as error:
        raise EngineError(f"{folder}: cannot be read ({reason(error)})") from error
    if len(files) > FILES_MAX:
        raise EngineError(f"{folder}: {len(files):,} files; at most {FILES_MAX:,} prompts are used")
    return files


def read_workloads(folder: Path) -> list[Workload]:
    """Read the prompts of a folder: one workload for each folder in it, or one of its own files.

    Every second file is held out. Raises EngineError when a workload has fewer than two prompts, or there is none.
    """
    try:
        inside = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError as error:
        raise EngineError(f"{folder}: cannot be read ({reason(error)})") from error
    found = []
    for part in inside or [folder]:
        files = prompt_files(part)
        if len(files) < 2:
            raise EngineError(f"{part}: {len(files)} prompt(s); one to learn from and one to measure with are needed")
        prompts = [read_prompt(file) for file in files]
        found.append(Workload(part.name, tuple(prompts[::2]), tuple(prompts[1::2])))
    return found


def ids_of(engine: Engine, prompt: Prompt, tokens: int) -> list[int]:
    """A prompt's ids, in the model's chat template if it has one. Raises EngineError when they do not fit.

    tokens: to be generated.
    """
    if engine.has_template:
        ids = engine.render([{"role": "user", "content": prompt.text}])
    else:
        ids = engine.encode(prompt.text)
    if len(ids) + tokens > engine.info.context:
        raise EngineError(
            f"{prompt.name}: {len(ids):,} tokens and a reply of {tokens:,} do not fit the context of "
            f"{engine.info.context:,}; raise --context or leave it out"
        )
    return ids
