"""Makes a container of any model that can be read: file by file, in bounded memory, able to go on after a kill.

The work is done in a folder beside the target, which gets its name when every file was read back and the whole opened.
Memory is that of a few experts, whatever the model's size: dense matrices pass through a few rows at a time.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..checkpoint.files import ModelFiles
from ..checkpoint.gguf_files import is_gguf, model_files
from ..checkpoint.index import Checkpoint
from ..errors import EngineError
from ..experts.reader import fill_slot
from ..experts.source import merged_bytes
from ..families.quantisation import QUANTISATION_KEYS
from ..files import reason
from ..headers import read_headers, spec_of
from ..kernels.memory import Block
from ..kernels.team import physical_cores
from ..model.items import reading
from ..model.spec import ModelSpec
from ..model.weights import Weights
from ..target import put_in_place, refuse_taken, working_on
from ..text.files import TEXTS
from ..text.gguf import has_vocabulary, hub_files
from .choice import GROUPS, Choice, Cost
from .container import FORMATS, VERSION, expert_header, header
from .encode import Encoder, choose_experts, encode_expert, expert_samples
from .jobs import Job, plan_jobs, source_files
from .journal import Finished, Journal, Note, file_digest, write_file

RECORD: Final = "colibri.json"
"""In a container: how it was made, what that cost, and the digest of every file."""

MEMORY: Final = 1 << 30
"""What all workers together may hold of experts, where one expert allows that."""

_PIECES: Final = 64 << 20
"""What one of them holds besides its expert, about."""

_MEASURED: Final = 4
"""Experts of a layer whose rounding is measured."""

Progress = Callable[[str, int, int], None]
"""Told of (stage, done, total) in bytes; what it raises ends the work, which can go on later."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model to be converted. texts: files to be written beside the weights. key: changes when the model does.
    origin: where it came from, for the record."""

    checkpoint: Checkpoint
    texts: Mapping[str, bytes]
    key: str
    origin: Mapping[str, str]


class Supply:
    """Brings the source's files; this one has them all."""

    def room(self, files: Sequence[Path]) -> int:
        """Bytes of disk that the files take, at most at a time, which they do not take yet."""
        return 0

    def start(self, files: Sequence[Path]) -> None:
        """Hear which files will be asked for, in this order."""

    def wait(self, files: Sequence[Path]) -> None:
        """Return when they are there."""

    def release(self, files: Sequence[Path]) -> None:
        """Hear that nobody will ask for them again."""


def convert_model(
    src: Path,
    dst: Path,
    *,
    expert_format: str = "int8",
    groups: Sequence[int] = GROUPS,
    progress: Progress = lambda stage, done, total: None,
) -> dict[str, Any]:
    """Write the model `src`, a folder or a GGUF file, as the container `dst`, which may be there as an empty folder.

    groups: sizes of int4 to choose from, ascending. Returns what the container's `colibri.json` says. Weights that are
    quantised already are rounded a second time. Raises EngineError for a model that cannot be opened or read, a full
    disk, a target that is taken.
    """
    checkpoint = read_headers(src)
    texts = hub_files(checkpoint.metadata, str(src)) if has_vocabulary(checkpoint.metadata) else {}
    files = model_files(src) if is_gguf(src) else sorted({entry.file for entry in checkpoint.tensors.values()})
    try:
        facts = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
        texts |= {name: (src / name).read_bytes() for name in TEXTS if (src / name).is_file()}
    except OSError as error:
        raise EngineError(f"{error.filename or src}: cannot be read ({reason(error)})") from None
    model = Model(checkpoint, texts, json.dumps([str(src.absolute()), facts]), {})
    return convert_checkpoint(model, dst, Supply(), expert_format=expert_format, groups=groups, progress=progress)


def convert_checkpoint(
    model: Model,
    dst: Path,
    supply: Supply,
    *,
    expert_format: str,
    progress: Progress,
    groups: Sequence[int] = GROUPS,
) -> dict[str, Any]:
    """The same for a checkpoint whose headers are known, and whose files `supply` brings."""
    dst = dst.absolute()
    work = work_folder(dst)
    with working_on(dst, ".lock", "converting to"):
        refuse_taken(dst)
        work.mkdir(exist_ok=True)
        record = _Conversion(model, work, supply, expert_format, groups, progress).run()
        put_in_place(work, dst)
    return record


