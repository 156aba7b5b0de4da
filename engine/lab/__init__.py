"""Experiments with what a cache learns: recorded once on the real model, replayed with the engine's own placement code.

Routing does not depend on placement, so a turn that was recorded once tells exactly what the engine would have counted
with any other cache, any pins and any order of turns. What is lossy changes the routing and is run for itself.
"""
