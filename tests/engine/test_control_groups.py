"""Memory limits of control groups, in trees of both versions as Linux shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.control_groups import memory_groups, memory_left


def group(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(f"{content}\n")


@pytest.fixture
def member(tmp_path: Path):
    def write(*lines: str) -> tuple[Path, Path]:
        (tmp_path / "cgroup").write_text("".join(f"{line}\n" for line in lines))
        return tmp_path / "fs", tmp_path / "cgroup"

    return write


def test_the_tightest_of_nested_groups_counts(member, tmp_path):
    where = member("0::/user/app")
    group(tmp_path / "fs", memory__stat="anon 5")
    group(tmp_path / "fs/user", memory__max=1000, memory__current=900)
    group(tmp_path / "fs/user/app", memory__max=500, memory__current=300)
    assert list(memory_groups(*where)) == [tmp_path / "fs/user/app", tmp_path / "fs/user", tmp_path / "fs"]
    assert memory_left(*where) == 100


def test_pages_of_files_are_not_in_the_way(member, tmp_path):
    group(tmp_path / "fs/a", memory__max=500, memory__current=400, memory__stat="inactive_file 50\nactive_file 25\n")
    assert memory_left(*member("0::/a")) == 175


def test_version_one_has_a_tree_for_memory_and_counts_groups_below(member, tmp_path):
    stat = "inactive_file 1\ntotal_inactive_file 60\ntotal_active_file 40"
    group(tmp_path / "fs/memory/job", memory__limit_in_bytes=1000, memory__usage_in_bytes=900, memory__stat=stat)
    assert memory_left(*member("3:cpu:/other", "2:memory,hugetlb:/job")) == 200


@pytest.mark.parametrize("path", ["/docker/3a9f", "/../escape"])
def test_a_container_sees_its_own_group_as_the_root(member, tmp_path, path):
    group(tmp_path / "fs", memory__max=70, memory__current=20)
    assert memory_left(*member(f"0::{path}")) == 50


def test_no_limit(member, tmp_path):
    group(tmp_path / "fs/a", memory__max="max", memory__current=400)
    assert memory_left(*member("0::/a")) is None
    assert memory_left(tmp_path / "fs", tmp_path / "not there") is None
