"""How latent attention's kv_b lies in memory: as what carries queries into the latent's space and values out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Heads:
    """The rows of kv_b [heads * (key + value), rank]: every head has `key` rows and then `value` rows."""

    key: int
    value: int

    def arranged(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """kv_b as [heads, (key + value) * rank]: each head's key rows transposed, [rank, key], then its value rows.

        Both are then read along their rows: the first by queries, the second by what a head gathered.
        """
        rank = rows.shape[1]
        heads = rows.reshape(-1, self.key + self.value, rank)
        keys = heads[:, : self.key].transpose(0, 2, 1).reshape(len(heads), -1)
        return np.concatenate([keys, heads[:, self.key :].reshape(len(heads), -1)], axis=1)
