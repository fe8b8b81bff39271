"""The connection to an origin with one login: it is opened again whenever it breaks."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from broker_app.base.internal_errors import internal_errors
from broker_app.base.refused import Refused
from broker_app.features.callback_broker.origin_link import CONNECT_S, OriginLink, OriginLost, WrongAnswer
from broker_app.features.callback_broker.pending_queue import PendingQueue
from broker_app.features.callback_broker.remote_broker import RemoteBroker
from broker_app.features.services.origin import CONNECTED, CONNECTING, Origin
from broker_app.reflex.registration import Registration
from mom_client.connection.pace import Pace

log = logging.getLogger(__name__)

_PACE: Final = Pace(first_delay_s=0.1, max_delay_s=5.0)
#: refusals after which the origin is not asked again until another service registers
_WRONG_LOGIN: Final = frozenset(("not-authenticated", "not-allowed", "rate-limited"))
#: seconds between attempts with a login that was refused
_REFUSED_S: Final = 30.0


class OriginService:
    """One service that is registered at the origin. `lost` is called when the origin refuses it later."""

    def __init__(
        self, connection: OriginConnection, registration: Registration, lost: Callable[[Refused], None]
    ) -> None:
        self.registration = registration
        self.lost = lost
        #: of the registration at the origin; empty while there is none
        self.id = ""
        self._connection = connection

    def status(self) -> dict[str, object]:
        """The address of the origin, the state of the connection to it, and its error."""
        return self._connection.status()

    def pending(self) -> list[dict[str, object]]:
        """The messages of the service that wait at the origin."""
        queue = self._connection.remote.queue(self.registration.name)
        return queue.listed() if queue is not None else []

    def end(self) -> None:
        """Deregister at the origin."""
        self._connection.remove(self)


class OriginConnection:
    """Notifies the queues of services of arrivals, and fetches and settles originals for them.

    `make_queue` makes the pending queue of a service, unless another connection to the same broker (`remote`)
    has it already. `unused` is called when the last service has ended. Events of the origin have at most
    `max_event` bytes.
    """

    def __init__(
        self,
        origin: Origin,
        remote: RemoteBroker,
        make_queue: Callable[[OriginConnection, str], PendingQueue],
        unused: Callable[[OriginConnection], None],
        max_event: int,
    ) -> None:
        self.origin = origin
        self._max_event = max_event
        self.remote = remote
        #: the address in use, or of the last attempt
        self.url = origin.urls[0]
        self.queues: dict[str, PendingQueue] = {}
        self.error = ""
        self._make_queue = make_queue
        self._unused = unused
        self._services: dict[OriginService, None] = {}
        self._link: OriginLink | None = None
        self._connected = asyncio.Event()
        #: set when the attempts with all addresses have failed
        self._failed = asyncio.Event()
        self._retry = asyncio.Event()
        self._refusal: Refused | None = None
        self._task: asyncio.Task[None] | None = None
        #: connections of other logins have left queues to this one, which take time to follow
        self._taking_over: set[asyncio.Task[None]] = set()
        #: the next address comes first
        self._urls = deque(origin.urls)
        #: attempts until each address has failed once
        self._untried = len(origin.urls)
        self._reported: dict[str, str] = {}

    def status(self) -> dict[str, object]:
        """The address of the origin, the state of the connection to it, and its error."""
        state = CONNECTED if self._link is not None else CONNECTING
        return {"url": self.url, "state": state, "error": self.error or None}

    @property
    def urls(self) -> tuple[str, ...]:
        """All addresses of the origin, in the order of the next attempts."""
        return tuple(self._urls)

    def extend(self, urls: tuple[str, ...]) -> None:
        """Know further addresses of the origin. The next attempts are with these, in their order: a client
        has just connected to the first one."""
        new = [url for url in urls if url not in self._urls]
        self._untried += len(new)
        self._urls = deque(dict.fromkeys([*urls, *self._urls]))

    def has_service(self, name: str) -> bool:
        """Return whether a service is registered over this connection, or just registers."""
        return any(service.registration.name == name for service in self._services)

    @property
    def services(self) -> int:
        """The number of services that are registered at the origin."""
        return sum(1 for service in self._services if service.id)

    @property
    def is_connected(self) -> bool:
        """True if there is a connection now."""
        return self._link is not None

    async def close(self) -> None:
        """End the connection and its queues."""
        for queue in self.queues.values():
            queue.close()
        for task in self._taking_over:
            task.cancel()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    # ------------------------------------------------------------------ services

    async def add(self, registration: Registration, lost: Callable[[Refused], None]) -> OriginService:
        """Register a service at the origin. Raises Refused, also when the origin cannot be reached."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        service = OriginService(self, registration, lost)
        self._services[service] = None  # so that the connection stays
        try:
            await self._register_soon(service)
        except BaseException:
            self.remove(service)
            raise
        return service

    async def _register_soon(self, service: OriginService) -> None:
        self._retry.set()
        broke = ""  # why, as far as this service is concerned: the next connection may be there already
        with suppress(TimeoutError, WrongAnswer):
            async with asyncio.timeout(CONNECT_S):
                while True:
                    link = await self._wait_link()
                    try:
                        await self._register(link, service)
                        return
                    except OriginLost as lost:
                        broke = str(lost)
                        if isinstance(lost, WrongAnswer):
                            raise
        raise self._unreachable(broke)

    async def _wait_link(self) -> OriginLink:
        """The connection. Raises Refused when an attempt to connect has failed."""
        while self._link is None or self._link.is_lost:
            self._failed.clear()
            waits = [asyncio.ensure_future(event.wait()) for event in (self._connected, self._failed)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
            if self._failed.is_set():
                raise self._unreachable()
        return self._link

    def _unreachable(self, broke: str = "") -> Refused:
        if self._refusal is not None:
            return Refused(self._refusal.code, f"the origin {self.url}: {self._refusal.detail}")
        return Refused(
            "origin-unreachable",
            f"the origin {self.url} cannot be reached: {broke or self.error or 'it does not answer'}",
        )

    async def _register(self, link: OriginLink, service: OriginService) -> None:
        """Register a service, and have its queue be notified. Raises Refused or OriginLost."""
        about = service.registration
        registered = await link.call(
            "register", service=about.name, machine=about.machine, type=about.type, events=list(about.events)
        )
        service.id = str(registered.get("id", ""))
        if not registered.get("callbacks"):
            await link.call("deregister", id=service.id)
            raise Refused(
                "callbacks-off",
                f"the origin {self.url} runs no registration reflex REenableCallbacks for service "
                f"{about.name}, so it notifies no callback broker: receive from it directly",
            )
        await self._follow(link, about.name)

    async def _follow(self, link: OriginLink, name: str) -> None:
        """Have the queue of a service be notified over this connection, or leave it to that of another login.
        Raises Refused or OriginLost."""
        queue = self.queues.get(name)
        if queue is None:
            if self.remote.queue(name) is not None:
                return
            queue = self.queues[name] = self._make_queue(self, name)
        await queue.follow(link)

    def remove(self, service: OriginService) -> None:
        """Deregister a service; its queue ends with the last one of its name."""
        if self._services.pop(service, service) is service:
            return
        if self._link is not None and service.id:
            self._link.ask("deregister", id=service.id)
        name = service.registration.name
        if not self.has_service(name):
            self._leave(name)
        if not self._services:
            self._unused(self)

    def _leave(self, name: str) -> None:
        """End the queue of a service here; the connection of another login of it has it from now on."""
        queue = self.queues.pop(name, None)
        if queue is None:
            return
        if self._link is not None:
            self._link.ask("unsubscribe", id=name)
        queue.close()
        other = self.remote.other(name, self)
        if other is not None:
            other.take_over(name)

    def take_over(self, name: str) -> None:
        """Have the queue of a service, which the connection of another login had so far."""
        task = asyncio.create_task(self._take_over(name))
        self._taking_over.add(task)
        task.add_done_callback(self._taking_over.discard)

    async def _take_over(self, name: str) -> None:
        link = self._link
        if link is None or not self.has_service(name):
            return
        try:
            await self._follow(link, name)
        except OriginLost:
            pass  # the next connection follows
        except Refused as refused:
            self._lose(name, refused)
        except Exception as error:  # of this service, and of no other
            internal_errors.note("a service of a callback broker", error, name)

    def _lose(self, name: str, refused: Refused) -> None:
        """The origin refuses a service from now on."""
        for service in [one for one in self._services if one.registration.name == name]:
            self.remove(service)
            service.lost(refused)

    # ------------------------------------------------------------------ for queues

    async def call(self, operation: str, **members: Any) -> dict[str, object]:
        """Carry out an operation at the origin. Raises Refused or OriginLost."""
        if self._link is None:
            raise OriginLost(self.error or "there is no connection to the origin")
        return await self._link.call(operation, **members)

    def send(self, operation: str, **members: Any) -> None:
        """Carry out an operation whose result does not matter."""
        if self._link is not None:
            self._link.ask(operation, **members)

    async def wait_connected(self) -> None:
        """Wait until there is a connection."""
        while self._link is None:
            await self._connected.wait()

    # ------------------------------------------------------------------ the connection

    async def _run(self) -> None:
        """Connect, and again when the connection breaks, until it is cancelled."""
        delays = _PACE.delays()
        while True:
            self.url = self._urls[0]
            self._urls.rotate(-1)
            try:
                link = await OriginLink.open(self.url, self.origin, self._take, self._max_event)
            except OriginLost as lost:
                self._attempt_failed(str(lost), None)
            except Refused as refused:
                self._attempt_failed(refused.detail, refused)
            except Exception as error:  # of this attempt: the next one may succeed
                internal_errors.note("connecting to an origin", error, self.url)
                self._attempt_failed(f"the callback broker failed: {error!r}", None)
            else:
                await self._serve(link)
                delays = _PACE.delays()
            await self._pause(next(delays))

    def _attempt_failed(self, error: str, refused: Refused | None) -> None:
        if self._reported.get(self.url) != error:
            log.warning("the origin %s cannot be reached: %s", self.url, error)
            self._reported[self.url] = error
        self.error, self._refusal = error, refused
        self._untried = 0 if self._is_wrong_login else self._untried - 1
        if self._untried <= 0:
            self._untried = len(self._urls)
            self._failed.set()
            self._leave_to_others()

    @property
    def _is_wrong_login(self) -> bool:
        """True if the origin has refused the login, which its other addresses will do too."""
        return self._refusal is not None and self._refusal.code in _WRONG_LOGIN

    def _leave_to_others(self) -> None:
        """Leave queues to the connections of other logins that work, as when this one's was withdrawn."""
        for name in [name for name in self.queues if self.remote.other(name, self) is not None]:
            self._leave(name)

    def _take_what_is_left(self) -> None:
        """Have the queues that others have left while this connection was being made."""
        for name in {service.registration.name for service in self._services if service.id}:
            if self.remote.queue(name) is None:
                self.take_over(name)

    async def _pause(self, delay_s: float) -> None:
        """Wait for the next attempt; a service that registers needs it now."""
        if self._is_wrong_login:
            delay_s = _REFUSED_S
        elif self._untried != len(self._urls):
            return  # the other addresses come first
        self._retry.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._retry.wait()

    async def _serve(self, link: OriginLink) -> None:
        """Use a connection until it breaks."""
        reading = asyncio.create_task(link.run())
        try:
            self.error, self._refusal, self._untried = "", None, len(self._urls)
            self._reported.clear()
            restoring = asyncio.create_task(self._restore(link))
            await asyncio.wait((reading, restoring), return_when=asyncio.FIRST_COMPLETED)
            if restoring.done() and not reading.done():
                self._link = link
                self._connected.set()
                self._take_what_is_left()
                await asyncio.wait((reading,))
            restoring.cancel()
            self.error = str(reading.exception())
            log.warning("the connection to the origin %s broke: %s", self.url, self.error)
        finally:
            reading.cancel()
            self._link = None
            self._connected.clear()
            for queue in self.queues.values():
                queue.connection_lost()
            await link.close()

    async def _restore(self, link: OriginLink) -> None:
        """Register the services of the last connection again. Those that are refused now are lost."""
        for service in [one for one in self._services if one.id]:
            try:
                await self._register(link, service)
            except OriginLost:
                return
            except Refused as refused:
                self.remove(service)
                service.lost(refused)
            except Exception as error:  # of this service, and of no other
                internal_errors.note("a service of a callback broker", error, service.registration.name)

    def _take(self, event: dict[str, object]) -> None:
        queue = self.queues.get(str(event.get("sub", "")))
        if queue is None:
            return
        if event.get("op") == "arrived":
            queue.arrived(event)
        elif event.get("op") == "unsubscribed":
            reason = str(event.get("detail", "the origin ended the notifications"))
            self._lose(queue.name, Refused("not-allowed", reason))
