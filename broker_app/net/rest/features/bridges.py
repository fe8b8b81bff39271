"""Running bridges: their status and events, retries, and connection tests.

The control plane configures them. Administrators may do everything. Other users see the queues of a bridge
that they may browse, and may retry or test those that they may manage. Credentials are never shown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Annotated, Protocol

import msgspec

from broker_app.base.audit_actions import BRIDGE_RETRIED, BRIDGE_TESTED, OFFSET_DELETED, OFFSET_HANDED_OVER
from broker_app.base.refused import Refused
from broker_app.base.suggestions import suggestion
from broker_app.core import commands as c
from broker_app.core.destination import parse
from broker_app.core.remote.offset import address_of
from broker_app.engine.client import EngineClient
from broker_app.features.bridge.connection_test import BridgeTrial
from broker_app.features.bridge.pipe_reports import (
    FlowReport,
    Forwarding,
    PipeReport,
)
from broker_app.features.bridge.remote import Remote
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.refusals import busy, invalid
from broker_app.net.http.replies import NO_CONTENT, Reply, json_reply
from broker_app.net.http.requests import Request, boolean, whole_number
from broker_app.net.http.routing import Handlers
from broker_app.net.policy.policy import Policy
from broker_app.net.rest.features.bridge_status import (
    BridgeEvent,
    BridgeStatus,
    ForwardingStatus,
    Mark,
    shown_event,
    shown_offset,
    status,
)
from broker_app.rules.event import BROWSE, MANAGE
from broker_app.telemetry import Statistics
from mom_client.storeandforward import forwarded

#: flows of one bridge in a reply
MAX_FLOWS = 1_000
#: queues of other brokers in a reply, the newest ones
MAX_INCOMING = 1_000
#: connections that are tested at the same time
MAX_TESTS = 8


class ConnectionTester(Protocol):
    """Tests the connection to a remote broker and one of its queues."""

    def __call__(self, remote: Remote, queue: str | None) -> Awaitable[BridgeTrial]: ...


class QueueChoice(msgspec.Struct, forbid_unknown_fields=True):
    """The queue of a flow; None is the bridge with all of its flows."""

    queue: str | None = None


class Owner(msgspec.Struct, forbid_unknown_fields=True):
    """The new owner of a flow."""

    owner: Annotated[str, msgspec.Meta(min_length=1, max_length=150)]


class BridgeEndpoints:
    """Endpoints `forwarding`, `forwarding/incoming` and `bridges/{name}/status|events|retry|test`. `policy`
    returns the present one."""

    def __init__(
        self,
        engine_client: EngineClient,
        statistics: Statistics,
        forwarding: Forwarding,
        test_connection: ConnectionTester,
        policy: Callable[[], Policy],
        limits: RestLimits,
    ) -> None:
        self._engine_client = engine_client
        self._statistics = statistics
        self._forwarding = forwarding
        self._test_connection = test_connection
        self._policy = policy
        self._limits = limits
        self._tests = 0

    # ------------------------------------------------------------------ status

    def handlers(self) -> Handlers:
        """The endpoints by operation."""
        return {
            "get_forwarding": self.all,
            "forget_incoming": self.forget,
            "hand_over_incoming": self.hand_over,
            "get_bridge_status": self.status,
            "list_bridge_events": self.events,
            "retry_bridge": self.retry,
            "test_bridge": self.test,
        }

    async def all(self, request: Request) -> Reply:
        """GET forwarding: all bridges, queues without a bridge, and queues that other brokers forward here"""
        query = request.query(("flows",))
        whole = boolean(query, "flows", default=True)
        bridges = self.seen(request)
        if not whole:
            for row in bridges:
                del row["flows"]
        orphans = [one for one in self._forwarding.orphans() if _may_see(request, one["source"])]
        incoming = self._incoming() if request.access.sees_everything(request.client.identity) else []
        return json_reply({"bridges": bridges, "orphans": orphans, "incoming": incoming})

    def seen(self, request: Request) -> list[BridgeStatus]:
        """The status of all bridges that the client may see."""
        rows = [self._seen(request, report) for report in self._forwarding.reports()]
        return [row for row in rows if row is not None]

    async def status(self, request: Request) -> Reply:
        """GET bridges/{name}/status"""
        request.query()
        return json_reply(self._status(request))

    async def events(self, request: Request) -> Reply:
        """GET bridges/{name}/events: the newest first"""
        query = request.query(("limit",))
        limit = whole_number(query, "limit", 100, 1, self._limits.max_page)
        flows = {flow["queue"] for flow in self._status(request)["flows"]}
        all_of_them = request.access.sees_everything(request.client.identity)
        found = [
            shown_event(event)
            for event in reversed(self._forwarding.events_of(request.name) or ())
            if all_of_them or not event["queue"] or event["queue"] in flows
        ]
        return json_reply({"items": found[:limit], "next": None, "approx_total": len(found)})

    def _incoming(self) -> list[Mark]:
        return [shown_offset(mark) for mark in self._forwarding.incoming(MAX_INCOMING)]

    def _status(self, request: Request) -> BridgeStatus:
        """The status of the bridge of a request, as its client may see it. Raises Refused."""
        report = self._forwarding.report_of(request.name)
        row = self._seen(request, report) if report is not None else None
        if row is None:
            raise self._unseen(request)
        return row

    def _seen(self, request: Request, report: PipeReport) -> BridgeStatus | None:
        """A bridge with the flows that the client may see; None if it sees none."""
        flows = report["flows"]
        if not request.access.sees_everything(request.client.identity):
            flows = [flow for flow in flows if _may_see(request, flow["source"])]
            if not flows:
                return None
        row = status(self._statistics, {**report, "flows": flows})
        row["flows"] = row["flows"][:MAX_FLOWS]
        return row

    def _unseen(self, request: Request) -> Refused:
        """There is none, for those who may know."""
        name = request.name
        if request.access.sees_everything(request.client.identity):
            return no_such("bridge", name, self._policy().bridges)
        detail = f"{request.user} may browse no queue of a bridge {name[:80]!r}"
        return Refused("not-allowed", detail, right=BROWSE)

    # ------------------------------------------------------------------ for pages of administrators

    def whole(self) -> ForwardingStatus:
        """The status of all bridges, and the queues without one."""
        bridges = [status(self._statistics, report) for report in self._forwarding.reports()]
        orphans = list(self._forwarding.orphans())
        return {"bridges": bridges, "orphans": orphans, "incoming": self._incoming()}

    def one(self, name: str) -> tuple[BridgeStatus, list[BridgeEvent]] | None:
        """The status of a bridge and its events, the newest first; None if it does not exist."""
        report = self._forwarding.report_of(name)
        if report is None:
            return None
        events = [shown_event(event) for event in reversed(self._forwarding.events_of(name) or ())]
        return status(self._statistics, report), events

    def try_again(self, name: str, queue: str | None) -> bool:
        """Has a bridge, or one of its flows, try again now; False when there is none."""
        return self._forwarding.retry(name, queue)

    # ------------------------------------------------------------------ what is asked of them

    async def retry(self, request: Request) -> Reply:
        """POST bridges/{name}/retry: what waits for its next attempt tries now"""
        request.query()
        chosen = await request.json(QueueChoice, required=False)
        self._permit(request, chosen, "retried")
        report = self._forwarding.report_of(request.name)
        if report is None:
            raise self._unseen(request)
        if chosen.queue is not None and chosen.queue not in (known := _queues(report["flows"])):
            raise no_such(f"flow of bridge {request.name} to the queue", chosen.queue, known)
        self._forwarding.retry(request.name, chosen.queue)
        request.audit(BRIDGE_RETRIED, request.name, **_of_queue(chosen))
        return json_reply(self._status(request))

    async def test(self, request: Request) -> Reply:
        """POST bridges/{name}/test: as it is configured now"""
        request.query()
        chosen = await request.json(QueueChoice, required=False)
        self._permit(request, chosen, "tested")
        remote = self._policy().bridges.get(request.name)
        if remote is None:
            raise self._unseen(request)
        found = await self.try_remote(remote, chosen.queue)
        request.audit(BRIDGE_TESTED, request.name, **_of_queue(chosen), ok=found["ok"])
        return json_reply(found)

    async def try_remote(self, remote: Remote, queue: str | None) -> BridgeTrial:
        """Test a connection, saved or not. Raises Refused for a queue that cannot be, and when too many are
        tested."""
        _address(remote.name, queue)
        if self._tests >= MAX_TESTS:
            raise busy(f"{MAX_TESTS} connections are being tested already")
        self._tests += 1
        try:
            return await self._test_connection(remote, queue)
        finally:
            self._tests -= 1

    # ------------------------------------------------------------------ what others forward to this broker

    async def forget(self, request: Request) -> Reply:
        """DELETE forwarding/incoming: how far another broker has come with a queue is known no longer. An
        operation for administrators, because unanswered messages may be stored a second time."""
        sender, source = self._chosen_mark(self._asked_of_mark(request))
        pending_reply = self._engine_client.pending_reply()
        self._engine_client.submit(c.DeleteOffset(self._engine_client.peer, sender, source, pending_reply))
        await self._engine_client.answer(pending_reply)
        request.audit(OFFSET_DELETED, f"{sender}/{source}")
        return NO_CONTENT

    async def hand_over(self, request: Request) -> Reply:
        """PATCH forwarding/incoming: another user continues a queue of another broker, from where it has
        come. An operation for administrators, because the new owner could disturb the forwarding."""
        query = self._asked_of_mark(request)
        owner = (await request.json(Owner)).owner
        sender, source = self._chosen_mark(query)
        if owner not in (users := self._policy().users):
            raise no_such("user", owner, users)
        pending_reply = self._engine_client.pending_reply()
        self._engine_client.submit(
            c.ReassignOffset(self._engine_client.peer, sender, source, owner, pending_reply)
        )
        await self._engine_client.answer(pending_reply)
        request.audit(OFFSET_HANDED_OVER, f"{sender}/{source}", owner=owner)
        return NO_CONTENT

    def _asked_of_mark(self, request: Request) -> Mapping[str, str]:
        """The query of an administrator about a mark."""
        query = request.query(("sender", "source"))
        if not request.is_admin:
            detail = "only administrators can change the replication offsets of other brokers"
            raise Refused("not-allowed", detail, right="administer")
        return query

    def _chosen_mark(self, query: Mapping[str, str]) -> tuple[str, str]:
        """Sender and source of the mark that is meant."""
        for parameter in ("sender", "source"):
            if not query.get(parameter):
                raise invalid(
                    f"query/{parameter}", "is missing; GET /api/v1/forwarding has both in `incoming`"
                )
        sender, source = query["sender"], query["source"]
        self._check_known(sender, source)
        return sender, source

    def _check_known(self, sender: str, source: str) -> None:
        """Refused with the nearest name there is."""
        marks = self._engine_client.engine.broker.forwarding.offsets
        if address_of(sender, source) in marks:
            return
        sources = [mark.source for mark in marks.values() if mark.sender == sender]
        if sources:
            raise no_such(f"queue that {sender} forwards here called", source, sources[:MAX_INCOMING])
        senders = dict.fromkeys(mark.sender for mark in marks.values())
        raise no_such("broker that forwards here called", sender, list(senders)[:MAX_INCOMING])

    def _permit(self, request: Request, chosen: QueueChoice, done: str) -> None:
        """Raises Refused or Refused for those who neither administer nor manage the queue that is meant."""
        address = _address(request.name, chosen.queue)
        if request.is_admin:
            return
        if address is None:
            detail = f"a whole bridge is {done} by administrators; name a queue of it that you manage"
            raise Refused("not-allowed", detail, right="administer")
        request.permitted(MANAGE, address)


def no_such(what: str, name: str, known: Iterable[str]) -> Refused:
    """There is nothing of this name; the nearest one is named."""
    return Refused("not-found", f"there is no {what} {name[:100]!r}{suggestion(name, known)}")


def _address(bridge: str, queue: str | None) -> str | None:
    """The queue here of a flow. Raises Refused for names that cannot be."""
    if queue is None:
        return None
    try:
        return forwarded(bridge, queue).address
    except ValueError as error:
        raise invalid("/queue", str(error), queue) from None


def _may_see(request: Request, source: str) -> bool:
    return request.access.allows(request.client, BROWSE, parse(source))


def _queues(flows: Sequence[FlowReport]) -> list[str]:
    return [flow["queue"] for flow in flows]


def _of_queue(chosen: QueueChoice) -> dict[str, str]:
    return {} if chosen.queue is None else {"queue": chosen.queue}
