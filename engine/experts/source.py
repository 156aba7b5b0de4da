"""Where every expert lies on disk, and how it lies in a slot.

An expert is a few byte ranges of its model's files; ranges that touch are read as one. Because direct reads are
aligned, each comes with what surrounds it, and its bytes start somewhere inside the first page of its region. Where the
kernels read what the file holds, the regions are those of the slot, and `parts` tells the kernels where gate, up and
down begin. Where they do not, the regions are those of a staging area, from which the slot is then filled.
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
from ..kernels.formats import block_bytes, is_packed, matrix_bytes

Key = tuple[int, int]
"""(layer, expert)."""

TensorRange = tuple[TensorEntry, int, int]
"""A tensor, where its bytes of interest start in the file, and how many they are."""

Bytes = npt.NDArray[np.uint8]
Arrange = Callable[[Sequence[Bytes], Bytes], None]
"""(the bytes of each range, the slot): writes gate, up and down into the slot. Runs on reader threads."""

Formats = tuple[int, int, int]
"""Weight formats of gate, up and down."""

MergedFormats = tuple[int, int]
"""Packed formats of an expert of a container: of gate and up, and of down."""

SMALL_GAP = 1 << 16
"""Bytes between two ranges that are read rather than skipped: a second read takes longer."""


@dataclass(frozen=True, slots=True)
class ExpertRead:
    """One read: `nbytes` at `offset` of `file`, into the region that starts at `region`."""

    file: Path
    offset: int
    nbytes: int
    region: int

    @property
    def start(self) -> int:
        """Where its bytes lie in the memory they were read into."""
        return self.region + self.offset % ALIGN


@dataclass(frozen=True, slots=True)
class ExpertFetch:
    """What brings one expert into a slot.

    arrange: fills the slot with what was read into a staging area; None: reads go into the slot. ranges: where the
    bytes that `arrange` takes lie in the staging area, and how many they are.
    """

    reads: tuple[ExpertRead, ...]
    arrange: Arrange | None = None
    ranges: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ExpertSource:
    """All experts of a model.

    formats, steps: by layer, of gate, up and down: the kernels' weight format, and the bytes from one block of 16 rows
    to the next. parts: int32 [layers, experts, 3], byte offsets of gate, up and down inside a slot. reads: by (layer,
    expert). expert_bytes: what an expert takes on disk, on average. staging_bytes: the largest staging area.
    """

    formats: dict[int, Formats]
    steps: dict[int, tuple[int, int, int]]
    parts: npt.NDArray[np.int32]
    reads: dict[Key, ExpertFetch]
    slot_bytes: int
    expert_bytes: int
    staging_bytes: int

    @property
    def packed(self) -> bool:
        """Whether the experts take activations quantised to int8: all matrices do, or none."""
        return is_packed(next(iter(self.formats.values()))[0])

    def files(self) -> list[Path]:
        """The files that hold experts, each once."""
        return sorted({read.file for fetch in self.reads.values() for read in fetch.reads})


class SourceBuilder:
    """Collects a model's experts, all of one shape: gate and up [width, hidden], down [hidden, width]."""

    def __init__(self, hidden: int, width: int, layers: int, experts: int) -> None:
        self._hidden, self._width = hidden, width
        self._formats: dict[int, Formats] = {}
        self._steps: dict[int, tuple[int, int, int]] = {}
        self._parts = np.zeros((layers, experts, 3), np.int32)
        self._reads: dict[Key, ExpertFetch] = {}
        self._slot_bytes = self._staging_bytes = 0

    def _sizes(self, formats: Formats) -> tuple[int, int, int]:
        gate, up, down = formats
        wide, high = (self._width, self._hidden), (self._hidden, self._width)
        return matrix_bytes(gate, *wide), matrix_bytes(up, *wide), matrix_bytes(down, *high)

    def _describe(self, layer: int, formats: Formats) -> None:
        """All experts of a layer have the same formats; of a model all matrices are packed, or none."""
        if layer in self._formats:
            return
        gate, up, down = self._formats[layer] = formats
        if len({is_packed(fmt) for fmts in self._formats.values() for fmt in fmts}) > 1:
            raise CheckpointError(f"layer {layer}: experts are stored in a way that does not go with other layers'")
        self._steps[layer] = (
            block_bytes(gate, self._hidden), block_bytes(up, self._hidden), block_bytes(down, self._width),
        )  # fmt: skip

    def direct(self, key: Key, formats: Formats, ranges: Sequence[TensorRange]) -> None:
        """An expert whose gate, up and down lie in the files as the kernels read them: the three ranges."""
        self._describe(key[0], formats)
        reads, places, end = _placed(ranges, gap=0)
        self._parts[key] = places
        self._reads[key] = ExpertFetch(reads)
        self._slot_bytes = max(self._slot_bytes, end)

    def arranged(self, key: Key, formats: Formats, ranges: Sequence[TensorRange], arrange: Arrange) -> None:
        """An expert that `arrange` makes of some ranges: gate, up and down one after another, as `part_offsets`."""
        self._describe(key[0], formats)
        reads, places, end = _placed(ranges, SMALL_GAP)
        sizes = [nbytes for _, _, nbytes in ranges]
        self._parts[key] = self.part_offsets(formats)[:3]
        self._reads[key] = ExpertFetch(reads, arrange, tuple(zip(places, sizes, strict=True)))
        self._staging_bytes = max(self._staging_bytes, end)
        self._slot_bytes = max(self._slot_bytes, self.part_offsets(formats)[3])

    def part_offsets(self, formats: Formats) -> tuple[int, int, int, int]:
        """Where gate, up and down begin in a slot that was arranged, and where it ends."""
        gate, up, down = self._sizes(formats)
        return 0, gate, gate + up, gate + up + down

    def merged(self, key: Key, formats: MergedFormats, entry: TensorEntry) -> None:
        """An expert of a container: one tensor of `merged_bytes`, gate and up blocks alternating, then down."""
        wide, high = formats
        self._describe(key[0], (wide, wide, high))
        block, down = block_bytes(wide, self._hidden), block_bytes(high, self._width)
        self._steps[key[0]] = (2 * block, 2 * block, down)
        read = ExpertRead(entry.file, entry.offset, entry.nbytes, 0)
        gate_up = 2 * matrix_bytes(wide, self._width, self._hidden)
        self._parts[key] = (read.start, read.start + block, read.start + gate_up)
        self._reads[key] = ExpertFetch((read,))
        self._slot_bytes = max(self._slot_bytes, read.start + entry.nbytes)

    def finish(self) -> ExpertSource:
        """The source; at least one expert was given."""
        total = sum(read.nbytes for fetch in self._reads.values() for read in fetch.reads)
        return ExpertSource(
            self._formats,
            self._steps,
            self._parts,
            self._reads,
            slot_bytes=-(-self._slot_bytes // ALIGN) * ALIGN,
            expert_bytes=round(total / len(self._reads)),
            staging_bytes=self._staging_bytes,
        )


def _placed(ranges: Sequence[TensorRange], gap: int) -> tuple[tuple[ExpertRead, ...], list[int], int]:
    """Reads that cover the ranges, those of a file at most `gap` bytes apart as one; where each range will lie; and
    the size of it all."""
    order = sorted(range(len(ranges)), key=lambda i: (str(ranges[i][0].file), ranges[i][1]))  # paths compare slowly
    reads: list[ExpertRead] = []
    places, region = [0] * len(ranges), 0
    for i in order:
        entry, offset, nbytes = ranges[i]
        last = reads[-1] if reads else None
        if last is not None and last.file == entry.file and offset <= last.offset + last.nbytes + gap:
            nbytes = max(last.nbytes, offset + nbytes - last.offset)
            reads[-1] = last = ExpertRead(last.file, last.offset, nbytes, last.region)
        else:
            last = ExpertRead(entry.file, offset, nbytes, region)
            reads.append(last)
        places[i] = last.start + offset - last.offset
        region = -(-(last.start + last.nbytes) // ALIGN) * ALIGN
    return tuple(reads), places, region


def merged_bytes(formats: MergedFormats, hidden: int, width: int) -> int:
    """Bytes of one expert in a container: gate and up blocks alternating, then the down blocks, whole pages."""
    wide, high = formats
    return -(-(2 * matrix_bytes(wide, width, hidden) + matrix_bytes(high, hidden, width)) // ALIGN) * ALIGN
