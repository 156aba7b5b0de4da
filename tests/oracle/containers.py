"""Checkpoints of `checkpoints`, converted: experts and dense matrices in a kernel's own layout."""

from __future__ import annotations

from pathlib import Path

from engine.convert import write_container

from .checkpoints import Case, is_extra, tensors


def write(folder: Path, case: Case, expert_format: str, dense_format: str = "int8") -> Path:
    """Convert a case into the new folder and return it. `int8` or `int4`."""
    folder.mkdir(parents=True)
    kept = ((name, values) for name, (_, values) in tensors(case).items() if not is_extra(case.config, name))
    write_container(folder, kept, case.config, {}, expert_format=expert_format, dense_format=dense_format)
    return folder
