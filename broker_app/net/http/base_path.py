"""The base path of a node behind a proxy, such as /broker; the proxy may pass the path on or strip it.

The data plane and the WebSocket do not know the base path; it is added to their `Location` headers here.
Django adds it to its addresses itself.
"""

from __future__ import annotations

from broker_app.base.asgi import Event, Scope, Send


class BasePath:
    """Strips the path `base_path` ("" is none) from requests, and adds it to replies."""

    def __init__(self, base_path: str) -> None:
        self._path = base_path
        self._raw = base_path.encode()

    def strip(self, scope: Scope, send: Send) -> Send:
        """Strip the path from a request if the proxy has not. Returns the `send` to use."""
        if not self._path or "path" not in scope:
            return send
        if f"{scope['path']}/".startswith(f"{self._path}/"):
            scope["path"] = scope["path"].removeprefix(self._path) or "/"
            scope["raw_path"] = (scope.get("raw_path") or b"").removeprefix(self._raw) or b"/"

        async def send_below(message: Event) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [self._moved(name, value) for name, value in message.get("headers", ())]
            await send(message)

        return send_below

    def restore(self, scope: Scope) -> None:
        """Restore the path of a request that Django answers."""
        scope["path"] = self._path + scope["path"]

    def _moved(self, name: bytes, value: bytes) -> tuple[bytes, bytes]:
        if name.lower() == b"location" and value.startswith(b"/") and not value.startswith(self._raw + b"/"):
            return name, self._raw + value
        return name, value
