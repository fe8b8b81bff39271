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
from .connection.failover import Failover
from .connection.link import Opener
from .connection.transport import Transport
from .errors import ClientError
from .events import ConnectionEvent

__all__ = ["ADDRESS", "CallbackRoute", "HostAddress", "Service"]

log = logging.getLogger("mom_client")

#: the callback broker in a list of addresses; its port may be another one each time
ADDRESS = "stomp://recallback"
#: headers of CONNECTED: a callback broker may serve the service, and the WebSocket of the broker
CALLBACKS, WEBSOCKET = "mom-service-callbacks", "mom-websocket"
#: addresses of an origin, at most
_MOST_ORIGINS = 16


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


def websockets(websocket: str, failover: Failover) -> list[str]:
    """The WebSockets of a broker that serves at `websocket`, and of its mirrors, as far as the client's list
    and that of the broker name them. None is unencrypted if that is not."""
    schemes = ("wss://",) if websocket.startswith("wss:") else ("ws://", "wss://")
    known = [*failover.addresses, *failover.listed]
    return list(dict.fromkeys([websocket, *(one for one in known if one.startswith(schemes))]))


class HostAddress:
    """Opens `ADDRESS`, and makes the CONNECT headers for it: those of the service, its origin, and the token
    of this machine. Other addresses get `direct`."""

    def __init__(self, service: Service, direct: Mapping[str, str], opener: Opener) -> None:
        #: WebSockets of the remote broker and its mirrors
        self.origins: list[str] = []
        #: those that the callback broker was given last
        self.registered: list[str] = []
        #: the reason why the callback broker was not used, or is not used any more
        self.reason = ""
        self._direct = direct
        self._opener = opener
        self._login = {
            "mom-origin-login": direct.get("login", ""),
            "mom-origin-passcode": direct.get("passcode", ""),
        }
        self._service = service

    def know(self, origins: list[str]) -> None:
        """Name these addresses first, before those that were known."""
        self.origins = list(dict.fromkeys([*origins, *self.origins]))[:_MOST_ORIGINS]

    def attempt_failed(self, address: str, reason: str) -> None:
        """An attempt to connect has failed."""
        if address == ADDRESS:
            self.reason = reason

    def changed(self, event: ConnectionEvent) -> None:
        """Note why the callback broker was lost, and report that messages come without it."""
        if event.kind != "reconnected":
            if event.kind != "closed" or not self.reason:  # it was closed for that reason
                self.attempt_failed(event.address, event.reason)
            return
        if event.address != ADDRESS:
            self.warn(event.address)
        self.reason = ""

    def warn(self, address: str) -> None:
        """Report that messages come from the remote broker."""
        log.warning(
            "messages of %s come from %s, without the callback broker of this machine: %s",
            *(self._service.name, address, self.reason or "it does not answer"),
        )

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
        self.registered = self.origins
        broker = read_file()
        token = broker.token if broker is not None else ""
        given = {name: value for name, value in self._login.items() if value}
        return {
            "host": "/",
            "mom-soft-errors": "true",
            "login": "token",
            "passcode": token,
            **self._service.headers(),
            "mom-origin": ",".join(self.origins),
            **given,
        }


class ServiceClient(Protocol):
    """A client that consumes the queue of a service, by the callback broker or without it."""

    @property
    def address(self) -> str: ...

    async def open(self) -> object: ...

    async def log_in_again(self) -> None: ...

    async def close(self) -> None: ...


C = TypeVar("C", bound=ServiceClient)


class CallbackRoute(Generic[C]):
    """Connects to the callback broker, once the remote broker has accepted the service, and follows the
    connection to the remote broker, whose addresses are in `remote`.

    `make_client` makes a client that knows two ways: `ADDRESS`, and the remote broker; their addresses are in
    the list it is given.
    """

    def __init__(
        self,
        service: Service,
        remote: Failover,
        host: HostAddress,
        make_client: Callable[[HostAddress, Failover], C],
    ) -> None:
        self.service = service
        #: the client to consume the queue of the service with; None if it is consumed at the remote broker
        self.client: C | None = None
        self._remote = remote
        self._host = host
        self._make_client = make_client
        self._ways: Failover | None = None
        #: connects, and follows later
        self._task: asyncio.Task[None] | None = None
        self._opened = asyncio.Event()

    def connected(self, address: str, headers: Mapping[str, str]) -> None:
        """The remote broker at `address` has answered with these headers."""
        self._task = asyncio.create_task(self._after(self._task, address, dict(headers)))

    async def opened(self) -> C | None:
        """The client, once there was time to connect to the callback broker; None if it is not used."""
        await self._opened.wait()
        return self.client

    async def close(self) -> None:
        """Disconnect."""
        self._opened.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self.client is not None:
            await self.client.close()

    async def _after(
        self, former: "asyncio.Task[None] | None", address: str, headers: Mapping[str, str]
    ) -> None:
        """Connect, or follow, when what was begun before is done."""
        try:
            if former is None:
                await self._open(address, headers)
            else:
                await former
                await self._follow(address, headers)
        except Exception:
            log.exception("messages of %s do not come by a callback broker", self.service.name)
        finally:
            self._opened.set()

    async def _open(self, address: str, headers: Mapping[str, str]) -> None:
        """Connect, if there is a callback broker."""
        websocket = websocket_of(address, headers)
        if headers.get(CALLBACKS) != "true" or not websocket:
            return
        host = self._host
        host.know(websockets(websocket, self._remote))
        if await host.broker() is None:
            return
        self._ways = Failover(self._addresses(address), preferred=[ADDRESS], fixed=True, redirects=False)
        client = self._make_client(host, self._ways)
        try:
            await client.open()
        except ClientError as error:
            log.warning("messages of %s come without a callback broker: %s", self.service.name, error)
        except BaseException:
            await client.close()
            raise
        else:
            if client.address == ADDRESS:
                self.client = client
            else:  # it was refused
                host.warn(client.address)
                await client.close()

    async def _follow(self, address: str, headers: Mapping[str, str]) -> None:
        """The remote broker is at `address` from now on: let the callback broker go there too."""
        if self.client is None or self._ways is None:
            return
        self._ways.configure(*self._addresses(address))
        websocket = websocket_of(address, headers)
        if websocket:
            self._host.know(websockets(websocket, self._remote))
        if self.client.address == ADDRESS and websocket not in self._host.registered:
            await self.client.log_in_again()

    def _addresses(self, address: str) -> list[str]:
        return list(dict.fromkeys([ADDRESS, address, *self._remote.addresses]))
