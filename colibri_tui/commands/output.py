"""How `run` tells a turn: as text for people and pipes, or as one JSON object a line."""

from __future__ import annotations

import json
import os
import time
from typing import Final, Protocol, TextIO

import click

from engine.events import Event, Hits, Loading, Notice, Prefill, Ready, State, Token, Turn, to_json
from engine.files import reason

from ..pace import Pace
from ..render.clean import StreamCleaner, clean
from ..render.units import rate, seconds, size, tokens

_ERASE_LINE: Final = "\r\x1b[K"
_PROGRESS_S: Final = 0.1


class Output(Protocol):
    """Takes events as they come.

    Raises BrokenPipeError when the reader has gone, click.ClickException when the disk is full or the like.
    """

    def tell(self, event: Event) -> None:
        """Show an event."""


class JsonOutput:
    """The objects of the command line contract on `out`. Loading has none; it is shown as progress."""

    def __init__(self, out: TextIO, progress: Progress) -> None:
        self._out, self._progress = out, progress

    def tell(self, event: Event) -> None:
        """Print an event's object."""
        if isinstance(event, Loading):
            self._progress.show(event.stage, event.done, event.total)
            return
        self._progress.clear()
        _put(self._out, json.dumps(to_json(event)) + "\n")


class TextOutput:
    """The answer on `out`; notices and the turn's figures on `err`, unless `quiet`.

    A terminal gets nothing that it would obey; a file or a pipe gets the answer as it is. reasoning: what is thought
    before the answer is printed as well, between `<think>` and `</think>`.
    """

    def __init__(self, out: TextIO, err: TextIO, progress: Progress, *, quiet: bool, reasoning: bool = False) -> None:
        self._out, self._err, self._progress, self._quiet = out, err, progress, quiet
        self._shows_reasoning = reasoning
        self._thought = 0  # tokens before the answer's first word
        self._thinking = False
        self._cleaner = StreamCleaner() if out.isatty() else None
        self._line_open = False

    def tell(self, event: Event) -> None:
        """Show an event."""
        match event:
            case Loading(stage, done, total):
                self._progress.show(stage, done, total)
            case Prefill(done, total):
                self._progress.show("reading the prompt", done, total)
            case Token():
                self._tell_token(event)
            case Notice(text):
                self._remark(text)
            case State():
                self._remark(state_line(event))
            case Ready():
                self._progress.clear()
            case Turn():
                self._write(self._cleaner.finish() if self._cleaner else "")
                silent = self._thinking
                self._end_reasoning()
                if self._line_open:
                    self._write("\n")
                self._remark(summary(event) + (", no answer after the reasoning" if silent else ""))

    def _tell_token(self, token: Token) -> None:
        if token.reasoning:
            if not self._thinking and self._shows_reasoning:
                self._write("<think>\n")
            self._thinking = True
            self._thought += 1
            if self._shows_reasoning:
                text = token.reasoning if self._line_open else token.reasoning.lstrip("\n")
                self._write(self._cleaner.feed(text) if self._cleaner else text)
            else:
                self._progress.show(f"thinking, {tokens(self._thought)}", 0, 0)
        if token.text:
            self._end_reasoning()
            self._write(self._cleaner.feed(token.text) if self._cleaner else token.text)

    def _end_reasoning(self) -> None:
        if self._thinking and self._shows_reasoning:
            self._write(("\n" if self._line_open else "") + "</think>\n\n")
        self._thinking = False

    def _write(self, text: str) -> None:
        self._progress.clear()
        if text:
            _put(self._out, text)
            self._line_open = not text.endswith("\n")

    def _remark(self, text: str) -> None:
        self._progress.clear()
        if not self._quiet:
            if self._line_open and self._out.isatty():
                self._write("\n")
            _put(self._err, clean(text) + "\n")


class Progress:
    """One line on a terminal that says how far something is; silent elsewhere, and when told to be."""

    def __init__(self, err: TextIO, *, quiet: bool = False) -> None:
        self._err, self._visible = err, err.isatty() and not quiet
        self._shown = False
        self._due = 0.0
        self._pace = Pace()

    def show(self, stage: str, done: int, total: int) -> None:
        """Say that `done` of `total` of a stage are done; not more often than one can read."""
        now = time.monotonic()
        if not self._visible or now < self._due:
            return
        self._due = now + _PROGRESS_S
        share = f" {100 * done // total} %" if total else ""
        self._put(stage + share)

    def loading(self, event: Loading | Notice) -> None:
        """Say how far an engine is loaded; notices are left out."""
        if isinstance(event, Loading):
            self.show(event.stage, event.done, event.total)

    def show_bytes(self, stage: str, done: int, total: int) -> None:
        """The same for bytes, with their speed and the time that is left."""
        text = self._pace.told(stage, done, total)
        now = time.monotonic()
        if self._visible and now >= self._due:
            self._due = now + _PROGRESS_S
            self._put(text)

    def _put(self, text: str) -> None:
        _put(self._err, f"{_ERASE_LINE}{clean(text)}")
        self._shown = True

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            _put(self._err, _ERASE_LINE)
            self._shown, self._due = False, 0.0


def _put(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        # What is still in the stream's buffer must not be tried again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        raise click.ClickException(f"the output cannot be written: {reason(error)}") from error


def state_line(state: State) -> str:
    """Return what became of a context in one line."""
    done = "kept" if state.done == "saved" else "restored"
    return state.error or f"context {done}: {state.tokens:,} token{'s' * (state.tokens != 1)}, {size(state.nbytes)}"


def summary(turn: Turn) -> str:
    """Return a turn's figures in one line, and whether the answer was cut."""
    parts = [tokens(turn.tokens)]
    if turn.tok_s:
        parts.append(rate(turn.tok_s))
    if turn.tokens:
        parts.append(f"first token after {seconds(turn.ttft_s)}")
    if turn.hits.total:
        parts.append(f"experts {_shares(turn.hits)}")
    if turn.stop == "length":
        parts.append("cut at the token limit (--max-tokens, --context)")
    if turn.stop == "user":
        parts.append("interrupted")
    return ", ".join(parts)


def _shares(hits: Hits) -> str:
    pin, cache, disk = (100 * count / hits.total for count in (hits.pin, hits.cache, hits.disk))
    return f"{pin:.0f} % pinned, {cache:.0f} % cached, {disk:.0f} % from disk"
