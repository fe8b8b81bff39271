"""Durable subscriptions of this broker and those of the change record: which follows which.

What a client creates or deletes here is entered in the record; what others have entered is carried out here.
Those of the broker itself, whose names begin with a dollar sign, are its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from broker_app.base.events import NOT_CHANGED_YET
from broker_app.base.refused import Refused
from broker_app.core.commands import CreateSubscription, DeleteSubscription
from broker_app.core.destination import DURABLE_PREFIX
from broker_app.core.durability.records import Terms
from broker_app.core.outcome import Event, SubscriptionChanged
from broker_app.engine.client import EngineClient
from broker_app.features.cluster.record.change_record import SUBSCRIPTION, Change, Entry
from broker_app.features.cluster.record.propagation import Propagation

#: seconds until one is tried again that has consumers, or that was changed here
_RETRY_S: Final = 1.0
_OWN: Final = "$"


class SubscriptionChanges:
    """`report` is called with an event, a name, and the facts."""

    def __init__(self, propagation: Propagation, client: EngineClient, report: Callable[..., object]) -> None:
        self._propagation = propagation
        self._record = propagation.record
        self._client = client
        self._report = report
        #: names whose entry is to be carried out
        self._waiting: dict[str, None] = {}
        #: why those that were tried still wait
        self._refused: dict[str, str] = {}
        self._wanted = asyncio.Event()

    def begin(self) -> None:
        """Compare the subscriptions with the record when the broker starts. A name that the record does not
        have is new; all others follow the record."""
        named = self._client.engine.broker.destinations.named.values()
        self._propagation.note(
            _change(one.name, one.terms)
            for one in named
            if one.durable
            and not one.name.startswith(_OWN)
            and self._record.get(SUBSCRIPTION, one.name) is None
        )
        self.entries_arrived(self._record.entries())

    def on_events(self, events: Sequence[Event]) -> None:
        """Enter what clients have created and deleted."""
        changes = [
            _change(event.name, event.terms)
            for event in events
            if isinstance(event, SubscriptionChanged) and not event.name.startswith(_OWN)
        ]
        if changes:
            self._propagation.note(changes)

    def entries_arrived(self, entries: Iterable[Entry]) -> None:
        """Carry out entries of the record that differ from what is here."""
        for entry in entries:
            if entry.kind == SUBSCRIPTION and self._present(entry.name) != _terms(entry.value):
                self._waiting[entry.name] = None
                self._wanted.set()

    async def run(self) -> None:
        """Carry them out until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            for name in list(self._waiting):
                await self._carry_out(name)
            if self._waiting:
                asyncio.get_running_loop().call_later(_RETRY_S, self._wanted.set)

    async def _carry_out(self, name: str) -> None:
        if self._propagation.is_under_way(SUBSCRIPTION, name):
            return  # what a client has changed here meanwhile may be newer, and may not: it is tried again
        wanted = _terms(self._record.value(SUBSCRIPTION, name))
        try:
            await self._make_equal(name, self._present(name), wanted)
        except Refused as refusal:
            if self._refused.get(name) != refusal.detail:
                self._refused[name] = refusal.detail
                self._report(NOT_CHANGED_YET, DURABLE_PREFIX + name, detail=refusal.detail)
        else:
            self._waiting.pop(name, None)
            self._refused.pop(name, None)

    async def _make_equal(self, name: str, present: Terms | None, wanted: Terms | None) -> None:
        if present == wanted:
            return
        peer = self._client.peer
        if present is not None and (wanted is None or present[:2] != wanted[:2]):
            await self._client.ask(DeleteSubscription(peer, name, decided=True), lambda _: None)
        if wanted is not None:
            await self._client.ask(CreateSubscription(peer, name, wanted), lambda _: None)

    def _present(self, name: str) -> Terms | None:
        named = self._client.engine.broker.destinations.named.get(DURABLE_PREFIX + name)
        return named.terms if named is not None else None


def _change(name: str, terms: Terms | None) -> Change:
    return Change(SUBSCRIPTION, name, terms._asdict() if terms is not None else None)


def _terms(value: Mapping[str, Any] | None) -> Terms | None:
    """The terms of an entry."""
    if value is None:
        return None
    texts = [str(value.get(field, "")) for field in ("filter", "selector", "owner")]
    return Terms(texts[0], texts[1], value.get("shared") is True, texts[2])
