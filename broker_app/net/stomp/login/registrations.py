"""The registration of a session between login and CONNECTED: of a service, or just of a connection. It may be
refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from broker_app.base.refused import Refused
from broker_app.core.destination import parse
from broker_app.features.services.origin import Origin, websocket_url
from broker_app.net.auth.login import Identity
from broker_app.net.policy.access import Access, Client, ConnectionInfo
from broker_app.reflex.registration import Registration, RegistrationVerdict
from broker_app.rules.event import RECEIVE
from mom_client.stomp.frame import Headers

#: headers of CONNECT that register a service: its name, and properties. Other connections have the name of
#: client-id, or of their user, for reflexes
SERVICE: Final = "mom-service"
MACHINE, TYPE, EVENTS = "mom-machine", "mom-service-type", "mom-service-events"
#: at a callback broker: WebSocket addresses of the remote broker, and the login there
ORIGIN, ORIGIN_LOGIN, ORIGIN_PASSCODE = "mom-origin", "mom-origin-login", "mom-origin-passcode"
#: headers of CONNECTED for a service: whether a callback broker may serve it, and the WebSocket of the broker
CALLBACKS, WEBSOCKET = "mom-service-callbacks", "mom-websocket"
#: characters of names, events of a service, and addresses of an origin
MAX_NAME: Final = 255
_MAX_EVENTS: Final = 100
_MAX_URLS: Final = 16

#: the end of a registration that was asked for: a verdict, or a refusal for another reason
Outcome = RegistrationVerdict | Refused


class ServiceHeaders(NamedTuple):
    """The service that CONNECT names."""

    name: str
    machine: str
    type: str
    events: tuple[str, ...]
    origin: Origin | None


class Registrar(Protocol):
    """Decides which connections and services may register."""

    def begin_registration(
        self, registration: Registration, done: Callable[[RegistrationVerdict], None]
    ) -> RegistrationVerdict | None:
        """Return the verdict about a connection, or None if `done` gets it later."""

    def begin_service(
        self,
        registration: Registration,
        origin: Origin | None,
        done: Callable[[Outcome], None],
        *,
        admin: bool,
    ) -> None:
        """Register a connection as a service; `done` gets the outcome later. `admin` is True for that of an
        administrator."""

    def service_of(self, connection: str) -> str | None:
        """The name of the service that a connection is registered as; None if it is none."""

    def deregistered(self, registration: Registration) -> None:
        """An accepted registration has ended."""


class _Sessions(Protocol):
    registrar: Registrar
    access: Access


def short(given: Headers, name: str) -> str:
    """A header of CONNECT with a name; empty without it. Raises Refused if it is too long."""
    value = given.get(name, "")
    if len(value) > MAX_NAME:
        raise Refused("invalid", f"{name} has {len(value)} characters; at most {MAX_NAME} are allowed")
    return value


def service_of(given: Headers) -> ServiceHeaders | None:
    """The service of a CONNECT; None if it names none. Raises Refused."""
    name = short(given, SERVICE)
    if not name:
        return None
    events = tuple(event for event in map(str.strip, given.get(EVENTS, "").split(",")) if event)
    if len(events) > _MAX_EVENTS or max(map(len, events), default=0) > MAX_NAME:
        raise Refused("invalid", f"{EVENTS}: at most {_MAX_EVENTS} names of {MAX_NAME} characters")
    return ServiceHeaders(name, short(given, MACHINE), short(given, TYPE), events, _origin_of(given))


def _origin_of(given: Headers) -> Origin | None:
    urls = [url.strip() for url in given.get(ORIGIN, "").split(",") if url.strip()]
    if not urls:
        return None
    if len(urls) > _MAX_URLS:
        raise Refused("invalid", f"{ORIGIN} has {len(urls)} addresses; at most {_MAX_URLS} are allowed")
    try:
        addresses = tuple(map(websocket_url, urls))
    except ValueError as error:
        raise Refused("invalid", f"{ORIGIN}: {error}") from None
    return Origin(addresses, given.get(ORIGIN_LOGIN, ""), given.get(ORIGIN_PASSCODE, ""))


class SessionRegistration:
    """The registration of one session."""

    __slots__ = ("_registered", "_sessions")

    def __init__(self, sessions: _Sessions) -> None:
        self._sessions = sessions
        self._registered: Registration | None = None

    def begin(
        self,
        identity: Identity,
        connection: str,
        info: ConnectionInfo,
        service: ServiceHeaders | None,
        done: Callable[[Outcome], None],
    ) -> Outcome | None:
        """The outcome for a client that has logged in; None if `done` gets it later. Raises Refused when the
        user may not receive the messages of the service."""
        registrar = self._sessions.registrar
        if service is None:
            registration = Registration(
                info.client or identity.user,
                identity.user,
                info.address or "",
                connection=connection,
                transport=info.protocol,
            )
            return registrar.begin_registration(registration, done)
        self._sessions.access.check(Client(identity, info), RECEIVE, parse(f"/queue/{service.name}"))
        registration = Registration(
            service.name,
            identity.user,
            service.machine or info.address or "",
            service.type,
            service.events,
            connection,
            info.protocol,
            token=identity.token or "",
        )
        admin = self._sessions.access.is_admin(identity)
        registrar.begin_service(registration, service.origin, done, admin=admin)
        return None

    @property
    def has_callbacks(self) -> bool:
        """True if a callback broker may serve it."""
        return self._registered is not None and self._registered.has_callbacks

    def accepted(self, verdict: RegistrationVerdict) -> None:
        """Keep the registration until the session ends."""
        self._registered = verdict.registration

    def abandoned(self, outcome: Outcome) -> None:
        """The client has gone before its registration was decided."""
        if isinstance(outcome, RegistrationVerdict) and outcome.accepted:
            self._sessions.registrar.deregistered(outcome.registration)

    def ended(self) -> None:
        """The session has ended."""
        registered, self._registered = self._registered, None
        if registered is not None:
            self._sessions.registrar.deregistered(registered)


def refusal(outcome: Outcome) -> Refused | None:
    """The refusal of a service; None if it was accepted."""
    if isinstance(outcome, Refused):
        return outcome
    if outcome.accepted:
        return None
    detail = f"service {outcome.registration.name} was refused by reflex {outcome.reflex}: {outcome.reason}"
    return Refused("registration-refused", detail, **outcome.facts)
