"""How transformers' routers tell what they decided, family by family, and how clear a decision was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

_PLACES = ("mlp.gate", "mlp.router", "feed_forward.gate", "feed_forward.router", "block_sparse_moe.router", "router")


@dataclass(frozen=True)
class Router:
    """A layer's router. bias: what is added to its scores before the choice."""

    module: Any
    bias: torch.Tensor | None

    def read(self, output: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(logits, weights, ids) from what the module returned, a row a token."""
        kind = type(self.module).__name__
        if kind == "JetMoeTopKGating":
            logits = output[-1]
            chosen, ids = logits.topk(self.module.top_k, dim=-1)
            return logits, chosen.softmax(-1), ids
        if kind == "Llama4Router":
            scores, logits = output
            ids = logits.topk(self.module.top_k, dim=-1)[1]
            return logits, scores.gather(1, ids), ids
        if kind == "Gemma4TextRouter":
            probabilities, weights, ids = output
            return probabilities.log(), weights, ids
        logits, weights, ids = output
        return logits, weights, ids

    def gaps(self, logits: torch.Tensor, chosen: int) -> np.ndarray:
        """By row: how far the choice is from another one, in scores."""
        kind = type(self.module).__name__
        if kind == "PhimoeTopKRouter":
            return np.minimum(
                distance(logits.softmax(-1), chosen), _sparsemixer(logits, self.module.router_jitter_noise)
            )
        soft = self.bias is None or kind == "Ernie4_5_MoeTopKRouter"
        scores = logits.float().softmax(-1) if soft else logits.float().sigmoid()
        if self.bias is not None:
            scores = scores + self.bias
        if getattr(self.module, "num_group", 1) == 1:
            return distance(scores, chosen)
        groups = scores.view(len(scores), self.module.num_group, -1)
        sums = groups.topk(1 if soft else 2, dim=-1)[0].sum(-1)
        best = sums.topk(self.module.topk_group, dim=-1)[1]
        allowed = torch.zeros_like(sums).scatter_(1, best, 1).bool().unsqueeze(-1).expand_as(groups)
        within = distance(groups.masked_fill(~allowed, -torch.inf).reshape_as(scores), chosen)
        return np.minimum(within, distance(sums, self.module.topk_group))


def router_of(layer: Any) -> Router:
    """The router of a decoder layer."""
    for place in _PLACES:
        module, parent = layer, None
        for name in place.split("."):
            module, parent = getattr(module, name, None), module
        if module is not None:
            break
    else:
        raise SystemExit(f"{type(layer).__name__} has no router where one is looked for")
    biases = (
        getattr(module, "e_score_correction_bias", None),
        getattr(getattr(module, "moe_statics", None), "e_score_correction_bias", None),
        getattr(parent, "e_score_correction_bias", None),
        getattr(parent, "expert_bias", None),
    )
    return Router(module, next((bias.reshape(-1) for bias in biases if bias is not None), None))


def distance(scores: torch.Tensor, chosen: int) -> np.ndarray:
    """Between the `chosen`-th and the next score of each row."""
    if chosen == scores.shape[1]:
        return np.full(len(scores), np.inf)
    ordered = scores.sort(dim=-1, descending=True)[0]
    return np.asarray((ordered[:, chosen - 1] - ordered[:, chosen]).numpy())


def _sparsemixer(logits: torch.Tensor, jitter: float) -> np.ndarray:
    """Between an expert's distance from the best and the limit up to which it shares the weight, for both choices."""
    left, nearest = logits.clone(), torch.full((len(logits),), torch.inf)
    for _ in range(2):
        best, at = left.max(-1, keepdim=True)
        spread = ((best - logits) / logits.abs().clamp(min=best) - 2 * jitter).abs()
        nearest = torch.minimum(nearest, spread.masked_fill(left == -torch.inf, torch.inf).min(-1)[0])
        left = left.scatter(1, at, -torch.inf)
    return np.asarray(nearest.numpy())
