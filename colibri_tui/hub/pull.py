"""Getting a model from a hub: what is needed of it, whole, verified, under its name at the end.

The work is done in a folder beside the target. It keeps a note of what is being fetched; files whose digest the hub has
changed meanwhile are fetched anew. With a format given the model is converted while it comes: a shard is removed as
soon as the last tensor in it was used, so that the original never lies on the disk as a whole.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engine.checkpoint.index import Checkpoint
from engine.convert.run import Model, convert_checkpoint
from engine.errors import EngineError
from engine.files import replace_file
from engine.options import EngineOptions
from engine.outlook import of_checkpoint
from engine.target import put_in_place, refuse_taken, working_on

from ..models import cached_models
from ..render.units import size
from .downloads import Downloads, Progress, Shards
from .failures import is_offline
from .listing import CONFIG, INDEX, RECORD, Listing, check_small, choose, list_repository
from .remote import remote_checkpoint
from .transfer import Patience, get_small, have, part_of

NOTE: Final = ".colibri-pull.json"
"""In a pulled folder: where it came from, and the digest of every file."""


FEW_BITS: Final = 6
"""A weight's bits up to which a model is better taken as it is."""


@dataclass(frozen=True, slots=True)
class Request:
    """repo, revision: what to get. pattern: of the GGUF file, where there are several. target: the new folder.
    expert_format: convert on the way; "auto": to int4, unless the weights have few bits already. patience: with the
    server.
    """

    repo: str
    revision: str | None
    target: Path
    pattern: str | None = None
    expert_format: str | None = None
    patience: Patience | None = None


def pull(request: Request, progress: Progress) -> bool:
    """Get a model; returns False when it was here already. What `progress` raises ends the work, which can go on later.

    Raises EngineError, before anything large is fetched, for a model that could not be run and for too little room.
    """
    target = request.target.absolute()
    with working_on(target, ".pull.lock", "getting"):
        if is_offline() and request.repo in cached_models():
            raise EngineError(
                f"offline mode is on (HF_HUB_OFFLINE), but {request.repo} is in the hub's cache: open it by that"
            )
        progress("asking the hub", 0, 0)
        listing = list_repository(request.repo, request.revision)
        if _is_here(target, listing, request):
            return False
        refuse_taken(target)
        _Pull(request, target, listing, progress).run()
    return True


def pull_folder(target: Path) -> Path:
    """Where files are kept while they come."""
    return target.with_name(f".{target.name}.pulling")


def read_note(folder: Path) -> dict[str, Any]:
    """What a folder's note says of where it came from; empty without one."""
    try:
        said = json.loads((folder / NOTE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _is_here(target: Path, listing: Listing, request: Request) -> bool:
    said = read_note(target)
    return (said.get("repo"), said.get("commit"), said.get("converted"), said.get("pattern")) == (
        listing.repo, listing.commit, request.expert_format, request.pattern,
    )  # fmt: skip


class _Pull:
    """One model on its way."""

    def __init__(self, request: Request, target: Path, listing: Listing, progress: Progress) -> None:
        self._request, self._target, self._listing, self._progress = request, target, listing, progress
        self._folder = pull_folder(target)
        self._shards = self._folder / "shards"
        self._wanted = choose(listing, request.pattern, lambda file: get_small(listing, file))
        check_small(self._wanted.texts)

    def run(self) -> None:
        """Get it."""
        expert_format = self._request.expert_format
        if self._wanted.is_gguf and expert_format not in (None, "auto"):
            raise EngineError(
                "a GGUF file holds the whole model, so nothing of it can be removed while it is converted: pull it "
                "without --convert, then convert it"
            )
        self._progress("reading headers", 0, 0)
        checkpoint = remote_checkpoint(self._listing, self._wanted, self._shards)
        # Refuses what could not be run, before it is fetched.
        model = of_checkpoint(self._listing.repo, checkpoint, EngineOptions())
        if self._wanted.is_gguf:
            expert_format = None
        if expert_format == "auto":
            expert_format = "int4" if model.bits > FEW_BITS and not model.packed else None
        if expert_format:
            self._convert(checkpoint, expert_format)
        else:
            self._fetch()

    def _fetch(self) -> None:
        self._folder.mkdir(exist_ok=True)
        self._forget_changed(self._folder)
        files = [*self._wanted.texts, *self._wanted.weights]
        self._check_room(sum(file.nbytes - have(self._folder, file) for file in files))
        downloads = Downloads(self._listing, files, self._folder, self._progress, patience=self._request.patience)
        try:
            downloads.wait()
        finally:
            downloads.close()
        if not self._wanted.is_gguf:
            Checkpoint.open(self._folder)
        put_in_place(self._folder, self._target)

    def _convert(self, checkpoint: Checkpoint, expert_format: str) -> None:
        listing = self._listing
        self._shards.mkdir(parents=True, exist_ok=True)
        self._forget_changed(self._shards)
        texts = {
            file.local: get_small(listing, file)
            for file in self._wanted.texts
            if file.name not in (INDEX, CONFIG, RECORD)
        }
        texts[NOTE] = json.dumps(self._note()).encode()
        origin = {"repo": listing.repo, "commit": listing.commit}
        supply = Shards(listing, self._shards, self._progress, self._request.patience)
        model = Model(checkpoint, texts, json.dumps(origin), origin)
        try:
            convert_checkpoint(model, self._target, supply, expert_format=expert_format, progress=supply.converting)
        finally:
            supply.close()
        shutil.rmtree(self._folder)

    def _check_room(self, needed: int) -> None:
        free = shutil.disk_usage(self._folder).free
        if free < needed:
            raise EngineError(
                f"{self._folder.parent}: {size(free)} are free and {size(needed)} are still to come; make room, or "
                "set COLIBRI_TUI_HOME to a folder on another disk (--convert int4 takes less)"
            )

    def _note(self) -> dict[str, Any]:
        files = {
            file.local: {"bytes": file.nbytes, "sha256": file.sha256, "git": file.git}
            for file in (*self._wanted.texts, *self._wanted.weights)
        }
        request = self._request
        return {
            "repo": self._listing.repo, "revision": request.revision, "commit": self._listing.commit,
            "converted": request.expert_format, "pattern": request.pattern, "files": files,
        }  # fmt: skip

    def _forget_changed(self, folder: Path) -> None:
        """Remove what an earlier attempt left of files that are others now, and note what is fetched."""
        before, now = read_note(self._folder).get("files"), self._note()
        for file in (*self._wanted.texts, *self._wanted.weights):
            if not isinstance(before, dict) or before.get(file.local) != now["files"][file.local]:
                (folder / file.local).unlink(missing_ok=True)
                part_of(folder, file).unlink(missing_ok=True)
        replace_file(self._folder / NOTE, json.dumps(now).encode(), self._folder / (NOTE + ".new"))
