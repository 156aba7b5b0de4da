"""The control groups that limit this process's memory (Linux): where they are, and what they leave.

A process is in one group of a tree, and every group above it limits it as well. Version 1 has a tree of its own for
memory, version 2 one for everything. In a container the own group is often mounted as the root of the tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path("/sys/fs/cgroup")
MEMBERSHIP: Final = Path("/proc/self/cgroup")
_FILES: Final = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
"""Limit and use, of version 2 and of version 1."""


def memory_groups(root: Path = ROOT, membership: Path = MEMBERSHIP) -> Iterator[Path]:
    """Folders of the groups that limit this process's memory, the innermost first; none outside Linux."""
    for tree, path in _own(root, membership):
        group = tree / path.lstrip("/")
        if group.is_dir() and ".." not in path.split("/"):
            yield group
            yield from (parent for parent in group.parents if parent.is_relative_to(tree))
        elif tree.is_dir():
            yield tree


def _own(root: Path, membership: Path) -> Iterator[tuple[Path, str]]:
    """The tree and this process's path in it, for each version that is mounted."""
    try:
        lines = membership.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield root, path
        elif "memory" in controllers.split(","):
            yield root / "memory", path


def memory_left(root: Path = ROOT, membership: Path = MEMBERSHIP) -> int | None:
    """Bytes this process could still take before a group stops it; None without a limit.

    Pages of files count as used in a group, but the kernel gives them up when memory is short.
    """
    left = []
    for group in memory_groups(root, membership):
        for limit_name, used_name in _FILES:
            limit, used = _number(group / limit_name), _number(group / used_name)
            if limit is not None and used is not None:
                left.append(max(0, limit - max(0, used - _reclaimable(group))))
    return min(left, default=None)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # not there, or "max"
        return None


def _reclaimable(group: Path) -> int:
    """Bytes of pages of files in a group; version 1 counts those of the groups below in `total_...`."""
    try:
        rows = [line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines()]
    except OSError:
        return 0
    found = {row[0]: int(row[1]) for row in rows if len(row) == 2}
    prefix = "total_" if "total_inactive_file" in found else ""
    return sum(found.get(f"{prefix}{kind}_file", 0) for kind in ("inactive", "active"))
