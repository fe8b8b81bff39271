"""Applies the changes of destinations that other brokers have made to the configuration of this one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from broker_app.base.events import NOT_APPLIED, NOT_DELETED
from broker_app.base.internal_errors import internal_errors
from broker_app.base.refused import Refused
from broker_app.core.commands import DeleteQueue
from broker_app.core.destination import has_wildcard
from broker_app.engine.client import EngineClient
from broker_app.features.cluster.record.destination_changes import Applied, WantedValues

log = logging.getLogger(__name__)

_RETRY_S: Final = 1.0
_QUEUE_PREFIX: Final = "/queue/"


class Configuration(Protocol):
    """The configuration of this broker. Its methods block; they raise Refused while it cannot be used."""

    def apply(self, broker: str, wanted: Mapping[str, WantedValues]) -> Applied:
        """Write rows as `broker` has changed them, those that can be written."""

    def removed_since(self, version: int) -> list[str]:
        """The rows that were removed after this version."""


class NoConfiguration:
    """A configuration that cannot be changed: that of a broker which was started without a database."""

    def apply(self, broker: str, wanted: Mapping[str, WantedValues]) -> Applied:
        return Applied(0, {}, dict.fromkeys(wanted, "this broker has no configuration database"))

    def removed_since(self, version: int) -> list[str]:
        return []


class DestinationApplier:
    """`applied` is called with each outcome, `report` with an event, a name, and the facts."""

    def __init__(
        self,
        configuration: Configuration,
        client: EngineClient,
        applied: Callable[[Applied], object],
        report: Callable[..., object],
    ) -> None:
        self._configuration = configuration
        self._client = client
        self._applied = applied
        self._report = report
        self._wanted: asyncio.Queue[tuple[str, dict[str, WantedValues]]] = asyncio.Queue()

    def apply(self, broker: str, wanted: dict[str, WantedValues]) -> None:
        """Apply rows soon."""
        self._wanted.put_nowait((broker, wanted))

    async def run(self) -> None:
        """Apply until cancelled."""
        while True:
            broker, wanted = await self._wanted.get()
            applied = await self._written(broker, wanted)
            for name, fault in applied.faults.items():
                self._report(NOT_APPLIED, name, broker=broker, detail=fault)
                await asyncio.sleep(0)  # each is an event and a message to subscribers
            for name in applied.rows:
                if wanted[name].values is None and name.startswith(_QUEUE_PREFIX) and not has_wildcard(name):
                    await self._delete_queue(broker, name)
            self._applied(applied)

    async def _written(self, broker: str, wanted: dict[str, WantedValues]) -> Applied:
        while True:
            try:
                return await asyncio.to_thread(self._configuration.apply, broker, wanted)
            except Refused as refusal:
                log.warning("changes of broker %s are not applied yet: %s", broker, refusal.detail)
                await asyncio.sleep(_RETRY_S)
            except Exception as error:
                internal_errors.note("changes of another broker", error)
                return Applied(0, {}, dict.fromkeys(wanted, "internal error of the broker; its log has more"))

    async def _delete_queue(self, broker: str, address: str) -> None:
        """Delete a queue whose settings another broker has removed, unless it is in use here."""
        reply = self._client.pending_reply()
        self._client.submit(DeleteQueue(self._client.peer, address, force=False, receipt=reply))
        try:
            await self._client.answer(reply)
        except Refused as refusal:
            if refusal.code != "not-found":
                self._report(NOT_DELETED, address, broker=broker, detail=refusal.detail)
