"""What all sessions share: the engine, login, settings, and the clock that times them out."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING, Protocol

from broker_app.config import Config
from broker_app.core.message import MessageIds
from broker_app.engine import Engine
from broker_app.internal_errors import EventListeners
from broker_app.net.auth.login import Logins
from broker_app.net.policy.access import Access, Way
from broker_app.telemetry.client_events import ClientEvents

if TYPE_CHECKING:
    from broker_app.net.stomp.session import StompSession

VERSION = "0.1.0"
#: what is told of connections
OPENED_EVENT, CLOSED_EVENT = "opened", "closed"


class Transport(Protocol):
    """A pipe for bytes to one client. `write` never waits; fullness is told to the session."""

    #: where the client is, for people: "tcp 127.0.0.1:50000"
    peer_name: str
    #: how the client came here, for rules; known when the session is `admitted`
    way: Way

    def write(self, data: bytes) -> None: ...
    def close(self) -> None:
        """Send what is written, then end the connection."""

    def abort(self) -> None:
        """End the connection at once."""

    def trust(self) -> None:
        """The client has logged in: it may send as much at once as the settings allow."""

    def hung_up(self) -> bool:
        """Whether the client will send no more, as far as is known while nothing is read."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class SessionRegistry:
    """Shared by all STOMP sessions of a node."""

    #: a client that takes nothing of what was written for so long is cut off
    STUCK_S = 60.0
    #: after a change of rights, sessions are looked at for so long before others have a turn
    LOOK_S = 0.003

    def __init__(
        self, engine: Engine, logins: Logins, access: Access, config: Config, *, ids: MessageIds
    ) -> None:
        self.engine = engine
        self.logins = logins
        self.access = access
        self.config = config
        self.ids = ids
        self.sessions: dict[StompSession, None] = {}
        #: those with fast heart-beats, which are looked at by themselves: seconds between two looks, and when
        #: the next one is due
        self._hastened: dict[StompSession, tuple[float, float]] = {}
        #: the one timer of all of them, while there are any, and its seconds
        self._fast_timer: asyncio.TimerHandle | None = None
        self._fast_step = 0.0
        self.tasks: set[asyncio.Task[None]] = set()
        self.opened_total = 0
        #: of sessions that have ended
        self._bytes_gone = (0, 0)
        logins.present = lambda: (session.identity for session in self.sessions if session.identity)
        #: hear of connections that log in and of those that end
        self.listeners: EventListeners[[str, StompSession]] = EventListeners("the connections' listeners")
        #: what happens to clients
        self.client_events = ClientEvents(time.time)
        self._hosts = {"", "/", config.name, *config.known_hosts, socket.gethostname(), socket.getfqdn()}
        self._hosts = {host.lower() for host in self._hosts}

    @property
    def full(self) -> bool:
        return len(self.sessions) > self.config.max_connections

    def leave(self, session: StompSession) -> None:
        """A session has ended."""
        del self.sessions[session]
        self._hastened.pop(session, None)
        came, went = self._bytes_gone
        self._bytes_gone = came + session.bytes_in, went + session.bytes_out

    @property
    def bytes_total(self) -> tuple[int, int]:
        """Bytes of STOMP from all clients, and to them, since the node started."""
        came, went = self._bytes_gone
        now = [(session.bytes_in, session.bytes_out) for session in self.sessions]
        return came + sum(one for one, _ in now), went + sum(other for _, other in now)

    def tell(self, event: str, session: StompSession) -> None:
        self.listeners(event, session)

    def knows_host(self, host: str) -> bool:
        """Whether a CONNECT's `host` names this broker: its name, one of its host names, or an address."""
        host = host.lower()
        return host in self._hosts or "*" in self._hosts or _is_address(host)

    def spawn(self, coroutine: object) -> None:
        """Run a coroutine that belongs to a session (login)."""
        task: asyncio.Task[None] = asyncio.ensure_future(coroutine)  # type: ignore[call-overload]
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def keep_time(self) -> None:
        """Heart-beats and time-outs of all sessions; runs as long as the node."""
        while True:
            step = self._step
            await asyncio.sleep(step)
            now = time.monotonic()
            for session in list(self.sessions):
                if session not in self._hastened:
                    self._tick(session, now, step)

    @property
    def _step(self) -> float:
        """Seconds between two looks at a session."""
        return min(1.0, self.config.connect_timeout / 2)

    def hasten(self, session: StompSession, beat_s: float) -> None:
        """Look at a session often enough for heart-beats of `beat_s` seconds."""
        if beat_s >= 4 * self._step:
            return
        step = beat_s / 4
        self._hastened[session] = step, time.monotonic() + step
        if self._fast_timer is None or step < self._fast_step:
            self._start_fast_timer(step)

    def _start_fast_timer(self, step: float) -> None:
        if self._fast_timer is not None:
            self._fast_timer.cancel()
        self._fast_step = step
        self._fast_timer = asyncio.get_running_loop().call_later(step, self._look_at_hastened)

    def _look_at_hastened(self) -> None:
        """Look at the sessions that are due before the timer runs again."""
        self._fast_timer = None
        now = time.monotonic()
        for session, (step, due) in list(self._hastened.items()):
            if session in self._hastened and due <= now + self._fast_step:
                self._hastened[session] = step, now + step
                self._tick(session, now, step)
        if self._hastened:
            self._start_fast_timer(min(step for step, _ in self._hastened.values()))

    def _tick(self, session: StompSession, now: float, step: float) -> None:
        try:
            session.tick(now, step)
        except Exception as error:
            session.failed(error)

    def configure(self, config: Config) -> None:
        """Go on with other settings."""
        self.config = config
        for session in self.sessions:
            session.configured()

    def policy_changed(self) -> None:
        """Sessions forget what followed from the former policy; those of users and tokens now gone end. What
        others had begun is looked at again when all that came before is decided."""
        for session in list(self.sessions):
            try:
                session.policy_changed()
            except Exception as error:
                session.failed(error)

    def look_at_logins(self) -> None:
        """Sessions end whose login is no longer valid."""
        for session in list(self.sessions):
            session.look_at_login()

    async def look_again(self) -> None:
        """Sessions end what they have lost the right to; everybody else has a turn meanwhile."""
        until = time.monotonic() + self.LOOK_S
        for session in list(self.sessions):
            try:
                session.look_again()
            except Exception as error:
                session.failed(error)
            if time.monotonic() > until:
                await asyncio.sleep(0)
                until = time.monotonic() + self.LOOK_S

    async def close_all(self, reason: str) -> None:
        """Tell every client that the broker stops, and end the connections."""
        for session in list(self.sessions):
            session.shutdown(reason)
        for task in list(self.tasks):
            task.cancel()


def _is_address(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host.strip("[]"))
        except OSError:
            continue
        return True
    return False
