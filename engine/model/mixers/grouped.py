"""Grouped-query attention (Ainslie et al. 2023): several query heads share a key and value head."""

from __future__ import annotations

from ...kernels import records as r
from ...kernels.formats import itemsize
from ...kernels.records import attention_scratch
from ..spec import Attention, ModelSpec, Rope
from ..strips import LayerCache, Strip, ring_length
from ..tensors import Tensors
from ..writer import Writer
from .base import Mixer

_QK_NORM = {
    "none": r.NO_NORM, "head": r.NORM_HEAD, "projection": r.NORM_PROJECTION, "rotated": r.NORM_ROTATED,
    "plain": r.NORM_ROTATED,
}  # fmt: skip


class GroupedQuery(Mixer):
    """See spec.Attention. Cache: keys [kv_heads, length, head_dim], then values alike."""

    def __init__(self, spec: ModelSpec, layer: int, kind: Attention) -> None:
        self._spec, self._layer, self._kind = spec, layer, kind
        self._q, self._kv = kind.heads * kind.head_dim, kind.kv_heads * kind.head_dim
        self._q_stride = kind.head_dim * (2 if kind.gated else 1)

    def find(self, tensors: Tensors) -> None:
        """q, k, v, o with their biases and norms."""
        layer, hidden, kind, q, kv = self._layer, self._spec.hidden, self._kind, self._q, self._kv
        tensors.matrix("q", layer, kind.heads * self._q_stride, hidden)
        tensors.matrix("k", layer, kv, hidden)
        if kind.values != "keys":
            tensors.matrix("v", layer, kv, hidden)
        tensors.matrix("o", layer, hidden, q)
        if kind.qkv_bias:
            tensors.vector("q_bias", layer, kind.heads * self._q_stride)
            tensors.vector("k_bias", layer, kv)
            if kind.values != "keys":
                tensors.vector("v_bias", layer, kv)
        if kind.out_bias:
            tensors.vector("o_bias", layer, hidden)
        if kind.sinks:
            tensors.vector("sinks", layer, kind.heads)
        if kind.qk_norm not in ("none", "plain"):
            whole = kind.qk_norm == "projection"
            shift = self._spec.norm_shift
            tensors.vector("q_norm", layer, q if whole else kind.head_dim, shift=shift)
            tensors.vector("k_norm", layer, kv if whole else kind.head_dim, shift=shift)

    def buffers(self, rows: int) -> dict[str, int]:
        """Float32 rows of q, k, v and of the result."""
        q, kv = rows * self._q * 4, rows * self._kv * 4
        return {"q": rows * self._kind.heads * self._q_stride * 4, "k": kv, "v": kv, "attended": q}

    def scratch(self) -> int:
        """Scores and sums of a group of heads."""
        return attention_scratch(self._kind.heads // self._kind.kv_heads, self._kind.head_dim)

    def strips(self, capacity: int, fmt: int) -> tuple[Strip, ...]:
        """Keys and values; of the window only, if there is one."""
        kind = self._kind
        span = kind.window or kind.chunk
        behind = span - 1 if span else None
        strip = Strip(kind.kv_heads, ring_length(capacity, behind), kind.head_dim * itemsize(fmt), behind=behind)
        return strip, strip

    def ropes(self) -> tuple[Rope, ...]:
        """One, or none."""
        return () if self._kind.rope is None else (self._kind.rope,)

    def widest_input(self) -> int:
        """The attended heads."""
        return self._q

    def emit(self, writer: Writer, cache: LayerCache) -> None:
        """Project, rotate, attend, project back."""
        spec, layer, kind, weights, at = self._spec, self._layer, self._kind, writer.weights, writer.space.address
        source, rope = writer.source, kind.rope
        q, k, o = (weights.matrix(role, layer) for role in ("q", "k", "o"))
        v = weights.matrix("v", layer) if kind.values != "keys" else k
        writer.quantise(source, spec.hidden, (q.fmt, k.fmt, v.fmt))
        writer.linear(q, source, writer.rows("q", q.n), weights.vector("q_bias", layer))
        writer.linear(k, source, writer.rows("k", k.n), weights.vector("k_bias", layer))
        keys, values = writer.rows("k", k.n), writer.rows("v", v.n)
        if kind.values != "keys":
            writer.linear(v, source, values, weights.vector("v_bias", layer))
        if kind.values != "projected":
            raw = keys if kind.values == "keys" else values
            writer.emit(
                r.NORM, x=raw.address, x_stride=raw.stride, y=values.address, y_stride=values.stride,
                n=kind.head_dim, k=kind.kv_heads, f=spec.norm_eps,
            )  # fmt: skip
        cos, sin = writer.rope(rope) if rope else (0, 0)
        tuning, every = kind.tuning or (0.0, 1.0)
        stored, _ = self.strips(cache.capacity, cache.fmt)
        index = writer.record("attentions", {
            "q": at["q"], "k": at["k"], "v": at["v"], "out": at["attended"],
            "q_stride": self._q_stride, "gated": int(kind.gated),
            "cache_k": cache.address, "cache_v": cache.address + stored.nbytes,
            "capacity": stored.length, "fmt": cache.fmt,
            "heads": kind.heads, "kv_heads": kind.kv_heads, "dim": kind.head_dim,
            "norm": _QK_NORM[kind.qk_norm], "q_norm": weights.vector("q_norm", layer),
            "k_norm": weights.vector("k_norm", layer), "eps": spec.norm_eps,
            "cos": cos, "sin": sin, "rope_dim": rope.dim if rope else 0, "pairs": int(rope.pairs) if rope else 0,
            "clip": kind.clip or 0.0, "scale": kind.scale or kind.head_dim**-0.5, "window": kind.window or 0,
            "chunk": kind.chunk or 0, "sinks": weights.vector("sinks", layer), "tuning": tuning, "tuning_every": every,
        })  # fmt: skip
        writer.emit(r.ROTATE, index=index)
        writer.emit(r.ATTEND, index=index)
        attended = writer.rows("attended", o.k)
        writer.quantise(attended, o.k, (o.fmt,))
        writer.linear(o, attended, writer.target, weights.vector("o_bias", layer), mode=writer.mode)
