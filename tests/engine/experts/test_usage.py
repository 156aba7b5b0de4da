"""`.coli_usage`: identities, the reader against hostile files, and the bytes that are written."""

from __future__ import annotations

import contextlib
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.experts.usage import (
    COUNT_MAX,
    Usage,
    UsageRefused,
    engine_id,
    engine_name,
    format_usage,
    read_usage,
)

LAYERS, EXPERTS = 5, 8
ROUTED = frozenset(range(LAYERS))
GLM = 3815245270


def read(path: Path, model_type: str = "glm_moe_dsa", routed: frozenset[int] = ROUTED, named: bool = False) -> Usage:
    return read_usage(path, LAYERS, EXPERTS, model_type, routed, named=named)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".coli_usage"


# Identities


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("olmoe", 3841822045),
        ("glm_moe_dsa", GLM),
        ("inkling", 2050583463),
        ("kimi_k3", 1820578806),
        ("qwen36", 2579641003),
    ],
)
def test_engine_ids(name: str, number: int) -> None:
    assert engine_id(name) == number


@pytest.mark.parametrize(
    ("model_type", "name"),
    [
        ("olmoe", "olmoe"),
        ("glm_moe_dsa", "glm_moe_dsa"),
        ("qwen3_5_moe", "qwen36"),
        ("kimi_k2", "kimi_k2"),
        ("qwen3_moe", "qwen3_moe"),
    ],
)
def test_families_without_an_engine_of_colibri_are_named_by_their_type(model_type: str, name: str) -> None:
    assert engine_name(model_type) == name


# Reading


def test_records_out_of_range_are_dropped_and_not_counted(path: Path) -> None:
    path.write_text("3 2 5\n9 1 100\n1 99 200\n")
    usage = read(path)
    assert usage.total == 5
    assert usage.counts.shape == (LAYERS + 1, EXPERTS)
    assert usage.counts[3, 2] == 5
    assert usage.counts.dtype == np.uint32
    assert usage.notices == (f"{path}: ignored 2 record(s) of layers or experts not in this model",)


def test_layers_without_a_router_are_dropped(path: Path) -> None:
    path.write_text("0 1 7\n3 2 5\n5 0 9\n")
    assert read(path, routed=frozenset({3})).total == 5
    assert read(path, routed=frozenset({3, LAYERS})).total == 14


def test_other_dimensions_are_refused_even_when_named(path: Path) -> None:
    path.write_text("-1 99 512\n3 2 2\n")
    for named in (False, True):
        with pytest.raises(UsageRefused, match="99 layers x 512 experts, this model has 5 x 8"):
            read(path, named=named)


def test_a_newer_version_is_refused_even_when_named(path: Path) -> None:
    path.write_text(f"-1 5 8\n-2 2 {GLM}\n3 2 9\n")
    for named in (False, True):
        with pytest.raises(UsageRefused, match="format version 2"):
            read(path, named=named)


def test_another_engine_is_refused_unless_named(path: Path) -> None:
    path.write_text("-1 5 8\n-2 1 1820578806\n3 2 6\n")
    with pytest.raises(UsageRefused, match="written by kimi_k3, this model is glm_moe_dsa"):
        read(path)
    usage = read(path, named=True)
    assert usage.total == 6
    assert usage.notices == (f"{path}: written by kimi_k3, not glm_moe_dsa; used because you named it",)


def test_an_unknown_engine_is_named_by_its_number(path: Path) -> None:
    path.write_text("-1 5 8\n-2 1 77\n")
    with pytest.raises(UsageRefused, match=r"an unknown engine \(77\)"):
        read(path)


def test_a_header_after_the_data_refuses_all_of_it(path: Path) -> None:
    path.write_text("3 2 9\n-1 4 8\n")
    with pytest.raises(UsageRefused):
        read(path)


def test_the_foreign_binary_format_is_refused_by_name(path: Path) -> None:
    path.write_bytes(b"IKU1" + bytes(5000))
    with pytest.raises(UsageRefused, match=r"inkling \(IKU1\)"):
        read(path, named=True)


def test_comments_blank_lines_and_crlf_are_legal(path: Path) -> None:
    text = f"-1 5 8\r\n-2 1 {GLM}\r\n\r\n  3\t2  5 \r\n\n# coli-ramdisk-merge {'ab' * 16}\n#{'x' * 9999}\n4 0 1"
    path.write_bytes(text.encode())
    usage = read(path)
    assert usage.total == 6
    assert usage.notices == ()


