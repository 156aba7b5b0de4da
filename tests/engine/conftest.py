"""What tests of the engine share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle import checkpoints
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import Folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """Checkpoints by name, written when first wanted."""
    known: dict[str, Path] = {}

    def of(name: str) -> Path:
        if name not in known:
            known[name] = checkpoints.write(tmp_path_factory.mktemp(name) / "model", CASES[name])
        return known[name]

    return of
