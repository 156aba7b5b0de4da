"""Writes containers: model folders whose experts are one read each, already in the kernels' own layout.

A container is a hub-like folder: config.json and tokenizer files as they came, one file of experts per layer, one file
with everything else. Experts are `...experts.E.merged_weight.<layout>`, whole pages that start on a page, so that a
direct read fetches exactly one expert into its slot. Matrices kept in a kernel's layout carry its tag in their name
too. The metadata key `colibri.fmt` names the layout of every tensor.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..checkpoint.files import ALIGN
from ..checkpoint.index import Checkpoint
from ..errors import EngineError
from ..experts.source import MergedFormats, merged_bytes
from ..families import read_spec
from ..kernels.formats import I4G, I8R, LAYOUT
from ..kernels.packing import pack
from ..model.expert_layouts import merged_name
from ..model.spec import ModelSpec, Role
from ..model.tensors import MERGED_LAYOUT, PACKED_SUFFIX
from ..model.weights import Weights

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

FORMATS: Final = {"int8": I8R, "int4": I4G}
"""Names of the formats a container can have."""

VERSION: Final = "1"

EXPERT_FILE: Final = "experts-{:05}.safetensors"
"""Name of the file with a layer's experts."""

MATRICES: Final[tuple[Role, ...]] = (
    "embed", "head", "q", "k", "v", "o", "gate", "up", "down", "shared_gate", "shared_up", "shared_down",
    "q_a", "q_b", "kv_a", "index_q", "index_k", "in_qkvz", "in_qkv", "in_z", "in_conv", "out",
)  # fmt: skip
HALVES: Final[tuple[Role, ...]] = (
    "kv_b", "key_up", "value_up", "q", "o", "kv", "shared_gate_up", "in_ba", "in_b", "in_a",
)  # fmt: skip
"""Matrices kept as float16, because no packed layout serves their use: latent attention multiplies from both sides,
experts of attention are stacked (only those q and o come here), some tensors hold several matrices, gates are small."""

HALF_LIMIT: Final = float(np.finfo(np.float16).max)
EXPERT_PARTS: Final[tuple[Role, ...]] = ("expert_gate", "expert_up", "expert_down")


