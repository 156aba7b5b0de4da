"""What a repository holds, and which of its files a model needs."""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from huggingface_hub import HfApi, constants

from engine.checkpoint.gguf_files import SUFFIX as GGUF
from engine.checkpoint.gguf_files import is_model_file
from engine.errors import EngineError
from engine.text.files import TEXTS

from ..render.units import size
from .failures import HubError, explained

INDEX: Final = "model.safetensors.index.json"
CONFIG: Final = "config.json"
RECORD: Final = "colibri.json"
"""How a container was made, with the digests of its files."""
_WEIGHTS: Final = ".safetensors"
_PLAIN: Final = re.compile(r"[\w+=@~-][\w.+=@~ -]*")
"""Names that are safe in a folder of ours."""

_ORIGINALS: Final = ("consolidated*", "*/*", "adapter_*", "training_args*")
"""Weights that lie beside a model's but are not the model's files."""

_SMALL: Final = 200_000_000


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a repository. sha256: of large files; git: the blob id of small ones."""

    name: str
    nbytes: int
    sha256: str | None
    git: str | None

    @property
    def local(self) -> str:
        """Its name in the model's folder."""
        return self.name.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Listing:
    """A repository at one commit. endpoint: the hub's address."""

    repo: str
    commit: str
    endpoint: str
    files: dict[str, RemoteFile]

    def url(self, name: str) -> str:
        """Where a file is."""
        from huggingface_hub import hf_hub_url

        return hf_hub_url(self.repo, name, revision=self.commit, endpoint=self.endpoint)


