"""The used part of the space for the journal, and the report that it is nearly full."""

from __future__ import annotations

import shutil

from broker_app.base.events import HAS_SPACE, NEARLY_FULL
from broker_app.config import Config
from broker_app.journal.port import Journal
from broker_app.telemetry.event_log import EventLog

#: percents at which the report begins, and ends, so that it does not come and go with each message
_BEGINS, _ENDS = 80, 75


class StoreUsage:
    """Notes in the event log when the space is nearly full, and when it no longer is."""

    def __init__(self, config: Config, journal: Journal, events: EventLog) -> None:
        self._config = config
        self._journal = journal
        self._events = events
        #: a sentence while the space is nearly full; else empty
        self.nearly_full = ""

    def share(self) -> float:
        """The used part, from 0 to 1, of the space for the journal: of its limit, or else of the disk."""
        journal = self._journal.statistics()
        if self._config.max_store_bytes:
            return journal["bytes_stored"] / self._config.max_store_bytes
        on_disk = journal["bytes_on_disk"]
        if self._config.journal is None:
            free = shutil.disk_usage(self._config.data / "journal").free
        elif "bytes_free" in journal:
            free = journal["bytes_free"]
        else:
            return 0.0  # a store that does not report its space
        return on_disk / max(1, on_disk + free)

    def check(self) -> None:
        """Note a change; called once a second."""
        percent = 100 * self.share()
        if percent >= _BEGINS and not self.nearly_full:
            self.nearly_full = (
                f"the journal uses {percent:.0f} % of its space: consume or purge messages, or give it more, "
                "or messages will be refused"
            )
            self._events.report(NEARLY_FULL, "journal", detail=self.nearly_full)
        elif percent < _ENDS and self.nearly_full:
            self.nearly_full = ""
            self._events.report(HAS_SPACE, "journal", percent=percent)
