"""Esc is heard after 25 ms, and nothing wakes more often for it."""

import os
import selectors
import threading

import pytest
from textual import constants
from textual.drivers import linux_driver

from colibri_tui.escape_key import LOCAL_SECONDS, REMOTE_SECONDS, hear_escape_at_once


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch):
    monkeypatch.setattr(constants, "ESCAPE_DELAY", constants.ESCAPE_DELAY)
    monkeypatch.setattr(linux_driver, "selectors", selectors)


@pytest.mark.parametrize(
    ("environ", "delay"),
    [({}, LOCAL_SECONDS), ({"SSH_TTY": "/dev/pts/1"}, REMOTE_SECONDS), ({"SSH_CONNECTION": "a b"}, REMOTE_SECONDS)],
)
def test_the_wait_is_as_long_as_a_key_may_take(environ, delay):
    hear_escape_at_once(environ)
    assert delay == constants.ESCAPE_DELAY


def test_what_the_environment_says_wins(monkeypatch):
    monkeypatch.setattr(constants, "ESCAPE_DELAY", 0.3)
    hear_escape_at_once({"ESCDELAY": "300"})
    assert constants.ESCAPE_DELAY == 0.3


@pytest.mark.parametrize(("sent", "keys"), [(b"\x1b", ["escape"]), (b"\x1b[A", ["up"]), (b"a", ["a"])])
def test_textuals_own_thread_waits_only_so_long(monkeypatch, sent, keys):
    """All that it asks of the system: to wait, at first for as long as ever, and after a byte for the delay."""
    hear_escape_at_once({})
    asked = []
    select = selectors.SelectSelector.select
    monkeypatch.setattr(
        selectors.SelectSelector, "select", lambda self, timeout: (asked.append(timeout), select(self, timeout))[1]
    )
    read, write = os.pipe()
    driver = linux_driver.LinuxDriver.__new__(linux_driver.LinuxDriver)
    driver.fileno, driver._debug, driver.exit_event = read, False, threading.Event()
    heard = []

    def hear(message):
        heard.append(message.key)
        driver.exit_event.set()

    driver.process_message = hear
    os.write(write, sent)
    try:
        driver.run_input_thread()
    finally:
        os.close(read)
        os.close(write)
    assert heard == keys
    within = [timeout for timeout in asked[1:] if timeout > LOCAL_SECONDS + 0.01]
    assert asked[0] == 0.1
    assert len(within) <= 1, "but for a last look when the thread ends"
