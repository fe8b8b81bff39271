"""The server of JSON sessions: the sessions, and all that they share."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
from collections.abc import MutableMapping
from typing import Any, Final

from broker_app.base.refused import Refused
from broker_app.base.shares import Shares
from broker_app.config import Config
from broker_app.core.half_open import taken_over
from broker_app.engine import Engine
from broker_app.features.channels.channels import Channels
from broker_app.features.services.registry import ServiceRegistry
from broker_app.net.auth.login import Identity, Logins
from broker_app.net.broker_state import BrokerState
from broker_app.net.http.limits import RestLimits
from broker_app.net.json.connection import RESTART, JsonConnection, Receive, Send
from broker_app.net.json.outbox import Outbox
from broker_app.net.json.session import JsonSession
from broker_app.net.live_subscribers import LiveSubscribers
from broker_app.net.policy.access import Access, ConnectionInfo
from broker_app.net.policy.connection_places import ConnectionPlaces
from broker_app.net.rest.messages import message_json
from broker_app.rules.event import WEBSOCKET

#: seconds that clients have to leave when the broker stops
_LEAVE_S: Final = 1.0


class JsonServer:
    """Serves WebSockets of the subprotocol `mom.v1.json`. `version` is shown to clients."""

    def __init__(
        self,
        engine: Engine,
        logins: Logins,
        access: Access,
        config: Config,
        services: ServiceRegistry,
        live: LiveSubscribers,
        channels: Channels,
        version: str,
        state: BrokerState | None = None,
    ) -> None:
        self.engine = engine
        self.state = state or BrokerState(config.name)
        #: cleared while the broker is paused: what clients send waits
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.logins = logins
        self.access = access
        self.config = config
        self.services = services
        self.live = live
        self.channels = channels
        self.version = version
        self.limits = RestLimits.of(config)
        self.blocks = message_json.Blocks()
        self._sessions: dict[JsonSession, JsonConnection] = {}
        #: of sessions that have logged in
        self.places = ConnectionPlaces[JsonSession](
            Shares(lambda: self.config.max_connections, "connections", "close some (MOM_MAX_CONNECTIONS)"),
            lambda session: session.engine_client.peer.client_key,
            lambda session: self._sessions[session].close(taken_over()),
        )

    @property
    def full(self) -> bool:
        """True if there are more sessions than the node takes."""
        return len(self._sessions) > self.config.max_connections

    @property
    def sessions(self) -> list[JsonSession]:
        """The sessions, the oldest first."""
        return list(self._sessions)

    async def serve(
        self,
        scope: MutableMapping[str, Any],
        receive: Receive,
        send: Send,
        identity: Identity | None,
    ) -> None:
        """Serve an accepted WebSocket. `identity` is that of a session cookie or a client certificate."""
        info = ConnectionInfo.of_scope(WEBSOCKET, scope, behind_tls=self.config.behind_tls)
        refusal: Refused | None = None
        try:
            identity = await self._identity(scope, info.address or "") or identity
        except Refused as refused:
            refusal = refused
        outbox = Outbox()
        session = JsonSession(
            self, outbox, info, identity, scope.get("mom.authenticated", lambda: None), refusal
        )
        connection = self._sessions[session] = JsonConnection(session, outbox, send)
        session.engine_client.closed = connection.close
        try:
            await connection.run(receive)
        finally:
            del self._sessions[session]
            self.places.leave(session)

    async def _identity(self, scope: MutableMapping[str, Any], address: str) -> Identity | None:
        """The identity that the header Authorization of the handshake proves; None without that header.
        Raises Refused when it proves none."""
        header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, rest = header.decode("latin-1").partition(" ")
        if not header:
            return None
        identity: Identity | None = None
        if scheme.lower() == "bearer":
            identity = self.logins.bearer(rest.strip())
        elif scheme.lower() == "basic":
            with contextlib.suppress(binascii.Error, UnicodeDecodeError):
                login, _, passcode = base64.b64decode(rest.strip(), validate=True).decode().partition(":")
                identity = await self.logins.authenticate(login, passcode, address)
        if identity is None:
            raise Refused("not-authenticated", "the token, user name or password is wrong")
        return identity

    # ------------------------------------------------------------------ from the node

    def configure(self, config: Config) -> None:
        """Apply changed settings."""
        self.config = config
        self.limits.follow(config)

    def policy_changed(self) -> None:
        """End sessions and subscriptions that are not permitted any more."""
        for session, connection in list(self._sessions.items()):
            refusal = session.lost_login()
            if refusal is not None:
                connection.close(refusal)
            else:
                session.recheck()

    def recheck_logins(self) -> None:
        """End sessions whose login is no longer valid."""
        for session, connection in list(self._sessions.items()):
            refusal = session.lost_login()
            if refusal is not None:
                connection.close(refusal)

    def identities(self) -> list[Identity]:
        """The identities of the clients."""
        return [session.identity for session in self._sessions if session.identity is not None]

    def engine_ended(self, error: BaseException) -> None:
        """Fail what waits for the engine."""
        for session in self._sessions:
            session.engine_client.engine_ended(error)

    def suspend(self) -> None:
        """Read nothing more from any client, and deliver nothing."""
        self.may_read.clear()
        for session in self._sessions:
            session.suspend()

    def resume(self) -> None:
        """Serve all clients again."""
        for session in self._sessions:
            session.resume()
        self.may_read.set()

    def close_all(self, refusal: Refused) -> None:
        """Report to every client why the broker stops."""
        for connection in list(self._sessions.values()):
            connection.close(refusal, RESTART)

    async def end_all(self, refusal: Refused) -> None:
        """Report to every client why the broker stops, and wait until they have left, for a short time."""
        leaving = [asyncio.ensure_future(one.wait_ended()) for one in self._sessions.values()]
        self.close_all(refusal)
        if leaving:
            await asyncio.wait(leaving, timeout=_LEAVE_S)
        for one in leaving:
            one.cancel()
