"""The origin of a service: the remote broker whose messages a callback broker fetches for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

from broker_app.base.refused import Refused
from broker_app.base.states import ORIGIN
from broker_app.reflex.registration import Registration

CONNECTING, CONNECTED = ORIGIN
_WEBSOCKET = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_PATH = "/ws"


@dataclass(frozen=True, slots=True)
class Origin:
    """WebSocket addresses of a broker and its mirrors, and the login of the service there; with a token,
    `login` is "token" and `passcode` has it."""

    urls: tuple[str, ...]
    login: str = ""
    passcode: str = field(default="", repr=False)


class OriginRegistration(Protocol):
    """The registration of one service at its origin."""

    def status(self) -> dict[str, object]:
        """The address of the origin, the state of the connection to it, and its error."""

    def pending(self) -> list[dict[str, object]]:
        """The messages that wait at the origin, as far as they are listed."""

    def end(self) -> None:
        """Deregister at the origin."""


#: Registers a service at its origin. It may call the last argument later: the registration has ended there,
#: for this reason. Raises Refused.
RegisterAtOrigin = Callable[[Registration, Origin, Callable[[Refused], None]], Awaitable[OriginRegistration]]


def websocket_url(url: str) -> str:
    """The address of the WebSocket of a broker; `url` may be its web address. Raises ValueError."""
    parts = urlsplit(url)
    scheme = _WEBSOCKET.get(parts.scheme)
    if scheme is None or not parts.hostname or parts.username:
        raise ValueError(
            f"{url[:200]!r} is not the address of a broker: write ws://HOST:PORT/ws, with its web port"
        )
    try:
        _ = parts.port
    except ValueError as error:
        raise ValueError(f"{url[:200]!r} has no valid port: {error}") from None
    return f"{scheme}://{parts.netloc}{parts.path if parts.path.strip('/') else _PATH}"
