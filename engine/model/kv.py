"""What a model keeps of a conversation: keys and values, or a mixer's running state, layer by layer.

Numbers are float32 where the weights came as floats, so that a reference can be met to the last digits, and float16
where the weights were quantised by us anyway: half the memory, half the reading. Sums over them are float32 always.
Memory is reserved for the whole context and taken from the system page by page as the conversation grows; layers that
look back on a window only have a ring of little more than that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..kernels.formats import F16, F32
from ..kernels.memory import Block
from .mixers import mixer_of
from .spec import ModelSpec
from .strips import WINDOW_MARKS, Bytes, LayerCache, Strip

_PAGE = 4096

MARKS = 5
"""Copies of the running state that are kept to go back to, two a turn and one; the memory plan counts them."""


def kv_format(choice: str | None, packed: bool) -> int:
    """The cache's format: as chosen, else by the weights."""
    return {"f32": F32, "f16": F16, None: F16 if packed else F32}[choice]


KV_NAMES = {F32: "f32", F16: "f16"}
"""The cache's formats in words."""


def _layer_bytes(spec: ModelSpec, layer: int, capacity: int, fmt: int) -> int:
    return -(-mixer_of(spec, layer).cache_bytes(capacity, fmt) // _PAGE) * _PAGE


def kv_bytes(spec: ModelSpec, capacity: int, fmt: int) -> int:
    """Bytes for conversations of up to `capacity` tokens."""
    mixers = [mixer_of(spec, layer) for layer in range(len(spec.layers))]
    scratch = max(mixer.context_scratch(capacity) for mixer in mixers)
    states = sum(mixer.state_bytes() for mixer in mixers)
    windows = sum(
        strip.heads * (strip.behind or 0) * strip.row_bytes
        for mixer in mixers
        for strip in mixer.strips(capacity, fmt)
        if strip.is_ring(capacity)
    )
    copies = (MARKS if states else WINDOW_MARKS) * (states + windows)
    return sum(_layer_bytes(spec, layer, capacity, fmt) for layer in range(len(mixers))) + scratch + copies


@dataclass(frozen=True, slots=True)
class Copy:
    """What a conversation needs to be taken up at some place again, but for what all later places share."""

    states: list[Bytes]
    windows: list[Bytes]


class KVCache:
    """The memory of one conversation of up to `capacity` tokens.

    recurrent: whether some layers keep a running state. windowed: whether some look back on a window only. fmt: of its
    numbers.
    """

    def __init__(self, spec: ModelSpec, capacity: int, fmt: int) -> None:
        layers = range(len(spec.layers))
        sizes = [_layer_bytes(spec, layer, capacity, fmt) for layer in layers]
        shared = max(mixer_of(spec, layer).context_scratch(capacity) for layer in layers)
        self._block = Block(sum(sizes) + shared, huge=False)
        self.fmt = fmt
        self.layers: list[LayerCache] = []
        self._states: list[Bytes] = []
        self._strips: list[tuple[Strip, Bytes]] = []  # bytes [heads, length, row_bytes]
        start, scratch = 0, self._block.address + sum(sizes)
        for layer, size in enumerate(sizes):
            self.layers.append(LayerCache(self._block.address + start, capacity, fmt, scratch))
            mixer, offset = mixer_of(spec, layer), start
            if state := mixer.state_bytes():
                self._states.append(self._block.array(offset, (state,), np.uint8))
                offset += state
            for strip in mixer.strips(capacity, fmt):
                shape = (strip.heads, strip.length, strip.row_bytes)
                self._strips.append((strip, self._block.array(offset, shape, np.uint8)))
                offset += strip.nbytes
            start += size
        self._rings = [(strip, view) for strip, view in self._strips if strip.is_ring(capacity)]
        self.recurrent = bool(self._states)
        self.windowed = any(strip.behind is not None for strip, _ in self._strips)

    def lowest(self, reach: int) -> int:
        """The first place that a conversation can be cut at, once positions up to `reach` (not included) are stored.

        From there on all that a token looks back on is still in the rings.
        """
        overwritten = [strip for strip, _ in self._rings if reach > strip.length]
        return max((reach - strip.length + (strip.behind or 0) for strip in overwritten), default=0)

    def copy(self, tokens: int) -> Copy:
        """Copy the running states, and what the windows hold of the last of so many tokens."""
        windows = [view.take(strip.rows(tokens), axis=1) for strip, view in self._rings]
        return Copy([state.copy() for state in self._states], windows)

    def put_back(self, tokens: int, copied: Copy | None) -> None:
        """Set states and windows to a copy taken after so many tokens, or to what they are before the first."""
        for index, state in enumerate(self._states):
            state[:] = copied.states[index] if copied is not None else 0
        if copied is not None:
            for (strip, view), window in zip(self._rings, copied.windows, strict=True):
                view[:, strip.rows(tokens)] = window

    def pieces(self, tokens: int) -> Iterator[Bytes]:
        """All that so many tokens left behind and the next one needs, as views, in an order that capacity has no part
        in: states, then strip by strip, head by head."""
        yield from self._states
        for strip, view in self._strips:
            yield from strip.pieces(view, tokens)

    def mark_pieces(self, tokens: int, copied: Copy) -> Iterator[Bytes]:
        """What distinguishes an earlier place: the arrays of a copy taken there, and of windows that are no rings here
        their rows."""
        yield from copied.states
        windows = iter(copied.windows)
        for strip, view in self._strips:
            if any(view is ring for _, ring in self._rings):
                yield from next(windows)
            elif strip.behind is not None:
                yield from strip.pieces(view, tokens)

    def saved_bytes(self, tokens: int) -> int:
        """Bytes of all `pieces`."""
        return sum(state.nbytes for state in self._states) + sum(
            strip.heads * len(strip.rows(tokens)) * strip.row_bytes for strip, _ in self._strips
        )

    def mark_bytes(self, tokens: int) -> int:
        """Bytes of all `mark_pieces`."""
        return sum(state.nbytes for state in self._states) + sum(
            strip.heads * len(strip.rows(tokens)) * strip.row_bytes
            for strip, _ in self._strips
            if strip.behind is not None
        )
