from dataclasses import replace

from colibri_tui.plan_text import plan_text
from tests.tui.scripted_link import PLAN, READY


def test_every_part_and_the_sum():
    plan = replace(
        PLAN, budget=4 * 10**9, dense=800 * 10**6, kv=50 * 10**6, runtime=200 * 10**6, work=10**7, cache=2 * 10**9,
        slots=2000, slot_bytes=10**6, cap=16, context=4096, chunk=64,
    )  # fmt: skip
    lines = plan_text(replace(READY, plan=plan)).splitlines()
    assert lines[0] == "Memory plan: 3.06 GB of a budget of 4.00 GB"
    assert "   800 MB  dense part of the model" in lines
    assert "  2.00 GB  expert cache, 16 a layer, 1.00 MB each" in lines
    assert "  50.0 MB  conversation, 4,096 tokens" in lines
    assert lines[-1].startswith("   940 MB  left of the budget")
