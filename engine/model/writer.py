"""What mixers and mixtures write a program's operations with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..board import Counter
from ..errors import UnsupportedModelError
from ..kernels import records as r
from ..kernels.formats import TAKES_FLOATS, takes
from ..kernels.inputs import input_bytes
from .dense import DenseWeights, Matrix
from .rope import RopeTable
from .spec import NORM_BIAS, ModelSpec, Role, Rope
from .workspace import Workspace

_CLOCKS = {
    **dict.fromkeys((r.ROTATE, r.ATTEND), Counter.ATTENTION_NS),
    **dict.fromkeys(range(r.LATENT_STORE, r.INDEX_SELECT + 1), Counter.ATTENTION_NS),
    **dict.fromkeys((r.UNION, r.EXPERTS_UP, r.EXPERTS_QUANTIZE, r.EXPERTS_DOWN, r.COMBINE), Counter.EXPERTS_NS),
}
"""Whose time an operation's is; the rest is the dense part's."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of float32 that an operation reads or writes."""

    address: int
    stride: int

    def shifted(self, columns: int) -> Rows:
        """The same rows from a later column on."""
        return Rows(self.address + columns * 4, self.stride)


class Writer:
    """The operations and records of one program while it is written.

    source: what the sublayer at hand reads. target, mode: where its output goes, and whether it is added there. ropes:
    tables of the rotary embeddings in use. kept: arrays that records point to.
    """

    def __init__(self, spec: ModelSpec, weights: DenseWeights, space: Workspace) -> None:
        self.spec, self.weights, self.space = spec, weights, space
        self.ops: list[dict[str, Any]] = []
        self.records: dict[str, list[dict[str, Any]]] = {name: [] for name in r.TABLE_TYPES}
        self.ropes: list[RopeTable] = []
        self.kept: list[npt.NDArray[Any]] = []
        self._ropes: dict[int, tuple[Rope, int]] = {}
        self.source = self.rows("normed", spec.hidden)
        self.target, self.mode = self.rows("residual", spec.hidden), r.ADD

    def emit(self, code: int, **values: Any) -> None:
        """Append an operation; fields not named are zero."""
        clock = Counter.HEAD_NS if values.get("rows", r.ALL_ROWS) != r.ALL_ROWS else _CLOCKS.get(code, Counter.DENSE_NS)
        self.ops.append({"code": code, "clock": clock, **values})

    def record(self, table: str, values: dict[str, Any]) -> int:
        """Append a record to a table; returns its index."""
        self.records[table].append(values)
        return len(self.records[table]) - 1

    def keep(self, array: npt.NDArray[Any]) -> int:
        """Keep an array alive with the program; returns its address."""
        self.kept.append(array)
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
        """Bring rows of activations once into the form that all the weights which do not take float32 are given."""
        forms = {takes(fmt): fmt for fmt in formats if takes(fmt) != TAKES_FLOATS}
        if len(forms) > 1:
            raise UnsupportedModelError("matrices of one input are stored in ways that do not go together")
        for fmt in forms.values():
            self.emit(
                r.QUANTIZE, fmt=fmt, rows=rows, x=source.address, x_stride=source.stride, k=k,
                y=self.space.address[into], y_stride=input_bytes(fmt, k),
            )  # fmt: skip

    def taken(self, fmt: int, source: Rows, k: int, quantized: str = "quantized") -> Rows:
        """The rows that products with a format read: the source, or what `quantise` made of it."""
        if takes(fmt) == TAKES_FLOATS:
            return source
        return Rows(self.space.address[quantized], input_bytes(fmt, k))

    def linear(
        self, matrix: Matrix, source: Rows, target: Rows, bias: int = 0, mode: int = r.STORE,
        rows: int = r.ALL_ROWS, quantized: str = "quantized", scale: float = 1.0,
        after: int = 0,
    ) -> None:  # fmt: skip
        """target = scale * (matrix . source + bias); a matrix that does not take float32 reads what `quantise` left in
        `quantized`.

        With ADD it is added to the residual, times the model's residual scale. Not computed until the conversation is
        longer than `after` tokens.
        """
        taken = self.taken(matrix.fmt, source, matrix.k, quantized)
        self.emit(
            r.LINEAR, fmt=matrix.fmt, rows=rows, mode=mode, x=taken.address, x_stride=taken.stride,
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
        self.ropes.append(RopeTable(rope, cos, sin))
        return address, address + rows * rope.dim * 2
