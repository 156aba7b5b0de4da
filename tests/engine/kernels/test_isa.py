"""Choosing the instruction set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import EngineError
from engine.kernels import isa

AVX2 = {"avx2", "fma", "f16c"}
AVX512 = {"avx512f", "avx512bw", "avx512vl", "avx512vnni"}


@pytest.mark.parametrize(
    ("features", "levels"),
    [
        (AVX2 | AVX512 | {"avxvnni"}, ("vnni512", "vnni256", "avx2", "generic")),
        (AVX2 | AVX512, ("vnni512", "vnni256", "avx2", "generic")),
        (AVX2 | AVX512 - {"avx512vnni"}, ("avx2", "generic")),
        (AVX2 | {"avxvnni"}, ("vnni256", "avx2", "generic")),
        (AVX2, ("avx2", "generic")),
        ({"avx2", "fma"}, ("generic",)),  # without f16c the scales could not be read quickly
        ({"avx", "sse4.2"}, ("generic",)),
        ({"neon", "dotprod"}, ("neon", "generic")),
        ({"neon"}, ("generic",)),
        (set(), ("generic",)),
    ],
)
def test_levels_follow_from_features(features, levels):
    assert isa.available(features) == levels
    assert isa.choose(features) == levels[0]


def test_a_lower_level_can_be_asked_for():
    assert isa.choose(AVX2 | AVX512, "avx2") == "avx2"
    assert isa.choose(AVX2 | AVX512, "") == "vnni512"


@pytest.mark.parametrize("wanted", ["vnni512", "neon", "sse9"])
def test_a_level_the_processor_lacks_is_refused_by_name(wanted):
    with pytest.raises(EngineError, match=rf"^COLIBRI_ISA='{wanted}': this processor runs avx2, generic; .*$"):
        isa.choose(AVX2, wanted)


def test_generic_x86_has_no_special_instructions_and_generic_arm_keeps_its_own():
    assert not isa.target("generic", AVX2).fma
    assert not isa.target("generic", AVX2).f16
    assert isa.target("generic", {"neon"}).fma


def imported(home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    code = "from engine.kernels import isa; print(isa.ISA)"
    variables = {**os.environ, "COLIBRI_TUI_HOME": str(home), **environment}
    return subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=False)


def test_the_environment_chooses_the_level(tmp_path):
    assert imported(tmp_path, COLIBRI_ISA="generic").stdout == "generic\n"
    refused = imported(tmp_path, COLIBRI_ISA="sse9")
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[-1].startswith("engine.errors.EngineError: COLIBRI_ISA='sse9'")


def test_a_processor_numba_was_told_to_assume_counts(tmp_path):
    assert imported(tmp_path, NUMBA_CPU_NAME="generic", COLIBRI_ISA="").stdout == "generic\n"
