"""Computes what `test_families` expects, with transformers in float32. Run by hand:

    python -m tests.oracle.make_expected [CASE ...]

in an environment of its own with torch 2.13 and transformers 5.24 (the tests need neither). Writes `expected/CASE.npz`:

    fingerprint       of the case, so that a changed case is noticed
    input_ids         uint16 [T]
    logits            float32 [T, vocab]
    greedy_ids        uint16 [24]
    router_ids.L      uint8 [T + 23, k], ascending: layer L over the prompt and all but the last greedy token
    router_weights.L  float32 [T + 23, k]: the factors really applied, in that order
    router_gap        the least distance, in selection scores, between the last expert chosen and the first that was not
    greedy_gap        the least distance between the best and the second logit

and `expected/configs.json`: every case's config as transformers writes it back, a second spelling of the same model.

A prompt is drawn token by token until no choice of experts hangs on a rounding error (GAP), nor one of an indexer's
keys (INDEX_GAP), and so is its end until no greedy choice does (GREEDY_GAP): then equal ids are a fair demand on an
engine that sums in another order.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from . import routers
from .cases import CASES
from .checkpoints import Case, is_extra, is_sparse, layer_count, vocab_size, write

EXPECTED = Path(__file__).parent / "expected"
GREEDY = 24
GAP = 1e-3
INDEX_GAP = 3e-5
"""Between scores that deviate by about 1. There are too many choices of keys to ask for more."""

GREEDY_GAP = 0.05
DISTINCT = 8
"""A greedy answer has at least so many different tokens: one that only repeats itself would test little."""

REFERENCE = {"kimi_k2": "deepseek_v3"}
"""Model types that transformers knows by another name."""

PROMPT_TRIES = 400
ANSWER_TRIES = 3000


class Routing:
    """What the routers decided in one forward: by layer, ids and weights [rows, k] and the gap of every row.

    index_gaps and attention_gaps: likewise, of layers with an indexer and of attentions that have experts.
    """

    def __init__(self) -> None:
        self.ids: dict[int, np.ndarray] = {}
        self.weights: dict[int, np.ndarray] = {}
        self.gaps: dict[int, np.ndarray] = {}
        self.index_gaps: dict[int, np.ndarray] = {}
        self.attention_gaps: dict[int, np.ndarray] = {}

    def narrow(self) -> np.ndarray:
        """Rows in which some choice is too close."""
        close = np.min([*self.gaps.values(), *self.attention_gaps.values()], axis=0) < GAP
        for gaps in self.index_gaps.values():
            close |= gaps < INDEX_GAP
        return np.flatnonzero(close)


class Reference:
    """A checkpoint in transformers, float32, eager attention and experts."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case = case
        self.model, report = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=torch.float32,
            attn_implementation="eager",
            experts_implementation="eager",
            output_loading_info=True,
        )
        self.model.eval()
        stray = [key for key in report["unexpected_keys"] if not is_extra(case.config, key)]
        missing = [key for key in report["missing_keys"] if not is_extra(case.config, key)]
        assert not missing, missing
        assert not report["mismatched_keys"], report["mismatched_keys"]
        assert not stray, stray
        body = self.model.model  # composite models keep their text model in it
        self.decoder = getattr(body, "language_model", body).layers
        self.layers = [n for n in range(layer_count(case.config)) if is_sparse(case.config, n)]

    @contextmanager
    def _listening(self) -> Iterator[Routing]:
        routing = Routing()
        hooks = []
        for layer in self.layers:
            router = routers.router_of(self.decoder[layer])

            def listen(_module: Any, _inputs: Any, output: Any, layer: int = layer, router: Any = router) -> None:
                logits, weights, ids = router.read(output)
                order = ids.argsort(dim=-1)
                routing.ids[layer] = ids.gather(1, order).numpy()
                routing.weights[layer] = weights.gather(1, order).numpy()
                routing.gaps[layer] = router.gaps(logits, ids.shape[1])

            hooks.append(router.module.register_forward_hook(listen))
            attention = getattr(self.decoder[layer], "self_attention", None)
            if attention is not None:
                hooks.append(attention.experts.router.register_forward_hook(_attention_listener(layer, routing)))
        with ExitStack() as stack:
            for hook in hooks:
                stack.callback(hook.remove)
            for number, layer in enumerate(self.decoder):
                indexer = getattr(getattr(layer, "self_attn", None), "indexer", None)
                if indexer is not None:
                    stack.enter_context(_indexing(indexer, number, routing))
            yield routing

    @torch.no_grad()
    def run(self, ids: list[int]) -> tuple[np.ndarray, Routing]:
        """Logits of all positions and the routing of a fresh forward."""
        with self._listening() as routing:
            logits = self.model(torch.tensor([ids]), use_cache=False).logits[0]
        return logits.numpy(), routing


