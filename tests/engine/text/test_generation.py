"""End-of-sequence ids and sampling values that a model's files name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.errors import CheckpointError
from engine.text import GenerationDefaults, Sampling

from .models import DATA, STYLES, sample


def defaults(folder: Path, config: dict[str, Any], generation: object = None) -> GenerationDefaults:
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    return GenerationDefaults.load(folder, config)


@pytest.mark.parametrize("style", STYLES)
def test_ends_equal_the_reference(style: str) -> None:
    expected = sample(style).expected
    found = GenerationDefaults.load(DATA / style, {"eos_token_id": expected["eos_token_id"]})
    assert found.eos_ids == set(expected["eos_ids"])


def test_ends_are_united_over_all_places(tmp_path: Path) -> None:
    config = {"eos_token_id": 1, "text_config": {"eos_token_id": [2, 3]}}
    assert defaults(tmp_path, config, {"eos_token_id": [3, 4]}).eos_ids == {1, 2, 3, 4}


def test_nothing_said_is_nothing_known(tmp_path: Path) -> None:
    assert defaults(tmp_path, {"eos_token_id": None}) == GenerationDefaults(frozenset())
    assert defaults(tmp_path, {}).sampling() == Sampling()


def test_the_models_values_are_taken(tmp_path: Path) -> None:
    found = defaults(tmp_path, {}, {"temperature": 1, "top_p": 0.8, "repetition_penalty": 1.05})
    assert found.sampling() == Sampling(temperature=1.0, nucleus=0.8, repetition=1.05)


@pytest.mark.parametrize(
    ("config", "generation", "place"),
    [
        ({"eos_token_id": "2"}, {}, r"config\.json: eos_token_id is '2'"),
        ({"eos_token_id": [True]}, {}, r"config\.json: eos_token_id"),
        ({"text_config": {"eos_token_id": -1}}, {}, r"config\.json: eos_token_id is -1"),
        ({}, {"eos_token_id": [1.5]}, r"generation_config\.json: eos_token_id"),
        ({}, {"temperature": -1}, r"generation_config\.json: temperature is -1"),
        ({}, {"top_p": "high"}, r"generation_config\.json: top_p is 'high'"),
        ({}, {"repetition_penalty": 0}, r"generation_config\.json: repetition_penalty is 0"),
        ({}, [], r"generation_config\.json: holds a list"),
    ],
)
def test_nonsense_is_refused_by_file_and_key(
    tmp_path: Path, config: dict[str, Any], generation: Any, place: str
) -> None:
    with pytest.raises(CheckpointError, match=place):
        defaults(tmp_path, config, generation)


def test_importing_the_package_leaves_the_template_language_alone() -> None:
    code = "import sys, engine.text; print(sorted({'jinja2', 'numba', 'textual'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
