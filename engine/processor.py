"""The processor that kernels run on, and how fast it reads memory."""

from __future__ import annotations

from typing import NamedTuple

from .kernels.isa import LEVELS, TARGET, available, host_features
from .kernels.limits import fresh_read_rate
from .kernels.team import Team, physical_cores
from .plan import available_memory


class Processor(NamedTuple):
    """cores: physical ones. level: of vector instructions that kernels use; best: that they could use."""

    cores: int
    level: str
    best: str

    @property
    def is_held_back(self) -> bool:
        """Whether a lower level was asked for than there is."""
        return LEVELS.index(self.level) > LEVELS.index(self.best)


def processor() -> Processor:
    """This machine's."""
    return Processor(physical_cores(), TARGET.isa, available(host_features())[0])


def memory_rate() -> float:
    """Bytes a second that all cores read together, measured now."""
    team = Team(physical_cores())
    try:
        return fresh_read_rate(team, max(64, min(512, available_memory() >> 22)))
    finally:
        team.close()
