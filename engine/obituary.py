"""What a dead engine process died of, in one line: exit status, the kernel's counters, its last words."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .control_groups import memory_groups

_LONGEST: Final = 300
_FRAME = re.compile(r'^  File "(?P<file>[^"]*)", line (?P<line>\d+) in (?P<function>.*)$', re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def one_line(text: str) -> str:
    """Return text without line breaks and control characters, shortened: fit for a screen."""
    line = _CONTROL.sub(" ", text).strip()
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def oom_kills() -> int:
    """Return how many processes the kernel has killed for want of memory, here and in our control groups.

    Only the difference of two calls means anything. 0 where the system does not tell.
    """
    return sum(_counted(path) for path in _counter_files())


def explain(code: int, log: str, *, out_of_memory: bool, ram: float | None) -> str:
    """Return why a process ended.

    code: as `subprocess` gives it, negative for a signal. log: the tail of what it printed. out_of_memory:
    whether `oom_kills` grew while it ran. ram: its memory budget in GB, if known.
    """
    words = one_line(last_words(log))
    smaller = "restart it with a smaller memory budget (--ram" + (f"; it had {ram:.1f} GB)" if ram else ")")
    if code == -signal.SIGKILL:
        certainty = "out of memory" if out_of_memory else "out of memory, most likely"
        return f"the engine was killed: {certainty}; {smaller}"
    if code in (128 + signal.SIGTERM, 128 + signal.SIGHUP):
        return f"the engine was told to end by something outside; if memory was short, {smaller}"
    if code < 0:
        where = _crash_site(log)
        return f"the engine crashed: {_signal_name(-code)}{where and ' in ' + where}; restart it"
    if "MemoryError" in words:
        return f"the engine ran out of memory ({words}); {smaller}"
    said = f": {words}" if words else " and left no word"
    return f"the engine stopped unexpectedly (exit code {code}){said}"


def last_words(log: str) -> str:
    """Return the last line that says something: of a Python traceback, the error itself."""
    lines = [line for line in log.splitlines() if line.strip() and not line.startswith((" ", "\t"))]
    return lines[-1] if lines else ""


def _crash_site(log: str) -> str:
    """Return 'function (file:line)' of the innermost frame in faulthandler's dump, '' without one."""
    dump = log.rpartition("Current thread")[2]
    frame = _FRAME.search(dump)
    return one_line(f"{frame['function']} ({Path(frame['file']).name}:{frame['line']})") if frame else ""


def _signal_name(number: int) -> str:
    name = signal.strsignal(number) if number in signal.valid_signals() else None
    return (name or f"signal {number}").lower()


def _counter_files() -> Iterator[Path]:
    yield Path("/proc/vmstat")
    for group in memory_groups():
        yield from (group / "memory.events", group / "memory.oom_control")


def _counted(path: Path) -> int:
    try:
        text = path.read_text()
    except OSError:
        return 0
    found = re.search(r"^oom_kill (\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else 0
