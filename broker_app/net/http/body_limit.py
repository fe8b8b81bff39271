"""A limit of the request body for ASGI applications.

Django writes a body of any length to the disk before it authenticates the client.
"""

from broker_app.base.asgi import Application, Event, Receive, Scope, Send
from broker_app.net.http.tracing import trace_member
from broker_app.net.problems import send_problem

# The factor of the limit up to which a body is read and discarded before the client is disconnected.
_DISCARD_FACTOR = 16


class BoundedBody:
    """Answers 413 instead of `app` as soon as a body is longer than `limit` bytes."""

    def __init__(self, app: Application, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if declared.isdigit() and int(declared) > self._limit:
            await self._discard(receive)
            await self._refuse(scope, send, int(declared))
            return
        seen = 0

        async def counted() -> Event:
            nonlocal seen
            event = await receive()
            seen += len(event.get("body", b""))
            if seen <= self._limit:
                return event
            # A body without a declared length. The application sees a disconnect.
            if event.get("more_body", False):
                await self._discard(receive)
            await self._refuse(scope, send, seen)
            return {"type": "http.disconnect"}

        await self._app(scope, counted, send)

    async def _discard(self, receive: Receive) -> None:
        """Read on for a while: a client that is disconnected while it sends does not see the answer."""
        left = _DISCARD_FACTOR * self._limit
        while left > 0:
            event = await receive()
            left -= len(event.get("body", b""))
            if not event.get("more_body", False):
                return

    async def _refuse(self, scope: Scope, send: Send, size: int) -> None:
        detail = f"The body has {size} bytes or more; at most {self._limit} are taken here."
        await send_problem(send, "too-large", detail, limit=self._limit, size=size, **trace_member(scope))
