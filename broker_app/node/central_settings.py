"""The settings of this broker, with those of a central file that is read again while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from broker_app.base.events import SETTING_CHANGED, SETTING_NOT_CHANGED, Event
from broker_app.config import Config
from broker_app.features.cluster.configuration.central_reload import Reread, compare
from broker_app.features.cluster.links import frames as f
from broker_app.telemetry.event_log import EventLog

_NAME: Final = "central file"


class SettingsSource(Protocol):
    """The settings of the process."""

    def read(self) -> Config:
        """Those that it would have after a restart. Blocks. Raises ConfigError."""

    def use(self, changes: Mapping[str, Any]) -> None:
        """Replace fields of them from now on."""


class CentralSettings:
    """Replaces settings by those of the central file. `running` are those that the node uses, which `use`
    replaces and returns; `changed` takes them all then, for the cluster."""

    def __init__(
        self,
        source: SettingsSource,
        running: Callable[[], Config],
        use: Callable[[Mapping[str, Any]], Config],
        changed: Callable[[Config], None],
        events: EventLog,
    ) -> None:
        self._source = source
        self._running = running
        self._use = use
        self._changed = changed
        self._events = events

    async def reload(self) -> Reread:
        """Read the file, and use what can be replaced. Raises ConfigError, and changes nothing then."""
        read = await asyncio.to_thread(self._source.read)
        found = compare(self._running(), read)
        self._source.use(found.changes)
        self._changed(self._use(found.changes))
        for one in found.applied:
            self._log(SETTING_CHANGED, one)
        for one in found.refused:
            self._log(SETTING_NOT_CHANGED, one)
        return found

    def _log(self, event: Event, one: f.ChangedSetting) -> None:
        self._events.report(event, _NAME, setting=one.name, running=one.running, file=one.file)
