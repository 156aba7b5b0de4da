"""A model's tensors as float32, one after another, however they are stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from ..checkpoint.files import ModelFiles
from ..experts.reader import fill_slot
from ..experts.source import ExpertSource, Key
from ..kernels.formats import I4G, I8R, ROWS, block_bytes, row_bytes
from ..kernels.memory import Block
from ..kernels.packing import unpack
from ..kernels.rows import unpack_rows
from .items import Packed, Read, reading, unpacked
from .spec import ModelSpec, Role
from .storage import Stored
from .weights import Weights

Floats = npt.NDArray[np.float32]

_PARTS: Final[tuple[Role, ...]] = ("expert_gate", "expert_up", "expert_down")


def float_tensors(weights: Weights, spec: ModelSpec, files: ModelFiles) -> Iterator[tuple[str, Floats]]:
    """Read (hub name, what the tensor stands for): the dense part, then every expert's gate, up and down.

    One tensor is held at a time; the arrays are the caller's own. Raises ReadError.
    """
    read = reading(files)
    for name, (shape, stored) in weights.dense.items():
        yield name, _dense(stored, read).reshape(shape)
    slot, staging = Block(weights.experts.slot_bytes), Block(weights.experts.staging_bytes)
    for key, fetch in sorted(weights.experts.reads.items()):
        fill_slot(files, fetch, slot.view, staging.view)
        for part, role in enumerate(_PARTS):
            name = spec.names[role].replace("{L}", str(key[0])).replace("{E}", str(key[1]))
            yield name, _expert(weights.experts, spec, key, part, np.frombuffer(slot.view, np.uint8))


def _dense(stored: Stored | Packed, read: Read) -> Floats:
    if not isinstance(stored, Packed):
        return unpacked(stored, read)
    n, k = stored.shape
    return unpack(stored.fmt, read((stored.entry, stored.entry.offset, stored.entry.nbytes), None), n, k)


def _expert(source: ExpertSource, spec: ModelSpec, key: Key, part: int, slot: npt.NDArray[np.uint8]) -> Floats:
    """One part of the expert in a slot."""
    layer, _ = key
    n, k = spec.mixture(layer).width, spec.hidden
    if part == 2:
        n, k = k, n
    fmt, step, start = source.formats[layer][part], source.steps[layer][part], int(source.parts[key][part])
    if fmt not in (I8R, I4G):
        size = row_bytes(fmt, k)
        return np.array(unpack_rows(fmt, slot[start : start + n * size].reshape(n, size), k))
    size = block_bytes(fmt, k)
    starts = range(start, start + -(-n // ROWS) * step, step)
    return unpack(fmt, np.stack([slot[at : at + size] for at in starts]), n, k)
