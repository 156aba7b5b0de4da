"""The lab: three views, as plots and as numbers, from what the engine draws and the files of the profile."""

import json

import pytest

from colibri_tui.engine_link import EngineCurve
from colibri_tui.lab_data import MATRIX_NAME
from colibri_tui.profiles import usage_path
from colibri_tui.settings import Settings
from engine.events import Hits, MemoryCurve
from engine.turn_log import LoggedTurn, append_turn, log_path
from tests.tui.screens.conftest import chat, load, on_screen, until

CURVE = MemoryCurve(
    caps=(2, 4, 8, 16),
    bytes=(10**9, 2 * 10**9, 4 * 10**9, 8 * 10**9),
    rates={"lru": (0.31, 0.5, 0.72, 0.9), "auto": (0.35, 0.55, 0.75, 0.91), "min": (0.5, 0.7, 0.85, 0.95)},
    tok_s=(1.2, 2.0, 3.1, 6.0),
    cap=4,
    policy="auto",
    tokens=512,
    layers=7,
)
FIGURES = {"rate": 0.5, "decode_rate": 0.5, "first": 0.4, "later": None, "bytes_a_token": 1.0}
WORKS = ("chat", "code")
MATRIX = {
    "policy": "auto", "cap": 4, "cold": {"chat": FIGURES, "code": FIGURES},
    "profiles": [
        {"name": name, "pins": 12, "verdict": "helps", "reason": "pins: +7.0 points on its own work",
         "cells": [{"workload": work, "off": FIGURES, "pinned": {**FIGURES, "rate": 0.57}} for work in WORKS]}
        for name in ("chat", "code", "your default")
    ],
}  # fmt: skip
DAY = 86400.0


def learned(app) -> None:
    """Two days of turns and a matrix, beside the profile's history."""
    history = usage_path("default", chat(app).conductor.model.key)
    for n, hit in enumerate((40, 60, 90)):
        at = 1_764_500_000 + (n // 2) * 3 * DAY
        append_turn(
            log_path(history),
            LoggedTurn(at, 5, 50, Hits(0, hit, 100 - hit), Hits(), 1, 1, 2.0 + n, 4, 0, 10**9),
        )
    history.with_name(MATRIX_NAME).write_text(json.dumps(MATRIX))


async def open_lab(pilot) -> None:
    app = pilot.app
    await pilot.pause()
    load(app)
    learned(app)
    await pilot.press("alt+a")
    await until(lambda: app.screen._days and app.screen._matrix)
    chat(app).post_message(EngineCurve(0, CURVE))
    await until(lambda: app.screen._curve)
    await pilot.pause()


async def test_numbers_are_one_key_away(scripted):
    app = scripted()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_lab(pilot)
        assert "You are here: 4 slots a layer, 2.00 GB, policy auto, 55.0 % hits" in on_screen(app)
        await pilot.press("n")
        await pilot.pause()
        assert " >      4   2.00 GB   2.00 tok/s   50.0%   55.0%   70.0%" in on_screen(app)
        await pilot.press("2")
        await pilot.pause()
        drawn = on_screen(app)
        assert "3 answers on 2 days: 50.0% hits on the first, 90.0% on the last" in drawn
        await pilot.press("3")
        await pilot.pause()
        drawn = on_screen(app)
        assert "57.0% (+7.0)" in drawn
        assert "your default: helps" in drawn
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is chat(app)


async def test_numbers_that_do_not_fit_scroll_sideways(scripted):
    app = scripted()
    async with app.run_test(size=(44, 24)) as pilot:
        await open_lab(pilot)
        await pilot.press("n")
        await pilot.pause()
        assert "70.0%" not in on_screen(app)
        await pilot.press("tab", "end", *["right"] * 30)
        await until(lambda: "70.0%" in on_screen(app))


async def test_what_is_not_there_is_said(scripted):
    app = scripted()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("alt+a")
        await pilot.pause()
        assert "There is no engine to ask" in on_screen(app)
        await pilot.press("2")
        await pilot.pause()
        assert "No answers were logged yet" in on_screen(app)
        await pilot.press("3")
        await pilot.pause()
        assert "No matrix yet" in on_screen(app)


async def test_few_tokens_make_no_curve(scripted):
    app = scripted()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        load(app)
        await pilot.press("alt+a")
        await pilot.pause()
        assert "drawing the curve" in on_screen(app)
        chat(app).post_message(EngineCurve(0, MemoryCurve((), (), {}, (), 4, "auto", 0, 0)))
        await until(lambda: "Not enough tokens" in on_screen(app))


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"cold": {"a": {"rate": 7}}}', json.dumps({**MATRIX, "cap": "x"})])
async def test_a_matrix_that_is_none_is_refused_by_name(scripted, text):
    app = scripted()
    async with app.run_test(size=(120, 24)) as pilot:
        await pilot.pause()
        load(app)
        learned(app)
        usage_path("default", chat(app).conductor.model.key).with_name(MATRIX_NAME).write_text(text)
        await pilot.press("alt+a", "3")
        await until(lambda: "this is no matrix" in on_screen(app).replace("\n", " "))


async def test_plain_terminals_begin_with_numbers(scripted, tmp_path):
    app = scripted(settings=Settings(tmp_path / "s.toml", ascii=True))
    async with app.run_test(size=(80, 24)) as pilot:
        await open_lab(pilot)
        assert "forecast" in on_screen(app)
        assert on_screen(app).isascii()


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)], ids=lambda size: "x".join(map(str, size)))
@pytest.mark.parametrize("key", ["1", "2", "3"])
def test_pictures(scripted, snap_compare, size, key):
    async def see(pilot) -> None:
        await open_lab(pilot)
        await pilot.press(key)
        await pilot.pause()

    assert snap_compare(scripted(), terminal_size=size, run_before=see)
