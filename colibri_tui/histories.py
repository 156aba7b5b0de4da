"""What is done with learned histories: look at them, change them, bring them in and out.

A history is one profile's knowledge of one model, a `.coli_usage` with its log of turns beside it. Every change is
made to what the file holds at that moment, under its lock, so a program that is running with it loses nothing: what it
counts is added afterwards.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.errors import EngineError
from engine.experts.followers import MARK
from engine.experts.history import UsageHistory, faded
from engine.experts.pair_history import NAME as PAIRS_NAME
from engine.experts.pair_history import PairHistory
from engine.experts.usage import Counts, format_usage, glance, read_usage
from engine.files import FileLock, reason, replace_file
from engine.routed import Routed, read_routed
from engine.turn_log import LoggedTurn, log_path, read_turns

from . import paths
from .models import list_models
from .profiles import (
    BUILT_IN,
    existing,
    free_name,
    frozen_path,
    is_frozen,
    model_key,
    models_of,
    usage_path,
)
from .settings import read_state


@dataclass(frozen=True, slots=True)
class Summary:
    """A history at a glance.

    selections: experts chosen so far; experts: how many were chosen at all. shape: layers and experts of the model,
    None for an empty history or one without a header. turns: its log.
    """

    profile: str
    key: str
    path: Path
    selections: int
    experts: int
    shape: tuple[int, int] | None
    frozen: bool
    turns: list[LoggedTurn]


def summarise(profile: str, key: str) -> Summary:
    """Look at one history. Raises EngineError when it cannot be read."""
    path = usage_path(profile, key)
    seen = glance(path)
    return Summary(
        profile, key, path, seen.total, seen.records, seen.shape, is_frozen(profile, key), read_turns(log_path(path))
    )


def keys_of(profile: str, model: Path | None) -> list[str]:
    """Return the keys of the models that are meant: that of `model`, or all that the profile knows.

    Raises EngineError for a profile that does not exist.
    """
    name = existing(profile)
    return [model_key(model)] if model is not None else models_of(name)


def find_model(key: str) -> Path:
    """Return the model of a key, if it is one of those installed or the one used last. Raises EngineError."""
    candidates = list_models()
    last = read_state(paths.state_path()).model
    for folder in [*candidates, *([Path(last)] if last else [])]:
        try:
            if model_key(folder) == key:
                return folder
        except EngineError:  # moved or deleted since
            continue
    raise EngineError(f"{key}: this model is not among those installed; name its folder with --model")


def freeze(profile: str, key: str, on: bool) -> None:
    """Keep a profile from learning about a model, or let it learn again; takes effect when the model is next opened.

    Raises EngineError when that cannot be noted.
    """
    mark = frozen_path(profile, key)
    try:
        if on:
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
        else:
            mark.unlink(missing_ok=True)
    except OSError as error:
        raise EngineError(f"{mark}: cannot be changed ({reason(error)})") from error


def reset(profile: str, key: str) -> None:
    """Forget what a profile learned about a model, its log, and the saved memories of the model's conversations.

    Raises EngineError when something cannot be removed.
    """
    path = usage_path(profile, key)
    memories = paths.conversation_states_dir() / key
    try:
        if path.parent.is_dir():
            with FileLock(path.with_name(f"{path.name}.lock")):
                replace_file(path, b"", path.with_name(f"{path.name}.new"))
            log_path(path).unlink(missing_ok=True)
            pairs = pairs_path(path)
            with FileLock(pairs.with_name(f"{pairs.name}.lock")):
                pairs.unlink(missing_ok=True)
        if memories.is_dir():
            shutil.rmtree(memories)
    except OSError as error:
        raise EngineError(f"{error.filename or path}: cannot be removed ({reason(error)})") from error


def pairs_path(path: Path) -> Path:
    """Return where the pairs lie that go with a history."""
    return path.with_name(PAIRS_NAME)


def is_pairs(file: Path) -> bool:
    """Whether a file begins like a `.coli_pairs`. Raises EngineError when it cannot be read."""
    try:
        with file.open("rb") as stream:
            return stream.read(len(MARK)) == MARK
    except OSError as error:
        raise EngineError(f"{file}: cannot be read ({reason(error)})") from error


def add_pairs(profile: str, model: Path, file: Path) -> tuple[int, tuple[str, ...]]:
    """Add a `.coli_pairs`, ours or colibrì's, to a profile's. Returns its lines, and notices. Raises EngineError."""
    pairs = open_pairs(pairs_path(usage_path(profile, model_key(model))), read_routed(model), learn=True)
    added, notices = pairs.add(file)
    return added, pairs.notices + notices


def open_pairs(path: Path, routed: Routed, *, learn: bool) -> PairHistory:
    """Open a profile's pairs for a model; with `learn`, to add to them."""
    return PairHistory(path, routed.layers, routed.experts, frozenset(routed.moe_layers), learn=learn, seed=None)


