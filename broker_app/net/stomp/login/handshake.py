"""The handshake of a session: CONNECT, and the answer CONNECTED."""

from __future__ import annotations

from typing import NamedTuple

from broker_app.base.refused import Refused
from broker_app.net.auth.login import Identity
from broker_app.net.stomp import bridge_flows
from broker_app.net.stomp.conversation import Conversation
from broker_app.net.stomp.login import negotiation, registrations
from mom_client.stomp.frame import Headers

#: header of CONNECTED: the name of the enhanced cluster of the broker
ENHANCED_CLUSTER = "mom-cluster"
#: header of CONNECTED: the tag of the journal, which positions may have before their number
JOURNAL = "mom-journal"


class Credentials(NamedTuple):
    """Login and passcode of CONNECT; empty if it has none."""

    login: str
    passcode: str


class Handshake:
    """The headers of CONNECT, and the identity that the transport knows already."""

    __slots__ = (
        "_certified",
        "_conversation",
        "_offer",
        "beat_in_s",
        "beat_out_s",
        "identity",
        "instance",
        "sender",
        "service",
    )

    def __init__(self, conversation: Conversation, identity: Identity | None) -> None:
        self._conversation = conversation
        #: the client: of the transport (session cookie, certificate), and of CONNECT once it has logged in
        self.identity = identity
        #: names in the client certificate
        self._certified: tuple[str, ...] = ()
        #: seconds between heart-beats, from the client and to it; 0 is none
        self.beat_in_s = self.beat_out_s = 0.0
        #: the heart-beats that CONNECTED offers to a client that named none
        self._offer = ""
        #: what `mom_client` calls itself, the same over all its connections; empty for other clients
        self.instance = ""
        #: the broker whose bridge this is; empty for other clients
        self.sender = ""
        #: the service that the client registers as
        self.service: registrations.ServiceHeaders | None = None

    def certify(self, names: tuple[str, ...]) -> None:
        """Take the user that an accepted client certificate names, if the transport named none."""
        if names and self.identity is None:
            self._certified = names
            self.identity = self._conversation.sessions.logins.certified(names)

    def read(self, given: Headers) -> Credentials:
        """Negotiate version and heart-beats, and return the credentials. Raises Refused."""
        conversation = self._conversation
        config = conversation.sessions.config
        conversation.version = negotiation.version(given.get("accept-version", "1.0"))
        host = given.get("host", "")
        if not conversation.sessions.knows_host(host):
            raise Refused(
                "wrong-host",
                f"there is no virtual host {host[:80]!r} here; use /, {config.name!r} or "
                "a host name of this broker (more are listed in MOM_ALLOWED_HOSTS)",
            )
        ours_ms = config.heartbeat_ms
        self._offer = "" if "heart-beat" in given else f"{ours_ms},{ours_ms}"
        self.beat_in_s, self.beat_out_s = negotiation.heart_beats(given.get("heart-beat", "0,0"), ours_ms)
        conversation.client_id = registrations.short(given, "client-id")
        self.instance = registrations.short(given, "client-instance")
        self.service = registrations.service_of(given)
        conversation.prefers_this_broker = given.get("mom-priority", "").lower() == "true"
        conversation.soft_errors = given.get("mom-soft-errors", "").lower() == "true"
        self.sender = given.get(bridge_flows.SENDER, "")
        return Credentials(given.get("login", ""), given.get("passcode", ""))

    def known_identity(self, credentials: Credentials) -> Identity | None:
        """The identity, if it is known without checking a password."""
        if self.identity is not None and not credentials.login:
            return self.identity
        return self._conversation.sessions.logins.cached(*credentials)

    def not_authenticated(self, login: str) -> Refused:
        """The refusal of a missing login, or of a wrong login or passcode."""
        if login:
            return Refused("not-authenticated", f"login or passcode is wrong for user {login[:80]!r}")
        detail = "CONNECT has no login"
        if self._certified:
            detail += f", and no user is called {' or '.join(self._certified)[:200]!r} like the certificate"
        return Refused("not-authenticated", detail)

    def connected_headers(self, user: str, server: str, *, callbacks: bool) -> dict[str, str]:
        """The headers of CONNECTED. `callbacks` is True if a callback broker may serve the service."""
        conversation = self._conversation
        connected = {
            "version": conversation.version,
            "session": conversation.peer.connection,
            "server": server,
            "heart-beat": self._offer or f"{round(self.beat_out_s * 1000)},{round(self.beat_in_s * 1000)}",
            "user-name": user,
            "mom-broker": conversation.sessions.config.name,
            JOURNAL: conversation.sessions.engine.broker.turn.ids.journal,
        }
        if conversation.version == "1.0":
            del connected["heart-beat"]
        uris = conversation.sessions.failover_uris(conversation.transport.connection_info.listener)
        if uris:
            connected["mom-failover"] = ",".join(uris)
        if conversation.sessions.config.cluster_id is not None:
            connected[ENHANCED_CLUSTER] = conversation.sessions.config.cluster_id
        if self.service is not None:
            connected[registrations.CALLBACKS] = "true" if callbacks else "false"
            if conversation.sessions.websocket_url:
                connected[registrations.WEBSOCKET] = conversation.sessions.websocket_url
        if self.sender:
            connected[bridge_flows.SENDER] = bridge_flows.DIALECT
            connected[bridge_flows.MAX_BODY] = str(conversation.sessions.config.max_body_bytes)
        return connected
