"""The opening of a session: login, registration as a service, and CONNECTED. A decision may take its time."""

from __future__ import annotations

from typing import Final

from broker_app.base.refused import Refused
from broker_app.config import MAX_HEADER_BYTES, MAX_HEADERS, Config
from broker_app.core import commands as c
from broker_app.core.model import ClientKey
from broker_app.net.auth.login import Identity
from broker_app.net.auth.login_throttle import Slowed
from broker_app.net.policy.access import Client, ConnectionInfo
from broker_app.net.policy.connection_places import client_key
from broker_app.net.stomp import rendering
from broker_app.net.stomp.acknowledgements import Acknowledgements
from broker_app.net.stomp.bridge_flows import Bridged
from broker_app.net.stomp.conversation import ACCEPTED, AUTHENTICATING, CONNECTING, LOGIN, OPEN, Conversation
from broker_app.net.stomp.flow_control import LOGIN as LOGIN_CHECK
from broker_app.net.stomp.flow_control import FlowControl
from broker_app.net.stomp.headers import PrivateNames
from broker_app.net.stomp.login import registrations
from broker_app.net.stomp.login.handshake import Handshake
from broker_app.net.stomp.login.registrations import Outcome, SessionRegistration
from broker_app.net.stomp.rendering import Renderer
from broker_app.reflex.registration import RegistrationVerdict
from mom_client.stomp import frame as wire
from mom_client.stomp.frame import Frame
from mom_client.stomp.parser import Limits, Parser

VERSION: Final = "0.1.0"
#: events of connections: logged in, and ended
OPENED_EVENT, CLOSED_EVENT = "opened", "closed"

#: bytes of the headers of CONNECT: it has room for the longest tokens that are in use
LONGEST_CONNECT: Final = 8 * 1024

_STOPPED = Refused("not-active", "the broker has stopped to serve; connect again or use another broker")


def frame_limits(config: Config, *, is_known: bool) -> Limits:
    """The limits of the frames of a client, before and after it is known."""
    head = MAX_HEADER_BYTES if is_known else LONGEST_CONNECT
    return Limits(
        max_header_bytes=head,
        max_header_line=head,
        max_headers=MAX_HEADERS,
        max_body=config.max_body_bytes,
    )


