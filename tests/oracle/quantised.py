"""Checkpoints of `checkpoints` in the layouts of quantised releases, and the float32 checkpoints they stand for.

Each layout is written down here a second time, from its description, apart from `engine.model.storage`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from . import safetensors_file as st
from .checkpoints import Case, Floats, is_extra, tensors
from .safetensors_file import Stored

Packed = tuple[dict[str, Stored], Floats]
"""Tensors that hold a matrix, and what they stand for."""

BLOCK = 128


@dataclass(frozen=True)
class Layout:
    """One way to quantise: `pack(hub name, matrix)`; config.json's entry; which matrices; and whether columns are taken
    in their order, so that products have the same bits as with float32."""

    pack: Callable[[str, Floats], Packed]
    config: Mapping[str, Any] | None
    in_order: bool = False
    experts_only: bool = False


def _stored(values: npt.NDArray[Any], dtype: str) -> Stored:
    return Stored(dtype, values.shape, np.ascontiguousarray(values).tobytes())


def _e4m3() -> Floats:
    code = np.arange(127)
    exponent, fraction = code >> 3, code & 7
    return np.where(exponent == 0, fraction / 512, (1 + fraction / 8) * 2.0 ** (exponent - 7.0)).astype(np.float32)


def _nearest(values: Floats, table: Floats) -> npt.NDArray[np.uint8]:
    """The number of the nearest entry of an ascending table of magnitudes, and bit 7 or 3 for the sign."""
    sign = 128 if len(table) > 8 else 8
    size = np.abs(values)
    upper = np.clip(np.searchsorted(table, size), 1, len(table) - 1)
    code = np.where(size - table[upper - 1] < table[upper] - size, upper - 1, upper)
    return np.where(values < 0, code + sign, code).astype(np.uint8)


def _value(codes: npt.NDArray[np.uint8], table: Floats) -> Floats:
    sign = 128 if len(table) > 8 else 8
    return np.where(codes >= sign, -table[codes % sign], table[codes % sign]).astype(np.float32)


E4M3, E2M1 = _e4m3(), np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)


def fp8(name: str, w: Floats, channels: bool = False) -> Packed:
    """8-bit floats: a scale for 128 x 128, or (compressed-tensors) one for each row, in bfloat16."""
    n, k = w.shape
    if channels:
        scales = st.rounded(np.abs(w).max(1, keepdims=True) / 448, "BF16")
        spread, stored, suffix = np.broadcast_to(scales, w.shape), st.stored(scales, "BF16"), "_scale"
    else:
        padded = np.zeros((-(-n // BLOCK) * BLOCK, -(-k // BLOCK) * BLOCK), np.float32)
        padded[:n, :k] = np.abs(w)
        blocks = padded.reshape(padded.shape[0] // BLOCK, BLOCK, -1, BLOCK).max((1, 3))
        scales = (blocks / 448).astype(np.float32)
        spread, suffix = scales.repeat(BLOCK, 0).repeat(BLOCK, 1)[:n, :k], "_scale_inv"
        stored = st.stored(scales, "F32")
    codes = _nearest(w / spread, E4M3)
    return {name: _stored(codes, "F8_E4M3"), name + suffix: stored}, _value(codes, E4M3) * spread


def _words(q: npt.NDArray[np.integer]) -> npt.NDArray[np.uint32]:
    """Eight 4-bit integers a word along the last axis, lowest first."""
    eight = q.astype(np.uint32).reshape(*q.shape[:-1], -1, 8)
    return (eight << (4 * np.arange(8, dtype=np.uint32))).sum(-1, dtype=np.uint32)


def _grouped(w: Floats, group: int) -> Floats:
    return w.reshape(len(w), -1, group)


def compressed(name: str, w: Floats, group: int | None, dtype: str) -> Packed:
    """compressed-tensors' pack-quantized: symmetric, in groups or by row."""
    stem, groups = name.removesuffix("weight"), _grouped(w, group or w.shape[1])
    scales = st.rounded(np.abs(groups).max(2) / 7, dtype)
    q = np.clip(np.rint(groups / scales[..., None]), -8, 7)
    files = {
        stem + "weight_packed": _stored(_words(q.reshape(w.shape) + 8), "I32"),
        stem + "weight_scale": st.stored(scales, dtype),
        stem + "weight_shape": _stored(np.array(w.shape, np.int64), "I64"),
    }
    return files, (q * scales[..., None]).reshape(w.shape).astype(np.float32)


def _with_zeros(w: Floats, group: int) -> tuple[npt.NDArray[Any], Floats, npt.NDArray[Any], Floats]:
    """Integers 0..15 [n, k], float16 scales and zero points [n, groups], and what they stand for."""
    groups = _grouped(w, group)
    low, high = np.minimum(groups.min(2), 0), np.maximum(groups.max(2), 0)
    scales = st.rounded((high - low) / 15, "F16")
    zeros = np.clip(np.rint(-low / scales), 0, 15)
    q = np.clip(np.rint(groups / scales[..., None]) + zeros[..., None], 0, 15)
    values = (q - zeros[..., None]) * scales[..., None]
    return q.reshape(w.shape), scales, zeros, values.reshape(w.shape).astype(np.float32)


