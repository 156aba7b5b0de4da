"""What is compiled when everything is: in parts that several processes can share.

A part compiles some functions with the signatures that `program.run` calls them with, which then finds them in numba's
cache. Parts only save time: what they leave out or get wrong is compiled by the function that needs it.

Nothing is imported here before a part needs it, because some modules compile kernels when they are imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import numpy as np

from . import records


@dataclass(frozen=True, slots=True)
class Part:
    """`function` of `module` compiles it, when the parts named in `after` are done."""

    name: str
    module: str
    function: str
    after: tuple[str, ...] = ()


def _here(name: str, *after: str) -> Part:
    return Part(name, __name__, name, after)


PARTS: Final[Sequence[Part]] = (
    _here("products"),
    _here("routing"),
    _here("vectors"),
    _here("sampling"),
    Part("auto", "engine.experts.policies", "compile_auto"),
    _here("attention", "products", "vectors"),
    _here("latent", "products", "vectors"),
    _here("recurrent", "products"),
    _here("basic", "products"),
    _here("experts", "products"),
    _here("index", "products", "vectors"),
    _here("mixed", "products"),
    _here("program", "routing", "attention", "latent", "recurrent", "basic", "experts", "index", "mixed"),
    Part("policies", "engine.experts.policies", "compile_policies", ("auto",)),
)
"""In the order in which they are begun."""


def products() -> None:
    """The matrix products, the largest kernels; they are compiled by an import."""
    import_module(".products", __package__)


def vectors() -> None:
    """The other kernels that are compiled by an import."""
    for name in ("activations", "quantize", "planes", "values", "index_scores"):
        import_module("." + name, __package__)


def routing() -> None:
    """Compile ROUTE and UNION."""
    _operations("ops_routing", records.MIXTURE, ["route", "union"])


def attention() -> None:
    """Compile ROTATE and ATTEND."""
    _operations("ops_attention", records.ATTENTION, ["rotate", "attend"])


def latent() -> None:
    """Compile what latent attention consists of."""
    _operations("ops_latent", records.LATENT, ["store", "absorb", "attend", "expand"])


def index() -> None:
    """Compile the indexer."""
    _operations("ops_index", records.INDEXER, ["store", "select"])


def recurrent() -> None:
    """Compile delta nets and short convolutions."""
    _operations("ops_recurrent", records.DELTA_NET, ["delta_convolve", "delta", "short_convolve"])


def mixed() -> None:
    """Compile mixtures of attention experts."""
    _operations("ops_mixed_attention", records.MIXED, ["mixed_queries", "mixed_output"])


def basic() -> None:
    """Compile what every layer is made of."""
    _operations("ops_basic", records.OP, ["embed", "norm", "quantize", "linear", "gate", "scale", "cap"])


def experts() -> None:
    """Compile the experts' products and their sum."""
    _operations("ops_experts", records.MIXTURE, ["experts_up", "experts_quantize", "experts_down", "combine"])


def sampling() -> None:
    """Compile the drawing of tokens."""
    from .draw import draw

    draw(np.zeros(1, np.float32).ctypes.data, 1, 0.0, 1.0, 1.0, 0.0)


def program() -> None:
    """Compile what runs a program."""
    from .program import Job, run
    from .team import Team, entry

    tables = records.Tables(**{name: np.zeros(1, dtype) for name, dtype in records.TABLE_TYPES.items()})
    nothing = Job(np.zeros(1, records.OP), tables, np.zeros(records.STATE_CELLS, np.int64))
    team = Team(2)
    team.run(entry(run), nothing.part(0, 0), threads=1)
    team.close()


def _operations(module: str, record: np.dtype[Any], names: Iterable[str]) -> None:
    """Compile operations (record, state, ...), where the rest is integers."""
    from numba import from_dtype, int64

    for name in names:
        function = getattr(import_module("." + module, __package__), name)
        rest = function.py_func.__code__.co_argcount - 2
        function.compile((from_dtype(record), int64[::1], *[int64] * rest))
