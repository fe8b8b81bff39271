"""Services over HTTP: programs that registered under a name."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec

from broker_app.base.audit_actions import (
    SERVICE_ACTIVATED,
    SERVICE_DEACTIVATED,
    SERVICE_DEREGISTERED,
    AuditAction,
)
from broker_app.base.refused import Refused
from broker_app.base.times import rfc3339
from broker_app.core.destination import QUEUE, Destination
from broker_app.engine import Engine
from broker_app.features.services.origin import Origin, websocket_url
from broker_app.features.services.registry import Service, ServiceRegistry
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.listing import Listing
from broker_app.net.http.refusals import invalid
from broker_app.net.http.replies import NO_CONTENT, Reply, json_reply
from broker_app.net.http.requests import Request, within
from broker_app.net.http.routing import Handlers
from broker_app.reflex.registration import Registration
from broker_app.rules.event import BROWSE, RECEIVE, SEND

#: seconds of a lease
LEAST_LEASE_S, DEFAULT_LEASE_S, MOST_LEASE_S = 5.0, 60.0, 86_400.0
MOST_EVENTS = 100
_Text = Annotated[str, msgspec.Meta(max_length=255)]
_Events = Annotated[list[_Text], msgspec.Meta(max_length=MOST_EVENTS)]


class OriginRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The remote broker of a service that registers at a callback broker: WebSocket addresses of it and its
    mirrors, and a token, or login and passcode."""

    urls: Annotated[
        list[Annotated[str, msgspec.Meta(max_length=2048)]], msgspec.Meta(min_length=1, max_length=16)
    ]
    login: _Text = ""
    passcode: Annotated[str, msgspec.Meta(max_length=4096)] = ""
    token: Annotated[str, msgspec.Meta(max_length=4096)] = ""

    def origin(self, pointer: str) -> Origin:
        """The origin. Raises Refused for a wrong address."""
        urls = []
        for at, url in enumerate(self.urls):
            try:
                urls.append(websocket_url(url))
            except ValueError as error:
                raise invalid(f"{pointer}/urls/{at}", str(error)) from None
        if self.token:
            return Origin(tuple(urls), "token", self.token)
        return Origin(tuple(urls), self.login, self.passcode)


class ServiceRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a registration. `machine` is the name of the client's machine (default: its address)."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    machine: _Text = ""
    type: _Text = ""
    events: _Events = []
    lease_s: float = DEFAULT_LEASE_S
    origin: OriginRequest | None = None


class ServiceChange(msgspec.Struct, forbid_unknown_fields=True):
    """Members of a service to change; `lease_s` renews its lease."""

    machine: _Text | None = None
    type: _Text | None = None
    events: _Events | None = None
    active: bool | None = None
    lease_s: float | None = None


