"""The parts of the broker that shipped reflexes use."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from broker_app.telemetry.event_log import EventLog


@dataclass(frozen=True, slots=True)
class Context:
    """`name` is that of this broker, `data` its directory. `main_active` returns the addresses of another
    broker that holds the lease of the journal, None if there is none. `clock` is monotonic, `time` since
    1970, both in seconds."""

    name: str
    data: Path
    events: EventLog
    main_active: Callable[[], str | None]
    clock: Callable[[], float] = time.monotonic
    time: Callable[[], float] = time.time