def endpoint() -> str:
    """The hub's address: HF_ENDPOINT, or the library's own."""
    return (os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/")


class Name(NamedTuple):
    """What a person calls a model on a hub. pattern: of a GGUF file."""

    repo: str
    revision: str | None
    pattern: str | None


def split_name(text: str) -> Name:
    """Split REPO[@revision][:FILE], or the address of a repository's page."""
    for start in (endpoint() + "/", "https://huggingface.co/", "hf.co/"):
        text = text.removeprefix(start)
    text, colon, pattern = text.strip("/ ").partition(":")
    repo, at, revision = text.partition("@")
    if at and not revision:
        raise HubError(f"{text!r}: a revision is missing behind the @")
    if colon and not pattern:
        raise HubError(f"{text!r}: a part of a file's name is missing behind the :")
    return Name(repo, revision or None, pattern or None)


def list_repository(repo: str, revision: str | None) -> Listing:
    """Ask the hub what a repository holds. Raises HubError."""
    where = endpoint()
    with explained(repo, revision or "main", where):
        info = HfApi(endpoint=where).model_info(repo, revision=revision, files_metadata=True, timeout=30)
    files = {}
    for one in info.siblings or ():
        if all(_PLAIN.fullmatch(part) for part in one.rfilename.split("/")) and (one.size or 0) >= 0:
            sha256 = one.lfs.sha256 if one.lfs else None
            files[one.rfilename] = RemoteFile(one.rfilename, one.size or 0, sha256, one.blob_id)
    if not info.sha or not re.fullmatch(r"[0-9a-f]{40}", info.sha):
        raise HubError(f"{repo}: {where} does not say which commit it is at; is this a hub?")
    return Listing(repo, info.sha, where, files)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The files that a model needs: small ones, then the weights in order."""

    texts: tuple[RemoteFile, ...]
    weights: tuple[RemoteFile, ...]

    @property
    def is_gguf(self) -> bool:
        """Whether the weights are GGUF files."""
        return self.weights[0].name.endswith(GGUF)

    @property
    def nbytes(self) -> int:
        """Bytes of all."""
        return sum(file.nbytes for file in (*self.texts, *self.weights))


def choose(listing: Listing, pattern: str | None, fetch: Callable[[RemoteFile], bytes]) -> Wanted:
    """Choose what is needed: the shards that the index names, the tokenizer, the config; nothing else.

    pattern: of the GGUF file to take, where there are several. fetch: returns a small file's content. Raises
    EngineError when there is no model, or several.
    """
    files = listing.files
    texts = tuple(files[name] for name in (CONFIG, INDEX, RECORD, *TEXTS) if name in files)
    tensors = [name for name in files if name.endswith(_WEIGHTS) and not _is_original(name)]
    if pattern is not None or not tensors or CONFIG not in files:
        return Wanted(tuple(file for file in texts if file.name == "LICENSE"), _choose_gguf(listing, pattern))
    if INDEX in files:
        tensors = _indexed(listing, fetch(files[INDEX]))
    elif "model" + _WEIGHTS in tensors:
        tensors = ["model" + _WEIGHTS]
    return Wanted(texts, tuple(files[name] for name in sorted(tensors)))


def _is_original(name: str) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in _ORIGINALS)


def _indexed(listing: Listing, index: bytes) -> list[str]:
    """The shards that an index names, all of which must be there."""
    try:
        names = sorted({str(name) for name in json.loads(index)["weight_map"].values()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise HubError(f"{listing.repo}: its {INDEX} is broken; the repository cannot be used as it is") from None
    missing = [name for name in names if name not in listing.files]
    if missing or not names:
        some = f": {missing[0][:100]!a}" if missing else ""
        raise HubError(f"{listing.repo}: {len(missing)} of {len(names)} shards are not in the repository{some}")
    return names


def _choose_gguf(listing: Listing, pattern: str | None) -> tuple[RemoteFile, ...]:
    found = [file for file in listing.files.values() if file.name.endswith(GGUF) and is_model_file(file.local)]
    if not found:
        kinds = sorted({name.rpartition(".")[2] for name in listing.files if name.endswith((".bin", ".pt", ".pth"))})
        old = f" (it has .{kinds[0]} files, which may run code when they are opened)" if kinds else ""
        raise HubError(f"{listing.repo}: no *.safetensors with a config.json and no *.gguf in it{old}")
    models: dict[str, list[RemoteFile]] = {}
    for file in found:
        models.setdefault(re.sub(r"-\d{5}-of-\d{5}\.gguf$", GGUF, file.name), []).append(file)
    labels = _labels(models)
    if pattern is not None:  # `Q4_K_M` is that one, though there is a `UD-Q4_K_M` too
        chosen = {name: files for name, files in models.items() if _matches(name, pattern)}
        exact = {name: files for name, files in chosen.items() if labels[name].lower() == pattern.lower()}
        chosen = exact or chosen
    else:
        chosen = models
    if len(chosen) != 1:
        raise HubError(_ambiguous(listing.repo, pattern, chosen or models, labels))
    return tuple(sorted(next(iter(chosen.values())), key=lambda file: file.name))


def _matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatch(name.lower(), f"*{pattern.lower()}*")


def _labels(models: Iterable[str]) -> dict[str, str]:
    """What tells files of one repository apart: their names without what all begin with."""
    stems = {name: name.rpartition("/")[2].removesuffix(GGUF) for name in models}
    common = os.path.commonprefix(list(stems.values()))  # noqa: RUF071  # by characters is what is wanted
    shared = max(common.rfind("-"), common.rfind(".")) + 1
    return {name: stem[shared:] or stem for name, stem in stems.items()}


def _ambiguous(repo: str, pattern: str | None, models: dict[str, list[RemoteFile]], labels: dict[str, str]) -> str:
    sizes = {labels[name]: size(sum(file.nbytes for file in files)) for name, files in models.items()}
    listed = ", ".join(f"{label} ({nbytes})" for label, nbytes in sorted(sizes.items()))
    if pattern is not None and not any(_matches(name, pattern) for name in models):
        return f"{repo}: no GGUF file with {pattern!r} in its name; there are: {listed}"
    example = min(labels[name] for name in models)
    return f"{repo} holds {len(models)} models as GGUF; choose one, as in {repo}:{example}. There are: {listed}"


def check_small(files: Sequence[RemoteFile]) -> None:
    """Refuse texts that are larger than any text is."""
    for file in files:
        if file.nbytes > _SMALL:
            raise EngineError(f"{file.name}: {size(file.nbytes)} is too large for such a file")
