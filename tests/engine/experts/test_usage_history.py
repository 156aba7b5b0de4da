"""`UsageHistory`: a save adds to what is there, and nothing learned is lost on the way."""

from __future__ import annotations

import errno
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from engine import files
from engine.errors import EngineError
from engine.experts.history import UsageHistory
from engine.experts.usage import COUNT_MAX, Usage, read_usage

LAYERS, EXPERTS = 5, 8
ROUTED = frozenset(range(LAYERS))
GLM = 3815245270


def history(path: Path, **options: object) -> UsageHistory:
    return UsageHistory.open(path, LAYERS, EXPERTS, "glm_moe_dsa", ROUTED, **options)


def read(path: Path) -> Usage:
    return read_usage(path, LAYERS, EXPERTS, "glm_moe_dsa", ROUTED)


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


# Saving


def test_bytes_of_a_first_save(path: Path) -> None:
    history(path).save(cells(e3_2=2, e3_5=1, e3_7=1))
    assert path.read_bytes() == b"-1 5 8\n-2 1 3815245270\n3 2 2\n3 5 1\n3 7 1\n"


def test_no_history_is_an_empty_file(path: Path) -> None:
    history(path).save(cells())
    assert path.read_bytes() == b""


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
    path.write_text("1 1 1\n2 2 3\n3 3 998\n")
    live = history(path, decay=0.5)
    counts = live.counts + cells(e3_3=2)
    live.save(counts)
    assert path.read_text().splitlines()[2:] == ["1 1 1", "2 2 2", "3 3 500"]
    live.save(counts)
    live.save(counts + cells(e3_3=10))
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
    assert live.save(live.counts) == ()
    assert kept(path) == []
    (notice,) = live.save(live.counts + cells(e2_2=1))
    (aside,) = kept(path)
    assert notice.endswith(f"as it was, it is kept as {aside.name}")
    assert aside.read_bytes() == b"1 1 3\n" + damage
    assert read(path).total == 4
    assert live.save(live.counts + cells(e2_2=2)) == ()
    assert kept(path) == [aside]


def test_a_named_history_of_another_engine_is_kept_as_it_was(path: Path) -> None:
    path.write_text("-1 5 8\n-2 1 1820578806\n3 2 6\n")
    live = history(path, named=True)
    live.save(live.counts + cells(e3_2=1))
    assert kept(path)[0].read_text() == "-1 5 8\n-2 1 1820578806\n3 2 6\n"
    assert path.read_text() == f"-1 5 8\n-2 1 {GLM}\n3 2 7\n"


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
            with pytest.raises(EngineError, match=r"not saved \(No space left on device\); the next save will add"):
                live.save(counts)
    assert path.read_text() == "1 1 3\njunk\n"
    assert sorted(file.name for file in path.parent.iterdir()) == [".coli_usage", ".coli_usage.lock"]
    live.save(counts + cells(e3_3=1))
    assert read(path).total == 8


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
    assert live.notices == (f"{path}: the history cannot be read (Input/output error); nothing will be learned",)
    assert live.save(cells(e1_1=9)) == ()
    assert path.read_text() == "1 1 3\n"


def test_a_lock_that_is_never_released_is_an_error_not_a_hang(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
from engine.experts.history import UsageHistory
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
    for _ in range(12):
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
    assert told > 12
