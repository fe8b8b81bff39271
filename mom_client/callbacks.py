"""The way of a service's messages through the callback broker of this machine.

If there is one, and the remote broker has callbacks for the service, the service's queue is consumed there:
nothing polls over the network. When the callback broker cannot be used, it is consumed at the remote broker.
"""

import asyncio
import logging
import socket
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from .callback_broker import HostBroker, read_file
from .callback_launch import CannotStart, find
from .errors import ClientError
from .link import Opener
from .transport import Transport

__all__ = ["ADDRESS", "CallbackRoute", "HostAddress", "Service"]

log = logging.getLogger("mom_client")

#: the callback broker in a list of addresses; its port may be another one each time
ADDRESS = "stomp://recallback"
#: headers of CONNECTED: a callback broker may serve the service, and the WebSocket of the broker
CALLBACKS, WEBSOCKET = "mom-service-callbacks", "mom-websocket"


@dataclass(frozen=True)
class Service:
    """A program that registers under a name. Its messages are those of the queue of that name."""

    name: str
    machine: str = field(default_factory=socket.gethostname)
    type: str = ""
    events: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.name or len(self.name) > 255:
            raise ValueError("the name of a service must have 1 to 255 characters")
        if any("," in event for event in self.events):
            raise ValueError("the name of an event must have no comma")

    @property
    def queue(self) -> str:
        """The address of its queue."""
        return f"/queue/{self.name}"

    def headers(self) -> dict[str, str]:
        """The headers of CONNECT that register it."""
        given = {
            "mom-service": self.name,
            "mom-machine": self.machine,
            "mom-service-type": self.type,
            "mom-service-events": ",".join(self.events),
        }
        return {name: value for name, value in given.items() if value}


def websocket_of(address: str, connected: Mapping[str, str]) -> str:
    """The WebSocket of the broker that has answered at `address`; empty if it has named none. Without a host
    of its own it is at that of the address."""
    named = urllib.parse.urlsplit(connected.get(WEBSOCKET, ""))
    given = urllib.parse.urlsplit(address)
    if given.scheme in ("ws", "wss"):
        return address
    if not named.scheme or named.port is None:
        return ""
    host = named.hostname or given.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return f"{named.scheme}://{host}:{named.port}{named.path}"


class HostAddress:
    """Opens `ADDRESS`, and makes the CONNECT headers for it: those of the service, its origin, and the token
    of this machine. Other addresses get `direct`."""

    def __init__(
        self, service: Service, origins: list[str], direct: Mapping[str, str], opener: Opener
    ) -> None:
        self._direct = direct
        self._opener = opener
        self._origin = {
            "mom-origin": ",".join(origins),
            "mom-origin-login": direct.get("login", ""),
            "mom-origin-passcode": direct.get("passcode", ""),
        }
        self._service = service

    async def broker(self) -> HostBroker | None:
        """The callback broker, started if need be; None without one."""
        try:
            return await asyncio.to_thread(find)
        except CannotStart as error:
            log.warning("messages come without a callback broker: %s", error)
            return None

    async def open(self, address: str) -> Transport:
        """Open an address of the list. Raises OSError or Refused."""
        if address != ADDRESS:
            return await self._opener(address)
        broker = await self.broker()
        if broker is None:
            raise OSError("no callback broker runs on this machine")
        return await self._opener(broker.stomp)

    def hello(self, address: str) -> Mapping[str, str]:
        """The headers of CONNECT for an address."""
        if address != ADDRESS:
            return {**self._direct, **self._service.headers()}
        broker = read_file()
        token = broker.token if broker is not None else ""
        given = {name: value for name, value in self._origin.items() if value}
        return {
            "host": "/",
            "mom-soft-errors": "true",
            "login": "token",
            "passcode": token,
            **self._service.headers(),
            **given,
        }


class ServiceClient(Protocol):
    """A client that consumes the queue of a service, by the callback broker or without it."""

    @property
    def address(self) -> str: ...

    async def open(self) -> object: ...

    async def close(self) -> None: ...


C = TypeVar("C", bound=ServiceClient)


class CallbackRoute(Generic[C]):
    """Connects to the callback broker, once the remote broker has accepted the service.

    `make_client` makes a client that knows two ways: `ADDRESS`, and the address of the remote broker.
    """

    def __init__(
        self,
        service: Service,
        make_host: Callable[[list[str]], HostAddress],
        make_client: Callable[[HostAddress, str], C],
    ) -> None:
        self.service = service
        #: the client to consume the queue of the service with; None if it is consumed at the remote broker
        self.client: C | None = None
        self._make_host = make_host
        self._make_client = make_client

    async def open(self, address: str, connected: Mapping[str, str]) -> None:
        """Connect, if there is a callback broker; `connected` are the headers of the remote broker at
        `address`."""
        websocket = websocket_of(address, connected)
        if connected.get(CALLBACKS) != "true" or not websocket:
            return
        host = self._make_host([websocket])
        if await host.broker() is None:
            return
        client = self._make_client(host, address)
        try:
            await client.open()
        except ClientError as error:
            log.warning("messages of %s come without a callback broker: %s", self.service.name, error)
            return
        if client.address == ADDRESS:
            self.client = client
        else:  # it was refused
            await client.close()

    async def close(self) -> None:
        """Disconnect."""
        if self.client is not None:
            await self.client.close()