def gptq(name: str, w: Floats, group: int, zero_offset: int) -> Packed:
    """GPTQ: words of eight columns, turned; zero points less one in the first version."""
    stem = name.removesuffix("weight")
    q, scales, zeros, values = _with_zeros(w, group)
    return {
        stem + "qweight": _stored(_words(q).T, "I32"),
        stem + "qzeros": _stored(_words((zeros - zero_offset).T % 16), "I32"),
        stem + "scales": st.stored(np.ascontiguousarray(scales.T), "F16"),
        stem + "g_idx": _stored(np.arange(w.shape[1], dtype=np.int32) // group, "I32"),
    }, values


def awq(name: str, w: Floats, group: int) -> Packed:
    """AWQ: words of eight rows in an order of their own, turned."""
    stem = name.removesuffix("weight")
    q, scales, zeros, values = _with_zeros(w, group)

    def shuffled(turned: npt.NDArray[Any]) -> npt.NDArray[np.uint32]:
        eight = turned.reshape(len(turned), -1, 8)[..., [0, 2, 4, 6, 1, 3, 5, 7]]
        return _words(eight.reshape(turned.shape))

    return {
        stem + "qweight": _stored(shuffled(q.T), "I32"),
        stem + "qzeros": _stored(shuffled(zeros.T), "I32"),
        stem + "scales": st.stored(np.ascontiguousarray(scales.T), "F16"),
    }, values


def _by_group(w: Floats, group: int, most: int) -> tuple[npt.NDArray[np.int64], Floats, Floats]:
    """Symmetric integers [n, k], float32 scales [n, groups], and what they stand for; columns may not fill a group."""
    n, k = w.shape
    padded = np.zeros((n, -(-k // group) * group), np.float32)
    padded[:, :k] = w
    groups = _grouped(padded, group)
    scales = (np.maximum(np.abs(groups).max(2), 1e-12) / most).astype(np.float32)
    q = np.clip(np.rint(groups / scales[..., None]), -most - 1, most).astype(np.int64)
    values = (q * scales[..., None]).astype(np.float32).reshape(n, -1)[:, :k]
    return q.reshape(n, -1)[:, :k], scales, values


def _nibbles(q: npt.NDArray[np.int64], bits: int) -> npt.NDArray[np.uint8]:
    """Integers of some bits packed into bytes along each row, lowest first; a row ends on a byte."""
    count = 8 // bits
    padded = np.zeros((len(q), -(-q.shape[1] // count) * count), np.uint8)
    padded[:, : q.shape[1]] = q & (1 << bits) - 1
    packed = padded.reshape(len(q), -1, count) << (bits * np.arange(count, dtype=np.uint8))
    return packed.sum(2, dtype=np.uint8)


def glm(name: str, w: Floats, bits: int, group: int | None = None) -> Packed:
    """colibrì's GLM container: U8 under the hub's name, scales under .qs."""
    most = {8: 127, 4: 7, 2: 1}[bits]
    q, scales, values = _by_group(w, group or w.shape[1], most)
    data = q.astype(np.int8).view(np.uint8) if bits == 8 else _nibbles(q + (8 if bits == 4 else 2), bits)
    return {name: _stored(data.reshape(-1), "U8"), name + ".qs": st.stored(scales.reshape(-1), "F32")}, values


def _plain(name: str, w: Floats) -> Packed:
    return {name: st.stored(st.rounded(w, "F16"), "F16")}, st.rounded(w, "F16")


_FP8 = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}
_AWQ = {"quant_method": "awq", "bits": 4, "version": "gemm", "zero_point": True}


def _ct(kind: str, bits: int, strategy: str, group: int | None, layout: str) -> dict[str, Any]:
    weights = {
        "type": kind, "num_bits": bits, "strategy": strategy, "group_size": group, "symmetric": True, "actorder": None,
    }  # fmt: skip
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    return {"quant_method": "compressed-tensors", "format": layout, "config_groups": groups, "ignore": ["lm_head"]}


def _gptq(group: int, **more: Any) -> dict[str, Any]:
    return {"quant_method": "gptq", "bits": 4, "group_size": group, "desc_act": False, "sym": False, **more}


LAYOUTS: dict[str, Layout] = {
    "fp8": Layout(fp8, _FP8, in_order=True),
    "fp8-channel": Layout(
        partial(fp8, channels=True), _ct("float", 8, "channel", None, "float-quantized"), in_order=True
    ),
    "int4-32": Layout(
        partial(compressed, group=32, dtype="BF16"), _ct("int", 4, "group", 32, "pack-quantized"), experts_only=True
    ),
    "int4-128": Layout(partial(compressed, group=128, dtype="F16"), _ct("int", 4, "group", 128, "pack-quantized")),
    "int4-channel": Layout(
        partial(compressed, group=None, dtype="BF16"), _ct("int", 4, "channel", None, "pack-quantized")
    ),
    "gptq-32": Layout(partial(gptq, group=32, zero_offset=1), _gptq(32)),
    "gptq-128": Layout(partial(gptq, group=128, zero_offset=0), _gptq(128, checkpoint_format="gptq_v2")),
    "awq-64": Layout(partial(awq, group=64), {**_AWQ, "group_size": 64}),
    "awq-128": Layout(partial(awq, group=128), {**_AWQ, "group_size": 128}),
    "glm-int8": Layout(partial(glm, bits=8), None, in_order=True),
    "glm-int4": Layout(partial(glm, bits=4), None),
    "glm-int4-64": Layout(partial(glm, bits=4, group=64), None),
    "glm-int2": Layout(partial(glm, bits=2), None),
}  # fmt: skip

MERGED = {"olmoe-int8": (8, None), "qwen-int8": (8, None), "qwen-int4": (4, None), "qwen-int4-64": (4, 64)}
"""colibrì's containers of whole experts: bits, and columns of a group."""


def is_quantised(name: str, layout: Layout) -> bool:
    """Whether a layout's releases quantise a matrix."""
    whole = ".mlp.gate." in name or "embed" in name or "lm_head" in name or "shared_expert_gate" in name
    return not whole and (".experts." in name if layout.experts_only else True)


def split(case: Case, layout: Layout) -> tuple[dict[str, Stored], dict[str, Stored]]:
    """The tensors of a checkpoint in a layout, and those of the float32 checkpoint it stands for."""
    packed: dict[str, Stored] = {}
    plain: dict[str, Stored] = {}
    for name, (dtype, values) in tensors(case).items():
        if values.ndim == 2 and is_quantised(name, layout) and not is_extra(case.config, name):
            files, stands_for = layout.pack(name, values)
            packed |= files
            plain[name] = st.stored(stands_for, "F32")
        else:
            packed[name] = plain[name] = st.stored(values, dtype)
    return packed, plain


def merged(case: Case, kind: str) -> tuple[dict[str, Stored], dict[str, Stored]]:
    """The same for a container of whole experts; all else is kept in float16."""
    bits, group = MERGED[kind]
    packed: dict[str, Stored] = {}
    plain: dict[str, Stored] = {}
    experts: dict[str, list[Floats]] = {}
    for name, (_, values) in tensors(case).items():
        if ".experts." in name:
            experts.setdefault(name.rsplit(".", 2)[0], []).append(values)
            continue
        files, stands_for = _plain(name, values)
        packed |= files
        plain[name] = st.stored(stands_for, "F32")
    for stem, parts in experts.items():
        quantised = [_by_group(w, group or w.shape[1], 127 if bits == 8 else 7) for w in parts]
        flat = np.concatenate([q.reshape(-1) for q, _, _ in quantised])
        data = flat.astype(np.int8) if bits == 8 else _nibbles(flat[None], 4)[0]
        packed[stem + ".merged_weight"] = _stored(data, "I8" if kind == "olmoe-int8" else "U8")
        packed[stem + ".qs"] = st.stored(np.concatenate([scales.reshape(-1) for _, scales, _ in quantised]), "F32")
        for part, (_, _, stands_for) in zip(("gate_proj", "up_proj", "down_proj"), quantised, strict=True):
            plain[f"{stem}.{part}.weight"] = st.stored(stands_for, "F32")
    return packed, plain


def mxfp4(w: Floats) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8], Floats]:
    """4-bit floats [..., k]: codes [..., k / 32, 16], exponents [..., k / 32], and what they stand for."""
    groups = w.reshape(*w.shape[:-1], -1, 32)
    exponents = np.floor(np.log2(np.abs(groups).max(-1) / 4)) + 127
    factors = np.exp2(exponents - 127)[..., None]
    codes = _nearest(groups / factors, E2M1)
    values = (_value(codes, E2M1) * factors).reshape(w.shape).astype(np.float32)
    return codes[..., ::2] | codes[..., 1::2] << 4, exponents.astype(np.uint8), values


def gpt_oss(case: Case) -> tuple[dict[str, Stored], dict[str, Stored]]:
    """gpt-oss's experts as 4-bit floats, [experts, outputs, inputs] where the float release has inputs first."""
    packed: dict[str, Stored] = {}
    plain: dict[str, Stored] = {}
    for name, (dtype, values) in tensors(case).items():
        if values.ndim == 3:
            codes, exponents, stands_for = mxfp4(values.swapaxes(1, 2))
            packed |= {name + "_blocks": _stored(codes, "U8"), name + "_scales": _stored(exponents, "U8")}
            plain[name] = st.stored(np.ascontiguousarray(stands_for.swapaxes(1, 2)), "F32")
        else:
            packed[name] = plain[name] = st.stored(values, dtype)
    return packed, plain


def write(folder: Path, config: Mapping[str, Any], files: Mapping[str, Stored], shards: int = 1) -> Path:
    """Write a checkpoint into a new folder; with several shards, a weight and its scales lie in different ones."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(dict(config)), encoding="utf-8")
    names = sorted(files)
    for shard in range(shards):
        held = names[shard::shards]
        st.write(folder / f"model-{shard + 1:05}-of-{shards:05}.safetensors", {name: files[name] for name in held})
    return folder
