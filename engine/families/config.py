"""Reading config.json: every value is checked, every default is written where it is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import UnsupportedModelError
from ..model.spec import Rope

MAX_LAYERS = 4096
MAX_SIZE = 1 << 24


class Config:
    """A config.json with typed access. A value of another type or out of range is refused by name."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def has(self, key: str) -> bool:
        """Whether the key is there and not null."""
        return self.values.get(key) is not None

    def integer(self, key: str, default: int | None = None, low: int = 1, high: int = MAX_SIZE) -> int:
        """An integer in low..high."""
        value = self.values.get(key)
        if value is None:
            value = default
        if value is None:
            raise UnsupportedModelError(f"config.json: {key} is missing; the folder's config is not complete")
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise UnsupportedModelError(f"config.json: {key} is {value!r}, expected a whole number {low}..{high}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number."""
        value = self.values.get(key)
        if value is None:
            value = default
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e30:
            raise UnsupportedModelError(f"config.json: {key} is {value!r}, expected a number")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise UnsupportedModelError(f"config.json: {key} is {value!r}, expected true or false")
        return value

    def layer_list(self, key: str) -> frozenset[int]:
        """A list of layer indices, empty when absent."""
        value = self.values.get(key)
        if value is None:
            return frozenset()
        if not isinstance(value, list) or not all(type(item) is int for item in value):
            raise UnsupportedModelError(f"config.json: {key} is not a list of layer numbers")
        return frozenset(value)

    def expect(self, key: str, *allowed: Any) -> None:
        """Refuse any value but the allowed ones; absent and null count as None."""
        value = self.values.get(key)
        if value not in allowed:
            wanted = " or ".join(repr(item) for item in allowed if item is not None)
            raise UnsupportedModelError(f"config.json: {key} is {value!r}, only {wanted} is supported")

    def layers(self) -> int:
        """num_hidden_layers."""
        return self.integer("num_hidden_layers", high=MAX_LAYERS)

    def head_dim(self) -> int:
        """head_dim, else hidden_size / num_attention_heads."""
        hidden, heads = self.integer("hidden_size"), self.integer("num_attention_heads")
        if not self.has("head_dim") and hidden % heads:
            raise UnsupportedModelError(f"config.json: hidden_size {hidden} is not a multiple of the {heads} heads")
        return self.integer("head_dim", hidden // heads)

    def rope(self, head_dim: int, theta: float = 10000.0, partial: float = 1.0) -> Rope:
        """The rotary embedding, from `rope_parameters` or from the older top-level keys."""
        scaling = self.values.get("rope_parameters") or self.values.get("rope_scaling") or {}
        if not isinstance(scaling, Mapping):
            raise UnsupportedModelError(f"config.json: rope_scaling is {scaling!r}, expected an object")
        parameters = Config({**self.values, **scaling})
        share = parameters.number("partial_rotary_factor", partial)
        dim = int(head_dim * share)
        if not 0 < dim <= head_dim or dim % 2:
            raise UnsupportedModelError(f"config.json: partial_rotary_factor {share:g} rotates {dim} of {head_dim}")
        kept = {
            key: value
            for key, value in scaling.items()
            if isinstance(value, (int, float, str)) and key not in ("rope_theta", "partial_rotary_factor")
        }
        kept["rope_type"] = str(scaling.get("rope_type") or scaling.get("type") or "default")
        kept.setdefault("max_position_embeddings", self.integer("max_position_embeddings", 4096, high=1 << 31))
        return Rope(dim, parameters.number("rope_theta", theta), scaling=kept)
