"""A session of the subprotocol `mom.v1.json`: the operations of one client.

Its peer in the core is its own, so all that it holds unsettled is returned when it ends.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from broker_app.base.refused import Refused
from broker_app.config import Config
from broker_app.core import commands as c
from broker_app.core.destination import Destination, parse
from broker_app.core.position import Position, known_start
from broker_app.engine.client import EngineClient
from broker_app.features.callbacks.arrival_feed import ArrivalFeed
from broker_app.features.channels.content import ChannelContent, joined
from broker_app.features.channels.statuses import KEYEMPTY, OK
from broker_app.net.auth.login import Identity
from broker_app.net.auth.login_throttle import Slowed
from broker_app.net.http.refusals import invalid
from broker_app.net.http.requests import within
from broker_app.net.json import events
from broker_app.net.json import operations as o
from broker_app.net.json.outbox import Outbox
from broker_app.net.json.receipts import Receipts
from broker_app.net.json.receiver import Receiver
from broker_app.net.json.registrations import Registrations
from broker_app.net.json.subscriptions import JsonDeliveries, Notifications
from broker_app.net.live_subscribers import WEBSOCKET, LiveSubscriber
from broker_app.net.policy.access import Client, ConnectionInfo
from broker_app.net.policy.connection_places import client_key
from broker_app.net.rest.messages.parts import Part
from broker_app.rules.event import RECEIVE

if TYPE_CHECKING:
    from broker_app.net.json.server import JsonServer

#: a session may deliver more at a time than an event stream, which is one subscription
_CREDIT_FACTOR = 10
_NORMAL, _PROTOCOL_ERROR, _POLICY, _TRY_LATER = 1000, 1002, 1008, 1013


class Closed(Exception):
    """The session ends: the client left, or `refusal` is the reason; `code` is that of WebSocket."""

    def __init__(self, refusal: Refused | None = None, code: int = _NORMAL) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal
        self.code = code


class JsonSession:
    """One client. `identity` is set if the handshake named it; `authenticated` is called when it is known.
    With `login_refusal` the session ends at once, for this reason."""

    def __init__(
        self,
        server: JsonServer,
        outbox: Outbox,
        connection_info: ConnectionInfo,
        identity: Identity | None,
        authenticated: Callable[[], None],
        login_refusal: Refused | None = None,
    ) -> None:
        self._server = server
        self._login_refusal = login_refusal
        self._outbox = outbox
        self.connection_info = connection_info
        self.identity = identity
        self._authenticated = authenticated
        #: None before the login
        self.client: Client | None = None
        self.since_s = time.time()
        self.engine_client = EngineClient(server.engine, "rest", ordered=False)
        #: of the connection, as operators see it
        self.id = secrets.token_hex(8)
        self._receiver = Receiver(self.engine_client, server.limits, server.blocks)
        self._registrations = Registrations(server.services)
        self._receipts = Receipts(self.engine_client, outbox, server.limits)
        self.subscriptions: dict[str, JsonDeliveries | Notifications] = {}
        #: bytes of deliveries that are not sent yet; beyond a bound nothing more is delivered
        self._backlog = 0
        self._paused = False

    @property
    def config(self) -> Config:
        return self._server.config

    @property
    def user(self) -> str:
        """The name of the user; empty before the login."""
        return self.identity.user if self.identity is not None else ""

    # ------------------------------------------------------------------ from the connection

    def enter(self) -> None:
        """Begin as the client that the handshake named, or as anonymous where that is allowed."""
        if self._server.full:
            raise Closed(Refused("busy", "the node has as many connections as it takes"), _POLICY)
        if self._login_refusal is not None:
            raise Closed(self._login_refusal, _POLICY)
        identity = self.identity or self._server.logins.anonymous()
        if identity is not None:
            self._open(identity)

    async def do(self, data: bytes) -> None:
        """Carry out one operation. Raises Closed when it ends the session; before login any problem does."""
        ref = o.ref_of(data)
        try:
            operation = o.parse(data)
            if self.client is None and not isinstance(operation, o.Login):
                raise Closed(Refused("not-authenticated", 'the first operation must be "login"'), _POLICY)
            await _HANDLERS[type(operation)](self, operation)
            await self.engine_client.backpressure.wait()
        except Refused as refusal:
            if self.client is None:
                raise Closed(refusal, _PROTOCOL_ERROR) from None
            self._problem(refusal, ref)

    def sent(self) -> None:
        """All that was taken out of the outbox has left."""
        if self._paused and self._backlog <= self.config.outbox_bytes // 2:
            self._paused = False
            if not self.engine_client.peer.suspended:
                self.engine_client.submit(c.Resume(self.engine_client.peer))

    def suspend(self) -> None:
        """The broker is paused: deliver nothing."""
        self.engine_client.peer.suspended = True
        self.engine_client.submit(c.Pause(self.engine_client.peer))

    def resume(self) -> None:
        """The broker is not paused any more."""
        self.engine_client.peer.suspended = False
        if not self._paused:
            self.engine_client.submit(c.Resume(self.engine_client.peer))

    async def wait_served(self) -> None:
        """Wait until the broker is not paused; a client that is not logged in learns that it is."""
        if self.client is not None:
            await self._server.may_read.wait()

    def end(self) -> None:
        """Return what is unsettled, and end all subscriptions."""
        for subscription in self.subscriptions.values():
            self._close_subscription(subscription)
        self.subscriptions.clear()
        self.engine_client.disconnect()

    async def end_registrations(self) -> None:
        """End the services that the client has registered."""
        await self._registrations.end()

    def _backlog_changed(self, by: int) -> None:
        self._backlog += by
        if not self._paused and self._backlog > self.config.outbox_bytes:
            self._paused = True
            self.engine_client.submit(c.Pause(self.engine_client.peer))

    # ------------------------------------------------------------------ replies

    def _done(self, ref: str | None, *, unknown_position: bool = False) -> None:
        if ref is not None:
            self._outbox.put(events.encode(events.Done(ref=ref, unknown_position=unknown_position)))

    def _problem(self, refusal: Refused, ref: str | None) -> None:
        self._outbox.put(events.with_problem(events.Problem(ref=ref), refusal))

    # ------------------------------------------------------------------ login

    def _open(self, identity: Identity, instance: str = "") -> None:
        try:
            self._server.state.check()
        except Refused as refused:
            raise Closed(refused, _TRY_LATER) from None
        key, admin = client_key(identity, "", instance), self._server.access.is_admin(identity)
        try:
            self._server.places.take(self, identity.user, key, admin=admin)
        except Refused as refused:
            raise Closed(refused, _POLICY) from None
        self.identity = identity
        self.engine_client.peer.client_key = key
        self.client = Client(identity, self.connection_info)
        self.engine_client.peer.user = identity.user
        self.engine_client.peer.client = self.client.record_address
        self._authenticated()
        journal = self.engine_client.engine.broker.turn.ids.journal
        ready = events.Ready(
            user=identity.user, broker=self.config.name, server=self._server.version, journal=journal
        )
        self._outbox.put(events.encode(ready))

    async def _login(self, operation: o.Login) -> None:
        login, passcode = operation.login or "", operation.passcode or ""
        if operation.token is not None:
            login, passcode = "token", operation.token
        if self.client is not None:
            if login or not operation.client_instance:  # no password is verified: that costs 20 ms
                raise Refused("conflict", f"{self.user} is logged in already; open another connection")
            key = client_key(self.client.identity, "", operation.client_instance)
            self.engine_client.peer.client_key = key
            self._done(operation.ref)
            return
        try:
            address = self.connection_info.address or ""
            identity = await self._server.logins.authenticate(login, passcode, address)
        except Slowed as slowed:
            raise Closed(slowed, _POLICY) from None
        if identity is None:
            raise Closed(Refused("not-authenticated", "the token, user name or password is wrong"), _POLICY)
        self._open(identity, operation.client_instance)
        self._done(operation.ref)

    # ------------------------------------------------------------------ subscriptions

    async def _subscribe(self, operation: o.Subscribe) -> None:
        destination = _destination(operation)
        self._check(destination)
        if operation.id in self.subscriptions:
            raise Refused("conflict", f"subscription id {operation.id!r} is already in use")
        most = self.config.max_subscriptions
        if len(self.subscriptions) >= most:
            raise Refused("too-many", f"a connection may have {most} subscriptions; end some first")
        start, unknown = known_start(operation.start or "", self.engine_client.engine.broker.turn)
        if operation.mode == o.NOTIFY:
            self._notify(operation, destination)
        elif operation.mode == o.DELIVER:
            await self._deliver(operation, destination, start)
        else:
            raise invalid("/mode", f"must be {o.DELIVER} or {o.NOTIFY}", operation.mode)
        self._done(operation.ref, unknown_position=unknown)

    def _live(self, mode: str, destination: Destination) -> LiveSubscriber:
        assert self.client is not None, "it has logged in"
        address, identity = self.connection_info.address or "", self.client.identity
        return self._server.live.add(identity, address, WEBSOCKET, mode, destination, self.id)

    def _close_subscription(self, subscription: JsonDeliveries | Notifications) -> None:
        subscription.close()
        self._server.live.remove(subscription.live)

    def _check(self, destination: Destination) -> None:
        assert self.client is not None
        self._server.access.check(self.client, RECEIVE, destination)

    def _notify(self, operation: o.Subscribe, destination: Destination) -> None:
        if not destination.is_queue:
            raise invalid("/topic", "only queues notify; subscribe to a topic with mode deliver")
        for name in ("selector", "lease_s", "durable", "start"):
            if getattr(operation, name) is not None:
                raise invalid(f"/{'from' if name == 'start' else name}", "is for mode deliver")
        feed = partial(self._feed, destination.address, _position(operation.after))
        self.subscriptions[operation.id] = Notifications(
            operation.id, destination, self._outbox, feed, self._live(o.NOTIFY, destination)
        )

    def _feed(self, address: str, after: Position, wake: Callable[[], None]) -> ArrivalFeed:
        client = self.engine_client
        engine = client.engine
        return ArrivalFeed(engine.broker, engine.records, client.inspect_heads, address, after, wake=wake)

    async def _deliver(self, operation: o.Subscribe, destination: Destination, start: str) -> None:
        if operation.after is not None:
            raise invalid("/after", "is for mode notify; begin in a topic's history with from")
        self._check_credit(operation.credit)
        if operation.durable is not None:
            assert self.client is not None, "it has logged in"
            self._server.access.check_may_change(self.client, "make a durable subscription")
        client = self.engine_client
        deliveries = JsonDeliveries(
            *(operation.id, destination, client, self._outbox, self._server.blocks, self._backlog_changed),
            self._ended,
            self._live(o.DELIVER, destination),
        )
        subscribe = c.Subscribe(
            client.peer, deliveries.open(self.user), destination.address, c.INDIVIDUAL, operation.credit
        )
        subscribe.selector, subscribe.start = operation.selector or "", start
        subscribe.name, subscribe.durable = operation.durable or "", operation.durable is not None
        subscribe.principal = self.client
        if operation.lease_s is not None:
            lease_s = within("/lease_s", operation.lease_s, 1, self._server.limits.max_lease_s)
            subscribe.lease_ms = round(lease_s * 1000)
        subscribe.receipt = reply = client.pending_reply()
        self.subscriptions[operation.id] = deliveries
        client.submit(subscribe)
        try:
            await client.answer(reply)
        except Refused:
            if self.subscriptions.pop(operation.id, None) is not None:  # else a changed policy has ended it
                self._close_subscription(deliveries)
            raise

    def _check_credit(self, credit: int) -> None:
        within("/credit", credit, 1, self._server.limits.max_event_credit * _CREDIT_FACTOR)

    async def _unsubscribe(self, operation: o.Unsubscribe) -> None:
        self._end_subscription(self._subscription(operation.id))
        self._done(operation.ref)

    def _subscription(self, id: str) -> JsonDeliveries | Notifications:
        found = self.subscriptions.get(id)
        if found is None:
            raise Refused("not-found", f"there is no subscription {id[:80]!r} on this connection")
        return found

    def _end_subscription(self, subscription: JsonDeliveries | Notifications) -> None:
        del self.subscriptions[subscription.id]
        self._close_subscription(subscription)
        if isinstance(subscription, JsonDeliveries):
            self.engine_client.submit(c.Unsubscribe(self.engine_client.peer, subscription.key))

    async def _credit(self, operation: o.Credit) -> None:
        subscription = self._subscription(operation.id)
        if not isinstance(subscription, JsonDeliveries):
            raise invalid("/id", "a notification takes nothing, and has no credit", operation.id)
        self._check_credit(operation.credit)
        self._receipts.submit(
            partial(c.SetCredit, self.engine_client.peer, subscription.key, operation.credit), operation.ref
        )

    async def _pending(self, operation: o.Pending) -> None:
        subscription = self._subscription(operation.id)
        if isinstance(subscription, JsonDeliveries):
            raise invalid("/id", "this subscription delivers; only one of mode notify lists", operation.id)
        self._outbox.put(await subscription.pending(_position(operation.after), operation.ref))

    async def _receive(self, operation: o.Receive) -> None:
        destination = parse(f"/queue/{operation.queue}")
        self._check(destination)
        self._outbox.put(await self._receiver.receive(operation, destination.address, self.user))

    async def _register(self, operation: o.Register) -> None:
        self._check(parse(f"/queue/{operation.service}"))
        assert self.client is not None
        registered = await self._registrations.register(
            operation, self.client, self.id, admin=self._server.access.is_admin(self.client.identity)
        )
        self._outbox.put(events.encode(registered))

    async def _deregister(self, operation: o.Deregister) -> None:
        self._registrations.deregister(operation.id)
        self._done(operation.ref)

    async def _ping(self, operation: o.Ping) -> None:
        self._outbox.put(events.encode(events.Done(ref=operation.ref)))

    # ------------------------------------------------------------------ settling

    async def _ack(self, operation: o.Ack) -> None:
        self._receipts.acknowledge(operation, self.user)

    async def _nack(self, operation: o.Nack) -> None:
        self._receipts.nack(operation, self.user)

    async def _extend(self, operation: o.Extend) -> None:
        self._receipts.extend(operation, self.user)

    # ------------------------------------------------------------------ message channels

    async def _answer(self, operation: o.Answer) -> None:
        """Take the answer of a handler."""
        peer, status, content = self.engine_client.peer, OK, ChannelContent(b"")
        if operation.parts is not None:
            content = joined([part.content() for part in operation.parts])
        elif operation.body is not None or operation.body_base64 is not None:
            content = ChannelContent(Part(operation.body, operation.body_base64).content())
        else:
            status = KEYEMPTY
        self._server.channels.answer(peer, operation.call, status, content)
        self._done(operation.ref)

    # ------------------------------------------------------------------ from the server

    def lost_login(self) -> Refused | None:
        """The reason why the login is no longer valid, if it is not."""
        return self._server.access.login_refusal(self.client) if self.client is not None else None

    def recheck(self) -> None:
        """End subscriptions that are not permitted any more."""
        if self.client is None:
            return
        for subscription in list(self.subscriptions.values()):
            refused = self._server.access.refusal(self.client, RECEIVE, subscription.destination)
            if refused is not None:
                self._ended(subscription, refused)

    def _ended(self, subscription: JsonDeliveries | Notifications, refused: Refused) -> None:
        """Report that a subscription was ended, and why."""
        self._end_subscription(subscription)
        event = events.Unsubscribed(sub=subscription.id)
        self._outbox.put(events.with_problem(event, refused))


def _position(after: int | str | None) -> Position:
    """The position that a subscriber names. Raises Refused."""
    position = Position.of(after or 0)
    if position is None:
        raise invalid("/after", "must be the event_id or the seq of a notification", after)
    return position._replace(seq=max(0, position.seq))


def _destination(operation: o.Subscribe) -> Destination:
    """The source of a subscription. Raises Refused unless there is one."""
    if (operation.queue is None) == (operation.topic is None):
        raise invalid("", "name a queue or a topic")
    if operation.queue is not None:
        return parse(f"/queue/{operation.queue}")
    return parse(f"/topic/{operation.topic}")


_HANDLERS: Final[dict[type, Callable[[JsonSession, Any], Awaitable[None]]]] = {
    o.Login: JsonSession._login,
    o.Subscribe: JsonSession._subscribe,
    o.Unsubscribe: JsonSession._unsubscribe,
    o.Credit: JsonSession._credit,
    o.Pending: JsonSession._pending,
    o.Receive: JsonSession._receive,
    o.Ack: JsonSession._ack,
    o.Nack: JsonSession._nack,
    o.Extend: JsonSession._extend,
    o.Answer: JsonSession._answer,
    o.Register: JsonSession._register,
    o.Deregister: JsonSession._deregister,
    o.Ping: JsonSession._ping,
}
