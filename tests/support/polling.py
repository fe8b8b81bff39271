"""Waiting for effects of foreign processes that report nothing."""

import time
from collections.abc import Callable
from typing import Any

from tests.support.patience import patient


def poll(condition: Callable[[], Any], deadline_s: float = 30.0) -> None:
    """Asks `condition` until it is true; fails after the deadline, which is that of a quiet machine."""
    deadline_s = patient(deadline_s)
    deadline = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < deadline, f"still not true after {deadline_s:g} s"
        time.sleep(0.02)
