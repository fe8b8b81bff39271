"""Events of a connection, for the application."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

__all__ = ["ConnectionEvent", "EventKind", "Listener"]

#: closing: the client is about to end a connection itself, when it is closed or goes to another broker
#: closed: the connection has ended
#: reconnect failed: one attempt has failed; with `final` there will be no other
#: reconnected: there is a connection again, to `address`
EventKind = Literal["closing", "closed", "reconnect failed", "reconnected"]


@dataclass(frozen=True, slots=True)
class ConnectionEvent:
    """A change of the connection to the broker at `address`, and the reason for it."""

    kind: EventKind
    address: str
    reason: str
    final: bool = False  #: the client has given up; `address` then names all addresses

    def __str__(self) -> str:
        return f"{self.kind}: {self.address}: {self.reason}"


Listener = Callable[[ConnectionEvent], None]
