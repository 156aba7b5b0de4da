"""What a model needs of memory, known from its headers alone."""

from __future__ import annotations

from .experts.couplings import couplings_bytes
from .experts.guesses import guesses_bytes
from .experts.policies import state_bytes
from .experts.reader import READERS
from .experts.recent import recent_bytes
from .model.buffers import work_bytes
from .model.kv import kv_bytes, kv_format
from .model.spec import ModelSpec
from .model.weights import Weights
from .options import EngineOptions
from .plan import Needs


def model_needs(spec: ModelSpec, weights: Weights, options: EngineOptions, threads: int) -> Needs:
    """The needs of a model that is opened with these options and computed by so many threads."""
    fmt = kv_format(options.kv, weights.experts.packed)
    fixed, per_row = work_bytes(spec, threads, weights.planes)
    fixed += READERS * weights.experts.staging_bytes
    layers = len(spec.layers)
    return Needs(
        dense=weights.dense_bytes,
        kv=lambda context: kv_bytes(spec, context, fmt),
        slot_bytes=weights.experts.slot_bytes,
        moe_layers=len(spec.moe_layers),
        experts=spec.experts,
        top_k=spec.top_k,
        work_fixed=fixed
        + layers * state_bytes(options.policy or "auto", spec.experts)
        + recent_bytes(layers, spec.top_k)
        + couplings_bytes(layers, spec.experts)
        + guesses_bytes(layers, spec.experts),
        work_per_row=per_row,
        max_context=spec.max_context,
    )