def fade(profile: str, key: str, factor: float, model: Path | None) -> tuple[str, ...]:
    """Multiply all counts by a factor above 0 and up to 1, rounding half up. Returns notices. Raises EngineError."""
    if not 0 < factor <= 1:
        raise EngineError(f"a history cannot fade by {factor:g}: the factor lies above 0 and up to 1")
    history = _open(usage_path(profile, key), read_routed(model or find_model(key)))
    return history.change(lambda counts: faded(counts, factor))


def add_file(
    profile: str, model: Path, file: Path, *, baseline: Path | None = None, into_empty: bool = False
) -> tuple[int, tuple[str, ...]]:
    """Add a history, ours or colibrì's, to a profile's; with a `baseline`, only what has been counted since that.

    into_empty: refuse when the profile has learned something about the model already. Returns how many selections were
    added, and notices. Raises EngineError.
    """
    routed, path = read_routed(model), usage_path(profile, model_key(model))
    counts, notices = _read(file, routed)
    if baseline is not None:
        before, _ = _read(baseline, routed)
        counts = np.where(counts > before, counts - before, np.uint32(0))
    if into_empty and (known := glance(path).total):
        raise EngineError(
            f"profile {profile} knows {known:,} selections of this model already; --add adds to them, "
            "'profile reset' forgets them"
        )
    history = _open(path, routed)
    notices += history.change(lambda held: held + counts)
    return int(counts.sum(dtype=np.uint64)), notices


def export(profile: str, model: Path, file: Path, *, replace: bool = False) -> int:
    """Write a profile's history of a model as a file that colibrì reads; returns its selections.

    Raises EngineError when the file exists already, unless `replace`.
    """
    routed = read_routed(model)
    counts, _ = _read(usage_path(profile, model_key(model)), routed, own=True)
    if file.exists() and not replace:
        raise EngineError(f"{file}: exists already; --force replaces it")
    try:
        replace_file(file, format_usage(counts, routed.layers, routed.model_type), file.with_name(f"{file.name}.new"))
    except OSError as error:
        raise EngineError(f"{file}: cannot be written ({reason(error)})") from error
    return int(counts.sum(dtype=np.uint64))


def rename(old: str, new: str) -> str:
    """Give a profile another name; returns it. Raises EngineError. A built-in one is empty under its old name then."""
    old, new = existing(old), free_name(new)
    source, target = paths.profiles_dir() / old, paths.profiles_dir() / new
    try:
        if source.is_dir():
            source.rename(target)
        else:
            target.mkdir(parents=True)
    except OSError as error:
        raise EngineError(f"{source}: cannot be renamed ({reason(error)})") from error
    return new


def delete(profile: str) -> None:
    """Remove a profile and all that it learned; a built-in one is empty afterwards. Raises EngineError."""
    folder = paths.profiles_dir() / existing(profile)
    try:
        if folder.is_dir():
            shutil.rmtree(folder)
    except OSError as error:
        raise EngineError(f"{error.filename or folder}: cannot be removed ({reason(error)})") from error


def is_built_in(profile: str) -> bool:
    """Whether a profile always exists."""
    return profile in BUILT_IN


def sum_up(turns: Sequence[LoggedTurn], parts: int) -> list[float | None]:
    """Divide turns into up to so many runs of equal length, oldest first; the hit rate of each, 0..1."""
    parts = min(parts, len(turns))
    rates: list[float | None] = []
    for part in range(parts):
        run = turns[part * len(turns) // parts : (part + 1) * len(turns) // parts]
        found = sum(turn.hits.pin + turn.hits.cache for turn in run)
        total = sum(turn.hits.total for turn in run)
        rates.append(found / total if total else None)
    return rates


def _open(path: Path, routed: Routed) -> UsageHistory:
    return UsageHistory.open(
        path, routed.layers, routed.experts, routed.model_type, frozenset(routed.moe_layers), learn=True
    )


def _read(file: Path, routed: Routed, *, own: bool = False) -> tuple[Counts, tuple[str, ...]]:
    """Counts [layers + 1, experts] of a file that a person named, or of a profile's `own`."""
    if not own and not file.is_file():
        raise EngineError(f"{file}: no such file; expected a history (.coli_usage)")
    layers = frozenset(routed.moe_layers) | {routed.layers}
    usage = read_usage(file, routed.layers, routed.experts, routed.model_type, layers, named=not own)
    return usage.counts, usage.notices
