"""`models --families`: every family the engine has, and nothing else."""

from __future__ import annotations

import json

from click.testing import CliRunner

from colibri_tui.cli import cli
from colibri_tui.commands.options import Program
from engine.families import FAMILIES
from engine.known_families import KNOWN


def test_every_family_has_a_model_that_people_know() -> None:
    assert KNOWN.keys() == FAMILIES.keys()
    assert all(known.models for known in KNOWN.values())
    wrapped = [family for family, known in KNOWN.items() if not known.example]
    assert all(family.endswith("_text") for family in wrapped)


def test_they_are_listed_one_a_line() -> None:
    result = CliRunner().invoke(cli, ["models", "--families"], obj=Program(""))
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert [line.split()[0] for line in lines] == sorted(FAMILIES)
    assert any(line.split()[0] == "qwen3_moe" and line.endswith("Qwen/Qwen3-30B-A3B") for line in lines)
    assert max(map(len, lines)) <= 120


def test_as_json() -> None:
    result = CliRunner().invoke(cli, ["models", "--families", "--json"], obj=Program(""))
    told = [json.loads(line) for line in result.output.splitlines()]
    assert [one["family"] for one in told] == sorted(FAMILIES)
    assert {"family": "gpt_oss", "models": "gpt-oss 20B, 120B", "example": "openai/gpt-oss-20b"} in told
