"""The child that reads a route trace and simulates caches: `python -m colibri_tui.replay_host TRACE FOLDER`.

A process of its own, because the reader of traces and the simulator are compiled code and the screen loads no
compiler. It says a JSON object a line: {"done", "size"} while it reads, then {"tokens", "layers", "experts", "width"};
FOLDER/frames is int16 [tokens, layers, width]: whom each token chose in each layer, in order of selection, -1 for
nobody. Then it answers requests, a line each, until its input ends: {"name", "policy", "cap", "experts", "pinned"} is
answered with {"changes"}, their number, and files in FOLDER that `replay.Simulation` describes: NAME.changes,
NAME.ends, NAME.counts, NAME.decode. What goes wrong is answered with {"error"}.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from colibri_tui.replay import Placement
from engine.errors import EngineError
from engine.experts.simulator import AGAIN, HIT, MISS, replay_steps
from engine.experts.trace_reader import Ints, LayerTrace, Lines, TraceReader, linked, whole_forwards
from engine.files import reason


class Frames(NamedTuple):
    """A trace that was read. ids: the frames. forward int64 [tokens]: the number of each token's forward."""

    ids: npt.NDArray[np.int16]
    layers: list[int]
    forward: Ints


def frames_of(lines: Lines, layers: Ints, width: int) -> tuple[npt.NDArray[np.int16], Ints]:
    """Return the frames of whole forwards and how many each has; what fits in neither layers nor width is left out."""
    begins = np.concatenate(([True], (np.diff(lines.layer) <= 0) & (np.diff(lines.call) != 0)))
    forward = np.cumsum(begins) - 1
    rows = np.zeros(forward[-1] + 1, np.int64)
    np.maximum.at(rows, forward, lines.row + 1)
    token = np.concatenate(([0], np.cumsum(rows)))[forward] + lines.row
    place = np.minimum(np.searchsorted(layers, lines.layer), len(layers) - 1)
    frames = np.full((int(rows.sum()), len(layers), width), -1, np.int16)
    sizes = np.diff(lines.start)
    line = np.repeat(np.arange(len(sizes)), sizes)
    nth = np.arange(len(lines.ids)) - np.repeat(lines.start[:-1], sizes)
    known = (nth < width) & (layers[place[line]] == lines.layer[line])
    frames[token[line[known]], place[line[known]], nth[known]] = lines.ids[known]
    return frames, rows


def convert(trace: Path, out: BinaryIO) -> tuple[dict[str, Any], Ints]:
    """Write the frames; returns what is said at the end and tokens by forward. EngineError: it is no trace."""
    reader = TraceReader(trace)
    layers, width, experts = np.zeros(0, np.int64), 0, 0
    sizes = [np.zeros(0, np.int64)]
    for lines in whole_forwards(reader):
        if not width:
            layers, width = np.unique(lines.layer), int(np.diff(lines.start).max())
        frames, rows = frames_of(lines, layers, width)
        frames.tofile(out)
        sizes.append(rows)
        experts = max(experts, 1 + int(lines.ids.max()))
        _say({"done": reader.position, "size": reader.size})
    tokens = int(sum(rows.sum() for rows in sizes))
    return {"tokens": tokens, "layers": layers.tolist(), "experts": experts, "width": width}, np.concatenate(sizes)


def traces_of(frames: Frames, experts: int) -> dict[int, tuple[LayerTrace, Ints]]:
    """Return every layer of a trace that has any tokens as the simulator takes it, and which tokens those are."""
    traces, tokens = {}, {}
    for place, layer in enumerate(frames.layers):
        ids = frames.ids[:, place]
        chosen = ids >= 0
        at = np.flatnonzero(chosen.any(axis=1))
        forward = frames.forward[at]
        calls = np.append(np.flatnonzero(np.diff(forward, prepend=-1)), len(at))
        rows = np.concatenate(([0], np.cumsum(chosen[at].sum(axis=1))))
        if len(at):
            traces[layer] = LayerTrace(experts, calls, rows, ids[at][chosen[at]].astype(np.int32))
            tokens[layer] = at
    return {layer: (trace, tokens[layer]) for layer, trace in linked(traces).items()}


def simulate(frames: Frames, placement: Placement, experts: int) -> dict[str, npt.NDArray[Any]]:
    """Return changes, ends, counts and decode, as `replay.Simulation` takes them."""
    tokens = len(frames.ids)
    counts = np.zeros((tokens, len(frames.layers), 3), np.uint16)
    changed, whose = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    for layer, (trace, at) in traces_of(frames, experts).items():
        place = frames.layers.index(layer)
        pinned = np.zeros(experts, np.bool_)
        pinned[[expert for where, expert in placement.pinned if where == layer]] = True
        steps = replay_steps(trace, placement.policy, placement.cap, pinned)
        token = np.repeat(at, np.diff(trace.rows))
        pins = pinned[trace.ids] & (steps.found != AGAIN)
        for column, kind in enumerate((pins, (steps.found == HIT) & ~pins, steps.found == MISS)):
            counts[:, place, column] = np.bincount(token[kind], minlength=tokens)
        came = steps.found == MISS
        left = np.repeat(at[trace.calls[1:] - 1], np.diff(steps.ends))
        changed += [place * experts + trace.ids[came], place * experts + steps.left]
        whose += [token[came], left]
    owner = np.concatenate(whose)
    order = np.argsort(owner, kind="stable")
    return {
        "changes": np.concatenate(changed)[order].astype(np.int32),
        "ends": np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=tokens)))),
        "counts": counts,
        "decode": np.bincount(frames.forward)[frames.forward] == 1,
    }


def answer(folder: Path, frames: Frames, request: dict[str, Any]) -> dict[str, Any]:
    """Simulate what is asked for."""
    placement = Placement(request["policy"], request["cap"], tuple(map(tuple, request["pinned"])))
    try:
        found = simulate(frames, placement, request["experts"])
        for name, array in found.items():
            array.tofile(folder / f"{request['name']}.{name}")
    except OSError as error:
        return {"error": f"{folder}: the simulation cannot be kept ({reason(error)})"}
    return {"changes": len(found["changes"])}


def _say(words: dict[str, Any]) -> None:
    print(json.dumps(words), flush=True)


def main() -> None:
    """See above."""
    folder = Path(sys.argv[2])
    try:
        with (folder / "frames").open("wb") as out:
            said, rows = convert(Path(sys.argv[1]), out)
    except (EngineError, OSError) as error:
        _say({"error": str(error)})
        return
    _say(said)
    shape = (said["tokens"], len(said["layers"]), said["width"])
    ids = np.memmap(folder / "frames", np.int16, "r", shape=shape)
    frames = Frames(ids, said["layers"], np.repeat(np.arange(len(rows)), rows))
    for line in sys.stdin:
        _say(answer(folder, frames, json.loads(line)))


if __name__ == "__main__":
    main()
