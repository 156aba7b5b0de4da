"""What was learned: the histories of every profile, the conversations, what was set aside."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from engine.errors import EngineError
from engine.experts.usage import read_usage
from engine.routed import read_routed

from .. import paths
from ..histories import find_model, open_pairs, pairs_path, summarise
from ..profiles import list_profiles, models_of, usage_path
from .findings import Finding, fail, failed, ok, warn


def histories() -> Iterator[Finding]:
    """Every history of every profile."""
    sound, selections = 0, 0
    for profile in list_profiles():
        for key in models_of(profile):
            try:
                found = summarise(profile, key)
                selections += found.selections
                yield from _fits(profile, key)
                sound += 1
            except EngineError as error:
                yield failed("history", error)
    yield ok("histories", f"{sound} readable, {selections:,} choices of experts learned")
    refused = sorted(paths.profiles_dir().glob("*/*/.coli_*.*-*"))
    if refused:
        yield warn(
            "histories", f"{len(refused)} set aside because they could not be used, such as {refused[0].name} in "
            f"{refused[0].parent}", "remove them if nothing in them is missed",
        )  # fmt: skip


def _fits(profile: str, key: str) -> Iterator[Finding]:
    """Whether a history goes with its model, if that is installed."""
    try:
        model = find_model(key)
    except EngineError:
        return
    routed = read_routed(model)
    usage = read_usage(
        usage_path(profile, key), routed.layers, routed.experts, routed.model_type, set(routed.moe_layers)
    )
    pairs = open_pairs(pairs_path(usage_path(profile, key)), routed, learn=False)
    for notice in (*usage.notices, *pairs.notices):
        yield warn("history", f"{profile}: {notice}", "nothing to do: the next save tidies it up and keeps a copy")


def conversations() -> Iterator[Finding]:
    """The database of conversations."""
    path = paths.database_path()
    if not path.exists():
        yield ok("conversations", "none yet")
        return
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
            state = database.execute("PRAGMA quick_check").fetchone()[0]
            count = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    except sqlite3.Error as error:
        yield fail(
            "conversations", f"{path}: {error}", "the program moves it aside at the next start and begins a new one"
        )
        return
    if state != "ok" or not count:
        yield fail(
            "conversations", f"{path}: damaged ({state})", "copy it away, then start the program: it begins a new one"
        )
    else:
        yield ok("conversations", f"{path} is sound")
