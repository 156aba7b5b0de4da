"""Conductors on a stage: with a model opened, and with its engine ready."""

from __future__ import annotations

import pytest

from tests.tui.staging import Play


@pytest.fixture
def opened(tmp_path, monkeypatch):
    monkeypatch.setenv("COLIBRI_TUI_HOME", str(tmp_path / "home"))
    stage = Play(tmp_path)
    assert stage.conductor.open(stage.folder)
    stage.conductor._arriving = None  # nothing is stored: no need to look
    yield stage
    stage.journal.close()


@pytest.fixture
def stage(opened):
    opened.ready()
    return opened
