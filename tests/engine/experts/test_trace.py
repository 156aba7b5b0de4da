"""ROUTE_TRACE: the bytes, and what happens when they cannot be written."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import EngineError
from engine.experts.trace import RouteTrace

LINE = re.compile(r"(\d+) (\d+) (\d+)((?: \d+:-?\d+\.\d{4})*)")


def parse(text: str) -> list[tuple[int, int, int, list[tuple[int, float]]]]:
    """An independent reader: (call, row, layer, pairs) of every line; refuses anything else."""
    assert text == "" or text.endswith("\n")
    records = []
    for line in text.split("\n")[:-1]:
        match = LINE.fullmatch(line)
        assert match, line
        pairs = [pair.split(":") for pair in match[4].split()]
        records.append((int(match[1]), int(match[2]), int(match[3]), [(int(i), float(g)) for i, g in pairs]))
    return records


def int32(values: object) -> np.ndarray:
    return np.array(values, np.int32)


def float32(values: object) -> np.ndarray:
    return np.array(values, np.float32)


def test_example_of_the_format(tmp_path: Path) -> None:
    trace = RouteTrace(tmp_path / "trace")
    trace.write(0, int32([[5, 2]]), float32([[0.3121, 0.1407]]), int32([2]))
    trace.write(1, int32([[7, 1]]), float32([[0.25, 0.2499]]), int32([2]))
    trace.close()
    assert trace.path.read_bytes() == b"0 0 0 5:0.3121 2:0.1407\n1 0 1 7:0.2500 1:0.2499\n"
    assert trace.failed is None


def test_rows_share_the_call_and_only_kept_experts_appear(tmp_path: Path) -> None:
    trace = RouteTrace(tmp_path / "trace")
    ids, weights = int32([[1, 2, 3], [4, 5, 6], [7, 8, 9]]), float32([[0.5, 0.25, 0.125]] * 3)
    trace.write(4, ids, weights, int32([3, 1, 0]))
    trace.write(6, ids[:1], weights[:1], int32([2]))
    trace.close()
    assert trace.path.read_text() == (
        "0 0 4 1:0.5000 2:0.2500 3:0.1250\n0 1 4 4:0.5000\n0 2 4\n1 0 6 1:0.5000 2:0.2500\n"
    )


calls = st.lists(
    st.tuples(
        st.integers(0, 99),
        st.lists(
            st.lists(st.tuples(st.integers(0, 2**31 - 1), st.floats(0, 1e6, width=32)), min_size=3, max_size=3),
            min_size=1,
            max_size=4,
        ),
        st.integers(0, 3),
    ),
    max_size=6,
)


@given(calls)
def test_what_is_written_reads_back(tmp_path_factory: pytest.TempPathFactory, calls: list) -> None:
    trace = RouteTrace(tmp_path_factory.mktemp("trace") / "trace")
    expected = []
    for call, (layer, rows, kept) in enumerate(calls):
        ids = int32([[pair[0] for pair in row] for row in rows])
        weights = float32([[pair[1] for pair in row] for row in rows])
        trace.write(layer, ids, weights, int32([kept] * len(rows)))
        for number, row in enumerate(rows):
            pairs = [(expert, float(f"{np.float32(gate):.4f}")) for expert, gate in row[:kept]]
            expected.append((call, number, layer, pairs))
    trace.close()
    assert parse(trace.path.read_text()) == expected


def test_an_older_trace_is_truncated_and_flush_makes_lines_visible(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text("9 9 9 old\n")
    trace = RouteTrace(path)
    assert path.read_bytes() == b""
    trace.write(0, int32([[1]]), float32([[1]]), int32([1]))
    trace.flush()
    assert path.read_bytes() == b"0 0 0 1:1.0000\n"
    trace.close()
    trace.close()


def test_a_trace_grows_by_whole_calls_without_being_flushed(tmp_path: Path) -> None:
    trace = RouteTrace(tmp_path / "trace")
    ids, weights, kept = int32([[1] * 8] * 64), float32([[0.125] * 8] * 64), int32([8] * 64)
    sizes = set()
    for _ in range(400):
        trace.write(3, ids, weights, kept)
        sizes.add(trace.path.stat().st_size)
    assert len(sizes) > 1
    rows = [record[1] for record in parse(trace.path.read_text())]
    assert rows == list(range(64)) * (len(rows) // 64)
    trace.close()
    assert len(parse(trace.path.read_text())) == 400 * 64


def test_a_path_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"missing/trace: the route trace cannot be written \(No such file"):
        RouteTrace(tmp_path / "missing" / "trace")


class FullDisk:
    """A file that takes half of what it is given once, then nothing."""

    closed = False

    def __init__(self, file: object) -> None:
        self.file, self.calls = file, 0

    def write(self, data: memoryview) -> int:
        self.calls += 1
        if self.calls > 1:
            raise OSError(28, "No space left on device")
        return self.file.write(data[: len(data) // 2])

    def close(self) -> None:
        self.closed = True
        self.file.close()


def test_a_full_disk_removes_the_trace_and_stops_it(tmp_path: Path) -> None:
    trace = RouteTrace(tmp_path / "trace")
    trace._file = FullDisk(trace._file)
    row = int32([[1]]), float32([[1]]), int32([1])
    trace.write(0, *row)
    trace.flush()
    assert trace.failed == (f"{trace.path}: tracing stopped (No space left on device); the incomplete file was removed")
    assert not trace.path.exists()
    trace.write(0, *row)
    trace.flush()
    trace.close()
    assert not trace.path.exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_device_that_fails_is_not_removed() -> None:
    trace = RouteTrace(Path("/dev/full"))
    trace.write(0, int32([[1]]), float32([[1]]), int32([1]))
    trace.close()
    assert trace.failed == "/dev/full: tracing stopped (No space left on device)"
    assert Path("/dev/full").exists()


def test_a_short_write_is_continued(tmp_path: Path) -> None:
    trace = RouteTrace(tmp_path / "trace")
    file = trace._file

    class Short(FullDisk):
        def write(self, data: memoryview) -> int:
            return self.file.write(data[:3])

    trace._file = Short(file)
    trace.write(12, int32([[345]]), float32([[1]]), int32([1]))
    trace.close()
    assert trace.path.read_bytes() == b"0 0 12 345:1.0000\n"
