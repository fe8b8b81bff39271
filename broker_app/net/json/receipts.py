"""Settling by a JSON session: commands whose answer is reported when it comes."""

from __future__ import annotations

from collections.abc import Callable

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.message import Message
from broker_app.engine.client import EngineClient, ReplyReceiver
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.requests import within
from broker_app.net.json import events
from broker_app.net.json import operations as o
from broker_app.net.json.outbox import Outbox
from broker_app.net.rest.messages.settle import dead_reason_of


class _Answer:
    """Reports the answer of the engine to the client: `done` if the operation had a `ref`, or the problem."""

    def __init__(self, engine_client: EngineClient, outbox: Outbox, ref: str | None) -> None:
        self._engine_client = engine_client
        self._outbox = outbox
        self._ref = ref

    def accepted(self, message: Message | None) -> None:
        self._engine_client.forget(self)
        if self._ref is not None:
            self._outbox.put(events.encode(events.Done(ref=self._ref)))

    def refused(self, refusal: Refused) -> None:
        self._engine_client.forget(self)
        self._outbox.put(events.with_problem(events.Problem(ref=self._ref), refusal))

    def failed(self, error: Exception) -> None:
        if isinstance(error, Refused):
            self._outbox.put(events.with_problem(events.Problem(ref=self._ref), error))


class Receipts:
    """Settles what one session has received. Nothing waits for the answers."""

    def __init__(self, engine_client: EngineClient, outbox: Outbox, limits: RestLimits) -> None:
        self._engine_client = engine_client
        self._outbox = outbox
        self._limits = limits

    def submit(self, make: Callable[[ReplyReceiver], c.Command], ref: str | None) -> None:
        """Submit the command that `make` makes of who receives its answer."""
        client = self._engine_client
        client.check_alive()
        answer = _Answer(client, self._outbox, ref)
        client.watch(answer)
        client.submit(make(answer))

    def acknowledge(self, operation: o.Ack, user: str) -> None:
        """Acknowledge a message. Raises Refused for a wrong receipt."""
        client = self._engine_client
        tags = [client.leases.tag_of(operation.receipt, user)]
        self.submit(lambda answer: c.Settle(client.peer, tags, receipt=answer), operation.ref)
        client.leases.remember_settled(tags)

    def nack(self, operation: o.Nack, user: str) -> None:
        """Return a message, to its place or to the dead letters."""
        client = self._engine_client
        tags = [client.leases.tag_of(operation.receipt, user)]
        dead_reason, delay_ms = dead_reason_of(operation, "")
        self.submit(
            lambda answer: c.Return(
                client.peer,
                tags,
                dead_reason=dead_reason,
                detail=operation.reason,
                receipt=answer,
                delay_ms=delay_ms,
            ),
            operation.ref,
        )
        client.leases.remember_settled(tags)

    def extend(self, operation: o.Extend, user: str) -> None:
        """Renew the lease of a message."""
        client = self._engine_client
        tags = [client.leases.tag_of(operation.receipt, user)]
        lease_ms = round(within("/extend_s", operation.extend_s, 1, self._limits.max_lease_s) * 1000)
        self.submit(lambda answer: c.Extend(client.peer, tags, lease_ms, answer), operation.ref)
