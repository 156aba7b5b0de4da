"""Models worth getting, by the memory they are good with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Recommended:
    """repo: on the hub. bits: to convert to, empty to take as it is. disk: GB then. memory: GB it is good with, in all.
    why: in a few words."""

    repo: str
    bits: str
    disk: float
    memory: float
    why: str

    @property
    def command(self) -> str:
        """What gets it."""
        return f"colibri-tui pull {self.repo}" + (f" --convert {self.bits}" if self.bits else "")


MODELS: Final = (
    Recommended("allenai/OLMoE-1B-7B-0125-Instruct", "int4", 4.1, 4, "small, fully open, shows routing well"),
    Recommended("LiquidAI/LFM2-8B-A1B", "int4", 4.9, 4, "the quickest on little memory"),
    Recommended("openai/gpt-oss-20b", "", 13.8, 8, "reasons well for its size; comes in 4 bits"),
    Recommended("Qwen/Qwen3-30B-A3B-Instruct-2507", "int4", 18, 8, "the all-rounder: long context, many languages"),
    Recommended("Qwen/Qwen3-Coder-30B-A3B-Instruct", "int4", 18, 8, "the same for code"),
    Recommended("zai-org/GLM-4.7-Flash", "int4", 18, 12, "code and tools; long conversations take little"),
    Recommended("Qwen/Qwen3.6-35B-A3B", "int4", 21, 12, "the most used of its size; long conversations take little"),
    Recommended("Qwen/Qwen3-Next-80B-A3B-Instruct", "int4", 46, 24, "a large model with 3 billion active"),
    Recommended("zai-org/GLM-4.5-Air", "int4", 64, 32, "106 billion parameters, 12 active"),
    Recommended("openai/gpt-oss-120b", "", 65, 48, "the large gpt-oss; comes in 4 bits"),
)
"""By memory, then by size. Every family is one that the engine runs."""


def recommended(memory: float) -> list[Recommended]:
    """Those that are good with so many GB, the most capable first."""
    return [one for one in reversed(MODELS) if one.memory <= memory]
