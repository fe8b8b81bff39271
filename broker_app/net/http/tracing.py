"""Request ids of HTTP replies, and the trace context (W3C) of requests."""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Iterable

from broker_app.base.asgi import Application, Event, Receive, Scope, Send

#: version, trace id, parent id, flags (W3C Trace Context)
_TRACEPARENT = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


def trace_of(headers: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, str] | None:
    """The header traceparent and its trace id; None if it is missing or invalid."""
    for name, value in headers:
        if name == b"traceparent":
            parts = _TRACEPARENT.fullmatch(value)
            return (value, parts[1].decode()) if parts else None
    return None


def trace_member(scope: Scope) -> dict[str, str]:
    """The member of a problem with the trace id of its request; empty without one."""
    trace = trace_of(scope["headers"])
    return {"trace_id": trace[1]} if trace else {}


class TracingMiddleware:
    """Adds `Request-Id`, and `traceparent` where it was sent, to every reply of `app`."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._boot = secrets.token_hex(4)
        self._numbers = itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        own = [(b"request-id", b"%b-p%x" % (self._boot.encode(), next(self._numbers)))]
        if trace := trace_of(scope["headers"]):
            own.append((b"traceparent", trace[0]))

        async def named(event: Event) -> None:
            if event["type"] == "http.response.start":
                event = {**event, "headers": [*own, *event.get("headers", ())]}
            await send(event)

        await self._app(scope, receive, named)