def _attention_listener(layer: int, routing: Routing) -> Any:
    """Note how far apart an attention's experts are, where it has any (JetMoE)."""

    def listen(module: Any, _inputs: Any, output: Any) -> None:
        gaps = routers.distance(output[-1].softmax(-1), module.top_k)
        routing.attention_gaps[layer] = gaps

    return listen


@contextmanager
def _indexing(indexer: Any, layer: int, routing: Routing) -> Iterator[None]:
    """Note how far apart the scores are between which an indexer draws the line."""
    forward, topk = indexer.forward, torch.Tensor.topk

    def measured(scores: torch.Tensor, k: int, dim: int = -1) -> Any:
        gaps = routers.distance(scores[0], k)
        seen = scores[0] > torch.finfo(scores.dtype).min / 2
        routing.index_gaps[layer] = np.where(seen.sum(-1) > k, gaps, np.inf)
        return topk(scores, k, dim=dim)

    def listening(*args: Any, **kwargs: Any) -> Any:
        torch.Tensor.topk = measured
        try:
            return forward(*args, **kwargs)
        finally:
            torch.Tensor.topk = topk

    indexer.forward = listening
    try:
        yield
    finally:
        indexer.forward = forward


def draw_prompt(reference: Reference, draw: np.random.Generator) -> list[int]:
    """A prompt in which every choice of experts is clear. What comes later changes nothing earlier."""
    vocab = vocab_size(reference.case.config)
    ids = draw.integers(vocab, size=reference.case.prompt).tolist()
    for _ in range(PROMPT_TRIES):
        narrow = reference.run(ids)[1].narrow()
        if not len(narrow):
            return ids
        ids[narrow[0] :] = draw.integers(vocab, size=len(ids) - narrow[0]).tolist()
    raise SystemExit(f"{reference.case.name}: no clear prompt found; choose another seed")


def answer(reference: Reference, prompt: list[int]) -> tuple[list[int], float] | None:
    """24 greedy tokens and their least gap, or None as soon as a choice is too close."""
    ids, least = list(prompt), float("inf")
    for made in range(GREEDY):
        logits, routing = reference.run(ids)
        if len(routing.narrow()):
            return None
        second, best = np.sort(logits[-1])[-2:]
        least = min(least, float(best - second))
        if least < GREEDY_GAP:
            return None
        if made < GREEDY:
            ids.append(int(logits[-1].argmax()))
    made_ids = ids[len(prompt) :]
    return (made_ids, least) if len(set(made_ids)) >= DISTINCT else None


def make(case: Case) -> dict[str, Any]:
    """Compute and store one case; returns its config as transformers writes it."""
    with tempfile.TemporaryDirectory() as name:
        kind = case.config["model_type"]
        known = replace(case, config={**case.config, "model_type": REFERENCE.get(kind, kind)})
        reference = Reference(case, write(Path(name) / "model", known))
        saved = Path(name) / "saved"
        transformers.AutoConfig.from_pretrained(Path(name) / "model").save_pretrained(saved)
        config: dict[str, Any] = json.loads((saved / "config.json").read_text(encoding="utf-8"))
        config["model_type"] = kind
    draw = np.random.default_rng(case.seed)
    prompt = draw_prompt(reference, draw)
    for _ in range(ANSWER_TRIES):
        found = answer(reference, prompt)
        if found is not None:
            break
        prompt[-1] = int(draw.integers(vocab_size(case.config)))
        prompt[-2] = int(draw.integers(vocab_size(case.config)))
    else:
        raise SystemExit(f"{case.name}: no clear answer found; choose another seed")
    greedy, greedy_gap = found
    logits, _ = reference.run(prompt)
    _, routing = reference.run([*prompt, *greedy[:-1]])
    router_gap = float(np.min(list(routing.gaps.values())))
    arrays: dict[str, Any] = {
        "fingerprint": case.fingerprint,
        "input_ids": np.array(prompt, np.uint16),
        "logits": logits.astype(np.float32),
        "greedy_ids": np.array(greedy, np.uint16),
        "router_gap": router_gap,
        "greedy_gap": greedy_gap,
    }
    for layer in reference.layers:
        arrays[f"router_ids.{layer}"] = routing.ids[layer].astype(np.uint8)
        arrays[f"router_weights.{layer}"] = routing.weights[layer].astype(np.float32)
    np.savez_compressed(EXPECTED / f"{case.name}.npz", **arrays)
    print(
        f"{case.name}: {len(prompt)} tokens, logits deviate {logits.std():.2f}, {len(set(greedy))} of {GREEDY} tokens "
        f"differ, least gaps: router {router_gap:.1e}, greedy {greedy_gap:.2f}",
        flush=True,
    )
    return config


def main() -> None:
    """Make the cases named on the command line, or all."""
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    EXPECTED.mkdir(exist_ok=True)
    path = EXPECTED / "configs.json"
    configs = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name in sys.argv[1:] or CASES:
        configs[name] = make(CASES[name])
    kept = {name: configs[name] for name in CASES if name in configs}
    path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
