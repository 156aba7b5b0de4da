"""Reading route traces."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import EngineError
from engine.experts import trace_reader
from engine.experts.trace import RouteTrace
from engine.experts.trace_reader import Lines, TraceReader, read_layers, whole_forwards
from tests.engine.experts.traces import Row, trace_of, traces, write_trace


def rows_of(lines: Lines) -> list[Row]:
    ids = [lines.ids[begin:end].tolist() for begin, end in pairwise(lines.start.tolist())]
    return list(zip(lines.call.tolist(), lines.row.tolist(), lines.layer.tolist(), ids, strict=True))


def read(path: Path) -> tuple[list[Row], TraceReader]:
    reader = TraceReader(path)
    return [row for lines in reader for row in rows_of(lines)], reader


@settings(deadline=None)
@given(rows=traces, block=st.integers(1, 200))
def test_what_was_written_is_read_whatever_the_blocks(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], block: int
) -> None:
    path = write_trace(tmp_path_factory.mktemp("trace") / "trace", rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_reader, "BLOCK", block)
        assert read(path)[0] == rows
        forwards = [rows_of(lines) for lines in whole_forwards(TraceReader(path))]
    assert [row for piece in forwards for row in piece] == rows
    for before, after in pairwise(forwards):
        assert after[0][2] <= before[-1][2]
        assert after[0][0] != before[-1][0]


def test_our_own_traces_are_read(tmp_path: Path) -> None:
    trace = RouteTrace(tmp_path / "trace")
    ids, gates = np.array([[5, 2, 0], [7, 1, 3]], np.int32), np.array([[0.9, -1, 0], [1e6, 0.5, 0.1]], np.float32)
    trace.write(4, ids, gates, np.array([2, 3], np.int32))
    trace.close()
    rows, reader = read(tmp_path / "trace")
    assert rows == [(0, 0, 4, [5, 2]), (0, 1, 4, [7, 1, 3])]
    assert (reader.lines, reader.malformed, reader.complaints) == (2, 0, [])


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_line_ends_of_other_systems_and_a_missing_last_one(tmp_path: Path, end: str) -> None:
    path = tmp_path / "trace"
    path.write_bytes(f"0 0 0 5:0.3121 2:0.1407\r\n1 0 1 7:0.2500 1:0.2499{end}".encode())
    assert read(path)[0] == [(0, 0, 0, [5, 2]), (1, 0, 1, [7, 1])]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "a call number"),
        ("-1 0 0 5:0.5", "a call number"),
        ("1 0", "a call number"),
        ("1  0 0 5:0.5", "a call number"),
        ("99999999999999999999999 0 0 5:0.5", "a call number"),
        ("1 0 0", "a call number"),
        ("1 0 0 ", "no expert follows"),
        ("1 1048576 0 5:0.5", "the row must be below 1,048,576"),
        ("1 0 1024 5:0.5", "the layer must be below 1,024"),
        ("1 0 0 4096:0.5", "the expert must be below 4,096"),
        ("1 0 0 5", "<id>:<gate>"),
        ("1 0 0 5:", "<id>:<gate>"),
        ("1 0 0 5:-", "<id>:<gate>"),
        ("1 0 0 5:nan", "<id>:<gate>"),
        ("1 0 0 5:0.5 x", "<id>:<gate>"),
        ("1 0 0 5:0.5\t6:0.5", "<id>:<gate>"),
        ("1 0 0 5:0.5" + " 6:0.5" * 50_000, "too long"),
    ],
)
def test_a_malformed_line_is_named_and_skipped(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "trace"
    path.write_text(f"0 0 0 1:0.5\n{line}\n2 0 0 3:0.5\n")
    rows, reader = read(path)
    assert rows == [(0, 0, 0, [1]), (2, 0, 0, [3])]
    assert reader.malformed == 1
    assert reader.complaints[0].startswith(f"{path}: line 2: ")
    assert reason in reader.complaints[0]


def test_the_first_malformed_lines_are_named_and_all_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_reader, "BLOCK", 30)
    path = tmp_path / "trace"
    path.write_text("0 0 0 1:0.5\nbad\n" * 20)
    rows, reader = read(path)
    assert len(rows) == reader.lines == reader.malformed == 20
    assert [complaint.split(": ")[1] for complaint in reader.complaints] == [f"line {n}" for n in (2, 4, 6, 8, 10)]


def test_a_line_that_never_ends_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_reader, "BLOCK", 1000)
    monkeypatch.setattr(trace_reader, "LINE_MAX", 5000)
    path = tmp_path / "trace"
    path.write_text("0 0 0 1:0.5\n" + "1" * 300_000 + "\n1 0 0 2:0.5\n")
    sizes = []
    reader = TraceReader(path)
    parse = reader._parse
    monkeypatch.setattr(reader, "_parse", lambda data: sizes.append(len(data)) or parse(data))
    rows = [row for lines in reader for row in rows_of(lines)]
    assert rows == [(0, 0, 0, [1]), (1, 0, 0, [2])]
    assert reader.complaints == [f"{path}: line 2: a call number, a row and a layer must come first"]
    assert max(sizes) < 10_000


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "empty"), (b"\x00\x01\n", "line 1"), (b"PK\x03\x04" * 99, "line 1")]
)
def test_what_is_no_trace_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "trace"
    path.write_bytes(content)
    with pytest.raises(EngineError, match=f"{said}.*no route trace"):
        read(path)
    with pytest.raises(EngineError, match="cannot be read"):
        read(tmp_path / "missing")


def test_layers_are_taken_apart(tmp_path: Path) -> None:
    rows = trace_of([{1: [[0], [4, 2]], 3: [[1], [1]]}, {1: [[5]], 3: [[6, 0]]}])
    layers = read_layers(TraceReader(write_trace(tmp_path / "trace", rows)))
    assert list(layers) == [1, 3]
    first = layers[1]
    assert first.experts == layers[3].experts == 7
    assert (first.before, [other.ids.tolist() for other in layers[3].before]) == ((), [[0, 4, 2, 5]])
    assert first.calls.tolist() == [0, 2, 3]
    assert first.rows.tolist() == [0, 1, 3, 4]
    assert first.ids.tolist() == [0, 4, 2, 5]
    assert (layers[3].calls.tolist(), layers[3].ids.tolist()) == ([0, 2, 3], [1, 1, 6, 0])
