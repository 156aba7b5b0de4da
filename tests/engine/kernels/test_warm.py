"""Compiling on the first start: shared by processes, told as it goes, and never in the way of a start."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
import pytest
from numba import njit

from engine.compiling import load_kernels
from engine.experts.policies import auto, forwards
from engine.kernels import (
    cache,
    ops_attention,
    ops_basic,
    ops_experts,
    ops_index,
    ops_latent,
    ops_mixed_attention,
    ops_recurrent,
    ops_routing,
    parts,
    warm,
)
from engine.kernels.helpers import compile_parts
from engine.kernels.parts import PARTS, Part
from engine.kernels.program import run

MODULE = "tests.engine.kernels.small_parts"
TWICE = Part("twice", MODULE, "compile_twice")
FOURFOLD = Part("fourfold", MODULE, "compile_fourfold", ("twice",))
SIXFOLD = Part("sixfold", MODULE, "compile_sixfold", ("fourfold",))
ALL = (SIXFOLD, FOURFOLD, TWICE)

CALL = f"""
from engine.kernels.listening import listening
from {MODULE} import sixfold
compiled = []
with listening(compiled.append):
    assert sixfold(7) == 42
print(len(compiled))
"""
"""Calls a function; says how many had to be compiled for that."""

COMPILE = f"""
import sys
from pathlib import Path
from engine.kernels.helpers import compile_parts
from engine.kernels.parts import Part
compile_parts([Part("long", "{MODULE}", "take_long")], 1, Path(sys.argv[1]), print)
"""


def children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


@pytest.fixture(autouse=True)
def _nobody_is_left() -> Iterator[None]:
    before = children()
    yield
    assert children() == before


def wait_for(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def compiled_by_a_call(folder: Path) -> int:
    environment = {**os.environ, cache.FOLDER_VARIABLE: str(folder)}
    done = subprocess.run([sys.executable, "-c", CALL], env=environment, capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_helpers_fill_the_cache(tmp_path: Path) -> None:
    """Whoever calls a function later compiles nothing, and its callees were there when it was compiled."""
    names: list[str] = []
    assert compile_parts(ALL, 2, tmp_path, names.append)
    functions = [name.split("(")[0].rpartition(".")[2] for name in names]
    assert functions == ["twice", "fourfold", "sixfold"], "in the order in which they need each other, each once"
    assert compiled_by_a_call(tmp_path) == 0


@pytest.mark.parametrize("trouble", ["fail", "be_killed"])
def test_a_helper_that_ends(trouble: str, tmp_path: Path) -> None:
    """What the others have done by then can be used; the caller compiles the rest."""
    bad = Part("bad", MODULE, trouble, ("fourfold",))
    assert not compile_parts([TWICE, FOURFOLD, bad, SIXFOLD], 1, tmp_path, lambda _: None)
    assert compiled_by_a_call(tmp_path) == 1


def test_helpers_that_cannot_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    assert not compile_parts(ALL, 2, tmp_path, lambda _: None)


def test_a_folder_that_takes_nothing(tmp_path: Path) -> None:
    """Helpers say so; a process of one's own does without keeping anything."""
    folder = tmp_path / "file"
    folder.touch()
    assert not compile_parts(ALL, 1, folder, lambda _: None)


def test_they_end_with_whoever_started_them(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", COMPILE, str(tmp_path)])
    begun = tmp_path / "begun"
    assert wait_for(lambda: begun.exists() and begun.read_text() != "")
    helper = psutil.Process(int(begun.read_text()))
    parent.kill()
    parent.wait()
    assert wait_for(lambda: not helper.is_running())


def test_progress_goes_on_where_helpers_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts what helpers compiled and what this process compiles for want of them, up to the end."""

    @njit
    def missing(x: int) -> int:
        return x

    monkeypatch.setattr(warm, "CACHE_FOLDER", tmp_path)
    monkeypatch.setattr(warm, "FUNCTIONS", 4)
    monkeypatch.setattr(parts, "PARTS", [TWICE, FOURFOLD, Part("bad", MODULE, "fail", ("fourfold",))])
    told: list[tuple[int, int]] = []
    warm.compile_ahead(lambda *numbers: told.append(numbers), 1)
    assert told == [(1, 4), (2, 4)]
    assert not cache.is_complete(tmp_path)
    warm.compile_ahead(lambda *numbers: told.append(numbers), 1)  # is not tried again
    warm.compile_here([lambda: missing(1)], lambda *numbers: told.append(numbers))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    warm.compile_here([lambda: missing(1)], lambda *numbers: told.append(numbers))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)], "a start that compiles nothing tells nothing"


def test_complete_only_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was compiled is not looked at again."""
    monkeypatch.setattr(warm, "CACHE_FOLDER", tmp_path)
    monkeypatch.setattr(parts, "PARTS", [TWICE])
    warm.compile_ahead(lambda *_: pytest.fail("nobody is there to compile"), 0)
    told: list[tuple[int, int]] = []
    warm.compile_ahead(lambda *numbers: told.append(numbers), 1)
    assert cache.is_complete(tmp_path)
    warm.compile_here([], lambda *numbers: told.append(numbers))
    monkeypatch.setattr(parts, "PARTS", [Part("bad", MODULE, "fail")])
    warm.compile_ahead(lambda *numbers: told.append(numbers), 1)
    assert told == [(1, warm.FUNCTIONS), (warm.FUNCTIONS, warm.FUNCTIONS)]


def test_every_part_can_be_begun() -> None:
    """Those that it comes after stand before it."""
    done: set[str] = set()
    for part in PARTS:
        assert done.issuperset(part.after)
        assert part.name not in done
        done.add(part.name)


def kept(function: Any, pattern: str) -> list[Path]:
    """Files of machine code beside that of a function."""
    return list(Path(function.stats.cache_path).glob(pattern + ".nbc"))


def test_parts_compile_what_a_program_calls() -> None:
    """With the very types that it calls it with: else they would help nobody, and everything be compiled twice."""
    load_kernels(lambda _: None)
    assert kept(run, "program.run-*"), "this machine keeps what it compiles"
    for part in PARTS:
        getattr(import_module(part.module), part.function)()
    for function in (
        ops_routing.route,
        ops_attention.attend,
        ops_latent.absorb,
        ops_recurrent.delta,
        ops_basic.linear,
        ops_experts.combine,
        ops_index.select,
        ops_mixed_attention.mixed_output,
        auto.decide,
        auto.chosen,
        auto.victim,
    ):
        name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        assert len(kept(function, f"{name}-*")) == 1, name


def test_how_many_functions_there_are() -> None:
    """The number that progress is told of is about right."""
    load_kernels(lambda _: None)
    functions = len(kept(run, "*")) + len(kept(forwards, "*"))
    assert 0.8 < functions / warm.FUNCTIONS < 1.3


def test_sources_that_are_installed_anew_are_compiled_anew(tmp_path: Path) -> None:
    """Else nobody would hear of it: numba does not use the code of other files."""
    source = tmp_path / "one" / "kernels" / "some.py"
    source.parent.mkdir(parents=True)
    source.write_text("some = 1")
    os.utime(source, ns=(5, 5))
    known = cache.source_hash(tmp_path / "one")
    assert cache.source_hash(tmp_path / "one") == known
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert cache.source_hash(tmp_path / "two") != known
    os.utime(source, ns=(5, 6))
    assert cache.source_hash(tmp_path / "one") != known
    os.utime(source, ns=(5, 5))
    source.write_text("some = 2")
    os.utime(source, ns=(5, 5))
    assert cache.source_hash(tmp_path / "one") != known