def write_container(
    dst: Path,
    tensors: Iterable[tuple[str, Floats]],
    config: Mapping[str, Any],
    files: Mapping[str, bytes],
    *,
    expert_format: str = "int8",
    dense_format: str = "int8",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Write a container into the folder `dst`, which must exist and be empty.

    tensors: (hub name, float32 array) in any order; an expert is written when its three parts have come. files: what
    is copied beside the weights (tokenizer.json, ...). progress(done, total) in bytes of expert data. The result is
    opened and checked before this returns. Raises EngineError when a tensor is missing, unknown or of another shape.
    """
    spec = read_spec(config)
    writer = _Writer(dst, spec, FORMATS[expert_format], FORMATS[dense_format], progress)
    with writer:
        for name, values in tensors:
            writer.add(name, values)
    _write(dst / "config.json", json.dumps(dict(config), indent=1).encode())
    for name, data in files.items():
        _write(dst / name, data)
    Weights(Checkpoint.open(dst), spec)


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def header(tensors: Mapping[str, tuple[str, tuple[int, ...], int]], layouts: Mapping[str, str]) -> bytes:
    """A safetensors header for tensors (dtype, shape, bytes) in order, padded so that the data starts on a page."""
    said: dict[str, Any] = {
        "__metadata__": {"format": "colibri", "colibri.version": VERSION, "colibri.fmt": json.dumps(dict(layouts))}
    }
    offset = 0
    for name, (dtype, shape, nbytes) in tensors.items():
        said[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + nbytes]}
        offset += nbytes
    text = json.dumps(said, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGN)
    return struct.pack("<Q", len(text)) + text


class Roles:
    """What a dense tensor of a model may be kept as, by its hub name."""

    def __init__(self, spec: ModelSpec) -> None:
        self._matrices = [pattern(spec.names[role]) for role in MATRICES if role in spec.names]
        self._halves = [pattern(spec.names[role]) for role in HALVES if role in spec.names]

    def is_matrix(self, name: str) -> bool:
        """Whether it can be packed, if it has two dimensions."""
        return any(form.fullmatch(name) for form in self._matrices)

    def is_half(self, name: str) -> bool:
        """Whether it is kept as float16, if its values allow that."""
        return any(form.fullmatch(name) for form in self._halves)


def merge(gate: Bytes, up: Bytes, down: Bytes, nbytes: int) -> bytes:
    """An expert of packed blocks: those of gate and up alternate, so that both halves of a hidden value are one
    stream; then down, then zeros up to `nbytes`."""
    merged = np.stack([gate, up], axis=1).tobytes() + down.tobytes()
    return merged + bytes(nbytes - len(merged))


def expert_header(spec: ModelSpec, layer: int, formats: MergedFormats) -> bytes:
    """The header of the file with a layer's experts."""
    nbytes, layout = merged_bytes(formats, spec.hidden, spec.mixture(layer).width), MERGED_LAYOUT[formats]
    stem = f"{merged_name(spec.names['expert_gate'])}.{layout}".replace("{L}", str(layer))
    names = [stem.replace("{E}", str(expert)) for expert in range(spec.mixture(layer).experts)]
    return header(dict.fromkeys(names, ("U8", (nbytes,), nbytes)), dict.fromkeys(names, layout))


class _Writer:
    """Sorts tensors into the dense file and the layers' expert files."""

    def __init__(
        self, dst: Path, spec: ModelSpec, expert_format: int, dense_format: int, progress: Callable[[int, int], None]
    ) -> None:
        self._dst, self._spec, self._progress = dst, spec, progress
        self._expert_format, self._dense_format = expert_format, dense_format
        self._width = spec.mixture(spec.moe_layers[0]).width
        self._expert_bytes = merged_bytes((expert_format, expert_format), spec.hidden, self._width)
        self._parts: dict[tuple[int, int], dict[Role, Floats]] = {}
        self._written: set[tuple[int, int]] = set()
        self._dense: dict[str, tuple[str, tuple[int, ...], npt.NDArray[Any]]] = {}
        self._layouts: dict[str, str] = {}
        self._files: dict[int, tuple[int, int]] = {}  # layer -> (fd, start of the data)
        self._done = 0
        self._total = len(spec.moe_layers) * spec.experts * self._expert_bytes
        self._roles = Roles(spec)
        self._experts = [(role, pattern(spec.names[role])) for role in EXPERT_PARTS]

    def __enter__(self) -> None:
        self._progress(0, self._total)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for fd, _start in self._files.values():
            if kind is None:
                os.fsync(fd)
            os.close(fd)
        if kind is None:
            self._refuse_gaps()
            self._write_dense()

    def _refuse_gaps(self) -> None:
        """A place in a file that no expert was written to would pass for an expert of zeros."""
        for layer in self._spec.moe_layers:
            for expert in range(self._spec.experts):
                if (layer, expert) not in self._written:
                    part = "only part of it" if (layer, expert) in self._parts else "nothing of it"
                    raise EngineError(f"layer {layer}, expert {expert}: {part} was given")

    def add(self, name: str, values: Floats) -> None:
        """Take one tensor."""
        for role, form in self._experts:
            match = form.fullmatch(name)
            if match:
                self._add_expert(int(match["L"]), int(match["E"]), role, values)
                return
        if values.ndim == 2 and self._roles.is_matrix(name):
            packed = pack(self._dense_format, values).reshape(-1)
            stored = name + PACKED_SUFFIX[self._dense_format]
            self._dense[stored] = ("U8", packed.shape, packed)
            self._layouts[stored] = LAYOUT[self._dense_format]
        elif self._roles.is_half(name) and np.abs(values).max() < HALF_LIMIT:
            self._dense[name] = ("F16", values.shape, values.astype(np.float16))
            self._layouts[name] = "f16"
        else:
            self._dense[name] = ("F32", values.shape, np.ascontiguousarray(values, np.float32))
            self._layouts[name] = "f32"

    def _add_expert(self, layer: int, expert: int, role: Role, values: Floats) -> None:
        if layer not in self._spec.moe_layers or expert >= self._spec.experts:
            raise EngineError(f"layer {layer} has no expert {expert} in this config")
        parts = self._parts.setdefault((layer, expert), {})
        parts[role] = values
        if len(parts) < len(EXPERT_PARTS):
            return
        del self._parts[layer, expert]
        self._written.add((layer, expert))
        fd, start = self._file(layer)
        data = self._merge(layer, expert, parts)
        os.pwrite(fd, data, start + expert * self._expert_bytes)
        self._done += len(data)
        self._progress(self._done, self._total)

    def _merge(self, layer: int, expert: int, parts: Mapping[Role, Floats]) -> bytes:
        shape = (self._width, self._spec.hidden)
        for role, wanted in zip(EXPERT_PARTS, (shape, shape, shape[::-1]), strict=True):
            if parts[role].shape != wanted:
                raise EngineError(
                    f"layer {layer}, expert {expert}: {role} is {list(parts[role].shape)}, the config calls for "
                    f"{list(wanted)}"
                )
        gate, up, down = (pack(self._expert_format, parts[role]) for role in EXPERT_PARTS)
        return merge(gate, up, down, self._expert_bytes)

    def _file(self, layer: int) -> tuple[int, int]:
        """The open expert file of a layer and where its data starts."""
        if layer not in self._files:
            head = expert_header(self._spec, layer, (self._expert_format, self._expert_format))
            path = self._dst / EXPERT_FILE.format(layer)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.pwrite(fd, head, 0)
            os.ftruncate(fd, len(head) + self._spec.experts * self._expert_bytes)
            self._files[layer] = (fd, len(head))
        return self._files[layer]

    def _write_dense(self) -> None:
        head = header(
            {name: (dtype, shape, data.nbytes) for name, (dtype, shape, data) in self._dense.items()}, self._layouts
        )
        with (self._dst / "dense.safetensors").open("wb") as file:
            file.write(head)
            for _dtype, _shape, data in self._dense.values():
                file.write(data.tobytes())
            file.flush()
            os.fsync(file.fileno())


def pattern(template: str) -> re.Pattern[str]:
    """A name's template as a regular expression with the groups L and E."""
    text = re.escape(template).replace(r"\{L\}", r"(?P<L>\d+)").replace(r"\{E\}", r"(?P<E>\d+)")
    return re.compile(text)
