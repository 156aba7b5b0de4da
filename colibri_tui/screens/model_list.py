"""What the choice of models offers: the demo, those on this machine, those worth getting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from textual.content import Content

from colibri_tui.inventory import Installed, installed
from colibri_tui.models import demo_folder, disk_use, is_model
from colibri_tui.recommended import Recommended, recommended
from colibri_tui.render.clean import clean
from colibri_tui.render.units import rate, size
from engine.errors import EngineError
from engine.plan import available_memory

RECOMMENDED: Final = 4
"""How many are offered."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the list. folder: of a model that is here, or the demo's; repo: of one that can be got, else empty."""

    words: Content
    folder: Path | None = None
    repo: str = ""
    name: str = ""


def look() -> tuple[list[Entry], str]:
    """Return what there is, the demo first; and what kept models from being found."""
    found = [Entry(demo_words(), demo_folder(), name="demo")]
    here: list[Installed] = []
    problem = ""
    try:
        here = [one for one in installed() if one.path != demo_folder()]
    except EngineError as error:
        problem = str(error)
    found += [Entry(model_words(one), one.path, name=one.name) for one in here]
    names = {one.name.rpartition("/")[2] for one in here}
    worth = [one for one in recommended(available_memory() / 1e9) if one.repo.rpartition("/")[2] not in names]
    return found + [Entry(offer_words(one), repo=one.repo) for one in worth[:RECOMMENDED]], problem


def demo_words() -> Content:
    """Return two lines about the demo: what it is, from where, under which licence, and how large."""
    from colibri_tui.demo import DISK_BYTES, DOWNLOAD_BYTES, LICENCE, SOURCE

    folder = demo_folder()
    if is_model(folder):
        details = f"ready, {size(disk_use(folder))} on disk"
    else:
        details = f"downloads {size(DOWNLOAD_BYTES)}, takes {size(DISK_BYTES)} on disk"
    return _two_lines("demo, a small model that shows everything", f"{SOURCE}, {LICENCE}; {details}")


def model_words(one: Installed, forecast: Mapping[str, Any] | None = None) -> Content:
    """Return two lines about a model that is here; forecast: what `models --forecast` says of it."""
    parts = [one.family or one.problem, size(one.nbytes)]
    if one.cached:
        parts.append("in the hub's cache")
    if forecast is not None and "tok_s" in forecast:
        share = float(forecast["share"])
        parts.append("fits into memory whole" if share >= 1 else f"{share:.0%} of the experts fit into memory")
        parts.append(f"about {rate(float(forecast['tok_s']))}")
    elif forecast is not None and forecast.get("problem") and not one.problem:
        parts.append(str(forecast["problem"]))
    return _two_lines(one.name, ", ".join(parts))


def offer_words(one: Recommended) -> Content:
    """Return two lines about a model that can be got."""
    return _two_lines(f"get {one.repo}", f"{one.why}; {one.disk:g} GB on disk")


def _two_lines(first: str, second: str) -> Content:
    return Content.assemble(clean(first), "\n", (f"  {clean(second)}", "$text-muted"))
