"""A plugin of pytest: the processor time of each module of tests, and of the processes that it starts.

On a machine that is busy all the time a run takes as long as it computes, so this, and not how long a test
takes, shows what makes a run long. A process that outlives a module counts for each module by what it
computed meanwhile. What a killed process has not waited for is lost: such time is missing in the figures.
"""

from __future__ import annotations

import os
import resource
from collections import defaultdict
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.forked_time import FORKED_TIME

#: where a process of pytest-xdist hands them to the one that distributes tests
OUTPUT = "processor_times"
_TICKS = os.sysconf("SC_CLK_TCK")


class ProcessorTimes:
    """Seconds by the path of the module, relative to the root."""

    def __init__(self, config: pytest.Config) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._config = config
        self._before: float | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> None:
        if self._before is None:
            self._before = computed_s()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, None, None]:
        """Adds up at the last test of a module: a browser that its fixtures end takes some of its time with
        it, so the time before that counts if it is more."""
        if nextitem is not None and nextitem.path == item.path:
            return (yield)
        running = computed_s()
        try:
            return (yield)
        finally:
            ended = computed_s()
            module = item.path.relative_to(self._config.rootpath).as_posix()
            self.seconds[module] += max(running, ended) - (self._before or 0.0)
            self._before = ended

    def pytest_sessionfinish(self) -> None:
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput[OUTPUT] = dict(self.seconds)


def computed_s() -> float:
    """Processor seconds of this process, and of all that it has started."""
    own, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    known = sum(usage.ru_utime + usage.ru_stime for usage in (own, ended)) + FORKED_TIME.ended_s
    return known + sum(map(_running_s, [*_children(os.getpid()), *FORKED_TIME.running]))


def _running_s(pid: int) -> float:
    """Seconds of a process, and of those that it has started."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has just ended
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS + sum(map(_running_s, _children(pid)))


def _children(pid: int) -> list[int]:
    """The processes that each of its threads has started. To look for them in all of `/proc` takes 12 ms, and
    each process of a run measures hundreds of modules."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found
