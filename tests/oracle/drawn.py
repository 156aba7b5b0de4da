"""What a checkpoint is drawn from: tensors with a name, a shape and a spread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

ROUTER = 1.5
"""Standard deviation of a router's logits, whose input has a root mean square of 1."""

BIAS = 0.3
CORRECTION = 0.15
"""Of a sigmoid router's correction bias: it decides many a choice."""

NORM = 0.25
"""Of a norm's weights, around 1."""


@dataclass(frozen=True)
class Tensor:
    """A tensor to be drawn: values `centre` plus or minus, with standard deviation `deviation`."""

    name: str
    shape: tuple[int, ...]
    deviation: float
    centre: float = 0.0
    dtype: str | None = None  # None: the checkpoint's


def norm(name: str, width: int) -> Tensor:
    """The weight of a norm."""
    return Tensor(name, (width,), NORM, centre=1.0)


def linear(name: str, rows: int, columns: int, gain: float = 1.0) -> Tensor:
    """A matrix that multiplies the root mean square of what it reads by `gain`."""
    return Tensor(name, (rows, columns), gain * columns**-0.5)


def mlp(stem: str, hidden: int, width: int) -> Iterator[Tensor]:
    """A gated MLP."""
    yield linear(f"{stem}.gate_proj.weight", width, hidden, 1.5)
    yield linear(f"{stem}.up_proj.weight", width, hidden, 1.5)
    yield linear(f"{stem}.down_proj.weight", hidden, width, 1.5)
