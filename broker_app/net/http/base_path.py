"""A node below a path: a proxy has it at /broker, and hands that path on or takes it away.

Inside, the data plane and the WebSocket know no such path, and Django puts it before each address that it
makes. What the data plane says in `Location` gets it here.
"""

from __future__ import annotations

from broker_app.net.http.asgi import Event, Scope, Send


class Below:
    """Takes the path `base_path` ("" is none) from what comes in, and puts it back where it belongs."""

    def __init__(self, base_path: str) -> None:
        self._path = base_path
        self._raw = base_path.encode()

    def enter(self, scope: Scope, send: Send) -> Send:
        """Takes the path from a connection, whether or not the proxy has left it there; the `send` to use."""
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

    def leave(self, scope: Scope) -> None:
        """Gives the path back to a request that Django answers."""
        scope["path"] = self._path + scope["path"]

    def _moved(self, name: bytes, value: bytes) -> tuple[bytes, bytes]:
        if name.lower() == b"location" and value.startswith(b"/") and not value.startswith(self._raw + b"/"):
            return name, self._raw + value
        return name, value
