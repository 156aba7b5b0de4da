"""Panes: what the engine does, a subject each. `PANES` lists them all, the most needed first."""

from __future__ import annotations

from colibri_tui.widgets.panes.atlas_pane import AtlasPane
from colibri_tui.widgets.panes.expert import ExpertPane
from colibri_tui.widgets.panes.keff import KeffPane
from colibri_tui.widgets.panes.pane import Pane
from colibri_tui.widgets.panes.path import PathPane
from colibri_tui.widgets.panes.speed import SpeedPane
from colibri_tui.widgets.panes.swaps import SwapsPane
from colibri_tui.widgets.panes.tiers import TiersPane

PANES: tuple[type[Pane], ...] = (AtlasPane, TiersPane, SpeedPane, KeffPane, SwapsPane, ExpertPane, PathPane)
PANE = {pane.NAME: pane for pane in PANES}
HIDDEN_AT_FIRST = frozenset({ExpertPane.NAME, PathPane.NAME})
"""Those that are about something a person has chosen."""
