"""The tensors of a checkpoint that nobody has asked for yet."""

from __future__ import annotations

from ..checkpoint.index import Checkpoint, TensorEntry
from ..errors import CheckpointError
from .gguf_names import renamed
from .spec import ModelSpec, Quantisation


class Unclaimed:
    """Tensors by name, from which they are taken one after another; left: those that still are there."""

    def __init__(self, checkpoint: Checkpoint, spec: ModelSpec) -> None:
        self.checkpoint, self.spec = checkpoint, spec
        self.left = renamed(checkpoint.tensors, spec) if checkpoint.metadata else dict(checkpoint.tensors)

    def has(self, name: str) -> bool:
        """Whether a tensor is there and was not taken."""
        return name in self.left

    def dtype(self, name: str) -> str | None:
        """The dtype of a tensor that is there and was not taken."""
        entry = self.left.get(name)
        return entry.dtype if entry else None

    def take(self, name: str) -> TensorEntry | None:
        """Take a tensor if it is there."""
        return self.left.pop(name, None)

    def need(self, name: str) -> TensorEntry:
        """Take a tensor that must be there."""
        entry = self.left.pop(name, None)
        if entry is None:
            raise CheckpointError(
                f"{self.checkpoint.folder}: tensor {name} is missing; the download is not complete, or this is not "
                f"a {self.spec.family} checkpoint"
            )
        return entry

    def quantisation(self, entry: TensorEntry, *methods: str) -> Quantisation:
        """What the config says of tensors like `entry`, which only come of these methods."""
        found = self.spec.quantisation
        if found is None or found.method not in methods:
            raise CheckpointError(
                f"{entry.file.name}: tensor {entry.name} is quantised by {' or '.join(methods)}, but config.json's "
                "quantization_config does not say so; download it again"
            )
        return found
