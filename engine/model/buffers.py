"""Which buffers a forward works in, and how large they are."""

from __future__ import annotations

from ..kernels.planes import planes_bytes
from ..kernels.quantize import q8_bytes
from ..kernels.records import scratch_bytes
from .mixers import Mixer, mixer_of
from .spec import DenseMlp, Mixture, ModelSpec, Rope
from .workspace import ALIGN, padded, total_bytes

HEAD_ROWS = 8
"""Rows whose logits are computed at once."""


def distinct_ropes(mixers: list[Mixer]) -> list[Rope]:
    """The rotary embeddings of a model, each once, in order of first use."""
    found: list[Rope] = []
    for mixer in mixers:
        found.extend(rope for rope in mixer.ropes() if rope not in found)
    return found


def buffer_sizes(spec: ModelSpec, rows: int, threads: int, planes: bool) -> dict[str, int]:
    """Bytes of every buffer. planes: whether some weights take activations in planes, the larger form."""

    def record(k: int) -> int:
        return max(int(q8_bytes(k)), int(planes_bytes(k)) if planes else 0)

    mixers = [mixer_of(spec, layer) for layer in range(len(spec.layers))]
    mlps = [layer.mlp.width if isinstance(layer.mlp, DenseMlp) else layer.mlp.shared_width for layer in spec.layers]
    mixture: Mixture = spec.mixture(spec.moe_layers[0])
    pairs, mlp, mixtures = rows * spec.top_k, max(mlps), len(spec.moe_layers)
    sizes = {
        "ids": rows * 8,
        "residual": rows * spec.hidden * 4,
        "normed": rows * spec.hidden * 4,
        "quantized": rows * record(max(spec.hidden, *(mixer.widest_input() for mixer in mixers))),
        "quantized_mlp": rows * record(max(mlp, 1)),
        "gate": rows * mlp * 4,
        "up": rows * mlp * 4,
        "mixed": rows * spec.hidden * 4 * any(layer.norms != "before" for layer in spec.layers),
        "shared": rows * spec.hidden * 4,
        "shared_gate": rows * 4,
        "router": rows * spec.experts * 4,
        "route_ids": mixtures * pairs * 4,  # every layer's own: what a token chose is noted when it is through
        "route_weights": mixtures * pairs * 4,
        "route_kept": mixtures * rows * 4,
        "h": pairs * mixture.width * 4,
        "hq": pairs * record(mixture.width),
        "y": pairs * spec.hidden * 4,
        "rope": sum(rows * rope.dim * 4 for rope in distinct_ropes(mixers)),
        "ahead_normed": spec.hidden * 4,  # of one token
        "ahead_router": spec.experts * 4,
        "job_expert": spec.experts * 8,
        "job_first": (spec.experts + 1) * 8,
        "job_pairs": pairs * 8,
        "active_jobs": spec.experts * 8,
        "expert_count": spec.experts * 8,
        "logits": HEAD_ROWS * spec.vocab * 4,
        "scratch": threads * max(scratch_bytes(rows, spec.experts), *(padded(mixer.scratch()) for mixer in mixers)),
    }
    for mixer in mixers:
        for name, size in mixer.buffers(rows).items():
            sizes[name] = max(sizes.get(name, 0), size)
    return sizes


def work_bytes(spec: ModelSpec, threads: int, planes: bool) -> tuple[int, int]:
    """(fixed bytes, bytes per row) of a workspace, from above."""
    one, two = (total_bytes(buffer_sizes(spec, rows, threads, planes)) for rows in (64, 128))
    per_row = -(-(two - one) // 64)
    return max(0, one - 64 * per_row) + ALIGN * len(buffer_sizes(spec, 1, threads, planes)), per_row
