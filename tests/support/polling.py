"""Waiting for effects of foreign processes that report nothing."""

import time
from collections.abc import Callable
from typing import Any


def poll(condition: Callable[[], Any], deadline_s: float = 30.0) -> None:
    """Asks `condition` until it is true; fails after the deadline."""
    deadline = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < deadline, f"still not true after {deadline_s:g} s"
        time.sleep(0.02)
