"""What a person wishes of the model, its memory and its profile; the conversation is there again afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from colibri_tui import engine_link as link
from colibri_tui.engine_link import LinkState
from colibri_tui.profiles import check_name
from colibri_tui.turns import CHOOSE, STARTING, Turns
from colibri_tui.widgets.status_line import Stage
from engine.errors import EngineError
from engine.options import KNOB
from engine.wire import UseHistory

_WORDS: Final = {
    "ram": "a memory budget of {} GB",
    "cap": "{} expert slots a layer",
    "context": "a context of {} tokens",
}
_AUTO: Final = {
    "ram": "a memory budget of its own choice",
    "cap": "as many expert slots as fit",
    "context": "a context of its own choice",
}


class Machine(Turns):
    """The part of the conductor that starts engines."""

    _before: dict[str, Any] | None = None  # to go back to, while the engine tries others

    def use_profile(self, name: str) -> None:
        """Learn into another history from now on, and start from what was learned there."""
        model = self.model
        try:
            name = check_name(name)
            history = model.use_profile(name)
        except EngineError as error:
            self._view.tell(str(error), "warning")
            return
        self.session.profile = name
        if history is not None and self._engine.between_turns(UseHistory(*history)):
            self._view.tell(f"Profile {name}: the engine learns into it from now on.")
        elif model.folder is not None and self._load(model.reload):
            self._view.tell(f"Profile {name}: the engine restarts with what was learned there.")
        self._view.state_changed()

    def restart(self, *, smaller: bool = False) -> None:
        """Load the same model again, perhaps within less memory."""
        if self.model.folder is None:
            return
        if smaller:
            budget = self.model.shrink()
            self._view.tell(f"The engine restarts with a memory budget of {budget:.1f} GB.")
        self._load(self.model.reload)
        self._view.state_changed()

    def reconfigure(self, name: str, text: str) -> None:
        """Change an option that decides about memory, and restart the engine with it; without text, tell what holds.

        What cannot be had is refused by the engine, and the old options hold again.
        """
        model = self.model
        if not text:
            self._view.tell(f"The engine has {_described(name, getattr(model.options, name))}; /{name} changes it.")
            return
        try:
            value = KNOB[name].parse(text, f"/{name}")
        except EngineError as error:
            self._view.tell(f"{error}.", "warning")
            return
        before = model.change(name, value)
        if model.folder is None:
            self._view.tell(f"The engine will start with {_described(name, value)}.")
            return
        self._before = before
        if self._load(model.reload):
            self._view.tell(f"The engine restarts with {_described(name, value)}; the conversation stays.")
        self._view.state_changed()

    def restart_with(self, changes: dict[str, Any]) -> bool:
        """Load the same model with other options than flags, environment and settings say; tell if that is refused."""
        self._before, self.model.changes = self.model.changes, changes
        loads = self._load(self.model.reload)
        self._view.state_changed()
        return loads

    def borrow(self, prompt: str, most: int, *, greedy: bool) -> int:
        """Have a prompt answered that is no part of the conversation, in `most` tokens; return the turn's number.

        0 if the engine cannot answer now.
        """
        if self._engine.state is not LinkState.READY or self._engine.defaults is None:
            return 0
        self._keeper.leave()
        self._keeper.lost()
        if self.model.telemetry is not None:
            self.model.telemetry.begin_turn()
        sampling = replace(self._engine.defaults, max_tokens=most)
        if greedy:
            sampling = replace(sampling, temperature=0.0)
        return self._engine.chat([{"role": "user", "content": prompt}], sampling)

    def stop_borrowed(self) -> None:
        """Stop a turn that is no part of the conversation."""
        if self.session.running is None and self._engine.state is LinkState.BUSY:
            self._engine.stop()

    def _load(self, load: Callable[[], None]) -> bool:
        """Start the engine; if it cannot be, tell why and return False."""
        self._cut_short()
        self._keeper.leave(restarts=True)
        try:
            load()
        except EngineError as error:
            self._view.tell(str(error), "error", (CHOOSE,))
            return False
        self._keeper.lost()
        self.last_turn = None
        self._turn = 0
        self._progress = STARTING
        self._set(Stage.LOADING)
        self._view.model_changed()
        return True

    def _hear_ready(self, message: link.EngineReady) -> None:
        """The model is loaded."""
        self._before = None
        super()._hear_ready(message)

    def _hear_refusal(self, message: link.EngineError) -> None:
        """The model cannot be loaded; if it could with other options a moment ago, those hold again."""
        before, self._before = self._before, None
        if before is None:
            super()._hear_refusal(message)
            return
        self._view.tell(message.text, "error")
        self.model.changes = before
        if self._load(self.model.reload):
            self._view.tell("The engine restarts as it was before.")
        self._view.state_changed()

    def _is_idle(self) -> bool:
        if self._engine.state is LinkState.READY:
            return True
        self._view.tell(f"Not now: {self._stage.value}.")
        return False


def _described(name: str, value: float | None) -> str:
    return _AUTO[name] if value is None else _WORDS[name].format(f"{value:,.10g}" if name == "ram" else f"{value:,}")
