"""What config.json says of quantised weights: which methods can be read, and what their tensors do not tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import UnsupportedModelError
from ..model.spec import Quantisation
from .config import Config, shown

QUANTISATION_KEYS = ("quantization_config", "compression_config")
"""Where configs keep it; the second is compressed-tensors' older name."""


def read_quantisation(values: Mapping[str, Any]) -> Quantisation | None:
    """What a config, or the text model nested in it, says; UnsupportedModelError names what cannot be read."""
    nested = values.get("text_config")
    places = [values, nested] if isinstance(nested, Mapping) else [values]
    found = next((place[key] for place in places for key in QUANTISATION_KEYS if place.get(key)), None)
    if found is None:
        return None
    if not isinstance(found, Mapping):
        raise UnsupportedModelError(f"config.json: quantization_config is {shown(found)}, expected an object")
    config, method = Config(found), found.get("quant_method")
    reader = _METHODS.get(method) if isinstance(method, str) else None
    if reader is None:
        raise UnsupportedModelError(
            f"config.json: quantisation {shown(method)} is not supported (supported: {', '.join(_METHODS)}); use "
            "another release of this model"
        )
    return reader(config)


def _expect(config: Config, key: str, *allowed: Any) -> None:
    """Refuse another value than these; absent and null count as None."""
    value = config.values.get(key)
    if value not in allowed:
        wanted = " or ".join(repr(item) for item in allowed if item is not None)
        raise UnsupportedModelError(
            f"config.json: quantization_config has {key} {shown(value)}, only {wanted} is supported"
        )


def _fp8(config: Config) -> Quantisation:
    _expect(config, "fmt", None, "e4m3", "float8_e4m3fn")
    _expect(config, "weight_block_size", None, [128, 128])
    return Quantisation("fp8")


def _mxfp4(config: Config) -> Quantisation:
    return Quantisation("mxfp4")


def _compressed(config: Config) -> Quantisation:
    """compressed-tensors: one group of all linear layers, 4-bit integers or 8-bit floats."""
    groups = config.section("config_groups").values
    if len(groups) != 1:
        raise UnsupportedModelError(
            f"config.json: quantization_config has {len(groups)} config_groups, only one is supported"
        )
    group = next(iter(groups.values()))
    weights = Config(group if isinstance(group, Mapping) else {}).section("weights")
    kind = (weights.values.get("type"), weights.values.get("num_bits"))
    if kind == ("float", 8):
        _expect(weights, "strategy", "block", "channel", "tensor")
        _expect(weights, "block_structure", None, [128, 128])
        return Quantisation("fp8")
    if kind != ("int", 4):
        raise UnsupportedModelError(
            f"config.json: weights of {shown(kind[0])}, {shown(kind[1])} bits are not supported, only 4-bit int and "
            "8-bit float"
        )
    _expect(config, "format", "pack-quantized")
    _expect(weights, "symmetric", True)
    _expect(weights, "actorder", None, "weight")  # "weight" sorts columns only while quantising
    _expect(weights, "strategy", "group", "channel")
    return Quantisation("compressed-tensors", _group(weights, "strategy", "channel"))


def _group(config: Config, key: str, whole: Any) -> int | None:
    """group_size; None for -1, for null, and where `key` says that all columns are one group."""
    if config.values.get(key) == whole or config.values.get("group_size") in (-1, None):
        return None
    return config.integer("group_size")


def _gptq(config: Config) -> Quantisation:
    _expect(config, "bits", 4)
    second = config.values.get("checkpoint_format") == "gptq_v2"
    _expect(config, "checkpoint_format", None, "gptq", "gptq_v2")
    return Quantisation("gptq", _group(config, "group_size", -1), 0 if second else 1)


def _awq(config: Config) -> Quantisation:
    _expect(config, "bits", 4)
    version = str(config.values.get("version") or "gemm").lower()
    if version != "gemm":
        raise UnsupportedModelError(f"config.json: AWQ's version {shown(version)} is not supported, only 'gemm'")
    return Quantisation("awq", _group(config, "group_size", -1))


_METHODS = {"fp8": _fp8, "mxfp4": _mxfp4, "compressed-tensors": _compressed, "gptq": _gptq, "awq": _awq}
"""By `quant_method`."""
