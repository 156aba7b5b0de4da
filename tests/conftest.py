"""What all tests share."""

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

# How long an example takes says something about the machine, nothing about the code.
settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")


@pytest.fixture(scope="session", autouse=True)
def hangups_end_programs() -> Iterator[None]:
    """Also where the tests themselves run under nohup, which programs inherit."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