def work_folder(dst: Path) -> Path:
    """Where a conversion to `dst` is done."""
    return dst.with_name(f".{dst.name}.converting")


class _Conversion:
    """One conversion under way, in the folder `work`."""

    def __init__(
        self,
        model: Model,
        work: Path,
        supply: Supply,
        expert_format: str,
        groups: Sequence[int],
        progress: Progress,
    ) -> None:
        self._model, self._work, self._supply, self._progress = model, work, supply, progress
        self._format_name, self._groups = expert_format, tuple(groups) if expert_format == "int4" else ()
        self._spec: ModelSpec = spec_of(model.checkpoint)
        self._weights = Weights(model.checkpoint, self._spec)
        self._jobs = plan_jobs(self._weights, self._spec, FORMATS[expert_format])
        key = json.dumps([VERSION, expert_format, self._groups, model.key])
        self._journal = Journal(work, hashlib.sha256(key.encode()).hexdigest())
        self._total = sum(job.read_bytes for job in self._jobs)
        self._done = sum(job.read_bytes for job in self._jobs if job.name in self._journal.finished)

    def run(self) -> dict[str, Any]:
        """Do what is left to do; returns the record."""
        self._clean()
        self._check_space()
        self._progress("converting", self._done, self._total)
        left = [job for job in self._jobs if job.name not in self._journal.finished]
        last = {path: job.name for job in left for path in job.needs}
        self._supply.start(source_files(self._jobs, self._journal.finished))
        for job in left:
            self._supply.wait(sorted(job.needs))
            self._do(job)
            self._supply.release(sorted(path for path in job.needs if last[path] == job.name))
        self._verify()
        return self._finish()

    def _clean(self) -> None:
        """Remove what an earlier attempt, or one for another model, left unfinished."""
        for path in self._work.glob("*.safetensors*"):
            if path.name not in self._journal.finished:
                path.unlink()

    def _check_space(self) -> None:
        needed = sum(job.nbytes for job in self._jobs if job.name not in self._journal.finished)
        needed += self._supply.room(source_files(self._jobs, self._journal.finished))
        free = shutil.disk_usage(self._work).free
        if free < needed:
            raise EngineError(
                f"{self._work.parent}: {free / 1e9:.1f} GB are free and this takes {needed / 1e9:.1f} GB more; "
                "make room or choose a folder on another disk"
            )

    def _do(self, job: Job) -> None:
        files = ModelFiles(direct=False)  # opened for this job alone: a removed file takes room while it is open
        try:
            write = self._dense if job.experts is None else self._experts
            notes: dict[str, Note] = {}
            nbytes, digest = write_file(self._work / job.name, write(job, files, notes))
        finally:
            files.close()
        self._journal.note(job.name, Finished(nbytes, digest, notes))

    def _tell(self, more: int) -> None:
        self._done = min(self._done + more, self._total)
        self._progress("converting", self._done, self._total)

    def _dense(self, job: Job, files: ModelFiles, notes: dict[str, Note]) -> Iterator[bytes | memoryview]:
        encoder = Encoder(self._spec, self._groups, reading(files))
        dense = self._weights.dense
        kept = {name: encoder.decide(name, *dense[name]) for name in job.dense}
        for name, one in kept.items():
            if one.choice is not None:
                packed = one.dtype == "U8"
                title, cost = (one.encoding.title, one.choice.cost) if packed else ("float16", 0.0)
                notes[name] = _note(title, cost, one.choice)
        yield header(
            {one.name: (one.dtype, one.shape, one.nbytes) for one in kept.values()},
            {one.name: one.layout for one in kept.values()},
        )
        size = sum(one.nbytes for one in kept.values())
        for name, one in kept.items():
            for piece in encoder.encoded(one, dense[name][1]):
                yield piece
                self._tell(job.read_bytes * len(piece) // size)

    def _experts(self, job: Job, files: ModelFiles, notes: dict[str, Note]) -> Iterator[bytes | memoryview]:
        layer, source, spec = job.experts, self._weights.experts, self._spec
        assert layer is not None
        mixture = spec.mixture(layer)
        room = threading.local()
        measured, lock = (Cost(), Cost()), threading.Lock()

        def slot_of(expert: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
            if not hasattr(room, "slot"):
                room.slot, room.staging = Block(source.slot_bytes), Block(source.staging_bytes)
            fill_slot(files, source.reads[layer, expert], room.slot.view, room.staging.view)
            return np.frombuffer(room.slot.view, np.uint8)

        step = -(-mixture.experts // _MEASURED)
        samples = (
            expert_samples(source, spec, (layer, expert), slot_of(expert)) for expert in range(0, mixture.experts, step)
        )
        wide, high = choose_experts(samples, self._groups)
        formats = wide.encoding.fmt, high.encoding.fmt
        nbytes = merged_bytes(formats, spec.hidden, mixture.width)
        yield expert_header(spec, layer, formats)

        def encode(expert: int) -> bytes:
            def told(part: int, *values: Any) -> None:
                with lock:
                    measured[part == 2].add(*values)

            measure = told if expert % step == 0 else None
            encodings = wide.encoding, high.encoding
            return encode_expert(source, spec, (layer, expert), slot_of(expert), encodings, nbytes, measure)

        read = job.read_bytes // mixture.experts
        for data in _in_order(encode, mixture.experts, self._workers(nbytes)):
            yield data
            self._tell(read)
        for name, choice, found in (("gate, up", wide, measured[0]), ("down", high, measured[1])):
            notes[name] = _note(choice.encoding.title, found.value, choice)

    def _workers(self, nbytes: int) -> int:
        """How many experts are encoded at a time."""
        source = self._weights.experts
        each = source.slot_bytes + source.staging_bytes + 4 * nbytes + _PIECES
        return max(1, min(physical_cores(), MEMORY // each))

    def _verify(self) -> None:
        """Read every file back and open the whole."""
        finished = self._journal.finished
        total, done = sum(one.nbytes for one in finished.values()), 0
        for name, one in sorted(finished.items()):
            self._progress("verifying", done, total)
            if file_digest(self._work / name) != one.sha256:
                self._journal.forget(name)
                raise EngineError(
                    f"{self._work / name}: reads back differently from what was written; check the disk, and run the "
                    "same command again to write this file anew"
                )
            done += one.nbytes
        self._progress("verifying", done, total)
        config = json.dumps(_unquantised(self._model.checkpoint.config), indent=1).encode()
        for name, data in {"config.json": config, **self._model.texts}.items():
            write_file(self._work / name, [data])
        opened = Checkpoint.open(self._work)
        Weights(opened, spec_of(opened))

    def _finish(self) -> dict[str, Any]:
        finished = self._journal.finished
        record = {
            "format": "colibri",
            "version": VERSION,
            "experts": self._format_name,
            **({"groups": list(self._groups)} if self._groups else {}),
            **({"source": dict(self._model.origin)} if self._model.origin else {}),
            "files": {
                name: {"bytes": one.nbytes, "sha256": one.sha256, "matrices": one.notes}
                for name, one in sorted(finished.items())
            },
        }
        write_file(self._work / RECORD, [json.dumps(record, indent=1).encode()])
        self._journal.remove()
        return record


def _note(kept: str, cost: float, choice: Choice) -> Note:
    def rounded(value: float) -> float:
        return float(f"{value:.4g}")

    return {"kept": kept, "error": rounded(cost), "tried": {name: rounded(one) for name, one in choice.tried.items()}}


def _in_order(work: Callable[[int], bytes], count: int, workers: int) -> Iterator[bytes]:
    """work(0), work(1), ... computed by some threads; no more than two a worker are held at a time."""
    with ThreadPoolExecutor(workers, "encoder") as pool:
        waiting: deque[Future[bytes]] = deque()
        try:
            for number in range(count):
                waiting.append(pool.submit(work, number))
                if len(waiting) > workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _unquantised(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config that says nothing of how its weights were quantised."""
    kept = {key: value for key, value in config.items() if key not in QUANTISATION_KEYS}
    if isinstance(kept.get("text_config"), Mapping):
        kept["text_config"] = _unquantised(kept["text_config"])
    return kept
