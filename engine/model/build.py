"""Compiles a model into a program: the list of operations that `kernels.program.run` walks.

Everything here happens once, when a model is opened. A family never appears: only the spec's kinds do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..kernels import records as r
from ..kernels.formats import TAKES_FLOATS, takes
from ..kernels.program import Job
from .foreseeing import Ahead, NextOf, look_ahead
from .kv import KVCache
from .meetings import join
from .mixers import mixer_of
from .mixtures import ACTIVATIONS, Mixtures, mixture_record
from .rope import RopeTable
from .spec import Activation, DenseMlp, Mixture, ModelSpec, Role
from .weights import Weights
from .workspace import Workspace
from .writer import Rows, Writer


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


class Builder(Writer):
    """Builds one program; `build` is called once.

    ahead: how to foresee, for programs of one token.
    """

    def __init__(
        self, spec: ModelSpec, weights: Weights, space: Workspace, kv: KVCache, mixtures: Mixtures, ahead: Ahead | None
    ) -> None:
        super().__init__(spec, weights, space)
        self._kv, self._mixtures, self._ahead = kv, mixtures, ahead
        self._pauses: dict[int, Pause] = {}
        self._next_of: NextOf = {}

    def build(self, state: npt.NDArray[np.int64]) -> Program:
        """Write every operation; `state` is what the program will run on."""
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
                self._mixture(index, layer.mlp)
            if behind:
                self.norm("mlp_out_norm", index, self.target, residual, mode=r.ADD)
            if layer.scalar:
                self.emit(
                    r.SCALE, y=residual.address, y_stride=residual.stride, n=spec.hidden,
                    w=self.weights.vector("layer_scalar", index),
                )  # fmt: skip
        body_end = len(self.ops)
        self._head()
        join(self.ops)
        tables = r.Tables(**{name: _pack(self.records[name], dtype) for name, dtype in r.TABLE_TYPES.items()})
        ops = _pack(self.ops, r.OP)
        job = Job(ops, tables, state)
        return Program(ops, tables, job, body_end, self.ropes, self._pauses, self.kept, self._next_of)

    def _gated_mlp(
        self, layer: int, roles: tuple[Role, Role, Role], target: Rows, mode: int, activation: Activation = "silu"
    ) -> None:
        """target (+)= down(activation(gate x) * up x) of the source; `quantise` has seen to its quantised form."""
        gate, up, down = (self.weights.matrix(role, layer) for role in roles)
        gate_out, up_out = self.rows("gate", gate.n), self.rows("up", gate.n)
        self.linear(gate, self.source, gate_out)
        self.linear(up, self.source, up_out)
        self.emit(
            r.GATE, index=ACTIVATIONS[activation], x=gate_out.address, x_stride=gate_out.stride, w=up_out.address,
            y=gate_out.address, y_stride=gate_out.stride, n=gate.n,
        )  # fmt: skip
        self.quantise(gate_out, gate.n, (down.fmt,), into="quantized_mlp")
        self.linear(down, gate_out, target, mode=mode, quantized="quantized_mlp")

    def _dense(self, layer: int) -> None:
        roles: tuple[Role, Role, Role] = ("gate", "up", "down")
        self.quantise(self.source, self.spec.hidden, [self.weights.matrix(role, layer).fmt for role in roles[:2]])
        self._gated_mlp(layer, roles, self.target, self.mode)

    def _mixture(self, layer: int, mixture: Mixture) -> None:
        spec, residual = self.spec, self.rows("residual", self.spec.hidden)
        *experts, down = self._mixtures.experts.formats[layer]
        router = self.weights.matrix("router", layer)
        apart, shared_out = mixture.apart, self.rows("shared", self.spec.hidden)
        takers = [] if apart else [*experts, router.fmt]
        shared: tuple[Role, Role, Role] = ("shared_gate", "shared_up", "shared_down")
        if mixture.shared_width:
            takers += [self.weights.matrix(role, layer).fmt for role in shared[:2]]
        if mixture.shared_gated:
            takers.append(self.weights.matrix("shared_expert_gate", layer).fmt)
        self.quantise(self.source, spec.hidden, takers)
        if mixture.shared_width:
            self._gated_mlp(layer, shared, shared_out, r.STORE, mixture.activation)
        if mixture.shared_gated:
            gate = self.weights.matrix("shared_expert_gate", layer)
            self.linear(gate, self.source, self.rows("shared_gate", 1))
        if apart:
            self.norm("router_norm", layer, residual, self.source)
            self.quantise(self.source, spec.hidden, (router.fmt,))
        self.linear(router, self.source, self.rows("router", router.n), scale=mixture.router.logit_scale)
        if apart:
            self.norm("experts_norm", layer, residual, self.source)
            self.quantise(self.source, spec.hidden, experts)
        values = mixture_record(self, self._mixtures, layer)
        if self._ahead is not None:
            seen, next_of = look_ahead(self, self._mixtures, layer, self._ahead)
            values |= seen
            self._next_of |= next_of
        index = self.record("mixtures", values)
        self.emit(r.ROUTE, index=index)
        self.emit(r.UNION, index=index)
        after_union = len(self.ops)
        self.emit(r.EXPERTS_UP, index=index)
        if takes(down) != TAKES_FLOATS:
            self.emit(r.EXPERTS_QUANTIZE, index=index)
        self.emit(r.EXPERTS_DOWN, index=index)
        self._pauses[after_union] = Pause(layer, values["top_k"], len(self.ops))
        self.emit(r.COMBINE, index=index)
        if apart:
            self.norm("experts_out_norm", layer, self.target, self.target)
            self.norm("shared_out_norm", layer, shared_out, self.target, mode=r.ADD)

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