class ServiceEndpoints:
    """Endpoints below `/services`."""

    def __init__(self, registry: ServiceRegistry, engine: Engine, limits: RestLimits) -> None:
        self._registry = registry
        self._engine = engine
        self._listing = Listing[Service](
            {
                "id": lambda service: service.id,
                "name": lambda service: service.registration.name,
                "user": lambda service: service.registration.user,
                "machine": lambda service: service.registration.machine,
                "type": lambda service: service.registration.type,
                "events": lambda service: list(service.registration.events),
                "active": lambda service: service.active,
                "callbacks": lambda service: service.has_callbacks,
                "transport": lambda service: service.registration.transport,
                "connection": lambda service: service.registration.connection or None,
                "since": lambda service: rfc3339(service.since_s),
                "lease_until": _lease_until,
                "pending": self._pending,
                "origin": lambda service: service.origin.status() if service.origin is not None else None,
            },
            {"active": lambda service: service.active},
            limits.max_page,
            sortable=("id", "name", "user", "machine", "type", "since", "pending"),
            last="id",
        )

    def handlers(self) -> Handlers:
        """The endpoints by operation."""
        return {
            "list_services": self.all,
            "register_service": self.register,
            "list_pending_originals": self.pending,
            "show_service": self.one,
            "change_service": self.change,
            "deregister_service": self.deregister,
        }

    async def all(self, request: Request) -> Reply:
        """GET services: those whose queue the client may send to, receive from or browse."""
        query = request.query(self._listing.parameters)
        visible = (one for one in self._registry.all() if _may_see(request, one))
        page = await self._listing.page_of_many(visible, query)
        return json_reply(page._asdict())

    async def one(self, request: Request) -> Reply:
        """GET services/{id}"""
        request.query()
        return json_reply(self._listing.row(self._find(request)))

    async def register(self, request: Request) -> Reply:
        """POST services"""
        request.query()
        body = await request.json(ServiceRequest)
        within("/lease_s", body.lease_s, LEAST_LEASE_S, MOST_LEASE_S)
        request.permitted(RECEIVE, f"/queue/{body.name}")
        info = request.client.connection_info
        registration = Registration(
            body.name,
            request.user,
            body.machine or info.address or "",
            body.type,
            tuple(body.events),
            transport="rest",
            token=request.client.identity.token or "",
        )
        origin = body.origin.origin("/origin") if body.origin is not None else None
        service = await self._registry.register(registration, body.lease_s, origin, admin=request.is_admin)
        location = f"/api/v1/services/{service.id}".encode()
        return json_reply(self._listing.row(service), 201, [(b"location", location)])

    async def change(self, request: Request) -> Reply:
        """PATCH services/{id}: its own user, or who may manage its queue."""
        request.query()
        body = await request.json(ServiceChange)
        service = self._own(request)
        if body.lease_s is not None:
            if service.until_s is None:
                raise invalid("/lease_s", "the service ends with its connection, and has no lease")
            within("/lease_s", body.lease_s, LEAST_LEASE_S, MOST_LEASE_S)
            self._registry.renew(service, body.lease_s)
        given = {"machine": body.machine, "type": body.type}
        changed: dict[str, object] = {name: value for name, value in given.items() if value is not None}
        if body.events is not None:
            changed["events"] = tuple(body.events)
        if changed or body.active is not None:
            self._registry.change(service, active=body.active, **changed)
        if body.active is not None:
            _audit(request, SERVICE_ACTIVATED if body.active else SERVICE_DEACTIVATED, service)
        return json_reply(self._listing.row(service))

    async def pending(self, request: Request) -> Reply:
        """GET services/{id}/pending: the messages that wait at the origin of a service."""
        request.query()
        service = self._find(request)
        if service.origin is None:
            raise Refused("conflict", "the service has no origin: browse its queue")
        return json_reply({"items": service.origin.pending()})

    async def deregister(self, request: Request) -> Reply:
        """DELETE services/{id}. That of a connection stays without a registration."""
        request.query()
        service = self._own(request)
        self._registry.deregister(service)
        _audit(request, SERVICE_DEREGISTERED, service)
        return NO_CONTENT

    # ------------------------------------------------------------------ within

    def _find(self, request: Request) -> Service:
        service = self._registry.find(request.name)
        if service is None or not _may_see(request, service):
            raise Refused("not-found", f"there is no service {request.name[:80]!r}")
        return service

    def _own(self, request: Request) -> Service:
        service = self._find(request)
        if not _is_own(request, service) and not request.access.sees_everything(request.client.identity):
            detail = "the service belongs to another user, or was registered by another token"
            raise Refused("not-allowed", detail, right="manage")
        return service

    def _pending(self, service: Service) -> int:
        queue = self._engine.broker.destinations.queues.get(f"/queue/{service.registration.name}")
        return 0 if queue is None else queue.depth


def _is_own(request: Request, service: Service) -> bool:
    registration = service.registration
    return request.access.is_own(request.client.identity, registration.user, registration.token)


def _may_see(request: Request, service: Service) -> bool:
    if _is_own(request, service):
        return True
    mailbox = Destination(QUEUE, service.registration.name)
    return any(request.access.allows(request.client, right, mailbox) for right in (SEND, RECEIVE, BROWSE))


def _audit(request: Request, action: AuditAction, service: Service) -> None:
    """Record what an operator does; not that programs come and go by themselves."""
    registration = service.registration
    if not _is_own(request, service) or request.header(b"mom-reason"):
        request.audit(action, registration.name, id=service.id, user=registration.user)


def _lease_until(service: Service) -> str | None:
    left = service.ends_within_s()
    return None if left is None else rfc3339(time.time() + left)
