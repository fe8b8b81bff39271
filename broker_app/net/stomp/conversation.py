"""The shared part of a session: the state, the client, and what sends bytes and commands.

connecting ──login──► authenticating ──accepted──► open ──leave──► closing
    │    └──────────────accepted────────────────────▲ │               │
    └──────────────────┬─────────────────────────────┴─┴───────ended───┴──► closed

`NEXT` is this drawing as a table; `ACCEPTS` lists the frames that are legal in each state.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from broker_app.base.refused import Refused
from broker_app.base.settings.transport_connectors import EACH_FRAME, receipts_of
from broker_app.config import Config
from broker_app.core import commands as c
from broker_app.core.message import MessageIds
from broker_app.core.model import ClientKey, InnerReceiver, Peer
from broker_app.engine import Engine
from broker_app.engine.client import EngineClient
from broker_app.features.channels.channels import Channels
from broker_app.features.cluster.pages import RemotePages
from broker_app.features.services.seed_shares import SeedShares
from broker_app.net.auth.login import Identity, Logins
from broker_app.net.auth.login_throttle import Slowed
from broker_app.net.policy.access import Access, Client, ConnectionInfo
from broker_app.net.stomp.bridge_flows import Bridged
from broker_app.net.stomp.headers import PrivateNames
from broker_app.net.stomp.login.registrations import Registrar
from broker_app.net.stomp.rendering import Renderer
from broker_app.telemetry.client_events import ClientEvents
from mom_client.stomp import frame as wire

#: states; a session that is CLOSING or CLOSED processes no further frames
CONNECTING, AUTHENTICATING, OPEN, CLOSING, CLOSED = range(5)
#: events that change the state
LOGIN, ACCEPTED, LEAVE, ENDED = "login", "accepted", "leave", "ended"

NEXT: Final[Mapping[int, Mapping[str, int]]] = {
    CONNECTING: {LOGIN: AUTHENTICATING, ACCEPTED: OPEN, ENDED: CLOSED},
    AUTHENTICATING: {ACCEPTED: OPEN, ENDED: CLOSED},
    OPEN: {LEAVE: CLOSING, ENDED: CLOSED},
    CLOSING: {ENDED: CLOSED},
    CLOSED: {ENDED: CLOSED},
}

_CONNECT: Final = frozenset((wire.CONNECT, wire.STOMP))
_ALL: Final = _CONNECT | {
    wire.SEND, wire.SUBSCRIBE, wire.UNSUBSCRIBE, wire.ACK, wire.NACK,
    wire.BEGIN, wire.COMMIT, wire.ABORT, wire.DISCONNECT,
}  # fmt: skip
#: frames that arrive while a login is checked wait for its result; a second CONNECT has an error of its own
ACCEPTS: Final[Mapping[int, frozenset[bytes]]] = MappingProxyType(
    {CONNECTING: _CONNECT, OPEN: _ALL, CLOSING: frozenset(), CLOSED: frozenset()}
)

#: bytes of a frame that count in addition to its body while it waits in the inbox
FRAME_BYTES = 200


class Transport(Protocol):
    """A byte stream to one client. `write` never waits; the session is notified when its buffer is full."""

    #: the address of the client, to be shown: "tcp 127.0.0.1:50000"
    peer_name: str
    #: the connection as rules see it; known when the session is `admitted`
    connection_info: ConnectionInfo

    def write(self, data: bytes) -> None: ...
    def close(self) -> None:
        """Send what is written, then end the connection."""

    def abort(self) -> None:
        """End the connection at once."""

    def authenticated(self) -> None:
        """The client is authenticated: it may send as much at once as the settings allow."""

    def hung_up(self) -> bool:
        """True if the client will send no more, as far as is known while nothing is read."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Session(Protocol):
    """A session, as its parts ask it."""

    def read_on(self) -> None:
        """Process what is left of what was received."""

    def refuse(self, refusal: Refused) -> None:
        """Refuse what the client has asked for."""

    def close(self, refusal: Refused) -> None:
        """End the session by an ERROR."""

    def failed(self, error: Exception) -> None:
        """End the session for an internal error."""


class SessionEnvironment(NamedTuple):
    """Time and randomness for sessions; tests pass their own."""

    #: a monotonic clock, in seconds
    monotonic: Callable[[], float]
    #: seconds since 1970
    time: Callable[[], float]
    #: calls a function after some seconds
    call_later: Callable[[float, Callable[[], None]], object]
    #: a name that cannot be guessed
    new_name: Callable[[], str]


