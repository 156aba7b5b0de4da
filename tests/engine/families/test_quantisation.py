"""What config.json says of quantised weights: understood, or refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import UnsupportedModelError
from engine.families.quantisation import read_quantisation
from engine.model.spec import Quantisation

FP8 = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 64, "version": "gemm", "zero_point": True}


def compressed(weights: dict[str, Any], layout: str = "pack-quantized", **more: Any) -> dict[str, Any]:
    groups = {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None}}
    return {"quant_method": "compressed-tensors", "format": layout, "config_groups": groups, **more}


INT4 = {"type": "int", "num_bits": 4, "strategy": "group", "group_size": 32, "symmetric": True, "actorder": None}
FLOAT8 = {"type": "float", "num_bits": 8, "strategy": "channel", "symmetric": True}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (FP8, Quantisation("fp8")),
        ({**FP8, "fmt": "float8_e4m3fn", "modules_to_not_convert": ["lm_head"]}, Quantisation("fp8")),
        ({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}, Quantisation("mxfp4")),
        (compressed(INT4), Quantisation("compressed-tensors", 32)),
        (compressed({**INT4, "actorder": "weight"}), Quantisation("compressed-tensors", 32)),
        (compressed({**INT4, "strategy": "channel", "group_size": None}), Quantisation("compressed-tensors")),
        (compressed(FLOAT8, "float-quantized"), Quantisation("fp8")),
        (GPTQ, Quantisation("gptq", 128, 1)),
        ({**GPTQ, "group_size": -1}, Quantisation("gptq", None, 1)),
        ({**GPTQ, "checkpoint_format": "gptq_v2"}, Quantisation("gptq", 128, 0)),
        (AWQ, Quantisation("awq", 64)),
        ({**AWQ, "version": "GEMM"}, Quantisation("awq", 64)),
    ],
)
def test_methods(config: dict[str, Any], expected: Quantisation) -> None:
    for key in ("quantization_config", "compression_config"):
        assert read_quantisation({key: config}) == expected
        assert read_quantisation({"text_config": {key: config}}) == expected


@pytest.mark.parametrize("config", [{}, {"quantization_config": None}, {"quantization_config": {}}])
def test_no_method(config: dict[str, Any]) -> None:
    assert read_quantisation(config) is None


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ([1], r"quantization_config is \[1\], expected an object"),
        ({"quant_method": "exl2"}, "'exl2' is not supported"),
        ({"quant_method": ["fp8"]}, "is not supported"),
        ({**FP8, "fmt": "e5m2"}, "fmt 'e5m2', only 'e4m3'"),
        ({**FP8, "weight_block_size": [64, 64]}, r"weight_block_size \[64, 64\], only \[128, 128\]"),
        (compressed({**INT4, "num_bits": 8}), "weights of 'int', 8 bits are not supported"),
        (compressed({**INT4, "symmetric": False}), "symmetric False, only True"),
        (compressed({**INT4, "actorder": "group"}), "actorder 'group', only 'weight'"),
        (compressed({**INT4, "strategy": "tensor"}), "strategy 'tensor'"),
        (compressed({**INT4, "group_size": "x"}), "group_size"),
        (compressed(INT4, "marlin-24"), "format 'marlin-24', only 'pack-quantized'"),
        (compressed({**FLOAT8, "strategy": "block", "block_structure": [1, 128]}), "block_structure"),
        (compressed(INT4, config_groups={}), "0 config_groups"),
        (compressed(INT4, config_groups={"a": {"weights": INT4}, "b": {"weights": FLOAT8}}), "2 config_groups"),
        (compressed(INT4, config_groups={"a": 7}), "weights is missing or no object"),
        ({**GPTQ, "bits": 3}, "bits 3, only 4"),
        ({**GPTQ, "checkpoint_format": "marlin"}, "checkpoint_format 'marlin', only 'gptq' or 'gptq_v2'"),
        ({**AWQ, "version": "gemv"}, "version 'gemv' is not supported, only 'gemm'"),
        ({**AWQ, "bits": 8}, "bits 8, only 4"),
    ],
)
def test_what_cannot_be_read_is_refused(config: Any, said: str) -> None:
    with pytest.raises(UnsupportedModelError, match=said) as refused:
        read_quantisation({"quantization_config": config})
    assert "\n" not in str(refused.value)