@pytest.mark.parametrize(
    "line",
    [
        "3 2",
        "3 2 5 6",
        "3 2 x",
        "3 2 -5",
        "3 2 5.0",
        "3 2 1_0",
        "3,2,5",
        "\0\0\0",
        pytest.param("3 2 " + "9" * 5000, id="long"),
        "\x1b[2J",
    ],
)
def test_malformed_lines_are_skipped_and_counted(path: Path, line: str) -> None:
    path.write_text(f"1 1 1\n{line}\n2 2 2\n")
    usage = read(path)
    assert usage.total == 3
    assert usage.notices == (f"{path}: skipped 1 malformed line(s)",)


def test_headers_of_later_versions_are_ignored(path: Path) -> None:
    path.write_text("-3 12 4000000000\n1 1 1\n")
    usage = read(path)
    assert (usage.total, usage.notices) == (1, ())


def test_duplicates_add_up_and_counts_saturate(path: Path) -> None:
    path.write_text(f"1 1 {COUNT_MAX}\n1 1 5\n2 2 3\n2 2 4\n3 3 99999999999\n")
    counts = read(path).counts
    assert (counts[1, 1], counts[2, 2], counts[3, 3]) == (COUNT_MAX, 7, COUNT_MAX)


def test_no_file_and_an_empty_file_are_an_empty_history(path: Path) -> None:
    assert read(path).total == 0
    path.touch()
    assert read(path).total == 0
    assert read(path).notices == ()


def test_what_is_no_regular_file_is_refused(path: Path) -> None:
    path.mkdir()
    with pytest.raises(UsageRefused, match="not a regular file"):
        read(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_does_not_hang_the_reader(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(UsageRefused, match="not a regular file"):
        read(path)


def test_an_endless_line_takes_no_memory(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b"1 1 1\n")
        file.truncate(100 << 20)  # one line of zero bytes, 100 MB
        file.seek(0, os.SEEK_END)
        file.write(b"\n2 2 2\n")
    tracemalloc.start()
    usage = read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert usage.total == 3
    assert peak < 2 << 20


def test_a_file_larger_than_any_history_is_refused_unread(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 33)
    with pytest.raises(UsageRefused, match="8589934592 bytes"):
        read(path)


def naive(text: str, routed: set[int]) -> dict[tuple[int, int], int]:
    """The format page once more, without a thought for speed or hostile input."""
    counts: dict[tuple[int, int], int] = {}
    for line in text.splitlines():
        fields = line.split()
        if not fields or line.startswith("#"):
            continue
        layer, expert, count = map(int, fields)
        if layer in routed and 0 <= expert < EXPERTS:
            counts[layer, expert] = min(counts.get((layer, expert), 0) + count, COUNT_MAX)
    return {cell: count for cell, count in counts.items() if count}


some_records = st.lists(
    st.tuples(st.integers(0, LAYERS + 2), st.integers(0, EXPERTS + 2), st.integers(0, COUNT_MAX)), max_size=30
)
routers = st.sets(st.integers(0, LAYERS))


@given(some_records, routers, st.sampled_from(["", f"-1 5 8\n-2 1 {GLM}\n"]))
def test_the_reader_agrees_with_a_naive_one(
    tmp_path_factory: pytest.TempPathFactory, records: list, routed: set[int], header: str
) -> None:
    path = tmp_path_factory.mktemp("usage") / ".coli_usage"
    text = header + "".join(f"{layer} {expert} {count}\n" for layer, expert, count in records)
    path.write_text(text)
    usage = read(path, routed=frozenset(routed))
    found = {(int(a), int(b)): int(usage.counts[a, b]) for a, b in zip(*usage.counts.nonzero(), strict=True)}
    assert found == naive(text, routed)
    assert usage.total == sum(found.values())


@given(st.binary(max_size=300))
def test_no_bytes_crash_the_reader(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("usage") / ".coli_usage"
    path.write_bytes(data)
    with contextlib.suppress(UsageRefused):
        usage = read(path)
        assert usage.total == int(usage.counts.sum(dtype=np.uint64))


# Writing


count_tables = st.lists(
    st.lists(st.one_of(st.just(0), st.integers(0, COUNT_MAX)), min_size=EXPERTS, max_size=EXPERTS),
    min_size=LAYERS + 1,
    max_size=LAYERS + 1,
)


@given(count_tables)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, table: list[list[int]]) -> None:
    path = tmp_path_factory.mktemp("usage") / ".coli_usage"
    counts = np.array(table, np.uint32)
    data = format_usage(counts, LAYERS, "qwen3_5_moe")
    path.write_bytes(data)
    everything = frozenset(range(LAYERS + 1))
    assert np.array_equal(read(path, "qwen3_5_moe", everything).counts, counts)
    body = [tuple(map(int, line.split())) for line in data.decode().splitlines()][2:]
    assert body == sorted(body)
    assert {(layer, expert): count for layer, expert, count in body} == naive(data.decode(), set(everything))
