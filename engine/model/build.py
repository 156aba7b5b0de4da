"""Compiles a model into a program: the list of operations that `kernels.program.run` walks.

Everything here happens once, when a model is opened. A family never appears: only the spec's kinds do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..board import Board, Counter
from ..experts.placement import Placement
from ..kernels import records as r
from ..kernels.formats import is_packed
from ..kernels.program import Job
from ..kernels.quantize import q8_bytes
from .foreseeing import Ahead, NextOf, look_ahead
from .kv import KVCache
from .meetings import join
from .mixers import mixer_of
from .rope import RopeTable
from .spec import NORM_BIAS, Activation, DenseMlp, Mixture, ModelSpec, Role, Rope
from .weights import Matrix, Weights
from .workspace import Workspace

_CLOCKS = {
    **dict.fromkeys((r.ROTATE, r.ATTEND), Counter.ATTENTION_NS),
    **dict.fromkeys(range(r.LATENT_STORE, r.INDEX_SELECT + 1), Counter.ATTENTION_NS),
    **dict.fromkeys((r.UNION, r.EXPERTS_UP, r.EXPERTS_QUANTIZE, r.EXPERTS_DOWN, r.COMBINE), Counter.EXPERTS_NS),
}
"""Whose time an operation's is; the rest is the dense part's."""

_SCORES = {"softmax": r.SOFTMAX, "sigmoid": r.SIGMOID, "chosen": r.CHOSEN, "sparsemixer": r.SPARSEMIXER}
_ACTIVATIONS = {"silu": r.SILU, "gelu": r.GELU, "clamped": r.CLAMPED}


@dataclass(frozen=True, slots=True)
class Lossy:
    """Routing as a person has limited it: fewer experts than the config, or only those that carry `top_p`."""

    top_k: int | None = None
    top_p: float | None = None


class Pause(NamedTuple):
    """A mixture that may stop for experts that are missing; combine: its COMBINE, where the body goes on."""

    layer: int
    top_k: int
    combine: int


@dataclass(slots=True)
class Program:
    """The compiled model. Operations up to `body_end` compute a block of rows, the rest the logits of some of them.

    job: what the threads that run it are handed. pauses: by the operation after a mixture's UNION. kept: arrays the
    records point to. next_of: from a layer to what foresees the choices of which other.
    """

    ops: npt.NDArray[Any]
    tables: r.Tables
    job: Job
    body_end: int
    ropes: list[RopeTable]
    pauses: dict[int, Pause] = field(default_factory=dict)
    kept: list[npt.NDArray[Any]] = field(default_factory=list)
    next_of: NextOf = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of float32 that an operation reads or writes."""

    address: int
    stride: int

    def shifted(self, columns: int) -> Rows:
        """The same rows from a later column on."""
        return Rows(self.address + columns * 4, self.stride)


