"""Where every expert lies on disk, and how it lies in a slot.

An expert is one to three byte ranges; ranges that touch are read as one. Because direct reads are aligned, each range
comes with what surrounds it, and its bytes start somewhere inside the first page of its region of the slot: `parts`
tells the kernels where gate, up and down begin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..checkpoint.files import ALIGN
from ..checkpoint.index import TensorEntry
from ..errors import CheckpointError
from ..kernels.formats import block_bytes, matrix_bytes


@dataclass(frozen=True, slots=True)
class ExpertRead:
    """One read: `nbytes` at `offset` of `file`, into the slot's region that starts at `region`."""

    file: Path
    offset: int
    nbytes: int
    region: int


Bytes = npt.NDArray[np.uint8]
Arrange = Callable[[Sequence[Bytes], Bytes], None]
"""(the bytes of each read, the slot): writes gate, up and down into the slot. Runs on reader threads."""

TensorRange = tuple[TensorEntry, int, int]
"""A tensor, where its bytes of interest start in the file, and how many they are."""


@dataclass(frozen=True, slots=True)
class ExpertSource:
    """All experts of a model.

    fmt: the kernels' weight format. parts: int32 [layers, experts, 3], byte offsets of gate, up and down inside a slot.
    steps: bytes from one block of 16 rows to the next for gate, up and down. reads: by (layer, expert).
    expert_bytes: what one expert takes on disk. arrange: turns what was read into what lies in a slot, for layouts that
    the kernels do not read as they are; the reads then go into a staging area of `staging_bytes`.
    """

    fmt: int
    slot_bytes: int
    expert_bytes: int
    steps: tuple[int, int, int]
    parts: npt.NDArray[np.int32]
    reads: dict[tuple[int, int], tuple[ExpertRead, ...]]
    arrange: Arrange | None = None
    staging_bytes: int = 0

    def files(self) -> list[Path]:
        """The files that hold experts, each once."""
        return sorted({read.file for reads in self.reads.values() for read in reads})


def arranged_source(
    reads: dict[tuple[int, int], list[TensorRange]],
    arrange: Arrange,
    fmt: int,
    hidden: int,
    width: int,
    layers: int,
    experts: int,
) -> ExpertSource:
    """Experts that `arrange` lays out: gate [width, hidden], up alike, down [hidden, width], one after another."""
    part, last = matrix_bytes(fmt, width, hidden), matrix_bytes(fmt, hidden, width)
    offsets = np.tile(np.array([0, part, 2 * part], np.int32), (layers, experts, 1))
    staging, placed = 0, {}
    for key, ranges in reads.items():
        region, fetched = 0, []
        for entry, offset, nbytes in ranges:
            fetched.append(ExpertRead(entry.file, offset, nbytes, region))
            region += -(-nbytes // ALIGN) * ALIGN + ALIGN
        placed[key] = tuple(fetched)
        staging = max(staging, region)
    slot_bytes = -(-(2 * part + last) // ALIGN) * ALIGN
    expert_bytes = sum(read.nbytes for read in next(iter(placed.values())))
    steps = (block_bytes(fmt, hidden), block_bytes(fmt, hidden), block_bytes(fmt, width))
    return ExpertSource(fmt, slot_bytes, expert_bytes, steps, offsets, placed, arrange, staging)


def hub_source(
    parts: dict[tuple[int, int, int], tuple[TensorEntry, int]],
    fmt: int,
    hidden: int,
    width: int,
    layers: int,
    experts: int,
) -> ExpertSource:
    """Experts as on the hub: `parts` maps (layer, expert, part) to the tensor and the offset of its bytes.

    The three parts are row-major float matrices: gate [width, hidden], up [width, hidden], down [hidden, width].
    """
    nbytes = matrix_bytes(fmt, width, hidden)
    region_bytes = -(-nbytes // ALIGN) * ALIGN + ALIGN
    offsets = np.zeros((layers, experts, 3), np.int32)
    reads: dict[tuple[int, int], tuple[ExpertRead, ...]] = {}
    for layer, expert in {(layer, expert) for layer, expert, _ in parts}:
        pieces = sorted((parts[layer, expert, part][0].file, parts[layer, expert, part][1], part) for part in range(3))
        merged: list[ExpertRead] = []
        region = 0
        for file, offset, part in pieces:
            last = merged[-1] if merged else None
            if last is not None and last.file == file and last.offset + last.nbytes == offset:
                merged[-1] = ExpertRead(file, last.offset, last.nbytes + nbytes, last.region)
            else:
                merged.append(ExpertRead(file, offset, nbytes, region))
            last = merged[-1]
            offsets[layer, expert, part] = last.region + last.offset % ALIGN + (offset - last.offset)
            region += region_bytes
        reads[layer, expert] = tuple(merged)
    steps = (block_bytes(fmt, hidden), block_bytes(fmt, hidden), block_bytes(fmt, width))
    return ExpertSource(fmt, 3 * region_bytes, 3 * nbytes, steps, offsets, reads)


def merged_bytes(fmt: int, hidden: int, width: int) -> int:
    """Bytes of one expert in a container: gate and up blocks alternating, then the down blocks, whole pages."""
    return -(-(2 * matrix_bytes(fmt, width, hidden) + matrix_bytes(fmt, hidden, width)) // ALIGN) * ALIGN


def merged_source(
    entries: dict[tuple[int, int], TensorEntry], fmt: int, hidden: int, width: int, layers: int, experts: int
) -> ExpertSource:
    """Experts of a container, each one tensor in the kernels' own layout."""
    total = merged_bytes(fmt, hidden, width)
    block = block_bytes(fmt, hidden)
    start_of_down = 2 * matrix_bytes(fmt, width, hidden)
    offsets = np.zeros((layers, experts, 3), np.int32)
    reads: dict[tuple[int, int], tuple[ExpertRead, ...]] = {}
    aligned = all(entry.offset % ALIGN == 0 for entry in entries.values())
    for (layer, expert), entry in entries.items():
        if entry.dtype != "U8" or entry.shape != (total,):
            raise CheckpointError(
                f"{entry.file.name}: tensor {entry.name} is {entry.dtype} {list(entry.shape)}, the config calls for "
                f"U8 [{total}]"
            )
        inset = entry.offset % ALIGN
        offsets[layer, expert] = (inset, inset + block, inset + start_of_down)
        reads[layer, expert] = (ExpertRead(entry.file, entry.offset, total, 0),)
    slot_bytes = total if aligned else total + ALIGN
    return ExpertSource(fmt, slot_bytes, total, (2 * block, 2 * block, block_bytes(fmt, width)), offsets, reads)
