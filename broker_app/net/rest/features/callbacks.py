"""Running callbacks: their status and their last pushes, tests, and what receivers answer later.

The control plane configures them. Administrators may do everything, other users what concerns the callbacks
that they own.
"""

from __future__ import annotations

from collections.abc import Callable

from broker_app.base.audit_actions import CALLBACK_RETRIED, CALLBACK_TESTED
from broker_app.base.refused import Refused
from broker_app.features.callbacks.webhooks.report import CallbackReport, CallbackTest, Push
from broker_app.features.callbacks.webhooks.supervisor import Supervisor
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.refusals import invalid
from broker_app.net.http.replies import NO_CONTENT, Reply, json_reply
from broker_app.net.http.requests import Request, whole_number
from broker_app.net.http.routing import Handlers
from broker_app.net.policy.policy import Policy
from broker_app.net.policy.system_rights import public_url
from broker_app.net.rest.features.bridges import no_such
from broker_app.net.rest.features.callback_status import CallbackStatus, status

_KIND = "callbacks"


class CallbackEndpoints:
    """Endpoints `webhooks` and `callbacks/{name}/status|pushes|push|test|confirm`. `policy` returns the
    present one."""

    def __init__(self, callbacks: Supervisor, policy: Callable[[], Policy], limits: RestLimits) -> None:
        self._callbacks = callbacks
        self._policy = policy
        self._limits = limits

    def handlers(self) -> Handlers:
        """The endpoints by operation."""
        return {
            "list_callback_status": self.all,
            "get_callback_status": self.status,
            "list_pushes": self.pushes,
            "push_callback": self.push,
            "test_callback": self.test,
            "confirm_callback_by_get": self.confirm,
            "confirm_callback_by_post": self.confirm,
        }

    async def all(self, request: Request) -> Reply:
        """GET webhooks: the status of the callbacks that the client may see, by name"""
        request.query()
        rows = [_shown(request, one) for one in self._callbacks.reports() if _may(request, one["owner"])]
        return json_reply({"items": rows})

    async def status(self, request: Request) -> Reply:
        """GET callbacks/{name}/status"""
        request.query()
        return json_reply(_shown(request, self._known(request)))

    async def pushes(self, request: Request) -> Reply:
        """GET callbacks/{name}/pushes: the last ones, the newest first"""
        query = request.query(("limit",))
        limit = whole_number(query, "limit", 100, 1, self._limits.max_page)
        self._known(request)
        found = self._callbacks.pushes_of(request.name) or []
        return json_reply({"items": found[:limit], "next": None, "approx_total": len(found)})

    async def push(self, request: Request) -> Reply:
        """POST callbacks/{name}/push: what waits for its next attempt is pushed now"""
        request.query()
        self._known(request)
        self._callbacks.push_now(request.name)
        request.audit(CALLBACK_RETRIED, request.name)
        return json_reply(_shown(request, self._known(request)))

    async def test(self, request: Request) -> Reply:
        """POST callbacks/{name}/test: send a signed sample, and show request and answer"""
        request.query()
        known = self._known(request)
        found = await self.try_out(request.name)
        request.audit(CALLBACK_TESTED, request.name, ok=found["ok"])
        if not _owns(request, known["owner"]):
            found = {**found, "request": {**found["request"], "url": public_url(found["request"]["url"])}}
        return json_reply(found)

    async def confirm(self, request: Request) -> Reply:
        """GET or POST callbacks/{name}/confirm: a receiver agrees to be called. Needs no login, but the token
        that it was sent"""
        query = request.query(("token",))
        if not query.get("token"):
            raise invalid("query/token", "is missing; it is in the address that the receiver was sent")
        if not self._callbacks.confirm(request.name, query["token"]):
            raise Refused("not-found", "no callback waits for this confirmation")
        return NO_CONTENT

    # ------------------------------------------------------------------ for pages of administrators

    def whole(self) -> list[CallbackStatus]:
        """The status of all callbacks."""
        return [status(report) for report in self._callbacks.reports()]

    def one(self, name: str) -> tuple[CallbackStatus, list[Push]] | None:
        """The status of a callback and its last pushes; None if it does not exist."""
        report = self._callbacks.report_of(name)
        return None if report is None else (status(report), self._callbacks.pushes_of(name) or [])

    async def try_out(self, name: str) -> CallbackTest:
        """Send a sample. Raises Refused."""
        found = await self._callbacks.test(name)
        if found is None:
            raise no_such("callback", name, self._policy().callbacks)
        return found

    def _known(self, request: Request) -> CallbackReport:
        """The report of the callback of a request. Raises Refused."""
        report = self._callbacks.report_of(request.name)
        if report is not None and _may(request, report["owner"]):
            return report
        known = self._policy().callbacks
        raise no_such(
            "callback", request.name, [name for name, one in known.items() if _may(request, one.owner)]
        )


def _may(request: Request, owner: str) -> bool:
    """Return whether the client may see and control callbacks of a user."""
    return request.is_admin or _owns(request, owner)


def _owns(request: Request, owner: str) -> bool:
    return request.access.has_all_rights_of(request.client.identity, owner)


def _shown(request: Request, report: CallbackReport) -> CallbackStatus:
    """The status of a callback; its whole URL is for its owner."""
    shown = status(report)
    return shown if _owns(request, report["owner"]) else {**shown, "url": public_url(shown["url"])}