class Sessions(Protocol):
    """The services that a session uses; `SessionRegistry` provides them."""

    STUCK_S: float
    environment: SessionEnvironment
    config: Config
    engine: Engine
    logins: Logins
    access: Access
    ids: MessageIds
    client_events: ClientEvents
    registrar: Registrar
    seed_shares: SeedShares
    channels: Channels
    #: what waits at the other brokers of a cluster; None in none
    pages: RemotePages | None
    requests: EngineClient
    #: the WebSocket of the broker; without a host it is that of the client's connection. Empty if not known
    websocket_url: str
    #: returns the addresses of all brokers that can serve clients of a listener; none where no other can
    failover_uris: Callable[[str], Sequence[str]]

    @property
    def full(self) -> bool: ...
    def join(self, session: Any) -> int:
        """Add a session; returns its number on this node, starting at 1."""

    def enter(self, session: Any, identity: Identity, client_key: ClientKey) -> None:
        """Note that a session has logged in. Raises Refused when there are too many connections."""

    def leave(self, session: Any) -> bool:
        """Remove a session; returns False if it was removed before."""

    def notify(self, event: str, session: Any) -> None: ...
    def knows_host(self, host: str) -> bool: ...
    def check_often(self, session: Any, beat_s: float) -> None: ...
    def authenticate(self, login: str, passcode: str, address: str, done: Authenticated) -> None: ...
    def run(self, work: Coroutine[Any, Any, None]) -> Any:
        """Do work in the background; returns its task."""

    def log(self, template: str, *values: object) -> None: ...


#: called with the identity, or None if login or passcode are wrong, or the reason why it was not checked
Authenticated = Callable[[Identity | None, Slowed | None], None]


class Conversation:
    """State and client of one session; sends its bytes and commands."""

    __slots__ = (
        "bridge",
        "bytes_in",
        "bytes_out",
        "client",
        "client_id",
        "close_reason",
        "frames_in",
        "frames_out",
        "last_received_s",
        "last_sent_s",
        "names",
        "peer",
        "prefers_this_broker",
        "renderer",
        "session",
        "sessions",
        "soft_errors",
        "state",
        "transport",
        "version",
    )

    def __init__(self, sessions: Sessions, session: Session, transport: Transport, peer: Peer) -> None:
        self.sessions = sessions
        self.session = session
        self.transport = transport
        self.peer = peer
        self.state = CONNECTING
        self.version = "1.2"
        self.renderer = Renderer("1.2", sessions.ids)
        #: the authenticated client and its connection, as rules see them; None before
        self.client: Client | None = None
        #: header `client-id` of CONNECT; durable subscriptions of ActiveMQ clients belong to it
        self.client_id = ""
        #: names of the temporary destinations; from the login on
        self.names: PrivateNames
        #: what is forwarded by the bridge of another broker; None for other clients
        self.bridge: Bridged | None = None
        #: True if it is not to be asked to go to another broker of a cluster
        self.prefers_this_broker = False
        #: True if refusals are sent as messages, and do not end the connection
        self.soft_errors = False
        #: the reason why it ended, as far as the broker knows
        self.close_reason = "the connection was lost"
        self.bytes_in = self.bytes_out = self.frames_in = self.frames_out = 0
        self.last_received_s = self.last_sent_s = sessions.environment.monotonic()

    def follow(self, event: str) -> None:
        """Change the state. Raises KeyError for an event that the state does not have."""
        self.state = NEXT[self.state][event]

    @property
    def confirms_each_frame(self) -> bool:
        """True if frames of a transaction are confirmed as they are taken, not at its COMMIT."""
        config = self.sessions.config
        of_listener = receipts_of(config.transport_connector, self.transport.connection_info.listener)
        return (of_listener or config.transaction_receipts) == EACH_FRAME

    def submit(self, command: c.Command, size: int = FRAME_BYTES) -> None:
        """Hand a command to the engine; it counts `size` bytes while it waits there."""
        self.sessions.engine.submit(command, size)

    def write(self, data: bytes) -> None:
        """Send bytes to the client."""
        if self.state != CLOSED:
            self.last_sent_s = self.sessions.environment.monotonic()
            self.bytes_out += len(data)
            self.transport.write(data)

    def forget(self) -> None:
        """Let go of all that refers to the session, which has ended: it is freed at once then, and need not
        wait until the garbage collector looks at everything."""
        ended, peer = EndedConversation(self.transport), Peer(InnerReceiver())
        peer.connection = self.peer.connection  # a list that was begun before shows it by its id
        self.session = self.transport = ended
        self.peer = peer
        self.bridge = None

    def note(self, event: str, detail: str, code: str = "", by: str = "") -> None:
        """Add an event to the history of this client."""
        self.sessions.client_events.note(self.peer.connection, event, code=code, detail=detail, by=by)


class EndedConversation:
    """The session and the transport of a conversation that has ended: nothing happens any more."""

    def __init__(self, transport: Transport) -> None:
        self.peer_name = transport.peer_name
        self.connection_info = transport.connection_info

    def write(self, data: bytes) -> None:
        """Do nothing."""

    def close(self, refusal: Refused | None = None) -> None:
        """Do nothing."""

    def refuse(self, refusal: Refused) -> None:
        """Do nothing."""

    def failed(self, error: Exception) -> None:
        """Do nothing."""

    def hung_up(self) -> bool:
        """True."""
        return True

    abort = authenticated = pause_reading = resume_reading = read_on = close
