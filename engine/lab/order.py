"""The order of a set of prompts: neighbours that use the same experts share reads.

Which experts a prompt will use is not known before it has run, but words tell much of it: routers look at the token
above all. Prompts that share rare tokens are taken to share experts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def likeness(prompts: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
    """How much prompts (as ids) have in common, [prompts, prompts], 0..1: the cosine of their tokens' weights.

    A token weighs by how often it stands in the prompt, and less the more prompts have it.
    """
    bags = [Counter(ids) for ids in prompts]
    spread = Counter(token for bag in bags for token in bag)
    columns = {token: place for place, token in enumerate(spread)}
    weights = np.zeros((len(bags), len(columns)))
    for row, bag in enumerate(bags):
        for token, count in bag.items():
            weights[row, columns[token]] = (1 + np.log(count)) * np.log(1 + len(bags) / spread[token])
    weights /= np.maximum(np.linalg.norm(weights, axis=1, keepdims=True), 1e-12)
    result: npt.NDArray[np.float64] = weights @ weights.T
    return result


def chain(alike: npt.NDArray[np.float64]) -> list[int]:
    """An order in which neighbours are alike: from each the likest that is left, beginning with the best start.

    alike: [prompts, prompts]. The best start is the one whose chain is likest in sum; the first one on ties.
    """
    count = len(alike)
    best, best_sum = list(range(count)), -1.0
    for start in range(count):
        order, left, total = [start], set(range(count)) - {start}, 0.0
        while left:
            following = max(sorted(left), key=lambda place: alike[order[-1], place])
            total += float(alike[order[-1], following])
            order.append(following)
            left.remove(following)
        if total > best_sum + 1e-12:
            best, best_sum = order, total
    return best
