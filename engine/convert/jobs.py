"""The files a container will have, and what each is made from.

A job is one file: the experts of a layer, its dense tensors, or one tensor that belongs to no layer. So a job needs
few of the source's files, which matters when these are downloaded one by one and removed when nobody needs them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..checkpoint.index import TensorEntry
from ..experts.source import ExpertSource, merged_bytes
from ..kernels.formats import I8R, matrix_bytes
from ..model.items import Packed
from ..model.spec import ModelSpec
from ..model.storage import Stored
from ..model.weights import Weights
from .container import EXPERT_FILE, Roles, pattern


@dataclass(frozen=True, slots=True)
class Job:
    """One file. experts: the layer whose experts it holds; else dense: hub names. needs: files of the source.
    read_bytes: what is read. nbytes: its size, at most, about."""

    name: str
    experts: int | None
    dense: tuple[str, ...]
    needs: frozenset[Path]
    read_bytes: int
    nbytes: int


def plan_jobs(weights: Weights, spec: ModelSpec, expert_format: int) -> list[Job]:
    """All jobs, in an order in which the source's files are needed one after another."""
    jobs = [_experts(weights.experts, spec, layer, expert_format) for layer in spec.moe_layers]
    jobs += [_dense(weights, spec, file, names) for file, names in _by_file(weights, spec).items()]
    order = {path: number for number, path in enumerate(sorted({path for job in jobs for path in job.needs}))}
    return sorted(jobs, key=lambda job: (max(order[path] for path in job.needs), job.name))


def _by_file(weights: Weights, spec: ModelSpec) -> dict[str, list[str]]:
    """Hub names of dense tensors by the file they go to."""
    layered = [pattern(form.replace("{E}", "E")) for form in spec.names.values() if "{L}" in form]
    files: dict[str, list[str]] = {}
    for name in weights.dense:
        match = next((found for form in layered if (found := form.fullmatch(name))), None)
        layer = f"{int(match['L']):05}" if match else re.sub(r"[^\w.-]", "_", name.removesuffix(".weight"))
        files.setdefault(f"dense-{layer}.safetensors", []).append(name)
    return files


def _experts(source: ExpertSource, spec: ModelSpec, layer: int, fmt: int) -> Job:
    mixture = spec.mixture(layer)
    reads = [read for (at, _), fetch in source.reads.items() if at == layer for read in fetch.reads]
    size = mixture.experts * merged_bytes((fmt, fmt), spec.hidden, mixture.width)
    needs = frozenset(read.file for read in reads)
    return Job(EXPERT_FILE.format(layer), layer, (), needs, sum(read.nbytes for read in reads), size)


def _dense(weights: Weights, spec: ModelSpec, file: str, names: list[str]) -> Job:
    roles = Roles(spec)
    parts = [part for name in names for part in _ranges(weights.dense[name][1])]
    size = sum(_size(roles, name, weights.dense[name][1]) for name in names)
    return Job(file, None, tuple(names), _files(parts), sum(nbytes for _, _, nbytes in parts), size)


def _ranges(stored: Stored | Packed) -> Iterable[tuple[TensorEntry, int, int]]:
    if isinstance(stored, Packed):
        return [(stored.entry, stored.entry.offset, stored.entry.nbytes)]
    return stored.ranges(0, stored.n)


def _files(parts: Iterable[tuple[TensorEntry, int, int]]) -> frozenset[Path]:
    return frozenset(entry.file for entry, _, _ in parts)


def _size(roles: Roles, name: str, stored: Stored | Packed) -> int:
    n, k = stored.shape if isinstance(stored, Packed) else (stored.n, stored.k)
    if roles.is_matrix(name):
        return matrix_bytes(I8R, n, k)
    return n * k * (2 if roles.is_half(name) else 4)


def source_files(jobs: Iterable[Job], finished: Mapping[str, object]) -> list[Path]:
    """The files that jobs still need, in the order of their need."""
    needed: dict[Path, None] = {}
    for job in jobs:
        if job.name not in finished:
            needed.update(dict.fromkeys(sorted(job.needs)))
    return list(needed)