class Builder:
    """Builds one program; mixers emit through it. `build` is called once."""

    def __init__(
        self,
        spec: ModelSpec,
        weights: Weights,
        space: Workspace,
        kv: KVCache,
        placement: Placement,
        board: Board,
        state: npt.NDArray[np.int64],
    ) -> None:
        self.spec, self.weights, self.space = spec, weights, space
        self._state = state
        self._kv, self.placement, self._board = kv, placement, board
        self._ops: list[dict[str, Any]] = []
        self._records: dict[str, list[dict[str, Any]]] = {name: [] for name in r.TABLE_TYPES}
        self._ropes: dict[int, tuple[Rope, int]] = {}
        self._tables: list[RopeTable] = []
        self._pauses: dict[int, Pause] = {}
        self._kept: list[npt.NDArray[Any]] = []
        self._ahead: Ahead | None = None
        self._next_of: NextOf = {}
        self.source = self.rows("normed", spec.hidden)  # what the sublayer at hand reads
        self.target = self.rows("residual", spec.hidden)  # and where its output goes
        self.mode = r.ADD

    def build(self, lossy: Lossy, ahead: Ahead | None = None) -> Program:
        """Emit every operation."""
        self._ahead = ahead
        spec, at = self.spec, self.space.address
        embed = self.weights.matrix("embed")
        self.emit(
            r.EMBED, fmt=embed.fmt, x=at["ids"], y=at["residual"], y_stride=spec.hidden * 4, w=embed.address,
            k=spec.hidden, f=spec.embed_scale,
        )  # fmt: skip
        residual, normed = self.rows("residual", spec.hidden), self.rows("normed", spec.hidden)
        for index, layer in enumerate(spec.layers):
            self.emit(r.LAYER, index=index)
            before, behind = layer.norms != "behind", layer.norms != "before"
            # With a norm behind, the output of a sublayer waits in `mixed`.
            self.source = normed if before else residual
            self.target, self.mode = (self.rows("mixed", spec.hidden), r.STORE) if behind else (residual, r.ADD)
            if before:
                self.norm("input_norm", index, residual, normed)
            mixer_of(spec, index).emit(self, self._kv.layers[index])
            if behind:
                self.norm("mixer_out_norm", index, self.target, residual, mode=r.ADD)
            if before:
                self.norm("post_norm", index, residual, normed)
            if isinstance(layer.mlp, DenseMlp):
                self._dense(index)
            else:
                self._mixture(index, layer.mlp, lossy)
            if behind:
                self.norm("mlp_out_norm", index, self.target, residual, mode=r.ADD)
            if layer.scalar:
                self.emit(
                    r.SCALE, y=residual.address, y_stride=residual.stride, n=spec.hidden,
                    w=self.weights.vector("layer_scalar", index),
                )  # fmt: skip
        body_end = len(self._ops)
        self._head()
        join(self._ops)
        tables = r.Tables(**{name: _pack(self._records[name], dtype) for name, dtype in r.TABLE_TYPES.items()})
        ops = _pack(self._ops, r.OP)
        job = Job(ops, tables, self._state)
        return Program(ops, tables, job, body_end, self._tables, self._pauses, self._kept, self._next_of)

    # what mixers emit with

    def emit(self, code: int, **values: Any) -> None:
        """Append an operation; fields not named are zero."""
        clock = Counter.HEAD_NS if values.get("rows", r.ALL_ROWS) != r.ALL_ROWS else _CLOCKS.get(code, Counter.DENSE_NS)
        self._ops.append({"code": code, "clock": clock, **values})

    def record(self, table: str, values: dict[str, Any]) -> int:
        """Append a record to a table; returns its index."""
        self._records[table].append(values)
        return len(self._records[table]) - 1

    def keep(self, array: npt.NDArray[Any]) -> int:
        """Keep an array alive with the program; returns its address."""
        self._kept.append(array)
        return int(array.ctypes.data)

    def rows(self, name: str, columns: int) -> Rows:
        """The rows of a buffer, `columns` wide."""
        return Rows(self.space.address[name], columns * 4)

    def norm(
        self, role: Role, layer: int, source: Rows, target: Rows, rows: int = r.ALL_ROWS, mode: int = r.STORE
    ) -> None:
        """target = norm of source, over the model's width; with ADD it is added, and source is overwritten."""
        self.emit(
            r.NORM, rows=rows, mode=mode, x=source.address, x_stride=source.stride,
            y=target.address, y_stride=target.stride, w=self.weights.vector(role, layer),
            b=self.weights.vector(NORM_BIAS[role], layer) if role in NORM_BIAS else 0, n=self.spec.hidden,
            f=self.spec.final_norm_eps if role == "final_norm" and self.spec.final_norm_eps else self.spec.norm_eps,
            f2=self.spec.residual_scale,
        )  # fmt: skip

    def quantise(
        self, source: Rows, k: int, formats: Sequence[int], rows: int = r.ALL_ROWS, into: str = "quantized"
    ) -> None:
        """Quantise rows of activations once for all the weights that take them so."""
        if any(is_packed(fmt) for fmt in formats):
            self.emit(
                r.QUANTIZE, rows=rows, x=source.address, x_stride=source.stride, k=k,
                y=self.space.address[into], y_stride=q8_bytes(k),
            )  # fmt: skip

    def linear(
        self, matrix: Matrix, source: Rows, target: Rows, bias: int = 0, mode: int = r.STORE,
        rows: int = r.ALL_ROWS, quantized: str = "quantized", scale: float = 1.0,
        after: int = 0,
    ) -> None:  # fmt: skip
        """target = scale * (matrix . source + bias); a packed matrix reads what `quantise` left in `quantized`.

        With ADD it is added to the residual, times the model's residual scale. Not computed until the conversation is
        longer than `after` tokens.
        """
        packed = is_packed(matrix.fmt)
        self.emit(
            r.LINEAR, fmt=matrix.fmt, rows=rows, mode=mode,
            x=self.space.address[quantized] if packed else source.address,
            x_stride=q8_bytes(matrix.k) if packed else source.stride,
            y=target.address, y_stride=target.stride, w=matrix.address, step=matrix.step, b=bias,
            n=matrix.n, k=matrix.k, f2=self.spec.residual_scale if mode == r.ADD else scale,
            after=after,
        )  # fmt: skip

    def rope(self, rope: Rope) -> tuple[int, int]:
        """Addresses of the cos and sin rows of a rotary embedding; equal ones share a table."""
        rows = self.space.rows
        for known, address in self._ropes.values():
            if known == rope:
                return address, address + rows * rope.dim * 2
        skip = sum(known.dim * 4 * rows for known, _ in self._ropes.values())
        address = self.space.address["rope"] + skip
        self._ropes[len(self._ropes)] = (rope, address)
        shape = (rows, rope.dim // 2)
        cos = self.space.array("rope", shape, np.float32, skip)
        sin = self.space.array("rope", shape, np.float32, skip + rows * rope.dim * 2)
        self._tables.append(RopeTable(rope, cos, sin))
        return address, address + rows * rope.dim * 2

    # the second half of a layer

    def _gated_mlp(
        self, layer: int, roles: tuple[Role, Role, Role], target: Rows, mode: int, activation: Activation = "silu"
    ) -> None:
        """target (+)= down(activation(gate x) * up x) of the source; `quantise` has seen to its quantised form."""
        gate, up, down = (self.weights.matrix(role, layer) for role in roles)
        gate_out, up_out = self.rows("gate", gate.n), self.rows("up", gate.n)
        self.linear(gate, self.source, gate_out)
        self.linear(up, self.source, up_out)
        self.emit(
            r.GATE, index=_ACTIVATIONS[activation], x=gate_out.address, x_stride=gate_out.stride, w=up_out.address,
            y=gate_out.address, y_stride=gate_out.stride, n=gate.n,
        )  # fmt: skip
        self.quantise(gate_out, gate.n, (down.fmt,), into="quantized_mlp")
        self.linear(down, gate_out, target, mode=mode, quantized="quantized_mlp")

    def _dense(self, layer: int) -> None:
        roles: tuple[Role, Role, Role] = ("gate", "up", "down")
        self.quantise(self.source, self.spec.hidden, [self.weights.matrix(role, layer).fmt for role in roles[:2]])
        self._gated_mlp(layer, roles, self.target, self.mode)

    def _mixture(self, layer: int, mixture: Mixture, lossy: Lossy) -> None:
        spec, residual = self.spec, self.rows("residual", self.spec.hidden)
        packed, experts = self.weights.experts.packed, self.weights.experts.formats[layer][0]
        apart, shared_out = mixture.apart, self.rows("shared", self.spec.hidden)
        takers = [] if apart else [experts]
        shared: tuple[Role, Role, Role] = ("shared_gate", "shared_up", "shared_down")
        if mixture.shared_width:
            takers += [self.weights.matrix(role, layer).fmt for role in shared[:2]]
        self.quantise(self.source, spec.hidden, takers)
        if mixture.shared_width:
            self._gated_mlp(layer, shared, shared_out, r.STORE, mixture.activation)
        if mixture.shared_gated:
            gate = self.weights.matrix("shared_expert_gate", layer)
            self.linear(gate, self.source, self.rows("shared_gate", 1))
        if apart:
            self.norm("router_norm", layer, residual, self.source)
        router = self.weights.matrix("router", layer)
        self.linear(router, self.source, self.rows("router", router.n), scale=mixture.router.logit_scale)
        if apart:
            self.norm("experts_norm", layer, residual, self.source)
            self.quantise(self.source, spec.hidden, [experts])
        values = self.mixture_record(layer, mixture, lossy, packed)
        if self._ahead is not None:
            seen, next_of = look_ahead(self, layer, lossy, self._ahead)
            values |= seen
            self._next_of |= next_of
        index = self.record("mixtures", values)
        self.emit(r.ROUTE, index=index)
        self.emit(r.UNION, index=index)
        after_union = len(self._ops)
        self.emit(r.EXPERTS_UP, index=index)
        if packed:
            self.emit(r.EXPERTS_QUANTIZE, index=index)
        self.emit(r.EXPERTS_DOWN, index=index)
        self._pauses[after_union] = Pause(layer, values["top_k"], len(self._ops))
        self.emit(r.COMBINE, index=index)
        if apart:
            self.norm("experts_out_norm", layer, self.target, self.target)
            self.norm("shared_out_norm", layer, shared_out, self.target, mode=r.ADD)

    def mixture_record(self, layer: int, mixture: Mixture, lossy: Lossy, packed: bool) -> dict[str, Any]:
        """What a record says of a mixture that computes from the source."""
        spec, at, source, router = self.spec, self.space.address, self.weights.experts, mixture.router
        placement, board, recent = self.placement, self._board, self.placement.recent
        (gate, up, down), (gate_step, up_step, down_step) = source.formats[layer], source.steps[layer]
        place, pairs = spec.moe_layers.index(layer), self.space.rows * spec.top_k
        recent.widths[layer] = min(router.top_k, lossy.top_k or router.top_k)
        return {
            "layer": layer, "experts": mixture.experts, "top_k": min(router.top_k, lossy.top_k or router.top_k),
            "logits": at["router"], "logit_bias": self.weights.vector("router_logit_bias", layer),
            "bias": self.weights.vector("router_bias", layer),
            "scores": _SCORES[router.scores], "jitter": router.jitter,
            "groups": router.groups, "top_groups": router.top_groups, "group_best": router.group_best,
            "renormalise": int(router.renormalise), "renorm_eps": router.renorm_eps, "scaling": router.scaling,
            "expert_scale": self.weights.vector("expert_scale", layer),
            "top_p": lossy.top_p or 1.0,
            "ids": at["route_ids"] + place * pairs * 4, "weights": at["route_weights"] + place * pairs * 4,
            "kept": at["route_kept"] + place * self.space.rows * 4,
            "heat": board.heat[layer].ctypes.data, "last_use": board.last_use[layer].ctypes.data,
            "tier": board.tier[layer].ctypes.data, "cells": board.by_layer[layer].ctypes.data,
            "recent": recent.ids[layer].ctypes.data, "recent_kept": recent.kept[layer].ctypes.data,
            "recent_clock": recent.clock[layer].ctypes.data, "recent_count": recent.count[layer:].ctypes.data,
            "recent_room": recent.kept.shape[1],
            "log": placement.log.ids[layer].ctypes.data, "log_kept": placement.log.kept[layer].ctypes.data,
            "logged": placement.log.count[layer:].ctypes.data, "log_room": placement.log.room,
            "slot_of": placement.slot_of[layer].ctypes.data, "parts": source.parts[layer].ctypes.data,
            "arena": placement.arena.address, "slot_bytes": placement.slot_bytes,
            "gate_fmt": gate, "up_fmt": up, "down_fmt": down, "hidden": spec.hidden, "width": mixture.width,
            "gate_step": gate_step, "up_step": up_step, "down_step": down_step,
            "x": at["quantized"] if packed else self.source.address,
            "x_stride": q8_bytes(spec.hidden) if packed else spec.hidden * 4,
            "h": at["h"], "hq": at["hq"] if packed else 0, "hq_stride": q8_bytes(mixture.width), "y": at["y"],
            "activation": _ACTIVATIONS[mixture.activation], "weigh_inputs": int(router.weigh_inputs),
            "gate_up_bias": self.weights.vector("expert_gate_up_bias", layer),
            "down_bias": self.weights.vector("expert_down_bias", layer),
            "output": self.target.address, "add": int(self.mode == r.ADD),
            "factor": spec.residual_scale if self.mode == r.ADD else 1.0,
            "output_bias": self.weights.vector("mixture_bias", layer),
            "shared": at["shared"] if mixture.shared_width and not mixture.apart else 0,
            "shared_gate": at["shared_gate"] if mixture.shared_gated else 0,
        }  # fmt: skip

    def _head(self) -> None:
        spec = self.spec
        head, normed = self.weights.matrix("head"), self.rows("normed", spec.hidden)
        self.norm("final_norm", 0, self.rows("residual", spec.hidden), normed, r.HEAD_GATHER)
        self.quantise(normed, spec.hidden, (head.fmt,), r.HEAD_ROWS)
        bias = self.weights.vector("head_bias")
        logits = self.rows("logits", spec.vocab)
        self.linear(head, normed, logits, bias, rows=r.HEAD_ROWS, scale=spec.head_scale)
        if spec.soft_cap is not None:
            self.emit(
                r.SOFT_CAP, rows=r.HEAD_ROWS, y=logits.address, y_stride=logits.stride, n=spec.vocab, f=spec.soft_cap
            )


def _pack(rows: list[dict[str, Any]], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Records as an array; fields not named are zero. Never empty, so that its address exists."""
    packed = np.zeros(max(1, len(rows)), dtype)
    for index, row in enumerate(rows):
        for name, value in row.items():
            packed[index][name] = value
    return packed
