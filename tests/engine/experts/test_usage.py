"""`.coli_usage`: the bytes, hostile files, and that nothing learned is lost."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import files
from engine.errors import EngineError
from engine.experts.usage import (
    COUNT_MAX,
    UsageHistory,
    UsageRefused,
    engine_id,
    engine_name,
    format_usage,
    read_usage,
)

LAYERS, EXPERTS = 5, 8
ROUTED = frozenset(range(LAYERS))
GLM = 3815245270


def history(path: Path, **options: object) -> UsageHistory:
    return UsageHistory.open(path, LAYERS, EXPERTS, "glm_moe_dsa", ROUTED, **options)


def read(path: Path, model_type: str = "glm_moe_dsa", routed: frozenset[int] = ROUTED, named: bool = False):
    return read_usage(path, LAYERS, EXPERTS, model_type, routed, named=named)


def cells(**chosen: int) -> np.ndarray:
    """Counts from keyword arguments like e3_5=2: layer 3, expert 5, twice."""
    counts = np.zeros((LAYERS, EXPERTS), np.uint32)
    for name, count in chosen.items():
        layer, expert = name.removeprefix("e").split("_")
        counts[int(layer), int(expert)] = count
    return counts


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
    text = (
        f"-1 5 8\r\n-2 1 {GLM}\r\n\r\n  3\t2  5 \r\n\n# coli-ramdisk-merge {'ab' * 16}\n#{'x' * 9999}\n4 0 1"
    )
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
        "3 2 " + "9" * 5000,
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
    try:
        usage = read(path)
    except UsageRefused as refusal:
        assert "\n" not in str(refusal)
    else:
        assert usage.total == int(usage.counts.sum(dtype=np.uint64))


# Writing


def test_bytes_of_a_first_save(path: Path) -> None:
    history(path).save(cells(e3_2=2, e3_5=1, e3_7=1))
    assert path.read_bytes() == b"-1 5 8\n-2 1 3815245270\n3 2 2\n3 5 1\n3 7 1\n"


def test_no_history_is_an_empty_file(path: Path) -> None:
    history(path).save(cells())
    assert path.read_bytes() == b""


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


def test_a_save_adds_to_what_was_loaded_and_counts_once(path: Path) -> None:
    path.write_text("3 2 5\n")
    live = history(path)
    counts = live.counts.copy()
    assert live.total == 5
    counts[3, 2] += 2
    counts[1, 0] += 1
    live.save(counts)
    live.save(counts)
    assert path.read_text() == f"-1 5 8\n-2 1 {GLM}\n1 0 1\n3 2 7\n"


def test_a_counter_that_was_reset_takes_nothing_away(path: Path) -> None:
    path.write_text("3 2 100\n")
    live = history(path)
    live.save(cells(e3_2=4))
    live.save(cells(e3_2=9))
    assert read(path).total == 105


def test_counts_stop_at_the_largest_number(path: Path) -> None:
    path.write_text(f"3 2 {COUNT_MAX - 1}\n")
    live, other = history(path), history(path)
    full = cells(e3_2=COUNT_MAX)
    live.save(full)
    other.save(full)
    assert read(path).counts[3, 2] == COUNT_MAX


def test_two_histories_of_one_file_lose_nothing(path: Path) -> None:
    one, two = history(path), history(path)
    one.save(cells(e1_1=10))
    two.save(cells(e1_1=5, e2_2=1))
    one.save(cells(e1_1=11))
    assert read(path).counts[1, 1] == 16
    assert read(path).total == 17


def test_the_row_of_the_mtp_layer_is_carried_along(path: Path) -> None:
    path.write_text(f"-1 5 8\n-2 1 {GLM}\n5 3 44\n")
    live = history(path)
    assert live.counts.shape == (LAYERS, EXPERTS)
    live.save(cells(e0_0=1))
    assert path.read_text() == f"-1 5 8\n-2 1 {GLM}\n0 0 1\n5 3 44\n"


def test_decay_rounds_half_up_so_that_a_one_survives(path: Path) -> None:
    path.write_text("1 1 1\n2 2 3\n3 3 1000\n")
    live = history(path, decay=0.5)
    live.save(live.counts)
    assert path.read_text().splitlines()[2:] == ["1 1 1", "2 2 2", "3 3 500"]
    counts = live.counts.copy()
    counts[3, 3] += 10
    live.save(counts)
    assert path.read_text().splitlines()[2:] == ["1 1 1", "2 2 1", "3 3 255"]


@pytest.mark.parametrize("decay", [0.0, -1.0, 1.5, float("nan")])
def test_a_decay_out_of_range_is_refused(path: Path, decay: float) -> None:
    with pytest.raises(EngineError, match="above 0 and up to 1"):
        history(path, decay=decay)


def test_a_frozen_history_is_never_touched(path: Path) -> None:
    path.write_text("-1 99 512\n")
    live = history(path, learn=False)
    assert live.notices == (
        f"{path}: a history of 99 layers x 512 experts, this model has 5 x 8; nothing will be learned",
    )
    assert live.save(cells(e1_1=1)) == ()
    assert path.read_text() == "-1 99 512\n"
    assert list(path.parent.iterdir()) == [path]


# Files that are not overwritten


def kept(path: Path) -> list[Path]:
    return sorted(path.parent.glob(".coli_usage.refused-*"))


def test_a_refused_file_is_moved_aside_before_anything_is_written(path: Path) -> None:
    path.write_text("-1 99 512\n3 2 2\n")
    live = history(path)
    (aside,) = kept(path)
    assert aside.read_text() == "-1 99 512\n3 2 2\n"
    assert not path.exists()
    assert live.notices[0].endswith(f"; kept as {aside.name}, a new history begins")
    live.save(cells(e1_1=1))
    assert read(path).total == 1


def test_files_moved_aside_in_the_same_second_do_not_meet(path: Path) -> None:
    for number in range(3):
        path.write_text(f"-1 99 {number}\n")
        history(path)
    assert sorted(file.read_text() for file in kept(path)) == ["-1 99 0\n", "-1 99 1\n", "-1 99 2\n"]


def test_a_file_refused_only_at_the_save_is_moved_aside_too(path: Path) -> None:
    live = history(path)
    path.write_text(f"-1 5 8\n-2 9 {GLM}\n")
    (notice,) = live.save(cells(e1_1=1))
    assert "format version 9" in notice
    assert kept(path)[0].read_text() == f"-1 5 8\n-2 9 {GLM}\n"
    assert read(path).total == 1


@pytest.mark.parametrize("damage", [b"\0" * 700, b"3 2 \xff\n", b"77 1 5\n"])
def test_a_damaged_file_is_kept_beside_the_new_one(path: Path, damage: bytes) -> None:
    path.write_bytes(b"1 1 3\n" + damage)
    live = history(path)
    assert live.total == 3
    assert len(live.notices) == 1
    (notice,) = live.save(live.counts)
    (aside,) = kept(path)
    assert notice.endswith(f"as it was, it is kept as {aside.name}")
    assert aside.read_bytes() == b"1 1 3\n" + damage
    assert read(path).total == 3
    assert live.save(live.counts) == ()
    assert kept(path) == [aside]


def test_a_named_history_of_another_engine_is_kept_as_it_was(path: Path) -> None:
    path.write_text("-1 5 8\n-2 1 1820578806\n3 2 6\n")
    live = history(path, named=True)
    live.save(live.counts)
    assert kept(path)[0].read_text() == "-1 5 8\n-2 1 1820578806\n3 2 6\n"
    assert path.read_text() == f"-1 5 8\n-2 1 {GLM}\n3 2 6\n"


# Failures


def no_space(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_loses_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text("1 1 3\njunk\n")
    live = history(path)
    counts = live.counts + cells(e2_2=4)
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", no_space)
        for _ in range(2):
            with pytest.raises(
                EngineError, match=r"not saved \(No space left on device\); the next save will add"
            ):
                live.save(counts)
    assert path.read_text() == "1 1 3\njunk\n"
    assert sorted(file.name for file in path.parent.iterdir()) == [".coli_usage", ".coli_usage.lock"]
    live.save(counts + cells(e3_3=1))
    assert read(path).total == 8


@pytest.mark.skipif(sys.platform == "win32", reason="needs RLIMIT_FSIZE")
def test_a_real_write_that_does_not_fit_leaves_the_old_file(path: Path) -> None:
    path.write_text("1 1 3\n")
    run(
        path,
        """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (20, resource.RLIM_INFINITY))
        try:
            live.save(live.counts + 1)
        except EngineError as error:
            assert "File too large" in str(error), error
        else:
            raise AssertionError("the write fitted")
        assert path.read_text() == "1 1 3\\n"
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        live.save(live.counts + 1)
        """,
    )
    assert read(path).total == 3 + LAYERS * EXPERTS


def test_a_place_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    live = history(tmp_path / "folder" / ".coli_usage")
    (tmp_path / "folder").touch()
    with pytest.raises(EngineError) as refused:
        live.save(cells(e1_1=1))
    assert "\n" not in str(refused.value)
    assert "was not saved" in str(refused.value)


def test_a_history_that_cannot_be_read_is_left_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text("1 1 3\n")

    def broken(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", broken)
        live = history(path)
    assert live.notices == (
        f"{path}: the history cannot be read (Input/output error); nothing will be learned",
    )
    assert live.save(cells(e1_1=9)) == ()
    assert path.read_text() == "1 1 3\n"


def test_a_lock_that_is_never_released_is_an_error_not_a_hang(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = history(path)
    monkeypatch.setattr(files.FileLock.acquire, "__defaults__", (0.05,))
    other = files.FileLock(path.with_name(".coli_usage.lock"))
    assert other.acquire()
    with pytest.raises(EngineError, match="another program has held"):
        live.save(cells(e1_1=1))
    other.release()
    live.save(cells(e1_1=1))
    assert read(path).total == 1


def test_what_a_dead_writer_left_is_cleaned_up(path: Path) -> None:
    leftover = path.with_name(".coli_usage.new")
    leftover.write_text("-1 5 8\nhalf a")
    history(path).save(cells(e1_1=1))
    assert not leftover.exists()
    assert read(path).total == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs symbolic links")
def test_a_link_is_written_through_and_the_mode_stays(path: Path, tmp_path: Path) -> None:
    real = tmp_path / "elsewhere"
    real.touch(mode=0o600)
    path.symlink_to(real)
    history(path).save(cells(e1_1=1))
    assert path.is_symlink()
    assert read(real).total == 1
    assert real.stat().st_mode & 0o777 == 0o600


# Other processes

PRELUDE = """
import sys
from pathlib import Path
import numpy as np
from engine.errors import EngineError
from engine.experts.usage import UsageHistory
path = Path(sys.argv[1])
live = UsageHistory.open(path, 5, 8, "glm_moe_dsa", set(range(5)))
"""


def command(path: Path, body: str) -> list[str]:
    lines = body.splitlines()
    indent = len(lines[1]) - len(lines[1].lstrip())
    return [sys.executable, "-c", PRELUDE + "\n".join(line[indent:] for line in lines), str(path)]


def run(path: Path, body: str) -> None:
    done = subprocess.run(command(path, body), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_two_processes_that_save_at_once_lose_no_count(path: Path) -> None:
    body = """
        counts = live.counts.copy()
        for turn in range(100):
            counts[1, 1] += 1
            counts[2, turn % 8] += 2
            live.save(counts)
        """
    writers = [subprocess.Popen(command(path, body)) for _ in range(2)]
    for writer in writers:
        assert writer.wait(60) == 0
    usage = read(path)
    assert usage.counts[1, 1] == 200
    assert usage.total == 600
    assert sorted(file.name for file in path.parent.iterdir()) == [".coli_usage", ".coli_usage.lock"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_kill_during_saves_leaves_a_whole_file_and_every_told_count(path: Path) -> None:
    body = """
        counts = live.counts.copy()
        while True:
            counts += 1
            live.save(counts)
            print(counts[0, 0], flush=True)
        """
    chance = random.Random(1)
    deadline = time.monotonic() + 10
    told = 0
    for _ in range(20):
        writer = subprocess.Popen(command(path, body), stdout=subprocess.PIPE)
        assert writer.stdout is not None
        first = writer.stdout.readline()
        time.sleep(chance.uniform(0, 0.03))
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().split(b"\n")
        writer.wait()
        told = int(([first] + [line for line in rest[:-1] if line])[-1])
        usage = read(path)
        assert usage.notices == ()
        saved = int(usage.counts[0, 0])
        assert np.all(usage.counts[:LAYERS] == saved)
        assert saved in (told, told + 1)
        if time.monotonic() > deadline:
            break
    assert told > 20
