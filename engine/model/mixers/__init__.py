"""Token mixers: attention and its relatives, one module a kind.

A mixer knows everything about one layer's first half: which tensors it needs, which buffers and how much cache, and
which operations compute it. The rest of the model does not know the kinds.
"""

from __future__ import annotations

from ..spec import Attention, DeltaNet, LatentAttention, MixedAttention, ModelSpec, ShortConvolution
from .base import Mixer
from .grouped import GroupedQuery
from .latent import Latent
from .mixed import Mixed
from .recurrent import GatedConvolution, GatedDeltaNet

__all__ = ["Mixer", "mixer_of"]


def mixer_of(spec: ModelSpec, layer: int) -> Mixer:
    """The mixer of a layer."""
    kind = spec.layers[layer].attention
    match kind:
        case Attention():
            return GroupedQuery(spec, layer, kind)
        case LatentAttention():
            return Latent(spec, layer, kind)
        case MixedAttention():
            return Mixed(spec, layer, kind)
        case DeltaNet():
            return GatedDeltaNet(spec, layer, kind)
        case ShortConvolution():
            return GatedConvolution(spec, layer, kind)
