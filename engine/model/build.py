"""Compiles a model into a program: the list of operations that `kernels.program.run` walks.

Everything here happens once, when a model is opened. A family never appears: only the spec's kinds do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..board import Board
from ..experts.placement import Placement
from ..kernels import records as r
from ..kernels.quantize import q8_bytes
from .kv import KVCache
from .rope import RopeTable
from .spec import Attention, DenseMlp, Mixture, ModelSpec, Role, Rope
from .weights import Matrix, Weights
from .workspace import Workspace, is_packed

_SCORES = {"softmax": r.SOFTMAX, "sigmoid": r.SIGMOID}
_QK_NORM = {"none": r.NO_NORM, "head": r.NORM_HEAD, "projection": r.NORM_PROJECTION}


@dataclass(frozen=True, slots=True)
class Lossy:
    """Routing as a person has limited it: fewer experts than the config, or only those that carry `top_p`."""

    top_k: int | None = None
    top_p: float | None = None


@dataclass(slots=True)
class Program:
    """The compiled model. `body` computes a block of rows, `head` the logits of some of them."""

    ops: npt.NDArray[Any]
    attentions: npt.NDArray[Any]
    mixtures: npt.NDArray[Any]
    body_end: int
    ropes: list[RopeTable]
    combine_after: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Buffer:
    """Rows of float32 that an operation reads or writes."""

    address: int
    stride: int


class Builder:
    """Builds one program. `build` is called once."""

    def __init__(
        self, spec: ModelSpec, weights: Weights, space: Workspace, kv: KVCache, placement: Placement, board: Board
    ) -> None:
        self._spec, self._weights, self._space, self._kv = spec, weights, space, kv
        self._placement, self._board = placement, board
        self._ops: list[dict[str, Any]] = []
        self._attentions: list[dict[str, Any]] = []
        self._mixtures: list[dict[str, Any]] = []
        self._ropes: dict[int, tuple[Rope, int]] = {}
        self._tables: list[RopeTable] = []
        self._combine_after: dict[int, int] = {}

    def build(self, lossy: Lossy) -> Program:
        """Emit every operation."""
        spec, at = self._spec, self._space.address
        embed = self._weights.matrix("embed")
        self._emit(
            r.EMBED, fmt=embed.fmt, x=at["ids"], y=at["residual"], y_stride=spec.hidden * 4, w=embed.address,
            k=spec.hidden, f=1.0,
        )  # fmt: skip
        for index, layer in enumerate(spec.layers):
            self._emit(r.LAYER, index=index)
            self._attention(index, layer.attention)
            if isinstance(layer.mlp, DenseMlp):
                self._dense(index)
            else:
                self._mixture(index, layer.mlp, lossy)
        body_end = len(self._ops)
        self._head()
        return Program(
            _pack(self._ops, r.OP), _pack(self._attentions, r.ATTENTION), _pack(self._mixtures, r.MIXTURE),
            body_end, self._tables, self._combine_after,
        )  # fmt: skip

    def _emit(self, code: int, **values: Any) -> None:
        self._ops.append({"code": code, **values})

    def _buffer(self, name: str, columns: int) -> _Buffer:
        return _Buffer(self._space.address[name], columns * 4)

    # pieces that layers share

    def _norm(self, role: Role, layer: int, source: _Buffer, target: _Buffer, rows: int = r.ALL_ROWS) -> None:
        self._emit(
            r.NORM, rows=rows, x=source.address, x_stride=source.stride, y=target.address, y_stride=target.stride,
            w=self._weights.vector(role, layer), n=self._spec.hidden, f=self._spec.norm_eps,
        )  # fmt: skip

    def _inputs(
        self, source: _Buffer, k: int, formats: Sequence[int], rows: int = r.ALL_ROWS, into: str = "quantized"
    ) -> None:
        """Quantise rows of activations once for all the weights that take them so."""
        if any(is_packed(fmt) for fmt in formats):
            self._emit(
                r.QUANTIZE, rows=rows, x=source.address, x_stride=source.stride, k=k,
                y=self._space.address[into], y_stride=q8_bytes(k),
            )  # fmt: skip

    def _linear(
        self, matrix: Matrix, source: _Buffer, target: _Buffer, bias: int = 0, mode: int = r.STORE,
        rows: int = r.ALL_ROWS, quantized: str = "quantized",
    ) -> None:  # fmt: skip
        packed = is_packed(matrix.fmt)
        self._emit(
            r.LINEAR, fmt=matrix.fmt, rows=rows, mode=mode,
            x=self._space.address[quantized] if packed else source.address,
            x_stride=q8_bytes(matrix.k) if packed else source.stride,
            y=target.address, y_stride=target.stride, w=matrix.address, step=matrix.step, b=bias,
            n=matrix.n, k=matrix.k,
        )  # fmt: skip

    def _gated_mlp(self, layer: int, roles: tuple[Role, Role, Role], target: _Buffer, mode: int) -> None:
        """target (+)= down(silu(gate x) * up x) of the normed rows; `_inputs` has seen to their quantised form."""
        gate, up, down = (self._weights.matrix(role, layer) for role in roles)
        normed = self._buffer("normed", self._spec.hidden)
        gate_out, up_out = self._buffer("gate", gate.n), self._buffer("up", gate.n)
        self._linear(gate, normed, gate_out)
        self._linear(up, normed, up_out)
        self._emit(
            r.SILU_MUL, x=gate_out.address, x_stride=gate_out.stride, w=up_out.address, y=gate_out.address,
            y_stride=gate_out.stride, n=gate.n,
        )  # fmt: skip
        self._inputs(gate_out, gate.n, (down.fmt,), into="quantized_mlp")
        self._linear(down, gate_out, target, mode=mode, quantized="quantized_mlp")

    # layers

    def _attention(self, layer: int, a: Attention) -> None:
        spec, weights, at = self._spec, self._weights, self._space.address
        residual, normed = self._buffer("residual", spec.hidden), self._buffer("normed", spec.hidden)
        q, k, v, o = (weights.matrix(role, layer) for role in ("q", "k", "v", "o"))
        self._norm("input_norm", layer, residual, normed)
        self._inputs(normed, spec.hidden, (q.fmt, k.fmt, v.fmt))
        self._linear(q, normed, self._buffer("q", q.n), weights.vector("q_bias", layer))
        self._linear(k, normed, self._buffer("k", k.n), weights.vector("k_bias", layer))
        self._linear(v, normed, self._buffer("v", v.n), weights.vector("v_bias", layer))
        cos, sin = self._rope(a.rope)
        cache = self._kv.layers[layer]
        self._attentions.append({
            "q": at["q"], "k": at["k"], "v": at["v"], "out": at["attended"],
            "cache_k": cache.keys, "cache_v": cache.values, "capacity": self._kv.capacity, "fmt": self._kv.fmt,
            "heads": a.heads, "kv_heads": a.kv_heads, "dim": a.head_dim,
            "norm": _QK_NORM[a.qk_norm], "q_norm": weights.vector("q_norm", layer),
            "k_norm": weights.vector("k_norm", layer), "eps": spec.norm_eps,
            "cos": cos, "sin": sin, "rope_dim": a.rope.dim, "pairs": int(a.rope.pairs),
            "clip": a.clip or 0.0, "scale": a.head_dim**-0.5, "window": a.window or 0,
        })  # fmt: skip
        self._emit(r.ROTATE, index=len(self._attentions) - 1)
        self._emit(r.ATTEND, index=len(self._attentions) - 1)
        attended = self._buffer("attended", o.k)
        self._inputs(attended, o.k, (o.fmt,))
        self._linear(o, attended, residual, weights.vector("o_bias", layer), mode=r.ADD)

    def _rope(self, rope: Rope) -> tuple[int, int]:
        """Addresses of the cos and sin rows of a rotary embedding; equal ones share a table."""
        for known, address in self._ropes.values():
            if known == rope:
                return address, address + self._space.rows * rope.dim * 2
        rows, number = self._space.rows, len(self._ropes)
        skip = sum(known.dim * 4 * rows for known, _ in self._ropes.values())
        address = self._space.address["rope"] + skip
        self._ropes[number] = (rope, address)
        shape = (rows, rope.dim // 2)
        cos = self._space.array("rope", shape, np.float32, skip)
        sin = self._space.array("rope", shape, np.float32, skip + rows * rope.dim * 2)
        self._tables.append(RopeTable(rope, cos, sin))
        return address, address + rows * rope.dim * 2

    def _dense(self, layer: int) -> None:
        residual, normed = self._buffer("residual", self._spec.hidden), self._buffer("normed", self._spec.hidden)
        roles: tuple[Role, Role, Role] = ("gate", "up", "down")
        self._norm("post_norm", layer, residual, normed)
        self._inputs(normed, self._spec.hidden, [self._weights.matrix(role, layer).fmt for role in roles[:2]])
        self._gated_mlp(layer, roles, residual, r.ADD)

    def _mixture(self, layer: int, mixture: Mixture, lossy: Lossy) -> None:
        spec, at = self._spec, self._space.address
        residual, normed = self._buffer("residual", spec.hidden), self._buffer("normed", spec.hidden)
        self._norm("post_norm", layer, residual, normed)
        router = self._weights.matrix("router", layer)
        self._linear(router, normed, self._buffer("router", router.n))
        packed = is_packed(self._weights.experts.fmt)
        takers = [self._weights.experts.fmt]
        shared: tuple[Role, Role, Role] = ("shared_gate", "shared_up", "shared_down")
        if mixture.shared_width:
            takers += [self._weights.matrix(role, layer).fmt for role in shared[:2]]
        self._inputs(normed, spec.hidden, takers)
        if mixture.shared_width:
            self._gated_mlp(layer, shared, self._buffer("shared", spec.hidden), r.STORE)
        if mixture.shared_gated:
            gate = self._weights.matrix("shared_expert_gate", layer)
            self._linear(gate, normed, self._buffer("shared_gate", 1))
        index = len(self._mixtures)
        self._mixtures.append(self._mixture_record(layer, mixture, lossy, packed))
        self._emit(r.ROUTE, index=index)
        self._emit(r.UNION, index=index)
        after_union = len(self._ops)
        self._emit(r.EXPERTS_UP, index=index)
        if packed:
            self._emit(r.EXPERTS_QUANTIZE, index=index)
        self._emit(r.EXPERTS_DOWN, index=index)
        self._combine_after[after_union] = len(self._ops)
        self._emit(r.COMBINE, index=index)

    def _mixture_record(self, layer: int, mixture: Mixture, lossy: Lossy, packed: bool) -> dict[str, Any]:
        spec, at, source, router = self._spec, self._space.address, self._weights.experts, mixture.router
        placement, board = self._placement, self._board
        gate_step, up_step, down_step = source.steps
        return {
            "layer": layer, "experts": mixture.experts, "top_k": min(router.top_k, lossy.top_k or router.top_k),
            "logits": at["router"], "bias": self._weights.vector("router_bias", layer),
            "scores": _SCORES[router.scores], "groups": router.groups, "top_groups": router.top_groups,
            "renormalise": int(router.renormalise), "renorm_eps": router.renorm_eps, "scaling": router.scaling,
            "top_p": lossy.top_p or 1.0,
            "ids": at["route_ids"], "weights": at["route_weights"], "kept": at["route_kept"],
            "heat": board.heat[layer].ctypes.data, "last_use": board.last_use[layer].ctypes.data,
            "tier": board.tier[layer].ctypes.data,
            "slot_of": placement.slot_of[layer].ctypes.data, "parts": source.parts[layer].ctypes.data,
            "arena": placement.arena.address, "slot_bytes": placement.slot_bytes,
            "fmt": source.fmt, "hidden": spec.hidden, "width": mixture.width,
            "gate_step": gate_step, "up_step": up_step, "down_step": down_step,
            "x": at["quantized"] if packed else at["normed"],
            "x_stride": q8_bytes(spec.hidden) if packed else spec.hidden * 4,
            "h": at["h"], "hq": at["hq"] if packed else 0, "hq_stride": q8_bytes(mixture.width), "y": at["y"],
            "residual": at["residual"], "shared": at["shared"] if mixture.shared_width else 0,
            "shared_gate": at["shared_gate"] if mixture.shared_gated else 0,
        }  # fmt: skip

    def _head(self) -> None:
        spec = self._spec
        head, normed = self._weights.matrix("head"), self._buffer("normed", spec.hidden)
        self._norm("final_norm", 0, self._buffer("residual", spec.hidden), normed, r.HEAD_GATHER)
        self._inputs(normed, spec.hidden, (head.fmt,), r.HEAD_ROWS)
        self._linear(head, normed, self._buffer("logits", spec.vocab), rows=r.HEAD_ROWS)


def _pack(rows: list[dict[str, Any]], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Records as an array; fields not named are zero."""
    packed = np.zeros(len(rows), dtype)
    for index, row in enumerate(rows):
        for name, value in row.items():
            packed[index][name] = value
    return packed
