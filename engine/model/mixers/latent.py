"""Multi-head latent attention (DeepSeek-V2), with or without an indexer that selects its keys (DeepSeek-V3.2)."""

from __future__ import annotations

from ...errors import UnsupportedModelError
from ...kernels import records as r
from ...kernels.formats import TAKES_FLOATS, itemsize, takes
from ..rope import softmax_factor
from ..spec import LatentAttention, ModelSpec, Role, Rope
from ..strips import LayerCache, Strip
from ..tensors import Tensors
from ..writer import Rows, Writer
from .base import Mixer

_BIAS: dict[Role, Role] = {"q_a": "q_a_bias", "kv_a": "kv_a_bias"}


class Latent(Mixer):
    """See spec.LatentAttention. Cache: latents with their keys [capacity, kv_rank + rope.dim], the indexer's keys."""

    def __init__(self, spec: ModelSpec, layer: int, kind: LatentAttention) -> None:
        self._spec, self._layer, self._kind = spec, layer, kind
        self._q = kind.heads * (kind.nope_dim + kind.rope.dim)
        self._width = kind.kv_rank + kind.rope.dim
        self._value = kind.heads * kind.value_dim

    def find(self, tensors: Tensors) -> None:
        """Projections and norms; kv_b is asked for as the matrices that carry into the latent's space and out of it."""
        layer, hidden, kind = self._layer, self._spec.hidden, self._kind
        if kind.q_rank is None:
            tensors.matrix("q", layer, self._q, hidden)
        else:
            tensors.matrix("q_a", layer, kind.q_rank, hidden)
            tensors.vector("q_a_norm", layer, kind.q_rank)
            tensors.matrix("q_b", layer, self._q, kind.q_rank)
        tensors.matrix("kv_a", layer, self._width, hidden)
        tensors.vector("kv_a_norm", layer, kind.kv_rank)
        tensors.absorbed(layer, kind.heads, kind.nope_dim, kind.value_dim, kind.kv_rank)
        tensors.matrix("o", layer, hidden, self._value)
        if kind.bias:
            if kind.q_rank is not None:
                tensors.vector("q_a_bias", layer, kind.q_rank)
            tensors.vector("kv_a_bias", layer, self._width)
            tensors.vector("o_bias", layer, hidden)
        if kind.indexer is not None:
            assert kind.q_rank is not None
            tensors.matrix("index_q", layer, kind.indexer.heads * kind.indexer.dim, kind.q_rank)
            tensors.matrix("index_k", layer, kind.indexer.dim, hidden)
            tensors.vector("index_k_norm", layer, kind.indexer.dim)
            tensors.vector("index_k_norm_bias", layer, kind.indexer.dim)
            tensors.vector("index_weights", layer, kind.indexer.heads, hidden)

    def buffers(self, rows: int) -> dict[str, int]:
        """Float32 rows of every step, and the selected keys."""
        kind = self._kind
        sizes = {
            "q": self._q, "q_a": kind.q_rank or 0, "kv_a": self._width, "query": kind.heads * self._width,
            "attended": self._value, "selected": kind.top_k or 0,
        }  # fmt: skip
        if kind.indexer is not None:
            heads, dim = kind.indexer.heads, kind.indexer.dim
            sizes.update({"index_q": heads * dim, "index_k": dim, "index_weights": heads})
        return {name: rows * size * 4 for name, size in sizes.items()}

    def scratch(self) -> int:
        """Whatever of attention and indexer needs more."""
        attention = r.latent_scratch(self._kind.kv_rank, self._width * 4)
        return max(attention, r.index_scratch(self._kind.indexer.heads if self._kind.indexer else 0))

    def strips(self, capacity: int, fmt: int) -> tuple[Strip, ...]:
        """Latents with their keys, and the indexer's keys."""
        latents = Strip(1, capacity, self._width * itemsize(fmt))
        if self._kind.indexer is None:
            return (latents,)
        tile = r.KEY_TILE * self._kind.indexer.dim * itemsize(fmt)
        return latents, Strip(1, -(-capacity // r.KEY_TILE), tile, unit=r.KEY_TILE)

    def context_scratch(self, capacity: int) -> int:
        """The indexer's scores of some rows."""
        return r.INDEX_ROWS * capacity * 4 if self._kind.indexer else 0

    def ropes(self) -> tuple[Rope, ...]:
        """One, which the indexer shares."""
        return (self._kind.rope,)

    def widest_input(self) -> int:
        """The attended heads or the compressed query."""
        return max(self._value, self._kind.q_rank or 0)

    def emit(self, writer: Writer, cache: LayerCache) -> None:
        """Project down and up, select, attend among the latents, project back."""
        weights, layer, kind, source = writer.weights, self._layer, self._kind, writer.source
        roles: list[Role] = ["kv_a", "q" if kind.q_rank is None else "q_a"]
        if kind.indexer is not None:
            roles.append("index_k")
        takers: list[Role] = [*roles, "index_weights"] if kind.indexer is not None else roles
        writer.quantise(source, self._spec.hidden, [weights.matrix(role, layer).fmt for role in takers])
        for role in roles:
            self._project(writer, role, source, role)
        if kind.indexer is not None:
            # While a conversation is no longer than the selection, all is selected and no score is needed.
            self._project(writer, "index_weights", source, "index_weights", after=kind.top_k or 0)
        if kind.q_rank is not None:
            self._expand_queries(writer, kind.q_rank)
        index = writer.record("latents", self._latent_record(writer, cache))
        writer.emit(r.LATENT_STORE, index=index)
        writer.emit(r.LATENT_ABSORB, index=index)
        if kind.indexer is not None:
            indexer = writer.record("indexers", self._indexer_record(writer, cache))
            writer.emit(r.INDEX_STORE, index=indexer)
            writer.emit(r.INDEX_SELECT, index=indexer)
        writer.emit(r.LATENT_ATTEND, index=index)
        writer.emit(r.LATENT_EXPAND, index=index)
        o, attended = weights.matrix("o", layer), writer.rows("attended", self._value)
        writer.quantise(attended, o.k, (o.fmt,))
        writer.linear(o, attended, writer.target, weights.vector("o_bias", layer), mode=writer.mode)

    def _project(self, writer: Writer, role: Role, source: Rows, target: str, after: int = 0) -> None:
        """Emit a product into the buffer `target`, with the bias if there is one."""
        matrix = writer.weights.matrix(role, self._layer)
        bias = _BIAS.get(role)
        address = writer.weights.vector(bias, self._layer) if bias else 0
        writer.linear(matrix, source, writer.rows(target, matrix.n), address, after=after)

    def _expand_queries(self, writer: Writer, rank: int) -> None:
        """Norm the compressed query and project it to the heads' queries, the attention's and the indexer's."""
        weights, layer, compressed = writer.weights, self._layer, writer.rows("q_a", rank)
        writer.emit(
            r.NORM, x=compressed.address, x_stride=compressed.stride, y=compressed.address,
            y_stride=compressed.stride, w=weights.vector("q_a_norm", layer), n=rank, f=self._kind.norm_eps,
        )  # fmt: skip
        roles: list[Role] = ["q_b"] if self._kind.indexer is None else ["q_b", "index_q"]
        writer.quantise(compressed, rank, [weights.matrix(role, layer).fmt for role in roles])
        self._project(writer, "q_b", compressed, "q")
        if self._kind.indexer is not None:
            self._project(writer, "index_q", compressed, "index_q", after=self._kind.top_k or 0)

    def _latent_record(self, writer: Writer, cache: LayerCache) -> dict[str, float]:
        kind, at, weights = self._kind, writer.space.address, writer.weights
        key_up, value_up = weights.matrix("key_up", self._layer), weights.matrix("value_up", self._layer)
        if takes(key_up.fmt) != TAKES_FLOATS:
            raise UnsupportedModelError(f"layer {self._layer}: the latents' key projection is stored as a K-quant")
        cos, sin = writer.rope(kind.rope)
        return {
            "q": at["q"], "kv": at["kv_a"], "query": at["query"], "out": at["attended"],
            "cache": cache.address, "fmt": cache.fmt,
            "heads": kind.heads, "nope": kind.nope_dim, "rope_dim": kind.rope.dim, "rank": kind.kv_rank,
            "value": kind.value_dim, "norm": weights.vector("kv_a_norm", self._layer), "eps": kind.norm_eps,
            "cos": cos, "sin": sin, "pairs": int(kind.rope.pairs),
            "scale": (kind.nope_dim + kind.rope.dim) ** -0.5 * softmax_factor(kind.rope),
            "key_up": key_up.address, "key_fmt": key_up.fmt, "value_up": value_up.address, "value_fmt": value_up.fmt,
            "top_k": kind.top_k or 0, "selected": at["selected"],
        }  # fmt: skip

    def _indexer_record(self, writer: Writer, cache: LayerCache) -> dict[str, float]:
        kind, indexer, at, weights = self._kind, self._kind.indexer, writer.space.address, writer.weights
        assert indexer is not None
        cos, sin = writer.rope(kind.rope)
        return {
            "q": at["index_q"], "k": at["index_k"], "weights": at["index_weights"],
            "heads": indexer.heads, "dim": indexer.dim, "rope_dim": kind.rope.dim, "pairs": int(indexer.pairs),
            "cos": cos, "sin": sin, "norm": weights.vector("index_k_norm", self._layer),
            "norm_bias": weights.vector("index_k_norm_bias", self._layer), "eps": indexer.norm_eps,
            "cache": cache.address + self.strips(cache.capacity, cache.fmt)[0].nbytes, "fmt": cache.fmt,
            "capacity": cache.capacity, "scores": cache.scratch,
            "top_k": kind.top_k or 0, "selected": at["selected"],
        }  # fmt: skip
