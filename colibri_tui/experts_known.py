"""What other profiles and the pairs file know about a model's experts. Read in a thread; knows no screen."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from colibri_tui.profiles import list_profiles, usage_path
from engine.errors import EngineError
from engine.experts.followers import Followers, read_followers
from engine.experts.usage import read_usage

HOT_SHARE = 0.25
"""An expert is hot in a profile if it is among so much of its layer there."""

Ranks = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Known:
    """ranks: by profile that has learned anything, int32 [layers, experts]: place in its layer by use, 0 = most used.

    uses: the same as counts. followers: of `.coli_pairs`. problems: what could not be read, a line each.
    """

    ranks: dict[str, Ranks] = field(default_factory=dict)
    uses: dict[str, npt.NDArray[np.uint32]] = field(default_factory=dict)
    followers: Followers = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def hot_in(self, layer: int, expert: int) -> list[tuple[str, int]]:
        """Return (profile, rank) where an expert is hot, the hottest first. layer: the model's own number."""
        hot = [
            (name, int(ranks[layer, expert]))
            for name, ranks in self.ranks.items()
            if ranks[layer, expert] < HOT_SHARE * ranks.shape[1] and self.uses[name][layer, expert]
        ]
        return sorted(hot, key=lambda pair: pair[1])

    def kind(self, layer: int, expert: int) -> str:
        """Return 'generalist' if it is hot in every profile, 'specialist' if in some; '' if that cannot be told."""
        if len(self.ranks) < 2:
            return ""
        hot = len(self.hot_in(layer, expert))
        return "" if not hot else "generalist" if hot == len(self.ranks) else "specialist"


def ranks_of(uses: npt.NDArray[np.uint32]) -> Ranks:
    """Return every expert's place in its layer, the most used first, equals by number."""
    order = np.argsort(-uses.astype(np.int64), axis=1, kind="stable")
    ranks = np.empty(uses.shape, np.int32)
    np.put_along_axis(ranks, order, np.arange(uses.shape[1], dtype=np.int32)[None], axis=1)
    return ranks


def read_counts(path: Path, layers: int, experts: int) -> npt.NDArray[np.uint32]:
    """Return a history's counts, [layers, experts]. Raises EngineError when it is none of this model."""
    usage = read_usage(path, layers, experts, "", frozenset(range(layers + 1)), named=True)
    return usage.counts[:layers]


def read_known(key: str, layers: int, experts: int, pairs: tuple[Path, ...] = ()) -> Known:
    """Read every profile's history of the model with this key, and the first of the pairs files that there is."""
    known, problems = Known(), []
    try:
        names = list_profiles()
    except EngineError as error:
        return Known(problems=(str(error),))
    for name in names:
        try:
            uses = read_counts(usage_path(name, key), layers, experts)
        except EngineError as error:
            problems.append(str(error))
            continue
        if uses.any():
            known.uses[name], known.ranks[name] = uses, ranks_of(uses)
    followers: Followers = {}
    for path in pairs:
        try:
            followers = followers or read_followers(path)
        except EngineError as error:
            problems.append(str(error))
    return Known(known.ranks, known.uses, followers, tuple(problems))
