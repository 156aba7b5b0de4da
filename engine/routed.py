"""What a history must fit, known from a model's configuration alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .checkpoint.gguf_files import is_gguf, open_gguf
from .checkpoint.index import read_json
from .families import read_spec
from .model.spec import ModelSpec


@dataclass(frozen=True, slots=True)
class Routed:
    """layers and experts of a model, its type, the layers that have a router."""

    layers: int
    experts: int
    model_type: str
    moe_layers: tuple[int, ...]


def routed_of(spec: ModelSpec, config: dict[str, Any]) -> Routed:
    """What a model's history must fit."""
    return Routed(len(spec.layers), spec.experts, str(config["model_type"]), spec.moe_layers)


def read_routed(path: Path) -> Routed:
    """Read it from the model at `path`. Raises EngineError for what is no model or none that can be run."""
    config = open_gguf(path).config if is_gguf(path) else read_json(path / "config.json")
    return routed_of(read_spec(config), config)
