"""Attention that is a mixture itself (JetMoE, Shen et al. 2024)."""

from __future__ import annotations

from ...errors import UnsupportedModelError
from ...kernels import records as r
from ...kernels.formats import BF16, F16, F32, itemsize
from ..spec import MixedAttention, ModelSpec, Rope
from ..strips import LayerCache, Strip
from ..tensors import Tensors
from ..writer import Writer
from .base import Mixer


class Mixed(Mixer):
    """See spec.MixedAttention. Its experts are part of the dense memory; cache as in grouped-query attention."""

    def __init__(self, spec: ModelSpec, layer: int, kind: MixedAttention) -> None:
        self._spec, self._layer, self._kind = spec, layer, kind
        self._width = kind.kv_heads * kind.head_dim

    def find(self, tensors: Tensors) -> None:
        """Keys and values in one matrix, the experts' projections stacked."""
        layer, hidden, kind, width = self._layer, self._spec.hidden, self._kind, self._width
        tensors.split("kv", layer, (("k", width), ("v", width)), hidden)
        tensors.matrix("q", layer, kind.experts * width, hidden, stacked=kind.experts)
        tensors.matrix("o", layer, kind.experts * hidden, width, stacked=kind.experts)
        tensors.vector("attention_router", layer, kind.experts, hidden)
        tensors.vector("attention_bias", layer, hidden)

    def buffers(self, rows: int) -> dict[str, int]:
        """Float32 rows of q, k, v and of the result, and the routing of attention."""
        heads, kv, top_k = (
            rows * self._width * self._kind.router.top_k * 4,
            rows * self._width * 4,
            self._kind.router.top_k,
        )
        return {
            "q": heads, "k": kv, "v": kv, "attended": heads,
            "mixed_logits": rows * self._kind.experts * 4, "mixed_ids": rows * top_k * 4,
            "mixed_weights": rows * top_k * 4, "mixed_kept": rows * 4,
        }  # fmt: skip

    def scratch(self) -> int:
        """Attention's, or an expert's output."""
        attention = r.attention_scratch(self._kind.router.top_k, self._kind.head_dim)
        return max(attention, r.mixed_scratch(self._width), self._kind.experts * 12)

    def strips(self, capacity: int, fmt: int) -> tuple[Strip, ...]:
        """Keys and values."""
        strip = Strip(self._kind.kv_heads, capacity, self._kind.head_dim * itemsize(fmt))
        return strip, strip

    def ropes(self) -> tuple[Rope, ...]:
        """One."""
        return (self._kind.rope,)

    def widest_input(self) -> int:
        """The model's width."""
        return self._spec.hidden

    def emit(self, writer: Writer, cache: LayerCache) -> None:
        """Route, project with the chosen experts, attend, project back with the same."""
        layer, kind, width, weights, at = self._layer, self._kind, self._width, writer.weights, writer.space.address
        source, hidden, top_k = writer.source, self._spec.hidden, kind.router.top_k
        k, v, q, o = (weights.matrix(role, layer) for role in ("k", "v", "q", "o"))
        if q.fmt != o.fmt or q.fmt not in (F32, F16, BF16):
            raise UnsupportedModelError(f"layer {layer}: attention experts must be plain float matrices of one dtype")
        router = weights.matrix("attention_router", layer)
        writer.quantise(source, hidden, (router.fmt, k.fmt, v.fmt))
        writer.linear(router, source, writer.rows("mixed_logits", kind.experts))
        writer.linear(k, source, writer.rows("k", width))
        writer.linear(v, source, writer.rows("v", width))
        routing = writer.record("mixtures", {
            "layer": layer, "experts": kind.experts, "top_k": top_k, "logits": at["mixed_logits"],
            "scores": r.CHOSEN, "groups": 1, "top_groups": 1, "scaling": 1.0, "top_p": 1.0,
            "ids": at["mixed_ids"], "weights": at["mixed_weights"], "kept": at["mixed_kept"],
        })  # fmt: skip
        mixed = writer.record("mixed", {
            "x": source.address, "q": at["q"], "attended": at["attended"], "y": writer.target.address,
            "ids": at["mixed_ids"], "weights": at["mixed_weights"], "fmt": q.fmt,
            "up": q.address, "up_bytes": width * hidden * itemsize(q.fmt), "up_step": q.step,
            "down": o.address, "down_bytes": hidden * width * itemsize(o.fmt), "down_step": o.step,
            "bias": weights.vector("attention_bias", layer), "factor": self._spec.residual_scale,
            "hidden": hidden, "top_k": top_k, "kv_heads": kind.kv_heads, "dim": kind.head_dim,
        })  # fmt: skip
        cos, sin = writer.rope(kind.rope)
        attention = writer.record("attentions", {
            "q": at["q"], "k": at["k"], "v": at["v"], "out": at["attended"], "q_stride": kind.head_dim,
            "cache_k": cache.address, "cache_v": cache.address + self.cache_bytes(cache.capacity, cache.fmt) // 2,
            "capacity": cache.capacity, "fmt": cache.fmt, "heads": kind.kv_heads * top_k, "kv_heads": kind.kv_heads,
            "dim": kind.head_dim, "norm": r.NO_NORM, "cos": cos, "sin": sin, "rope_dim": kind.rope.dim,
            "pairs": int(kind.rope.pairs), "scale": kind.head_dim**-0.5,
        })  # fmt: skip
        writer.emit(r.ROUTE, index=routing)
        writer.emit(r.MIXED_QUERIES, index=mixed)
        writer.emit(r.ROTATE, index=attention)
        writer.emit(r.ATTEND, index=attention)
        writer.emit(r.MIXED_OUTPUT, index=mixed)
