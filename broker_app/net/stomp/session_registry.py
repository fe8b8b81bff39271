"""The registry of all STOMP sessions, with what they share: engine, login, settings and clock."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final, NamedTuple

from broker_app.base.internal_errors import EventListeners
from broker_app.base.refused import Refused
from broker_app.base.shares import Shares
from broker_app.base.turns import in_turns
from broker_app.config import Config
from broker_app.core.half_open import taken_over
from broker_app.core.message import MessageIds
from broker_app.core.model import ClientKey
from broker_app.engine import Engine
from broker_app.engine.client import EngineClient
from broker_app.features.channels.channels import Channels
from broker_app.features.cluster.pages import RemotePages
from broker_app.features.services.origin import Origin
from broker_app.features.services.seed_shares import SeedShares
from broker_app.net.auth.login import Identity, Logins
from broker_app.net.auth.login_throttle import Slowed
from broker_app.net.broker_state import BrokerState
from broker_app.net.policy.access import Access
from broker_app.net.policy.connection_places import ConnectionPlaces
from broker_app.net.stomp.conversation import Authenticated, SessionEnvironment
from broker_app.net.stomp.login.registrations import Outcome, Registrar
from broker_app.net.stomp.session import StompSession
from broker_app.reflex.registration import Registration, RegistrationVerdict
from broker_app.telemetry.client_events import ClientEvents

log = logging.getLogger(__name__)


def _call_later(seconds: float, function: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_later(seconds, function)


REAL: Final = SessionEnvironment(time.monotonic, time.time, _call_later, lambda: secrets.token_hex(8))


class ClientList(NamedTuple):
    """The list of brokers that a client was sent last: its version, 0 for none, since when that was the one
    of clients (seconds since 1970), and whether it is `behind` the present one."""

    version: int = 0
    since_s: float | None = None
    behind: bool = False


def _end_former(session: StompSession) -> None:
    """End a session that its client has left behind."""
    session.shutdown(taken_over())
    session.lost()


class OpenRegistrar:
    """Lets every service register."""

    def begin_registration(
        self, registration: Registration, done: Callable[[RegistrationVerdict], None]
    ) -> RegistrationVerdict:
        """Accept."""
        return RegistrationVerdict(True, registration)

    def begin_service(
        self,
        registration: Registration,
        origin: Origin | None,
        done: Callable[[Outcome], None],
        *,
        admin: bool,
    ) -> None:
        """Accept, in the next round of the loop."""
        asyncio.get_running_loop().call_soon(done, RegistrationVerdict(True, registration))

    def service_of(self, connection: str) -> None:
        """None: no service is registered."""

    def deregistered(self, registration: Registration) -> None:
        """Do nothing."""


class SessionRegistry:
    """Shared by all STOMP sessions of a node."""

    #: a client that reads nothing of what was written for so long is disconnected
    STUCK_S = 60.0
    #: after a change of permissions, sessions are rechecked for so many seconds before other tasks run
    RECHECK_S = 0.003

    def __init__(
        self,
        engine: Engine,
        logins: Logins,
        access: Access,
        config: Config,
        *,
        ids: MessageIds,
        environment: SessionEnvironment = REAL,
        state: BrokerState | None = None,
    ) -> None:
        self.environment = environment
        self._state = state or BrokerState(config.name)
        self.engine = engine
        self.logins = logins
        self.access = access
        self.config = config
        self.ids = ids
        #: what sessions ask of the engine, to be answered between two batches
        self.requests = EngineClient(engine, "stomp")
        self.sessions: dict[StompSession, None] = {}
        #: those that have left and may have something to do with the engine yet
        self._leaving: list[StompSession] = []
        self._none_left = asyncio.Event()
        #: of sessions that have logged in
        self._places = ConnectionPlaces[StompSession](
            Shares(
                *(lambda: self.config.max_connections, "connections"),
                *("close some (MOM_MAX_CONNECTIONS)", "too-many"),
            ),
            lambda session: session.peer.client_key,
            _end_former,
        )
        #: those of them that are pages of the console
        self._of_console: set[StompSession] = set()
        #: sessions with fast heart-beats, which are checked by themselves: seconds between two checks, when
        #: the next one is due (monotonic)
        self._fast: dict[StompSession, tuple[float, float]] = {}
        #: the one timer of all of them, while there are any, and its seconds
        self._fast_timer: asyncio.TimerHandle | None = None
        self._fast_step = 0.0
        self.tasks: set[asyncio.Task[None]] = set()
        self.opened_total = 0
        #: of sessions that have ended
        self._bytes_gone = (0, 0)
        logins.present = self.identities
        self.failover_uris: Callable[[str], Sequence[str]] = lambda listener: ()
        #: the list of brokers that a client has; a cluster sends them
        self.list_of: Callable[[StompSession], ClientList] = lambda session: ClientList()
        #: decides which services may register
        self.registrar: Registrar = OpenRegistrar()
        self.websocket_url = ""
        #: the messages to profiles of each user
        self.seed_shares = SeedShares()
        #: what clients send to applications at sites
        self.channels = Channels(engine, config.name)
        #: what waits at the other brokers of a cluster; None in none
        self.pages: RemotePages | None = None
        #: called for connections that log in, and for those that end
        self.listeners: EventListeners[[str, StompSession]] = EventListeners("the connections' listeners")
        #: the history of each client
        self.client_events = ClientEvents(time.time)
        self._hosts = {"", "/", config.name, *config.known_hosts, *own_names()}
        self._hosts = {host.lower() for host in self._hosts}

    @property
    def full(self) -> bool:
        return len(self.sessions) > self.config.max_connections

    def join(self, session: StompSession) -> int:
        """Add a session. Returns its number on this node, starting at 1."""
        self.sessions[session] = None
        self.opened_total += 1
        return self.opened_total

    def enter(self, session: StompSession, identity: Identity, client_key: ClientKey) -> None:
        """Note that a session has logged in. Raises Refused when the broker takes no new clients, or there
        are too many connections; former ones of the same client give way."""
        if not identity.is_of_console:
            self._state.check()
        admin = self.access.is_admin(identity)
        self._places.take(session, identity.user, client_key, admin=admin)
        if identity.is_of_console:
            self._of_console.add(session)

    def leave(self, session: StompSession) -> bool:
        """Remove a session that has ended. Returns False if it was removed before."""
        if session not in self.sessions:
            return False
        del self.sessions[session]
        if not self.sessions:
            self._none_left.set()
        self._of_console.discard(session)
        self._places.leave(session)
        self._fast.pop(session, None)
        self._leaving.append(session)
        came, went = self._bytes_gone
        self._bytes_gone = came + session.conversation.bytes_in, went + session.conversation.bytes_out
        return True

    @property
    def of_programs(self) -> int:
        """The number of sessions that have logged in, without pages of the console."""
        return len(self._places) - len(self._of_console)

    @property
    def bytes_total(self) -> tuple[int, int]:
        """Bytes of STOMP from all clients, and to them, since the node started."""
        came, went = self._bytes_gone
        now = [(session.conversation.bytes_in, session.conversation.bytes_out) for session in self.sessions]
        return came + sum(one for one, _ in now), went + sum(other for _, other in now)

    def close_connection(self, connection: str, refusal: Refused) -> None:
        """Close the session with this connection id, if there is one."""
        session = next((one for one in self.sessions if one.peer.connection == connection), None)
        if session is not None:
            session.close(refusal)

    def identities(self) -> list[Identity]:
        """The identities of the clients."""
        return [session.identity for session in self.sessions if session.identity]

    def notify(self, event: str, session: StompSession) -> None:
        self.listeners(event, session)

    def knows_host(self, host: str) -> bool:
        """True if the `host` of CONNECT names this broker: its name, one of its host names, or an address."""
        host = host.lower()
        return host in self._hosts or "*" in self._hosts or _is_address(host)

    def authenticate(self, login: str, passcode: str, address: str, done: Authenticated) -> None:
        """Check a login in the background, and call `done` with the result."""
        self.run(self._authenticate(login, passcode, address, done))

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do the work of a session in the background."""
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def engine_ended(self, error: BaseException) -> None:
        """Fail what waits for the engine."""
        self.requests.engine_ended(error)

    async def _authenticate(self, login: str, passcode: str, address: str, done: Authenticated) -> None:
        try:
            identity, slowed = await self.logins.authenticate(login, passcode, address), None
        except Slowed as refusal:
            identity, slowed = None, refusal
        done(identity, slowed)

    def log(self, template: str, *values: object) -> None:
        """Log an event of a session."""
        log.info(template, *values)

    async def keep_time(self) -> None:
        """Send heart-beats and check time limits of all sessions; runs as long as the node."""
        while True:
            step = self._step
            await asyncio.sleep(step)
            await self._check_others(step)
            await self._forget_those_that_left()

    async def _check_others(self, step: float) -> None:
        """Check the sessions without fast heart-beats. By itself: between two checks nothing here may refer
        to the last session, which would not be freed."""
        now = time.monotonic()
        async for session in in_turns(list(self.sessions)):
            if session in self.sessions and session not in self._fast:
                self._tick(session, now, step)

    async def _forget_those_that_left(self) -> None:
        left, self._leaving = self._leaving, []
        async for session in in_turns(left.pop() for _ in range(len(left))):  # each is freed in its turn
            if session.is_over:
                session.forget()
            else:
                self._leaving.append(session)

    @property
    def _step(self) -> float:
        """Seconds between two checks of a session."""
        return min(1.0, self.config.connect_timeout / 2)

    def check_often(self, session: StompSession, beat_s: float) -> None:
        """Check a session often enough for heart-beats of `beat_s` seconds."""
        if beat_s >= 4 * self._step:
            return
        step = beat_s / 4
        self._fast[session] = step, time.monotonic() + step
        if self._fast_timer is None or step < self._fast_step:
            self._start_fast_timer(step)

    def _start_fast_timer(self, step: float) -> None:
        if self._fast_timer is not None:
            self._fast_timer.cancel()
        self._fast_step = step
        self._fast_timer = asyncio.get_running_loop().call_later(step, self._check_fast)

    def _check_fast(self) -> None:
        """Check the sessions that are due before the timer runs again."""
        self._fast_timer = None
        now = time.monotonic()
        for session, (step, due) in list(self._fast.items()):
            if session in self._fast and due <= now + self._fast_step:
                self._fast[session] = step, now + step
                self._tick(session, now, step)
        if self._fast:
            self._start_fast_timer(min(step for step, _ in self._fast.values()))

    def _tick(self, session: StompSession, now: float, step: float) -> None:
        try:
            session.tick(now, step)
        except Exception as error:
            session.failed(error)

    def configure(self, config: Config) -> None:
        """Apply changed settings."""
        self.config = config
        for session in self.sessions:
            session.configured()

    def policy_changed(self) -> None:
        """Forget what followed from the former policy, and end sessions whose user or token is gone.

        Subscriptions and transactions are rechecked when all earlier commands are decided.
        """
        for session in list(self.sessions):
            try:
                session.policy_changed()
            except Exception as error:
                session.failed(error)

    def recheck_logins(self) -> None:
        """End sessions whose login is no longer valid."""
        for session in list(self.sessions):
            session.recheck_login()

    async def recheck_permissions(self) -> None:
        """End what is not permitted any more in all sessions; other tasks run in between."""
        until = time.monotonic() + self.RECHECK_S
        for session in list(self.sessions):
            try:
                session.recheck_permissions()
            except Exception as error:
                session.failed(error)
            if time.monotonic() > until:
                await asyncio.sleep(0)
                until = time.monotonic() + self.RECHECK_S

    def suspend(self) -> None:
        """Read nothing more from any client, and deliver nothing; pages of the console go on."""
        for session in list(self.sessions):
            if session.identity is None or not session.identity.is_of_console:
                session.suspend()

    def resume(self) -> None:
        """Serve all clients again."""
        for session in list(self.sessions):
            session.resume()

    def hold_input(self, on: bool) -> None:
        """Read nothing from any client while the broker is about to hand over."""
        for session in list(self.sessions):
            session.hold_input(on)

    def end_all(self, refusal: Refused) -> None:
        """Take nothing more from any client; each learns why when what it has sent is answered."""
        for session in list(self.sessions):
            session.close(refusal)

    async def close_all(self, refusal: Refused) -> None:
        """Report to every client why the broker stops, and end the connections."""
        for session in list(self.sessions):
            session.shutdown(refusal)
        for task in list(self.tasks):
            task.cancel()

    async def wait_closed(self, within_s: float) -> None:
        """Wait until all connections have ended, so long at most."""
        self._none_left.clear()
        if self.sessions:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._none_left.wait(), within_s)


@cache  # a name server may take seconds to answer
def own_names() -> tuple[str, str]:
    """The names of this machine, as they were when they were needed first."""
    return socket.gethostname(), socket.getfqdn()


def _is_address(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host.strip("[]"))
        except OSError:
            continue
        return True
    return False
