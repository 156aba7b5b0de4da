"""The memory plan in words."""

from __future__ import annotations

from colibri_tui.render.units import size
from engine.events import Ready


def plan_text(ready: Ready) -> str:
    """Return the plan of a loaded model, a line for each part."""
    plan = ready.plan
    parts = (
        ("dense part of the model", plan.dense),
        (f"expert cache, {plan.cap} a layer, {size(plan.slot_bytes)} each", plan.cache),
        (f"conversation, {plan.context:,} tokens", plan.kv),
        (f"working memory, {plan.chunk} tokens at a time", plan.work),
        ("program and libraries", plan.runtime),
    )
    lines = [f"Memory plan: {size(plan.total)} of a budget of {size(plan.budget)}"]
    lines += [f"{size(amount):>9}  {what}" for what, amount in parts]
    lines.append(f"{size(max(0, plan.budget - plan.total)):>9}  left of the budget; {size(plan.available)} were free")
    return "\n".join(lines)
