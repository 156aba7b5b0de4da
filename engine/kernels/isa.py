"""Which vector instructions the kernels are written in: chosen once, when this module is imported.

The best level the processor has is taken; the environment variable COLIBRI_ISA names a lower one, for tests and for
comparing. Every level computes packed products with the same integers and the same order of float operations, so
levels with fused multiply-add agree to the last bit.
"""

from __future__ import annotations

import os
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import llvmlite.binding as llvm
from numba.core import config

from ..errors import EngineError

LEVELS = ("vnni512", "vnni256", "avx2", "neon", "generic")
"""From best to worst; `generic` runs everywhere."""


@dataclass(frozen=True, slots=True)
class Target:
    """What an emitter has to know.

    isa: the level. vector: bits of a register. sums: registers that a kernel may fill with sums. fma, f16: whether
    fused multiply-add and float16 -> float32 are instructions (otherwise they would be calls of functions which may
    not exist).
    """

    isa: str
    vector: int
    sums: int
    fma: bool
    f16: bool


def host_features() -> frozenset[str]:
    """Names of the features code is compiled for: the processor's, or what numba was told to assume instead."""
    told = config.CPU_FEATURES
    if told is None and config.CPU_NAME is not None:
        told = ""
    if told is not None:
        return frozenset(name[1:] for name in told.split(",") if name.startswith("+"))
    names = {name for name, present in llvm.get_host_cpu_features().items() if present}
    if llvm.get_host_cpu_name().startswith("apple-m"):
        names |= {"neon", "dotprod"}  # every one of them; macOS does not list features
    return frozenset(names)


def available(features: AbstractSet[str]) -> tuple[str, ...]:
    """The levels a processor with these features can run, best first."""
    avx2 = {"avx2", "fma", "f16c"} <= features
    found = {
        "vnni512": avx2 and {"avx512f", "avx512bw", "avx512vl", "avx512vnni"} <= features,
        "vnni256": avx2 and ("avxvnni" in features or {"avx512vl", "avx512vnni"} <= features),
        "avx2": avx2,
        "neon": {"neon", "dotprod"} <= features,
        "generic": True,
    }
    return tuple(level for level in LEVELS if found[level])


def choose(features: AbstractSet[str], wanted: str | None = None) -> str:
    """The best level, or `wanted`; raises EngineError if the processor lacks that one."""
    levels = available(features)
    if not wanted:
        return levels[0]
    if wanted not in levels:
        raise EngineError(f"COLIBRI_ISA={wanted!r}: this processor runs {', '.join(levels)}; unset it or name one")
    return wanted


def target(isa: str, features: AbstractSet[str]) -> Target:
    """What code of level `isa` may use on a processor with these features.

    A generic x86 target is taken to have nothing, so that the level means the same everywhere; generic code on
    64-bit Arm keeps the instructions which the base architecture guarantees.
    """
    arm = "neon" in features
    vector = {"vnni512": 512, "vnni256": 256, "avx2": 256}.get(isa, 128)
    capable = isa != "generic" or arm
    return Target(isa, vector, sums=16 if vector == 512 or arm else 8, fma=capable, f16=capable)


FEATURES = host_features()
ISA = choose(FEATURES, os.environ.get("COLIBRI_ISA"))
TARGET = target(ISA, FEATURES)
