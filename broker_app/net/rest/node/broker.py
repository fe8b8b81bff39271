"""The broker as a whole, for administrators: its state, and orders to quiesce, pause, restart and stop it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec

from broker_app.base.audit_actions import (
    BROKER_PAUSED,
    BROKER_QUIESCED,
    BROKER_RESTARTED,
    BROKER_RESUMED,
    BROKER_SHUT_DOWN,
    BROKER_UNQUIESCED,
    AuditAction,
)
from broker_app.base.refused import Refused
from broker_app.base.times import rfc3339
from broker_app.net.broker_state import BrokerState, Order, PlannedShutdown
from broker_app.net.http.refusals import invalid
from broker_app.net.http.replies import Reply, json_reply
from broker_app.net.http.requests import Request
from broker_app.net.http.routing import Handlers
from broker_app.net.rest.node.mirrors import MAX_REASON

#: seconds until a shutdown that is planned, at most
MAX_DELAY_S: Final = 86_400


class BrokerOrder(msgspec.Struct, forbid_unknown_fields=True):
    """The body of an order. `name` is the name of the broker, so that no other one gets it."""

    name: str
    reason: str = ""


class ShutdownOrder(BrokerOrder):
    """That of a shutdown, in `delay_s` seconds: with `no_failover` no other member of an enhanced cluster
    takes over."""

    no_failover: bool = False
    delay_s: float = 0.0


_Order = TypeVar("_Order", bound=BrokerOrder)


class BrokerEndpoints:
    """Endpoints `broker…` and `shutdown`. `clients` counts the connections of clients by protocol.
    `stop` ends the process in good order; called with True, to start it again, unless there is a refusal."""

    def __init__(
        self,
        name: str,
        version: str,
        state: BrokerState,
        *,
        clients: Callable[[], Mapping[str, int]],
        stop: Callable[[bool], None],
        restart_refusal: Callable[[], Refused | None],
        started_s: float,
    ) -> None:
        self._name = name
        self._version = version
        self._state = state
        self._clients = clients
        self._stop = stop
        self._restart_refusal = restart_refusal
        self._started_at = rfc3339(started_s)

    def handlers(self) -> Handlers:
        """The endpoints by operation."""
        return {
            "get_broker": self.status,
            "quiesce_broker": self.quiesce,
            "unquiesce_broker": self.unquiesce,
            "pause_broker": self.pause,
            "resume_broker": self.resume,
            "restart_broker": self.restart,
            "shut_down": self.shut_down,
        }

    async def status(self, request: Request) -> Reply:
        """GET broker"""
        request.query()
        _require_administrator(request)
        return json_reply(self._status())

    async def quiesce(self, request: Request) -> Reply:
        """POST broker/quiesce: new clients are refused, those that are connected go on."""
        reason = await self._ordered(request, BROKER_QUIESCED)
        self._state.quiesce(request.user, reason)
        return json_reply(self._status())

    async def unquiesce(self, request: Request) -> Reply:
        """POST broker/unquiesce: new clients are taken again."""
        reason = await self._ordered(request, BROKER_UNQUIESCED)
        self._state.unquiesce(request.user, reason)
        return json_reply(self._status())

    async def pause(self, request: Request) -> Reply:
        """POST broker/pause: nothing is read from clients, and nothing delivered to them."""
        reason = await self._ordered(request, BROKER_PAUSED)
        self._state.pause(request.user, reason)
        return json_reply(self._status())

    async def resume(self, request: Request) -> Reply:
        """POST broker/resume: clients are served again."""
        reason = await self._ordered(request, BROKER_RESUMED)
        self._state.resume(request.user, reason)
        return json_reply(self._status())

    async def restart(self, request: Request) -> Reply:
        """POST broker/restart: it stops as for a shutdown, and starts again with the same options."""
        order = await self._order(request, BrokerOrder)
        if (refusal := self._restart_refusal()) is not None:
            raise refusal
        return self._end(request, order, BROKER_RESTARTED, restart=True)

    async def shut_down(self, request: Request) -> Reply:
        """POST shutdown: clients are notified, and what was accepted is finished. It is at once, also if one
        was planned before."""
        order = await self._order(request, ShutdownOrder)
        no_failover = order.no_failover
        if order.delay_s:
            return self._plan(request, order)
        return self._end(request, order, BROKER_SHUT_DOWN, restart=False, no_failover=no_failover)

    def _plan(self, request: Request, order: ShutdownOrder) -> Reply:
        """Have the broker end some time later; until then it takes no new clients."""
        if not 0 < order.delay_s <= MAX_DELAY_S:
            raise invalid("/delay_s", f"must be seconds, at most {MAX_DELAY_S}", order.delay_s)
        no_failover = order.no_failover
        planned = self._state.plan_shutdown(
            request.user, order.reason, order.delay_s, no_failover=no_failover
        )
        facts = {"no_failover": True} if no_failover else {}
        request.audit(BROKER_SHUT_DOWN, self._name, reason=order.reason, delay_s=order.delay_s, **facts)
        asyncio.get_running_loop().call_later(order.delay_s, self._carry_out, planned)
        return json_reply({"name": self._name, "due": rfc3339(planned.due_s)}, 202)

    def _carry_out(self, planned: PlannedShutdown) -> None:
        """End the broker, unless the shutdown was called off, or another one has taken its place."""
        if self._state.planned is planned:
            order = planned.order
            self._state.stop(order.user, order.reason, restart=False, no_failover=planned.no_failover)
            self._stop(False)

    def _end(
        self,
        request: Request,
        order: BrokerOrder,
        action: AuditAction,
        *,
        restart: bool,
        no_failover: bool = False,
    ) -> Reply:
        self._state.stop(request.user, order.reason, restart=restart, no_failover=no_failover)
        facts = {"no_failover": True} if no_failover else {}
        request.audit(action, self._name, reason=order.reason, **facts)
        self._stop(restart)
        return json_reply({"name": self._name}, 202)

    async def _ordered(self, request: Request, action: AuditAction) -> str:
        """The reason of an order, which is in the audit log from now on. Raises Refused."""
        order = await self._order(request, BrokerOrder)
        request.audit(action, self._name, reason=order.reason)
        return order.reason

    async def _order(self, request: Request, form: type[_Order]) -> _Order:
        request.query()
        _require_administrator(request)
        order = await request.json(form)
        if order.name != self._name:
            raise invalid("/name", f"this is broker {self._name}", order.name)
        if len(order.reason) > MAX_REASON or not (order.reason.isprintable() or not order.reason):
            raise invalid("/reason", f"must be a line of at most {MAX_REASON} printable characters")
        return order

    def _status(self) -> dict[str, object]:
        state, clients = self._state, self._clients()
        refusal = self._restart_refusal()
        return {
            "name": self._name,
            "version": self._version,
            "state": state.shown_as(sum(clients.values())),
            "quiesced": _shown(state.quiesced),
            "paused": _shown(state.paused),
            "shutdown": _shown_plan(state),
            "clients": dict(clients),
            "other_addresses": list(state.other_addresses()),
            "started_at": self._started_at,
            "restart_refusal": refusal.detail if refusal is not None else "",
        }


def _shown(order: Order | None) -> dict[str, object] | None:
    return order.shown() if order is not None else None


def _shown_plan(state: BrokerState) -> dict[str, object] | None:
    planned, left_s = state.planned, state.left_s
    if planned is None or left_s is None:
        return None
    return {**planned.order.shown(), "due": rfc3339(planned.due_s), "left_s": round(left_s, 1)}


def _require_administrator(request: Request) -> None:
    if not request.is_admin:
        raise Refused(
            "not-allowed", "only administrators see and change the state of a broker", right="administer"
        )
