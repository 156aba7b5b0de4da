"""The buffers a forward works in, laid out once for the largest block of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..kernels.formats import I4G, I8R
from ..kernels.memory import Block
from ..kernels.quantize import q8_bytes
from ..kernels.records import scratch_bytes
from .spec import Attention, DenseMlp, Mixture, ModelSpec

HEAD_ROWS = 8
"""Rows whose logits are computed at once."""

_ALIGN = 64


@dataclass(frozen=True, slots=True)
class Widths:
    """The widest rows of a model, in elements."""

    q: int
    kv: int
    mlp: int
    rope: int
    group: int
    head_dim: int


def widths(spec: ModelSpec) -> Widths:
    """Read the widest rows off a spec."""
    attentions: list[Attention] = [layer.attention for layer in spec.layers]
    mlps = [
        layer.mlp.width if isinstance(layer.mlp, DenseMlp) else layer.mlp.shared_width for layer in spec.layers
    ]
    return Widths(
        q=max(a.heads * a.head_dim for a in attentions),
        kv=max(a.kv_heads * a.head_dim for a in attentions),
        mlp=max(mlps),
        rope=max(a.rope.dim for a in attentions),
        group=max(a.heads // a.kv_heads for a in attentions),
        head_dim=max(a.head_dim for a in attentions),
    )


def _sizes(spec: ModelSpec, rows: int, threads: int, ropes: int) -> dict[str, int]:
    """Bytes of every buffer."""
    w = widths(spec)
    mixture: Mixture = spec.mixture(spec.moe_layers[0])
    pairs = rows * spec.top_k
    return {
        "ids": rows * 8,
        "residual": rows * spec.hidden * 4,
        "normed": rows * spec.hidden * 4,
        "quantized": rows * q8_bytes(max(spec.hidden, w.q)),
        "quantized_mlp": rows * q8_bytes(max(w.mlp, 1)),
        "q": rows * w.q * 4,
        "k": rows * w.kv * 4,
        "v": rows * w.kv * 4,
        "attended": rows * w.q * 4,
        "gate": rows * w.mlp * 4,
        "up": rows * w.mlp * 4,
        "shared": rows * spec.hidden * 4,
        "shared_gate": rows * 4,
        "router": rows * spec.experts * 4,
        "route_ids": pairs * 4,
        "route_weights": pairs * 4,
        "route_kept": rows * 4,
        "h": pairs * mixture.width * 4,
        "hq": pairs * q8_bytes(mixture.width),
        "y": pairs * spec.hidden * 4,
        "rope": ropes * rows * w.rope * 4,
        "job_expert": spec.experts * 8,
        "job_first": (spec.experts + 1) * 8,
        "job_pairs": pairs * 8,
        "active_jobs": spec.experts * 8,
        "expert_count": spec.experts * 8,
        "logits": HEAD_ROWS * spec.vocab * 4,
        "scratch": threads * scratch_bytes(rows, spec.experts, w.group, w.head_dim),
    }


def _total(sizes: dict[str, int]) -> int:
    return sum(-(-size // _ALIGN) * _ALIGN for size in sizes.values())


def work_bytes(spec: ModelSpec, threads: int, ropes: int) -> tuple[int, int]:
    """(fixed bytes, bytes per row) of a workspace."""
    one, two = (_total(_sizes(spec, rows, threads, ropes)) for rows in (64, 128))
    per_row = -(-(two - one) // 64)
    return max(0, one - 64 * per_row) + _ALIGN * len(_sizes(spec, 1, threads, ropes)), per_row


def is_packed(fmt: int) -> bool:
    """Whether a weight format takes activations quantised to int8."""
    return fmt in (I8R, I4G)


class Workspace:
    """Named buffers in one block; `address[name]`, and numpy views of those that Python touches."""

    def __init__(self, spec: ModelSpec, rows: int, threads: int, ropes: int) -> None:
        sizes = _sizes(spec, rows, threads, ropes)
        self.rows = rows
        self.thread_scratch = sizes["scratch"] // threads
        self._block = Block(_total(sizes))
        self._offsets: dict[str, int] = {}
        offset = 0
        for name, size in sizes.items():
            self._offsets[name] = offset
            offset += -(-size // _ALIGN) * _ALIGN
        self.address = {name: self._block.address + at for name, at in self._offsets.items()}

    def array(self, name: str, shape: tuple[int, ...], dtype: Any, skip: int = 0) -> npt.NDArray[Any]:
        """A view of a buffer, `skip` bytes in."""
        return self._block.array(self._offsets[name] + skip, shape, np.dtype(dtype))
