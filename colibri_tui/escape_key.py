"""Esc, heard at once.

A terminal sends Esc as the byte that also begins arrows and function keys: whoever hears it must wait whether more
comes. Textual (8.2) waits 100 ms, in two places that must both be shortened: its parser, and the thread that reads the
terminal, which looks at the clock only when its `select` has timed out. More than 25 ms never lie between the bytes of
one key on one machine: a terminal, and tmux, writes them at once. Over ssh, a packet may be cut in two: there it is 50,
as in other editors. `ESCDELAY` in the environment, in milliseconds, wins.

Both places are private to Textual; a test fails should they go.
"""

from __future__ import annotations

import os
import selectors
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Final

from textual import constants
from textual.drivers import linux_driver

VARIABLE: Final = "ESCDELAY"
LOCAL_SECONDS: Final = 0.025
REMOTE_SECONDS: Final = 0.05


class HasteSelector(selectors.SelectSelector):
    """Waits once for no longer than the delay after something was heard; an idle terminal wakes nobody more often."""

    _heard = False

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what can be read."""
        if self._heard and timeout is not None:
            timeout = min(timeout, constants.ESCAPE_DELAY + 0.001)
        found = super().select(timeout)
        self._heard = bool(found)
        return found


def hear_escape_at_once(environ: Mapping[str, str] = os.environ) -> None:
    """Shorten Textual's wait; to be called before an application begins to read the terminal."""
    if VARIABLE not in environ:
        remote = "SSH_CONNECTION" in environ or "SSH_TTY" in environ
        setattr(constants, "ESCAPE_DELAY", REMOTE_SECONDS if remote else LOCAL_SECONDS)  # noqa: B010 - it is Final
    names = {name: getattr(selectors, name) for name in ("EVENT_READ", "SelectorKey")}
    setattr(linux_driver, "selectors", SimpleNamespace(SelectSelector=HasteSelector, **names))  # noqa: B010