class Opening:
    """Opens one session, which reads the frames that arrived while something was decided."""

    __slots__ = (
        "_acknowledgements",
        "_conversation",
        "_flow_control",
        "_handshake",
        "_parser",
        "registration",
    )

    def __init__(
        self,
        conversation: Conversation,
        parser: Parser,
        handshake: Handshake,
        flow_control: FlowControl,
        acknowledgements: Acknowledgements,
    ) -> None:
        self._conversation = conversation
        self._parser = parser
        self._handshake = handshake
        self._flow_control = flow_control
        self._acknowledgements = acknowledgements
        self.registration = SessionRegistration(conversation.sessions)

    # ------------------------------------------------------------------ login

    def connect(self, frame: Frame) -> None:
        """CONNECT. Raises Refused."""
        conversation = self._conversation
        if conversation.state != CONNECTING:
            raise Refused("malformed-frame", "CONNECT came twice on one connection")
        credentials = self._handshake.read(frame.headers)
        self._parser.version = conversation.version
        identity = self._handshake.known_identity(credentials)
        if conversation.sessions.engine.ended is not None:
            raise _STOPPED
        if identity is not None:
            self._register(identity)
            return
        self._wait()

        def checked(identity: Identity | None, slowed: Slowed | None) -> None:
            self._authenticated(credentials.login, identity, slowed)

        address = conversation.transport.connection_info.address or ""
        conversation.sessions.authenticate(credentials.login, credentials.passcode, address, checked)

    def _wait(self) -> None:
        """Wait for a decision; meanwhile an unknown client must not fill memory."""
        if self._conversation.state == CONNECTING:
            self._conversation.follow(LOGIN)
        self._flow_control.pause(LOGIN_CHECK)

    def _authenticated(self, login: str, identity: Identity | None, slowed: Slowed | None) -> None:
        if self._conversation.state != AUTHENTICATING:
            return
        self._flow_control.resume(LOGIN_CHECK)
        if identity is None:
            self._conversation.session.close(slowed or self._handshake.not_authenticated(login))
        elif self._conversation.sessions.engine.ended is not None:
            self._conversation.session.close(_STOPPED)
        else:
            self._register(identity)
            self._continue()

    # ------------------------------------------------------------------ registration

    def _register(self, identity: Identity) -> None:
        """Open the session, unless its service is refused."""
        connection = self._conversation.sessions.environment.new_name()

        def done(outcome: Outcome) -> None:
            self._registered(identity, connection, outcome)

        outcome: Outcome | None
        try:
            self._conversation.sessions.enter(
                self._conversation.session, identity, self._client_key(identity)
            )
            outcome = self.registration.begin(
                identity, connection, self._connection_info, self._handshake.service, done
            )
        except Refused as refused:
            outcome = refused
        if outcome is None:
            self._wait()
        else:
            self._admit(identity, connection, outcome)

    @property
    def _connection_info(self) -> ConnectionInfo:
        conversation = self._conversation
        return conversation.transport.connection_info._replace(client=conversation.client_id or None)

    def _client_key(self, identity: Identity) -> ClientKey:
        return client_key(identity, self._conversation.client_id, self._handshake.instance)

    def _registered(self, identity: Identity, connection: str, outcome: Outcome) -> None:
        if self._conversation.state != AUTHENTICATING:
            self.registration.abandoned(outcome)
            return
        self._flow_control.resume(LOGIN_CHECK)
        if self._conversation.sessions.engine.ended is not None:
            self.registration.abandoned(outcome)
            self._conversation.session.close(_STOPPED)
            return
        self._admit(identity, connection, outcome)
        self._continue()

    def _admit(self, identity: Identity, connection: str, outcome: Outcome) -> None:
        refused = registrations.refusal(outcome)
        if refused is not None:
            self._conversation.session.close(refused)
        elif isinstance(outcome, RegistrationVerdict):
            self.registration.accepted(outcome)
            self._open(identity, connection)

    def _continue(self) -> None:
        if self._conversation.state != OPEN:
            return
        if self._conversation.peer.suspended:  # what was sent with CONNECT waits for the end of the pause
            self._flow_control.unread(is_left=True)
        else:
            self._conversation.session.read_on()

    # ------------------------------------------------------------------ CONNECTED

    def _open(self, identity: Identity, connection: str) -> None:
        conversation, peer = self._conversation, self._conversation.peer
        sessions, new_name = conversation.sessions, conversation.sessions.environment.new_name
        self._handshake.identity = identity
        conversation.client = Client(identity, self._connection_info)
        peer.user = identity.user
        peer.client = conversation.client.record_address
        peer.client_key = self._client_key(identity)
        peer.strict = not conversation.soft_errors
        conversation.names = PrivateNames(new_name())
        conversation.renderer = Renderer(conversation.version, sessions.ids)
        self._acknowledgements.renew_tags()
        conversation.follow(ACCEPTED)
        self._parser.limits = frame_limits(sessions.config, is_known=True)
        conversation.transport.authenticated()
        peer.connection = connection
        sessions.notify(OPENED_EVENT, conversation.session)
        connected = self._handshake.connected_headers(
            identity.user, f"MOM/{VERSION}", callbacks=self.registration.has_callbacks
        )
        if self._handshake.sender:
            conversation.bridge = Bridged(self._handshake.sender, peer, conversation.client, sessions.access)
            conversation.submit(c.BridgeConnected(peer))
        conversation.frames_out += 1
        conversation.write(rendering.answer(wire.CONNECTED, list(connected.items())))
        beats = self._handshake.beat_in_s, self._handshake.beat_out_s
        fastest_s = min(filter(None, beats), default=0.0)
        if fastest_s:
            sessions.check_often(self._conversation.session, fastest_s)
