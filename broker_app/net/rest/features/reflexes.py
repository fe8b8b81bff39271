"""Reflexes over HTTP, for administrators: their state and statistics, trials, and restarts of libraries."""

from __future__ import annotations

import base64
import binascii

import msgspec

from broker_app.base.audit_actions import REFLEX_LIBRARY_RESTARTED
from broker_app.core.destination import of_name, parse
from broker_app.net.http.refusals import invalid
from broker_app.net.http.replies import NO_CONTENT, Reply, json_reply
from broker_app.net.http.requests import Request
from broker_app.net.http.routing import Handlers
from broker_app.net.rest.features.bridges import no_such
from broker_app.reflex.declaration import ARRIVAL, DELIVERY, REGISTRATION
from broker_app.reflex.reflexes import Reflexes
from broker_app.reflex.registration import Registration

#: kinds that can be tried
TRIED = (ARRIVAL, DELIVERY, REGISTRATION)


class TrialRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a trial: of a message, or of a registration."""

    service: str
    kind: str = ARRIVAL
    headers: dict[str, str] = {}
    body: str = ""
    body_base64: str | None = None
    user: str | None = None
    machine: str = ""
    type: str = ""

    def content(self) -> bytes:
        """The bytes of the message. Raises Refused."""
        if self.body_base64 is None:
            return self.body.encode()
        if self.body:
            raise invalid("/body", "cannot be given together with body_base64")
        try:
            return base64.b64decode(self.body_base64, validate=True)
        except (binascii.Error, ValueError):
            raise invalid("/body_base64", "is not base64") from None


class ReflexEndpoints:
    """Endpoints `reflex-…`."""

    def __init__(self, reflexes: Reflexes) -> None:
        self._reflexes = reflexes

    def handlers(self) -> Handlers:
        """The endpoints by operation."""
        return {
            "list_reflex_status": self.status,
            "test_reflexes": self.test,
            "restart_reflex_library": self.restart,
        }

    async def status(self, request: Request) -> Reply:
        """GET reflex-status"""
        request.require_administrator("reflexes are")
        query = request.query(("destination",))
        reflexes = self._reflexes
        if "destination" in query:
            items = reflexes.of_address(parse(query["destination"]).address)
        else:
            items = reflexes.report()
        return json_reply({"items": items, "libraries": reflexes.libraries()})

    async def test(self, request: Request) -> Reply:
        """POST reflex-test"""
        request.require_administrator("reflexes are")
        request.query()
        asked = await request.json(TrialRequest)
        user = asked.user if asked.user is not None else request.user
        if asked.kind == REGISTRATION:
            registration = Registration(asked.service, user, asked.machine, asked.type, transport="stomp")
            return json_reply(await self._reflexes.trial_of_registration(registration))
        if asked.kind not in TRIED:
            raise invalid("/kind", f"must be one of {', '.join(TRIED)}", asked.kind)
        address = of_name(asked.service).address
        found = await self._reflexes.trial(asked.kind, address, asked.headers, asked.content(), user)
        return json_reply(found)

    async def restart(self, request: Request) -> Reply:
        """POST reflex-libraries/{name}/restart"""
        request.require_administrator("reflexes are")
        request.query()
        if not self._reflexes.restart(request.name):
            known = [library["name"] for library in self._reflexes.libraries()]
            raise no_such("library with a process", request.name, known)
        request.audit(REFLEX_LIBRARY_RESTARTED, request.name)
        return NO_CONTENT
