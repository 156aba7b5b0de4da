"""What can go wrong, in the words of the person who has to fix it.

Every message is one line that names the place (file, tensor, number) and the remedy. The command line prints
it to stderr and exits with code 1; the application shows it in the transcript.
"""

from __future__ import annotations


class EngineError(Exception):
    """Anything the engine refuses or fails at; `str(error)` is one line fit to be shown.

    Names in it may come from outside, those of files too: what a terminal would obey is spelled out.
    """

    def __init__(self, text: str = "") -> None:
        super().__init__(
            text
            if text.isprintable()
            else "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
        )


class CheckpointError(EngineError):
    """A model folder that cannot be read: missing shard, wrong size, unknown or missing tensor."""


class UnsupportedModelError(EngineError):
    """A model the engine has no forward for: unknown family, unsupported quantisation or option."""


class BudgetError(EngineError):
    """The memory budget is too small for the dense part, one expert per layer and the conversation."""


class ContextOverflowError(EngineError):
    """The prompt does not fit into the context window; nothing was cut or computed."""


class ReadError(EngineError):
    """A read from the model's files failed while the model was running."""


class StateError(EngineError):
    """A conversation's state cannot be kept in a file or taken up from one; the conversation itself is not touched."""


class WorkerDiedError(EngineError):
    """The engine's process ended without being asked to."""
