import json
from dataclasses import replace

import pytest

from colibri_tui import practice
from colibri_tui.practice import OWN, WORKLOADS, Totals, begin, load, save, verdict
from engine.errors import EngineError
from engine.events import Hits
from tests.tui.scripted_link import TURN


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_workload_holds_some_prompts_out(workload):
    run = begin(workload)
    assert len(run.prompts) > len(run.held_out) > 0
    assert not set(run.prompts) & set(run.held_out)
    assert all(run.prompts + run.held_out)


def test_a_persons_own_prompts_are_paragraphs():
    run = begin(OWN, "one\nmore\n\n  two \n\n\nthree")
    assert (run.prompts, run.held_out) == (["one\nmore", "two"], ["three"])


@pytest.mark.parametrize(
    ("own", "why"), [("", "at least two"), ("one", "at least two"), ("x\n\n" + "y" * 30_000, "at most 64")]
)
def test_too_few_or_too_long_prompts_are_refused(own, why):
    with pytest.raises(EngineError, match=why):
        begin(OWN, own)


def test_it_goes_on_where_it_was_left(tmp_path):
    path = tmp_path / "deep" / "practice.json"
    run = begin("chat")
    run.learned, run.off = 2, Totals(1, 2, 3, 4, 5, 6.5, 7)
    save(path, run)
    assert load(path) == run
    assert [load(path).stage, replace_learned(run).stage] == ["learn", "on"]


def replace_learned(run):
    return replace(run, learned=len(run.prompts))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"workload": "x", "prompts": 3}', "null"])
def test_what_is_not_understood_was_never_begun(tmp_path, text):
    (tmp_path / "p.json").write_text(text)
    assert load(tmp_path / "p.json") is None
    assert load(tmp_path / "nothing.json") is None


def test_broken_totals_are_not_understood(tmp_path):
    run = begin("chat")
    save(tmp_path / "p.json", run)
    data = json.loads((tmp_path / "p.json").read_text())
    for totals in ({"pin": 1}, {"pin": "x"}, 3):
        (tmp_path / "p.json").write_text(json.dumps({**data, "off": totals}))
        assert load(tmp_path / "p.json") is None


def test_where_nothing_can_be_kept_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineError, match="cannot be written"):
        save(tmp_path / "file" / "p.json", begin("chat"))


def test_stages_follow_each_other():
    run = begin("chat")
    seen = [run.stage]
    run.skip()
    seen.append(run.stage)
    run.off = Totals()
    seen.append(run.stage)
    run.on = Totals()
    assert [*seen, run.stage] == ["learn", "off", "on", "done"]


def test_totals_count_prompt_and_answer():
    totals = Totals()
    totals.add(replace(TURN, hits=Hits(1, 2, 3), prefill_hits=Hits(4, 5, 6), bytes_read=10, tokens=3, decode_s=2.0))
    assert totals == Totals(5, 7, 9, 10, 3, 2.0)
    assert totals.from_memory == 12 / 21
    assert totals.tok_s == 1.5
    assert (Totals().from_memory, Totals().tok_s) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("off", "on", "pins", "helps", "words"),
    [
        (100, 80, 5, True, "20.0 % fewer experts"),
        (100, 100, 5, False, "no difference"),
        (100, 150, 5, False, "worse: 50.0 % more"),
        (0, 0, 5, False, "Everything fits"),
        (100, 80, 0, False, "still too small"),
    ],
)
def test_the_result_is_told_as_it_is(off, on, pins, helps, words):
    result = verdict(Totals(cache=100, disk=off), Totals(cache=100, disk=on, pinned_bytes=pins))
    assert result.helps is helps
    assert any(words in line for line in result.lines)


def test_it_is_kept_beside_the_history():
    assert practice.path_for("coding", "model-1").parent == practice.usage_path("coding", "model-1").parent
