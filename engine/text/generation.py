"""What a model's own files say about generating: end-of-sequence ids and recommended sampling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import CheckpointError
from .files import read_object_if_present
from .sampler import Sampling

FILE = "generation_config.json"


@dataclass(frozen=True, slots=True)
class GenerationDefaults:
    """All ids that end an answer, and the model's sampling values; None where the model says nothing."""

    eos_ids: frozenset[int]
    temperature: float | None = None
    nucleus: float | None = None
    repetition: float | None = None

    @classmethod
    def load(cls, folder: Path, config: dict[str, Any]) -> GenerationDefaults:
        """Read `generation_config.json`, which may be absent; `config` is the content of config.json.

        EOS ids are united over both, and over config's `text_config`: any of them ends an answer.

        Raises CheckpointError naming the file and the key that holds something else than it should.
        """
        path = folder / FILE
        generation = read_object_if_present(path)
        text_config = config.get("text_config")
        places = [(config, folder / "config.json"), (generation, path)]
        if isinstance(text_config, dict):
            places.append((text_config, folder / "config.json"))
        return cls(
            eos_ids=frozenset().union(*(_ids(values, where) for values, where in places)),
            temperature=_number(generation, "temperature", path, 0.0, 100.0),
            nucleus=_number(generation, "top_p", path, 0.0, 1.0),
            repetition=_number(generation, "repetition_penalty", path, 0.1, 10.0),
        )

    def sampling(self) -> Sampling:
        """Return the model's sampling, with this program's values where the model names none."""
        ours = Sampling()
        return Sampling(
            temperature=ours.temperature if self.temperature is None else self.temperature,
            nucleus=ours.nucleus if self.nucleus is None else self.nucleus,
            repetition=ours.repetition if self.repetition is None else self.repetition,
        )


def _ids(values: dict[str, Any], where: Path) -> set[int]:
    """Return the ids under `eos_token_id`: absent, null, a number or a list of numbers."""
    found = values.get("eos_token_id")
    ids = [] if found is None else found if isinstance(found, list) else [found]
    if not all(type(i) is int and 0 <= i < 1 << 31 for i in ids):
        raise CheckpointError(f"{where}: eos_token_id is {found!r}, not a token id or a list of them")
    return set(ids)


def _number(values: dict[str, Any], key: str, where: Path, low: float, high: float) -> float | None:
    found = values.get(key)
    if found is None:
        return None
    if type(found) not in (int, float) or not math.isfinite(found) or not low <= found <= high:
        raise CheckpointError(f"{where}: {key} is {found!r}, not a number in {low:g}..{high:g}")
    return float(found)
