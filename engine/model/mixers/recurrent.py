"""Mixers with a running state: the gated delta net and the short convolution.

Their state is no cache: it cannot be cut back to an earlier position. `model.kv` keeps copies of it at turn ends.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...kernels import records as r
from ..spec import DeltaNet, ModelSpec, Rope, ShortConvolution
from ..strips import LayerCache
from ..tensors import Tensors
from ..writer import Writer
from .base import Mixer

Columns = npt.NDArray[np.int32]


class GatedDeltaNet(Mixer):
    """See spec.DeltaNet. State: the convolution's history [channels, taps - 1], then a matrix for every value head."""

    def __init__(self, spec: ModelSpec, layer: int, kind: DeltaNet) -> None:
        self._spec, self._layer, self._kind = spec, layer, kind
        self._keys, self._values = kind.key_heads * kind.key_dim, kind.value_heads * kind.value_dim
        self._channels = 2 * self._keys + self._values

    def find(self, tensors: Tensors) -> None:
        """Projections, convolution, decay, norm."""
        layer, hidden, kind = self._layer, self._spec.hidden, self._kind
        if kind.grouped:
            tensors.matrix("in_qkvz", layer, self._channels + self._values, hidden)
            tensors.matrix("in_ba", layer, 2 * kind.value_heads, hidden)
        else:
            tensors.matrix("in_qkv", layer, self._channels, hidden)
            tensors.matrix("in_z", layer, self._values, hidden)
            tensors.matrix("in_b", layer, kind.value_heads, hidden)
            tensors.matrix("in_a", layer, kind.value_heads, hidden)
        tensors.vector("conv", layer, self._channels, 1, kind.taps)
        tensors.vector("a_log", layer, kind.value_heads)
        tensors.vector("dt_bias", layer, kind.value_heads)
        tensors.vector("out_norm", layer, kind.value_dim)
        tensors.matrix("out", layer, hidden, self._values)

    def buffers(self, rows: int) -> dict[str, int]:
        """Float32 rows of the projections, of the convolved q, k, v and of the result."""
        return {
            "projected": rows * (self._channels + self._values) * 4,
            "convolved": rows * self._channels * 4,
            "z": rows * self._values * 4,
            "gates": rows * 2 * self._kind.value_heads * 4,
            "attended": rows * self._values * 4,
        }

    def scratch(self) -> int:
        """One query and one key."""
        return 2 * self._kind.key_dim * 4

    def _history_bytes(self) -> int:
        return -(-self._channels * (self._kind.taps - 1) * 4 // 64) * 64

    def state_bytes(self) -> int:
        """History and matrices, float32 whatever the cache's format."""
        return self._history_bytes() + self._values * self._kind.key_dim * 4

    def ropes(self) -> tuple[Rope, ...]:
        """None."""
        return ()

    def widest_input(self) -> int:
        """The value heads."""
        return self._values

    def _columns(self) -> tuple[Columns, Columns, Columns, Columns]:
        """Where the channels of q, k, v, the z of each value head, its b and its a lie in their projections."""
        kind = self._kind
        group, heads = kind.value_heads // kind.key_heads, np.arange(kind.value_heads)
        if not kind.grouped:
            return tuple(
                columns.astype(np.int32)
                for columns in (np.arange(self._channels), heads * kind.value_dim, heads, heads + kind.value_heads)
            )  # type: ignore[return-value]
        size = 2 * kind.key_dim + 2 * group * kind.value_dim
        starts = np.arange(kind.key_heads)[:, None] * size
        q = (starts + np.arange(kind.key_dim)).ravel()
        v = (starts + 2 * kind.key_dim + np.arange(group * kind.value_dim)).ravel()
        z = heads // group * size + 2 * kind.key_dim + (group + heads % group) * kind.value_dim
        b = heads // group * 2 * group + heads % group
        return tuple(
            columns.astype(np.int32) for columns in (np.concatenate([q, q + kind.key_dim, v]), z, b, b + group)
        )  # type: ignore[return-value]

    def emit(self, writer: Writer, cache: LayerCache) -> None:
        """Project, convolve, run the delta rule, project back."""
        layer, kind, weights, at = self._layer, self._kind, writer.weights, writer.space.address
        source, hidden, out = writer.source, self._spec.hidden, weights.matrix("out", layer)
        gates = writer.rows("gates", 2 * kind.value_heads)
        if kind.grouped:
            qkvz, ba = weights.matrix("in_qkvz", layer), weights.matrix("in_ba", layer)
            projected = z = writer.rows("projected", qkvz.n)
            writer.quantise(source, hidden, (qkvz.fmt, ba.fmt))
            writer.linear(qkvz, source, projected)
            writer.linear(ba, source, gates)
        else:
            qkv, in_z, b, a = (weights.matrix(role, layer) for role in ("in_qkv", "in_z", "in_b", "in_a"))
            projected, z = writer.rows("projected", qkv.n), writer.rows("z", in_z.n)
            writer.quantise(source, hidden, (qkv.fmt, in_z.fmt, b.fmt, a.fmt))
            writer.linear(qkv, source, projected)
            writer.linear(in_z, source, z)
            writer.linear(b, source, gates)
            writer.linear(a, source, gates.shifted(kind.value_heads))
        columns, z_columns, b_columns, a_columns = (writer.keep(array) for array in self._columns())
        index = writer.record("deltas", {
            "projected": projected.address, "projected_stride": projected.stride, "columns": columns,
            "channels": self._channels, "mixed": at["convolved"], "conv": weights.vector("conv", layer),
            "taps": kind.taps, "history": cache.address, "memory": cache.address + self._history_bytes(),
            "key_heads": kind.key_heads, "value_heads": kind.value_heads, "key_dim": kind.key_dim,
            "value_dim": kind.value_dim, "z": z.address, "z_stride": z.stride, "z_columns": z_columns,
            "gates": gates.address, "gates_stride": gates.stride, "b_columns": b_columns, "a_columns": a_columns,
            "a_log": weights.vector("a_log", layer), "dt_bias": weights.vector("dt_bias", layer),
            "norm": weights.vector("out_norm", layer), "eps": self._spec.norm_eps, "out": at["attended"],
        })  # fmt: skip
        writer.emit(r.DELTA_CONVOLVE, index=index)
        writer.emit(r.DELTA, index=index)
        result = writer.rows("attended", self._values)
        writer.quantise(result, self._values, (out.fmt,))
        writer.linear(out, result, writer.target, mode=writer.mode)


class GatedConvolution(Mixer):
    """See spec.ShortConvolution. State: the last taps - 1 inputs of every channel."""

    def __init__(self, spec: ModelSpec, layer: int, kind: ShortConvolution) -> None:
        self._spec, self._layer, self._kind = spec, layer, kind

    def find(self, tensors: Tensors) -> None:
        """Projections and the convolution."""
        hidden = self._spec.hidden
        tensors.matrix("in_conv", self._layer, 3 * hidden, hidden)
        tensors.vector("conv", self._layer, hidden, 1, self._kind.taps)
        tensors.matrix("out", self._layer, hidden, hidden)

    def buffers(self, rows: int) -> dict[str, int]:
        """Float32 rows of B, C, x and of the result."""
        return {"projected": rows * 3 * self._spec.hidden * 4, "attended": rows * self._spec.hidden * 4}

    def scratch(self) -> int:
        """None."""
        return 0

    def state_bytes(self) -> int:
        """Float32 whatever the cache's format."""
        return self._spec.hidden * (self._kind.taps - 1) * 4

    def ropes(self) -> tuple[Rope, ...]:
        """None."""
        return ()

    def widest_input(self) -> int:
        """The model's width."""
        return self._spec.hidden

    def emit(self, writer: Writer, cache: LayerCache) -> None:
        """Project, convolve, project back."""
        layer, hidden, weights = self._layer, self._spec.hidden, writer.weights
        into, out = weights.matrix("in_conv", layer), weights.matrix("out", layer)
        projected, result = writer.rows("projected", into.n), writer.rows("attended", hidden)
        writer.quantise(writer.source, hidden, (into.fmt,))
        writer.linear(into, writer.source, projected)
        index = writer.record("deltas", {
            "projected": projected.address, "projected_stride": projected.stride, "channels": hidden,
            "conv": weights.vector("conv", layer), "taps": self._kind.taps, "history": cache.address,
            "out": result.address,
        })  # fmt: skip
        writer.emit(r.SHORT_CONVOLVE, index=index)
        writer.quantise(result, hidden, (out.fmt,))
        writer.linear(out, result, writer.target, mode=writer.mode)
