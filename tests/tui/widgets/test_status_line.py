from dataclasses import replace

import pytest

from colibri_tui.render.glyphs import ASCII, BLOCKS
from colibri_tui.widgets.status_line import Stage, Status, line, lossy_options
from engine.options import EngineOptions

FULL = Status(
    Stage.ANSWERING,
    model="OLMoE-1B-7B",
    profile="coding",
    lossy=("--topp 0.75",),
    queued=2,
    tok_s=18.43,
    ttft_s=0.84,
    context_used=2104,
    context=32768,
)


def test_everything_is_said_when_there_is_room():
    text = line(FULL, BLOCKS, 140).plain
    assert len(text) == 140
    assert text.startswith("answering  2 queued  OLMoE-1B-7B  profile coding  lossy: --topp 0.75 ")
    assert text.endswith("  18.4 tok/s  first token 0.8 s  context █░░░░░░░  2104/32768")


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80, 100])
def test_it_never_exceeds_its_width(width):
    assert line(FULL, BLOCKS, width).cell_length == width


def test_what_matters_least_goes_first():
    assert "first token" not in line(FULL, BLOCKS, 110).plain
    assert "tok/s" in line(FULL, BLOCKS, 60).plain
    narrow = line(FULL, BLOCKS, 34).plain
    assert "answering" in narrow
    assert "lossy" in narrow, "a changed answer is never unlabelled"
    assert line(FULL, BLOCKS, 5).plain == "answering"


def test_progress_stands_beside_the_state():
    assert line(Status(Stage.PROMPT, "40/90"), BLOCKS, 40).plain.startswith("reading the prompt 40/90 ")


def test_lossy_options_are_those_in_force():
    assert lossy_options(EngineOptions()) == ()
    assert lossy_options(EngineOptions(topp=0.75, topk=4)) == ("--topp 0.75", "--topk 4")


def test_names_from_outside_are_made_safe_and_short():
    text = line(replace(FULL, model="\x1b[31mred" + "x" * 60, profile=""), BLOCKS, 200).plain
    assert "\x1b" not in text
    assert "x" * 40 not in text


def test_ascii():
    assert line(FULL, ASCII, 140).plain.isascii()


def test_what_the_engine_does_not_hold_is_said_to_be_an_estimate():
    base = Status(context=100)
    for used, held, said in ((12, True, "12/100"), (12, False, "~12/100"), (0, False, "0/100"), (None, False, "?/100")):
        status = replace(base, context_used=used, context_held=held)
        assert line(status, BLOCKS, 80).plain.split()[-1] == said
