"""The child that turns a route trace into a file of frames: `python -m colibri_tui.replay_host TRACE FRAMES`.

A process of its own, because the reader of traces is compiled code and the screen loads no compiler. It prints a JSON
object a line: {"done", "size"} while it reads, at the end {"tokens", "layers", "experts", "width"} or {"error"}. FRAMES
is int16 [tokens, layers, width]: whom each token chose in each layer, in order of selection, -1 for nobody.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from engine.errors import EngineError
from engine.experts.trace_reader import Ints, Lines, TraceReader, whole_forwards


def frames_of(lines: Lines, layers: Ints, width: int) -> npt.NDArray[np.int16]:
    """Return the frames of whole forwards, int16 [tokens, layers, width]; what fits in neither is left out."""
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
    return frames


def convert(trace: Path, out: BinaryIO) -> dict[str, object]:
    """Write the frames; returns what is said at the end. Raises EngineError when it is no trace."""
    reader = TraceReader(trace)
    layers, width, tokens, experts = np.zeros(0, np.int64), 0, 0, 0
    for lines in whole_forwards(reader):
        if not width:
            layers, width = np.unique(lines.layer), int(np.diff(lines.start).max())
        frames = frames_of(lines, layers, width)
        frames.tofile(out)
        tokens, experts = tokens + len(frames), max(experts, 1 + int(lines.ids.max()))
        print(json.dumps({"done": reader.position, "size": reader.size}), flush=True)
    return {"tokens": tokens, "layers": layers.tolist(), "experts": experts, "width": width}


def main() -> None:
    """See above."""
    try:
        with Path(sys.argv[2]).open("wb") as out:
            said = convert(Path(sys.argv[1]), out)
    except (EngineError, OSError) as error:
        said = {"error": str(error)}
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
