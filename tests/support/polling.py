"""Waiting for effects of foreign processes that report nothing."""

import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.support.patience import patient


def poll(condition: Callable[[], Any], deadline_s: float = 30.0) -> None:
    """Asks `condition` until it is true; fails after the deadline, which is that of a quiet machine."""
    deadline_s = patient(deadline_s)
    deadline = time.monotonic() + deadline_s
    pause = pauses(0.02)
    while not condition():
        assert time.monotonic() < deadline, f"still not true after {deadline_s:g} s"
        time.sleep(next(pause))


def pauses(first_s: float) -> Iterator[float]:
    """Seconds between two looks: each look computes, often in two processes, so those at what takes long are
    rarer."""
    while True:
        yield first_s
        first_s = min(0.1, first_s * 1.25)
