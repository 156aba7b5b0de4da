"""Reading config.json: every value is checked, every default is written where it is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import UnsupportedModelError
from ..model.spec import Rope

MAX_LAYERS = 4096
MAX_SIZE = 1 << 24

_EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")
"""Names of the number of routed experts: a config saved again by transformers need not use its family's own."""

_WINDOWED = {"full_attention": False, "sliding_attention": True}


def shown(value: Any) -> str:
    """A value from outside, fit for an error's one line."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


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
            raise UnsupportedModelError(f"config.json: {key} is {shown(value)}, expected a whole number {low}..{high}")
        return value

    def number(self, key: str, default: float | None = None, high: float = 1e30) -> float:
        """A positive number, at most `high`."""
        value = self.values.get(key)
        if value is None:
            value = default
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= high:
            raise UnsupportedModelError(
                f"config.json: {key} is {shown(value)}, expected a positive number up to {high:g}"
            )
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise UnsupportedModelError(f"config.json: {key} is {shown(value)}, expected true or false")
        return value

    def section(self, key: str) -> Config:
        """A nested object, such as `text_config`."""
        value = self.values.get(key)
        if not isinstance(value, Mapping):
            raise UnsupportedModelError(f"config.json: {key} is missing or no object")
        return Config(value)

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
            raise UnsupportedModelError(f"config.json: {key} is {shown(value)}, only {wanted} is supported")

    def layers(self) -> int:
        """num_hidden_layers."""
        return self.integer("num_hidden_layers", high=MAX_LAYERS)

    def experts(self, default: int) -> int:
        """The number of routed experts, under whichever name the config has it."""
        counts = {key: self.integer(key) for key in _EXPERTS if self.has(key)}
        if len(set(counts.values())) > 1:
            raise UnsupportedModelError(f"config.json: {counts} contradict each other")
        return next(iter(counts.values()), default)

    def per_layer(self, key: str, default: int | None = None) -> list[int]:
        """An integer for each layer: a list of that length, or one number for all."""
        layers, value = self.layers(), self.values.get(key)
        if not isinstance(value, list):
            return [self.integer(key, default)] * layers
        if len(value) < layers:
            raise UnsupportedModelError(f"config.json: {key} has {len(value)} entries for {layers} layers")
        return [Config({key: item}).integer(key) for item in value[:layers]]

    def norm_eps(self, default: float) -> float:
        """rms_norm_eps."""
        return self.number("rms_norm_eps", default, high=1.0)

    def head_dim(self) -> int:
        """head_dim, else hidden_size / num_attention_heads."""
        hidden, heads = self.integer("hidden_size"), self.integer("num_attention_heads")
        if not self.has("head_dim") and hidden % heads:
            raise UnsupportedModelError(f"config.json: hidden_size {hidden} is not a multiple of the {heads} heads")
        return self.integer("head_dim", hidden // heads)

    def sliding_window(self, default: int | None = None) -> int | None:
        """sliding_window: null means none, an absent key the family's default."""
        if default is None or "sliding_window" in self.values:
            return self.integer("sliding_window") if self.has("sliding_window") else None
        return default

    def windows(self, window: int | None, windowed: Sequence[bool]) -> list[int | None]:
        """Each layer's window: where `layer_types` says so or, if the config has none, where `windowed` does."""
        types = self.values.get("layer_types")
        if types is not None:
            if (
                not isinstance(types, list)
                or len(types) != len(windowed)
                or not all(isinstance(kind, str) and kind in _WINDOWED for kind in types)
            ):
                raise UnsupportedModelError(
                    f"config.json: layer_types must name {' or '.join(_WINDOWED)} for each of {len(windowed)} layers"
                )
            windowed = [_WINDOWED[kind] for kind in types]
        if window is None and any(windowed):
            raise UnsupportedModelError("config.json: layer_types has sliding layers, but no sliding_window is in use")
        return [window if sliding else None for sliding in windowed]

    def rope(self, head_dim: int, theta: float = 10000.0, partial: float | None = None, pairs: bool = False) -> Rope:
        """The rotary embedding, from the older top-level keys or from `rope_parameters`.

        partial: the family's default share of a head that is rotated; None: it always rotates whole heads.
        """
        scaling = self.values.get("rope_scaling") or self.values.get("rope_parameters") or {}
        if not isinstance(scaling, Mapping) or any(isinstance(value, Mapping) for value in scaling.values()):
            raise UnsupportedModelError(
                f"config.json: rope_scaling is {shown(scaling)}, expected one flat object for all layers"
            )
        parameters = Config({**self.values, **scaling})
        share = parameters.number("partial_rotary_factor", 1.0 if partial is None else partial)
        dim = int(head_dim * share)
        if not 0 < dim <= head_dim or dim % 2 or (partial is None and share != 1):
            raise UnsupportedModelError(
                f"config.json: partial_rotary_factor {share:g} would rotate {dim} of {head_dim}, which is not supported"
            )
        kept: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in scaling.items()
            if isinstance(value, (int, float, str, list)) and key not in ("rope_theta", "partial_rotary_factor")
        }
        kept["rope_type"] = str(scaling.get("rope_type") or scaling.get("type") or "default")
        kept["max_position_embeddings"] = self.integer("max_position_embeddings", 4096, high=1 << 31)
        if self.has("original_max_position_embeddings"):
            kept["original_max_position_embeddings"] = self.integer("original_max_position_embeddings", high=1 << 31)
        return Rope(dim, parameters.number("rope_theta", theta), pairs, kept)
