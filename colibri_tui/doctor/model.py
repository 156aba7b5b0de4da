"""A model: every file, every tensor, how to talk to it, and whether it fits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.checkpoint.gguf_files import is_gguf, model_files
from engine.checkpoint.index import Checkpoint, read_header
from engine.convert.journal import file_digest
from engine.convert.run import RECORD
from engine.errors import BudgetError, CheckpointError, EngineError
from engine.files import reason
from engine.headers import read_headers, spec_of
from engine.options import EngineOptions
from engine.outlook import Examined, of_checkpoint
from engine.plan import describe, make_plan
from engine.text import ChatTemplate, Tokenizer
from engine.text.files import read_object
from engine.text.opening import open_text

from ..hub.pull import NOTE
from ..render.units import size
from .findings import Finding, fail, failed, ok, warn
from .machine import disk

_UNFINISHED = ("*.part", "*.incomplete", "*.aria2", "*.tmp")


class ModelCheck:
    """The examination of one model; what it learns on the way is needed further on."""

    def __init__(self, path: Path, options: EngineOptions, *, verify: bool) -> None:
        self._path, self._options, self._verify = path, options, verify
        self._checkpoint: Checkpoint | None = None
        self._vocab: int | None = None
        self._examined: Examined | None = None

    def files(self) -> Iterator[Finding]:
        """Every file with weights, on its own."""
        found = model_files(self._path) if is_gguf(self._path) else sorted(self._path.glob("*.safetensors"))
        broken, nbytes, tensors = 0, 0, 0
        for file in found:
            try:
                nbytes += file.stat().st_size
                tensors += 0 if is_gguf(file) else len(read_header(file)[1])
            except OSError as error:
                broken += 1
                yield fail("file", f"{file.name}: {reason(error)}", "download it again")
            except EngineError as error:
                broken += 1
                yield failed("file", error)
        if found and not broken:
            count = f", {tensors:,} tensors" if tensors else ""
            yield ok("files", f"{len(found)} with weights, {size(nbytes)}{count}: all whole by their headers")
        left = sorted(file.name for pattern in _UNFINISHED for file in self._path.glob(pattern))
        if left and self._path.is_dir():
            yield warn("files", f"unfinished: {', '.join(left[:3])}", "finish the download, or remove these files")

    def digests(self) -> Iterator[Finding]:
        """Whether contents are what was downloaded or converted."""
        known = _digests(self._path)
        if not known:
            yield ok("contents", "no list of digests came with this model, so they cannot be compared")
            return
        if not self._verify:
            yield ok("contents", f"not compared; --verify reads all {len(known)} files and does")
            return
        wrong = [name for name, digest in known.items() if file_digest(self._path / name) != digest]
        for name in wrong:
            yield fail(
                "contents", f"{name}: is not what was written", "pull or convert the model again; check the disk"
            )
        if not wrong:
            yield ok("contents", f"all {len(known)} files are what was written, by SHA-256")

    def config(self) -> Iterator[Finding]:
        """What it is."""
        self._checkpoint = read_headers(self._path)
        spec = spec_of(self._checkpoint)
        self._vocab = spec.vocab
        layers = f"{len(spec.layers)} layers, {len(spec.moe_layers)} with {spec.experts} experts each"
        yield ok("config", f"{spec.family}: {layers}, {spec.top_k} for a token; up to {spec.max_context:,} tokens")

    def tensors(self) -> Iterator[Finding]:
        """Whether every tensor has its place."""
        if self._checkpoint is None or self._vocab is None:
            return
        self._examined = of_checkpoint(self._path.name, self._checkpoint, self._options)
        facts = self._examined.forms[0]
        yield ok(
            "tensors",
            f"all {len(self._checkpoint.tensors):,} are known: dense part {size(facts.dense)}, "
            f"an expert {size(facts.expert)}",
        )

    def text(self) -> Iterator[Finding]:
        """How to talk to it."""
        if self._checkpoint is None or self._vocab is None:
            return
        tokenizer, template = open_text(self._path, self._checkpoint.metadata, None)
        if tokenizer is None:
            yield warn(
                "tokenizer",
                "there is none: only token ids can be used",
                "download tokenizer.json from the model's source",
            )
            return
        yield from _tokenizer(tokenizer, self._vocab)
        yield from _template(template)

    def fit(self) -> Iterator[Finding]:
        """Whether it fits into memory."""
        if self._examined is None:
            return
        spec = self._examined.spec
        try:
            plan, _ = make_plan(self._examined.forms[0].needs, self._options)
        except BudgetError as error:
            yield failed("fit", error)
            return
        share = min(1.0, plan.cap / spec.experts)
        text = f"{describe(plan)}: {share:.0%} of the experts in memory"
        if plan.cap < 2 * spec.top_k and share < 1:
            yield warn(
                "fit", text, "few experts stay in memory, so most come from the disk: a smaller model, or more --ram"
            )
        else:
            yield ok("fit", text)

    def disk(self) -> Iterator[Finding]:
        """How fast its experts come."""
        if self._examined is not None:
            yield from disk(self._examined.files, self._examined.forms[0].expert)


def _tokenizer(tokenizer: Tokenizer, vocab: int) -> Iterator[Finding]:
    ids = tokenizer.encode("Hello, world")
    if not ids or max(ids) >= vocab:
        yield fail(
            "tokenizer",
            f"has ids beyond the model's {vocab:,}",
            "it is another model's: download it again",
        )
    else:
        yield ok("tokenizer", f"{tokenizer.vocab_size:,} tokens, the model has {vocab:,}")


def _template(template: ChatTemplate | None) -> Iterator[Finding]:
    if template is None:
        yield warn(
            "template",
            "none: the model continues text but was not told how to chat",
            "use 'run --raw', or --template FILE",
        )
        return
    template.render([{"role": "user", "content": "Hello"}])
    yield ok("template", "renders a conversation")


def _digests(path: Path) -> dict[str, str]:
    """SHA-256 by file name, as far as a record says and the file is there."""
    found: dict[str, Any] = {}
    for name in (RECORD, NOTE):
        try:
            files = read_object(path / name).get("files") if (path / name).is_file() else None
        except CheckpointError:
            continue
        if isinstance(files, dict) and not found:
            found = {
                name: said["sha256"]
                for name, said in files.items()
                if isinstance(said, dict) and isinstance(said.get("sha256"), str) and Path(name).name == name
            }
    return {name: digest for name, digest in found.items() if (path / name).is_file()}
