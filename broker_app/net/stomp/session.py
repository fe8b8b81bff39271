"""A STOMP session: one client's conversation, whatever the transport.

Frames become commands for the engine; what the engine lets out becomes frames. Runs of SEND are one
command. Nothing here waits but the login.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Sequence

from broker_app.config import CLOSE
from broker_app.core import commands as c
from broker_app.core.destination import DURABLE_PREFIX, TEMP_QUEUE, TEMP_TOPIC, Destination, parse
from broker_app.core.errors import Refused, internal
from broker_app.core.message import Envelope, Message
from broker_app.core.model import Peer, Subscription
from broker_app.core.offset import Flow
from broker_app.core.sync_queue import SYNC_ADDRESS
from broker_app.internal_errors import internal_errors
from broker_app.net import times
from broker_app.net.auth.login import Identity
from broker_app.net.auth.login_throttle import Slowed
from broker_app.net.policy.access import Client
from broker_app.net.stomp import (
    bridge_flows,
    durable_names,
    headers,
    negotiation,
    rendering,
    scheduling_headers,
)
from broker_app.net.stomp.bridge_flows import Bridged
from broker_app.net.stomp.delivery_tags import Tag, Tags
from broker_app.net.stomp.rate_limit import Pace
from broker_app.net.stomp.rendering import Renderer
from broker_app.net.stomp.session_registry import (
    CLOSED_EVENT,
    OPENED_EVENT,
    VERSION,
    SessionRegistry,
    Transport,
)
from broker_app.rules.event import RECEIVE, SEND
from broker_app.telemetry import client_events
from mom_client.stomp import frame as wire
from mom_client.stomp.errors import Malformed
from mom_client.stomp.frame import AckRun, Frame, Headers
from mom_client.stomp.parser import Limits, Parser

log = logging.getLogger(__name__)

#: bytes of a frame that are kept beside its body while it waits in the inbox
FRAME_BYTES = 200
#: a character of a selector takes as long as the decision about so many bytes
SELECTOR_BYTES = 2_048
#: who would have to wait longer than this to be within the limits of a connection is refused
TOO_FAST_S = 10.0
#: destinations that a session remembers to have sent to
MAX_SENDS = 1_000
#: characters; it is remembered with what was decided of its client
MAX_CLIENT_ID = 255
#: the problem of a client whom an operator ended
ENDED_BY_OPERATOR = "disconnected"
#: how long the bytes of a frame that has begun may stay away
PARTIAL_S = 60.0

CONNECTING, LOGGING_IN, OPEN, LEAVING, CLOSED = range(5)
#: reasons to read nothing of a client for a while
ENGINE_FULL, LOGIN, THROTTLED, TOO_FAST = 1, 2, 4, 8

#: what a session derived from the headers of a SEND: ("" or the name of its transaction or flow, envelope,
#: whether it is a flow's)
Plan = tuple[str, Envelope, bool]


class StompSession:
    """One client. The transport calls `receive`, `congested`, `uncongested` and `lost`; the engine calls
    `flush`, `render`, `send`, `throttle`, `close` and `relieved`; the lobby calls `tick`.

    `identity` is set where the transport already knows who it is (a browser's session cookie); a client
    certificate says it when the transport is ready. Either counts where CONNECT has no login.
    """

    __slots__ = (
        "_beat_in_s",
        "_beat_out_s",
        "_bridged",
        "_certified",
        "_client",
        "_client_id",
        "_cumulative",
        "_drain",
        "_final_error",
        "_frames",
        "_heard",
        "_holds",
        "_identity",
        "_leave_receipt",
        "_names",
        "_offer",
        "_overdue",
        "_pace",
        "_parser",
        "_peer",
        "_refusals_sent",
        "_registry",
        "_renderer",
        "_sender",
        "_sends",
        "_since",
        "_soft_errors",
        "_spoke",
        "_state",
        "_stuck_since",
        "_tags",
        "_temporary",
        "_transport",
        "_version",
        "bytes_in",
        "bytes_out",
        "close_reason",
        "frames_in",
        "frames_out",
        "number",
        "preauthenticated",
        "since_s",
    )

    def __init__(
        self, registry: SessionRegistry, transport: Transport, identity: Identity | None = None
    ) -> None:
        config = registry.config
        self._registry = registry
        self._transport = transport
        self._identity = identity
        #: whether its transport knew who it is before it logged in
        self.preauthenticated = identity is not None
        #: who it is and how it came here, once it has logged in
        self._client: Client
        #: what the client certificate says
        self._certified: tuple[str, ...] = ()
        self._parser = Parser(
            limits=Limits(
                max_header_bytes=config.max_header_bytes,
                max_header_line=config.max_header_bytes,
                max_headers=config.max_headers,
                max_body=config.max_body_bytes,
            )
        )
        self._state = CONNECTING
        self._version = "1.2"
        self._renderer = Renderer("1.2", registry.ids)
        self._peer = Peer(self)
        self._names: headers.PrivateNames | None = None
        #: temporary destinations this session subscribed to, or was subscribed to for its reply-to
        self._temporary: set[str] = set()
        #: frames that arrived while the login was being checked
        self._frames: list[Frame | AckRun | Malformed] = []
        #: of CONNECT; durable subscriptions in ActiveMQ's words belong to it
        self._client_id = ""
        #: what is done for the bridge of another broker, and how that calls itself; None and empty for others
        self._bridged: Bridged | None = None
        self._sender = ""
        self._soft_errors = False
        self._refusals_sent = 0
        #: whether a subscription with ack:client exists
        self._cumulative = False
        self._tags = Tags(self._peer, registry.ids, "1.2")
        #: where it has sent to lately: whether that was allowed by the policy of now, or by a former one
        self._sends: dict[Destination, bool] = {}
        self._leave_receipt: bytes | None = None
        #: why it ends, and the receipt asked for by what is refused: its client hears it in its turn
        self._final_error: tuple[Refused, bytes | None] | None = None
        #: why it is to end when it holds nothing any more, and when it ends at the latest; None for others
        self._drain: tuple[str, float] | None = None
        self._beat_in_s = self._beat_out_s = 0.0
        #: the heart-beats that CONNECTED offers to a client that named none
        self._offer = ""
        #: whether time was over at the last look; what lies in the socket is read before the next one
        self._overdue = False
        self._since = self._heard = self._spoke = time.monotonic()
        self._stuck_since = 0.0
        #: why nothing is read of the client now; bits
        self._holds = 0
        self._pace: Pace | None
        self.configured()
        self.bytes_in = self.bytes_out = self.frames_in = self.frames_out = 0
        #: when it began, seconds since 1970
        self.since_s = time.time()
        #: why it ended, as far as the broker knows
        self.close_reason = "the connection was lost"
        registry.sessions[self] = None
        registry.opened_total += 1
        #: the number of this connection on the node, starting at 1
        self.number = registry.opened_total

    # ------------------------------------------------------------------ facts for people

    @property
    def user(self) -> str:
        return self._identity.user if self._identity else ""

    @property
    def client(self) -> Client | None:
        """Who it is and how it came here; None before it has logged in."""
        return getattr(self, "_client", None)

    @property
    def identity(self) -> Identity | None:
        return self._identity

    @property
    def peer_name(self) -> str:
        return self._transport.peer_name

    @property
    def peer(self) -> Peer:
        return self._peer

    @property
    def version(self) -> str:
        return self._version

    @property
    def heart_beats(self) -> tuple[float, float]:
        """Seconds between beats as agreed (from the client, to the client); 0 is none."""
        return self._beat_in_s, self._beat_out_s

    @property
    def silent_s(self) -> float:
        """How long nothing has come from the client."""
        return time.monotonic() - self._heard

    @property
    def tls(self) -> bool:
        """Whether TLS protects the connection."""
        return self._transport.way.tls

    @property
    def is_draining(self) -> bool:
        """Whether it gets nothing new, and ends when it holds nothing any more."""
        return self._drain is not None

    @property
    def held_back(self) -> bool:
        """Whether the broker reads no more of it for the moment."""
        return bool(self._holds)

    # ------------------------------------------------------------------ from the transport

    def admitted(self, certified: tuple[str, ...] = ()) -> None:
        """The transport is ready; a node that is full says so and ends it. `certified` are the names in a
        client certificate that was accepted."""
        if certified and self._identity is None:
            self._certified = certified
            self._identity = self._registry.logins.certified(certified)
        if self._registry.full:
            most = self._registry.config.max_connections
            self._refuse(
                Refused("too-many", f"this node serves at most {most} connections"), None, soft=False
            )

    def receive(self, data: bytes) -> None:
        """Bytes of the client, in any pieces."""
        self._heard = time.monotonic()
        if self._state >= LEAVING:
            return
        frames = self._parser.receive(data)
        self.bytes_in += len(data)
        self.frames_in += len(frames)
        if self._state == LOGGING_IN:
            self._frames += frames
        else:
            self._take(frames)
        if self._state == CONNECTING and self._parser.buffered > 2 * self._registry.config.max_header_bytes:
            # Only a SEND may be so long; its body is not waited for.
            self._refuse(Refused("not-connected", "SEND came before CONNECT"), None, soft=False)
        if self._pace is not None and self._state < LEAVING:
            self._slow_down(self._pace, frames, len(data))
        if self._registry.engine.full and self._state == OPEN:
            self._hold(ENGINE_FULL)
            self._registry.engine.tell_when_relieved(self)

    def _slow_down(self, pace: Pace, frames: Sequence[Frame | AckRun | Malformed], size: int) -> None:
        """Read no further for a while when it came too fast; refuse what came much too fast."""
        count = sum(len(frame.ids) if type(frame) is AckRun else 1 for frame in frames)
        wait = pace.spend(count, size, self._heard)
        if wait > TOO_FAST_S:
            config = self._registry.config
            detail = (
                f"{count} frames of {size} bytes came at once; a connection may send "
                f"{config.max_frames_per_second or 'any number of'} frames and "
                f"{config.max_bytes_per_second or 'any number of'} bytes a second"
            )
            self._refuse(Refused("rate-limited", detail), None, soft=False)
        elif wait:
            self._hold(TOO_FAST)
            asyncio.get_running_loop().call_later(wait, self._release, TOO_FAST)

    def relieved(self) -> None:
        self._release(ENGINE_FULL)

    def _hold(self, reason: int) -> None:
        """Read no more of the client until there is no reason for it any more."""
        if not self._holds:
            self._transport.pause_reading()
        self._holds |= reason

    def _release(self, reason: int) -> None:
        if not self._holds & reason:
            return
        self._holds &= ~reason
        if not self._holds:
            self._heard = time.monotonic()  # what it said meanwhile was not listened to
            if self._state < LEAVING:
                self._transport.resume_reading()

    def congested(self) -> None:
        """The client does not take what was written: hold its deliveries back."""
        self._stuck_since = time.monotonic()
        if self._state == OPEN:
            self._submit(c.Pause(self._peer))

    def uncongested(self) -> None:
        if self._state == OPEN:
            self._stuck_since = 0.0
            if self._drain is None:
                self._submit(c.Resume(self._peer))

    def lost(self) -> None:
        """The connection is gone."""
        if self._state != CLOSED:
            if self._state == OPEN:
                self._submit(c.Disconnect(self._peer))
            self._state = CLOSED
            self._frames.clear()
            self._tags.forget()
        if self in self._registry.sessions:
            self._registry.leave(self)
            if self._peer.connection:
                self._registry.tell(CLOSED_EVENT, self)

    def _take(self, frames: Sequence[Frame | AckRun | Malformed]) -> None:
        """Turn frames into commands; neighbouring SENDs become one."""
        entries: list[c.Entry] = []
        for index, frame in enumerate(frames):
            if type(frame) is Frame:
                if frame.command is wire.SEND and self._state == OPEN:
                    plan: Plan | None = frame.headers.plan
                    if plan is None:
                        try:
                            plan = frame.headers.plan = self._plan(frame.headers)
                        except Refused as refusal:
                            entries = self._publish(entries)
                            self._refuse_act(frame, refusal)
                            if self._state >= LEAVING:
                                return
                            continue
                    if not plan[0]:
                        entries.append((plan[1], frame.body, frame.receipt))
                        continue
                    if plan[2] and self._bridged is not None:
                        self._bridged.take(plan[0], plan[1], frame.body, frame.receipt)
                        continue
                entries = self._publish(entries)
                self._do(frame)
            elif type(frame) is AckRun:
                entries = self._publish(entries)
                self.frames_in += len(frame.ids) - 1
                self._ack_run(frame.ids)
            else:
                entries = self._publish(entries)
                self._malformed(frame)  # type: ignore[arg-type]  # the only kind that is left
            if self._state == LOGGING_IN:
                self._frames += frames[index + 1 :]
                return
            if self._state >= LEAVING:
                return
        self._publish(entries)

    def _publish(self, entries: list[c.Entry]) -> list[c.Entry]:
        if self._bridged is not None:
            for forward in self._bridged.hand_over():
                self._submit(forward, _size(forward.entries))
        if not entries:
            return entries
        self._submit(c.Publish(self._peer, entries), _size(entries))
        return []

    def _submit(self, command: c.Command, size: int = FRAME_BYTES) -> None:
        self._registry.engine.submit(command, size)

    def _do(self, frame: Frame) -> None:
        try:
            if self._state != OPEN and frame.command not in (wire.CONNECT, wire.STOMP):
                raise Refused("not-connected", f"{frame.command.decode()} came before CONNECT")
            _HANDLERS[frame.command](self, frame)
        except Refused as refusal:
            self._refuse_act(frame, refusal)

    # ------------------------------------------------------------------ CONNECT

    def _connect(self, frame: Frame) -> None:
        if self._state != CONNECTING:
            raise Refused("malformed-frame", "CONNECT came twice on one connection")
        given = frame.headers
        self._version = self._parser.version = negotiation.version(given.get("accept-version", "1.0"))
        host = given.get("host", "")
        if not self._registry.knows_host(host):
            raise Refused(
                "wrong-host",
                f"there is no virtual host {host[:80]!r} here; use /, {self._registry.config.name!r} or "
                "a host name of this broker (more are listed in MOM_ALLOWED_HOSTS)",
            )
        ours_ms = self._registry.config.heartbeat_ms
        self._offer = "" if "heart-beat" in given else f"{ours_ms},{ours_ms}"
        self._beat_in_s, self._beat_out_s = negotiation.heart_beats(given.get("heart-beat", "0,0"), ours_ms)
        self._client_id = given.get("client-id", "")
        if len(self._client_id) > MAX_CLIENT_ID:
            detail = f"client-id has {len(self._client_id)} characters; at most {MAX_CLIENT_ID} are allowed"
            raise Refused("invalid", detail)
        self._soft_errors = given.get("mom-soft-errors", "").lower() == "true"
        self._sender = given.get(bridge_flows.SENDER, "")
        login, passcode = given.get("login", ""), given.get("passcode", "")
        if self._identity is not None and not login:
            self._open(self._identity)
            return
        identity = self._registry.logins.cached(login, passcode)
        if identity is not None:
            self._open(identity)
            return
        self._state = LOGGING_IN
        self._hold(LOGIN)  # nobody fills our memory before we know who it is
        self._registry.spawn(self._log_in(login, passcode))

    async def _log_in(self, login: str, passcode: str) -> None:
        slowed = None
        try:
            address = self._transport.way.address or ""
            identity = await self._registry.logins.authenticate(login, passcode, address)
        except Slowed as refusal:
            identity, slowed = None, refusal
        if self._state != LOGGING_IN:
            return
        self._state = CONNECTING
        self._release(LOGIN)
        if slowed is not None:
            self._refuse(slowed, None, soft=False)
            return
        if identity is None:
            who = f"user {login[:80]!r}" if login else "nobody: CONNECT has no login"
            if self._certified and not login:
                who += f", and no user is called {' or '.join(self._certified)[:200]!r} like the certificate"
            self._refuse(
                Refused("not-authenticated", f"login or passcode is wrong for {who}"), None, soft=False
            )
            return
        self._open(identity)
        frames, self._frames = self._frames, []
        self._take(frames)

    def _open(self, identity: Identity) -> None:
        self._identity = identity
        self._client = Client(identity, self._transport.way._replace(client=self._client_id or None))
        self._peer.user = identity.user
        self._peer.strict = not self._soft_errors
        self._names = headers.PrivateNames(secrets.token_hex(8))
        self._renderer = Renderer(self._version, self._registry.ids)
        self._tags = Tags(self._peer, self._registry.ids, self._version)
        self._state = OPEN
        self._transport.trust()
        self._peer.connection = secrets.token_hex(8)
        self._registry.tell(OPENED_EVENT, self)
        connected = {
            "version": self._version,
            "session": self._peer.connection,
            "server": f"MOM/{VERSION}",
            "heart-beat": self._offer or f"{round(self._beat_out_s * 1000)},{round(self._beat_in_s * 1000)}",
            "user-name": identity.user,
        }
        if self._version == "1.0":
            del connected["heart-beat"]
        if self._sender:
            self._bridged = Bridged(self._sender, self._peer, self._client, self._registry.access)
            self._submit(c.BridgeConnected(self._peer))
            connected[bridge_flows.SENDER] = bridge_flows.DIALECT
            connected[bridge_flows.MAX_BODY] = str(self._registry.config.max_body_bytes)
        self.frames_out += 1
        self._write(rendering.answer(wire.CONNECTED, list(connected.items())))
        fastest_s = min(filter(None, self.heart_beats), default=0.0)
        if fastest_s:
            self._registry.hasten(self, fastest_s)

    # ------------------------------------------------------------------ SEND

    def _plan(self, given: Headers) -> Plan:
        """What the headers of a SEND mean; kept with the headers, so once for thousands of messages."""
        destination = self._destination(given)
        if not self._sends.get(destination):
            self._permit_send(destination)
        reply_to = given.get("reply-to")
        if reply_to is not None and reply_to.startswith(("/temp-queue/", "/temp-topic/")):
            reply_to = self._reply_to(reply_to)
        else:
            reply_to = None
        envelope = headers.envelope(given, destination, reply_to)
        if bridge_flows.FLOW in given:
            return self._bridge(bridge_flows.FLOW).check_plan(given), envelope, True
        return given.get("transaction", ""), envelope, False

    def _bridge(self, header: str) -> Bridged:
        """What is done for bridges; Refused where a header is used that only they have."""
        if self._bridged is None:
            raise Refused("invalid", f"header {header} is for bridges; CONNECT with {bridge_flows.SENDER}")
        return self._bridged

    def _permit_send(self, destination: Destination) -> None:
        """Raises Refused where the client may not send. Whoever may is asked again after the next change of
        the policy, whatever headers it sends until then."""
        self._registry.access.check(self._client, SEND, destination)
        if destination not in self._sends and len(self._sends) >= MAX_SENDS:
            del self._sends[next(iter(self._sends))]
        self._sends[destination] = True

    def _reply_to(self, alias: str) -> str:
        """The name by which others can answer; the requester is subscribed to it if it is not yet."""
        assert self._names is not None
        destination = self._names.resolve(alias)
        if self._names.owns(destination) and destination.address not in self._temporary:
            self._temporary.add(destination.address)
            self._submit(c.Subscribe(self._peer, alias, destination.address))
        return destination.address

    def _destination(self, given: Headers) -> Destination:
        """What the frame names. Raises Refused."""
        assert self._names is not None
        address = given.get("destination")
        if address is None:
            raise Refused("bad-destination", "the frame has no destination header")
        return self._names.resolve(address)

    def _send(self, frame: Frame) -> None:
        """A SEND within a transaction; the others are taken in runs."""
        transaction, envelope, _ = frame.headers.plan
        publish = c.Publish(self._peer, [(envelope, frame.body, frame.receipt)])
        self._submit(c.Enlist(self._peer, transaction, publish, frame.receipt), _size(publish.entries))

    # ------------------------------------------------------------------ ACK, NACK

    def _ack_run(self, ids: list[bytes]) -> None:
        if self._state != OPEN or self._version != "1.2" or self._cumulative:
            for id in ids:
                self._do(Frame(wire.ACK, Headers({"id": id.decode()})))
            return
        try:
            tags = list(map(int, ids))
        except ValueError:
            tags = []
        unsettled = self._peer.unsettled
        if not tags or (self._soft_errors and not all(tag in unsettled for tag in tags)):
            # One that is unknown is refused by itself, where the connection survives that.
            for id in ids:
                self._do(Frame(wire.ACK, Headers({"id": id.decode()})))
            return
        self._submit(c.Settle(self._peer, tags), 16 * len(tags))

    def _ack(self, frame: Frame) -> None:
        tag, cumulative = self._delivery(frame.headers)
        self._settle(frame, c.Settle(self._peer, (tag,), cumulative))

    def _nack(self, frame: Frame) -> None:
        tag, cumulative = self._delivery(frame.headers)
        reason = "" if headers.requeue(frame.headers) else "REJECTED"
        detail = frame.headers.get("reason", "")
        delay_ms = scheduling_headers.delay_ms(frame.headers["delay-s"]) if "delay-s" in frame.headers else 0
        self._settle(frame, c.Return(self._peer, (tag,), cumulative, reason, detail, delay_ms=delay_ms))

    def _settle(self, frame: Frame, command: c.Settle | c.Return) -> None:
        transaction = frame.headers.get("transaction")
        command.receipt = frame.receipt
        if transaction is not None:
            self._submit(c.Enlist(self._peer, transaction, command, frame.receipt))
        else:
            self._submit(command)

    def _delivery(self, given: Headers) -> tuple[Tag, bool]:
        """The tag that an ACK or NACK names, and whether it stands for all earlier ones too."""
        tag = self._tags.find(given)
        held = self._peer.unsettled.get(tag)
        return tag, held is not None and held[0].ack == c.CLIENT

    # ------------------------------------------------------------------ SUBSCRIBE, transactions, DISCONNECT

    def _subscribe(self, frame: Frame) -> None:
        given = frame.headers
        id = given.get("id")
        if id is None:
            if self._version != "1.0":
                raise Refused("malformed-frame", "SUBSCRIBE needs an id header")
            id = given.get("destination", "")
        destination = self._destination(given)
        if bridge_flows.SOURCE in given:
            self._begin_flow(frame, id, destination)
            return
        self._registry.access.check(self._client, RECEIVE, destination)
        assert self._names is not None
        if destination.kind in (TEMP_QUEUE, TEMP_TOPIC) and not self._names.owns(destination):
            raise Refused(
                "not-allowed", f"{destination.address} is the temporary destination of another connection"
            )
        if self._names.owns(destination):
            self._temporary.add(destination.address)
        ack = headers.ack_mode(given)
        self._cumulative |= ack == c.CLIENT
        limits = self._registry.engine.broker.turn.limits
        credit = headers.credit(given, self._registry.config.credit, limits.max_credit)
        self._renderer.nameless.discard(id)
        if "id" not in given:
            self._renderer.nameless.add(id)
        look = (self._version, given.get("id")) if ack == c.AUTO else None
        subscribe = c.Subscribe(self._peer, id, destination.address, ack, credit, look, receipt=frame.receipt)
        subscribe.selector, subscribe.exclusive = given.get("selector", ""), headers.exclusive(given)
        subscribe.name, subscribe.durable, subscribe.shared = durable_names.of_subscribe(
            given, destination, self._client_id
        )
        subscribe.snapshot = headers.snapshot(given, destination)
        subscribe.start = times.start(given.get("from", ""))
        self._submit(subscribe, FRAME_BYTES + SELECTOR_BYTES * len(subscribe.selector))
        self._note(client_events.SUBSCRIBED, destination.address)

    def _begin_flow(self, frame: Frame, id: str, destination: Destination) -> None:
        given, assumed = frame.headers, self._bridge(bridge_flows.SOURCE)
        if destination.address != SYNC_ADDRESS:
            raise Refused("invalid", f"a flow is begun at {SYNC_ADDRESS}, and not at {destination.address}")
        target = parse(given.get(bridge_flows.TARGET, ""))
        self._submit(assumed.begin(given, id, target, frame.receipt))

    def _unsubscribe(self, frame: Frame) -> None:
        id = frame.headers.get("id")
        forget = durable_names.to_forget(frame.headers, id, self._client_id)
        if forget:
            named = self._registry.engine.broker.destinations.named.get(DURABLE_PREFIX + forget)
            if named is not None:  # whose it is, is the core's to ask
                self._registry.access.check(self._client, RECEIVE, parse(named.terms.filter))
            self._submit(c.DeleteSubscription(self._peer, forget, self._peer.user, frame.receipt))
            return
        if id is None:
            id = frame.headers.get("destination")
            if id is None or self._version != "1.0":
                raise Refused("malformed-frame", "UNSUBSCRIBE needs the id header of its SUBSCRIBE")
        subscription = self._peer.subscriptions.get(id)
        if subscription is not None and subscription.address in self._temporary:
            # A later reply-to subscribes again: what was planned for its headers holds no more.
            self._temporary.remove(subscription.address)
            self._parser.forget()
        if subscription is not None:
            self._note(client_events.UNSUBSCRIBED, subscription.address)
        self._submit(c.Unsubscribe(self._peer, id, frame.receipt, forget=forget is not None))

    def _transaction(self, frame: Frame) -> None:
        name = frame.headers.get("transaction")
        if not name:
            raise Refused("malformed-frame", f"{frame.command.decode()} needs a transaction header")
        deed: type[c.Begin | c.Commit | c.Abort] = _TRANSACTION_COMMANDS[frame.command]
        self._submit(deed(self._peer, name, frame.receipt))

    def _disconnect(self, frame: Frame) -> None:
        self._state = LEAVING
        self.close_reason = client_events.LEFT
        self._leave_receipt = frame.receipt
        # Answered in its turn, after everything that came before it is safe.
        self._submit(c.Disconnect(self._peer, _LEAVE))

    # ------------------------------------------------------------------ from the engine

    def flush(self, peer: Peer) -> None:
        receipts, deliveries = peer.receipts, peer.deliveries
        parts: list[bytes] = []
        leaving = False
        if receipts:
            peer.receipts = []
            if receipts[-1] is _LEAVE:
                receipts.pop()
                leaving = True
                if self._leave_receipt is not None and not (peer.strict and peer.refusals):
                    receipts.append(self._leave_receipt)
            parts = rendering.receipts(receipts)
        if deliveries:
            peer.deliveries = []
            parts += self._renderer.deliveries(deliveries)
            if self._tags.by_message:
                self._tags.remember(deliveries)
        if parts:
            self.frames_out += len(parts)
            self._write(b"".join(parts))
        if peer.refusals:
            refusals, peer.refusals = peer.refusals, []
            for receipt, refusal in refusals:
                if self._soft_errors:
                    self._send_refusal(refusal, receipt)
                else:
                    self._send_error(refusal, receipt)
        if leaving and self._final_error is not None:
            self._send_error(*self._final_error)
        elif leaving:
            self._close()

    def render(self, subscription: Subscription, messages: list[Message]) -> bytes:
        return b"".join(self._renderer.deliveries([(subscription, 0, message) for message in messages]))

    def send(self, data: bytes) -> None:
        self._write(data)

    def throttle(self, on: bool) -> None:
        if on:
            self._hold(THROTTLED)
        else:
            self._release(THROTTLED)

    def close(self, refusal: Refused) -> None:
        self._refuse(refusal, None, soft=False)

    def failed(self, error: Exception) -> None:
        """A fault of the broker was met at this client: end it, and nobody else."""
        internal_errors.note("a session", error, f"{self.peer_name} {self.user}")
        try:
            if self._state == LEAVING:  # the fault may have taken the answer that its end waits for
                self._send_error(internal(), None)
            else:
                self.close(internal())
        except Exception as failure:
            internal_errors.note("closing a client", failure, self.peer_name)
            self._transport.abort()
            self.lost()

    def drain(self, reason: str, within_s: float) -> None:
        """Give the client nothing new, and end it with `reason` when it has settled what it holds and ended
        its transactions, or after `within_s`."""
        if self._state == OPEN:
            self._drain = reason, time.monotonic() + within_s
            self._submit(c.Pause(self._peer))

    def _write(self, data: bytes) -> None:
        if self._state != CLOSED:
            self._spoke = time.monotonic()
            self.bytes_out += len(data)
            self._transport.write(data)

    # ------------------------------------------------------------------ saying no

    def _malformed(self, malformed: Malformed) -> None:
        if malformed.code == "http-on-stomp-port":
            self._write(_HTTP_ANSWER)
            self._end()
            return
        self._refuse(Refused(malformed.code, malformed.detail), None, soft=False)

    def _refuse_act(self, frame: Frame, refusal: Refused) -> None:
        transaction = frame.headers.get("transaction")
        goes_on = self._state == OPEN and self._soft_errors
        if goes_on and transaction is not None and frame.command not in _TRANSACTION_COMMANDS:
            # What remains of it must not be committed by a client that goes on.
            self._submit(c.Abort(self._peer, transaction))
        flow = frame.headers.get(bridge_flows.FLOW)
        if self._state == OPEN and self._bridged is not None and flow:
            # Answered in its turn, so that nothing of the flow overtakes it.
            self._submit(c.BreakFlow(self._peer, flow, refusal, frame.receipt))
            return
        self._refuse(refusal, frame.receipt, soft=self._state == OPEN)

    def _refuse(self, refusal: Refused, receipt: bytes | None, *, soft: bool) -> None:
        """Say no to one act (`soft`, for clients that asked for it), or end the connection by an ERROR, which
        comes after the answers to all that was asked before."""
        if soft and self._soft_errors:
            self._send_refusal(refusal, receipt)
        elif self._state == OPEN and self._registry.engine.ended is None:
            self._state = LEAVING
            self._final_error = refusal, receipt
            self._stuck_since = time.monotonic()
            self._submit(c.Disconnect(self._peer, _LEAVE, abandon=True))
        elif self._state == LEAVING and self._registry.engine.ended is None:
            self._final_error = self._final_error or (refusal, receipt)
            self._stuck_since = self._stuck_since or time.monotonic()
        else:
            self._send_error(refusal, receipt)

    def _send_refusal(self, refusal: Refused, receipt: bytes | None) -> None:
        """Refuse one act of a client that goes on."""
        if self._state == CLOSED:
            return
        self._note_refusal(refusal)
        self._refusals_sent += 1
        self._write(self._renderer.soft_refusal(refusal, receipt, f"refused-{self._refusals_sent}"))

    def _send_error(self, refusal: Refused, receipt: bytes | None) -> None:
        """Refuse by an ERROR, and end the connection."""
        if self._state == CLOSED:
            return
        self._note_refusal(refusal)
        self.close_reason = str(refusal)
        log.info("%s %s refused: %s", self.peer_name, self.user, refusal)
        extra = (
            (("version", ",".join(reversed(negotiation.VERSIONS))),)
            if isinstance(refusal, negotiation.UnsupportedVersion)
            else ()
        )
        self._write(self._renderer.error(refusal, receipt, extra))
        self._end()

    def _note_refusal(self, refusal: Refused) -> None:
        self.frames_out += 1
        if refusal.code != ENDED_BY_OPERATOR:
            by = str(refusal.facts.get("decided_by", ""))
            self._note(client_events.REFUSED, refusal.detail, refusal.code, by)

    def _note(self, event: str, detail: str, code: str = "", by: str = "") -> None:
        """For people who ask what happened to this client."""
        self._registry.client_events.note(self._peer.connection, event, code=code, detail=detail, by=by)

    def _end(self) -> None:
        """No further word from or to this client."""
        if self._state == OPEN:
            self._submit(c.Disconnect(self._peer))
        self._state = CLOSED
        self._close()

    def _close(self) -> None:
        """End the connection when the client has taken what is written; it has `STUCK_S` to do so."""
        self._stuck_since = self._stuck_since or time.monotonic()
        self._transport.close()

    def shutdown(self, reason: str) -> None:
        """The broker stops: say so, and end."""
        self.close_reason = reason
        if self._state == OPEN:
            self._write(self._renderer.error(Refused("not-active", reason), None))
        self._end()

    # ------------------------------------------------------------------ time

    def tick(self, now: float, step: float) -> None:
        """Heart-beats and time-outs; called every `step` seconds by the lobby."""
        if self._stuck_since and now - self._stuck_since > self._registry.STUCK_S:
            log.info("%s took nothing for %d s and was cut off", self.peer_name, self._registry.STUCK_S)
            self._transport.abort()
            self.lost()  # now, for a WebSocket's server may go on to wait for the client
        elif self._state == OPEN and self._is_drained(now):
            assert self._drain is not None
            self._refuse(Refused(ENDED_BY_OPERATOR, self._drain[0]), None, soft=False)
        else:
            if self._state == OPEN and self._holds and self._transport.hung_up():
                # What remains is little, and says whether the client took its leave or broke off.
                self._release(self._holds)
            if self._state == OPEN and self._beat_out_s and now - self._spoke >= self._beat_out_s - step:
                self._write(b"\n")
            late = self._late(now, step)
            if late is not None and self._overdue:
                self._refuse(late, None, soft=False)
            # Judged at the next look: the broker itself may have been stopped, and has not read yet.
            self._overdue = late is not None

    def _late(self, now: float, step: float) -> Refused | None:
        """What did not come in time, if anything."""
        timeout = self._registry.config.connect_timeout
        if self._state == CONNECTING and now - self._since > timeout:
            return Refused("login-timeout", f"no CONNECT within {timeout:g} s")
        silent = 0.0 if self._holds else now - self._heard
        if self._state == OPEN and self._beat_in_s and silent > 2 * self._beat_in_s + step:
            detail = f"nothing came for {silent:.1f} s; a heart-beat every {self._beat_in_s:g} s was agreed"
            return Refused("heart-beat-lost", detail)
        if self._state == OPEN and self._parser.has_partial and silent > PARTIAL_S:
            detail = f"a frame was begun and its rest did not come for {silent:.0f} s"
            return Refused("frame-timeout", detail)
        return None

    def _is_drained(self, now: float) -> bool:
        """Whether it is to end now, for it holds nothing any more or was given time enough."""
        if self._drain is None:
            return False
        return not (self._peer.unsettled or self._peer.transactions) or now > self._drain[1]

    def configured(self) -> None:
        """The settings of the node are others."""
        config = self._registry.config
        frames, bytes_ = config.max_frames_per_second, config.max_bytes_per_second
        self._pace = Pace(frames, bytes_, time.monotonic()) if frames or bytes_ else None

    # ------------------------------------------------------------------ rights that are lost

    def policy_changed(self) -> None:
        self._parser.forget()  # the plans that are kept with the headers
        self._sends = dict.fromkeys(self._sends, False)
        self.look_at_login()

    def look_at_login(self) -> None:
        """End where the login is no longer valid."""
        if self._identity is not None and not self._registry.logins.goes_on(self._identity):
            detail = f"the login of {self._identity.user} is no longer valid"
            self._refuse(Refused("not-authenticated", detail), None, soft=False)

    def look_again(self) -> None:
        """End what the client has lost the right to: subscriptions, transactions that would send, or, where
        that is the setting, all of it."""
        if self._state != OPEN or self._registry.access.is_unbound(self._client.identity):
            return
        self._mark_rollback_only()
        closes = self._registry.config.revoked == CLOSE
        for subscription in list(self._peer.subscriptions.values()):
            if subscription.id in self._peer.flows:
                self._look_again_at(self._peer.flows[subscription.id], closes=closes)
                continue
            lost = self._lost(RECEIVE, parse(subscription.address))
            if lost is None:
                continue
            detail = f"{lost.detail}; subscription {subscription.id} was ended"
            refusal = Refused(lost.code, detail, **lost.facts, subscription=subscription.id)
            self._submit(c.Unsubscribe(self._peer, subscription.id))
            self._refuse(refusal, None, soft=not closes)
            if self._state != OPEN:
                return
        if closes:
            refusals = (self._lost(SEND, destination) for destination in self._sends)
            refused = next(filter(None, refusals), None)
            if refused is not None:
                self._refuse(refused, None, soft=False)

    def _look_again_at(self, flow: Flow, *, closes: bool) -> None:
        lost = self._bridged.lost(flow) if self._bridged is not None and flow.broken is None else None
        if lost is not None and closes:
            self._refuse(lost, None, soft=False)
        elif lost is not None:
            self._submit(c.BreakFlow(self._peer, flow.id, lost))

    def _mark_rollback_only(self) -> None:
        """What was sent with a right that is lost by now must not be committed."""
        for name, transaction in self._peer.transactions.items():
            refusals = (self._lost(SEND, parse(address)) for address in transaction.targets)
            refusal = next(filter(None, refusals), None)
            if refusal is not None:
                self._submit(c.MarkRollbackOnly(self._peer, name, refusal))

    def _lost(self, right: str, destination: Destination) -> Refused | None:
        return self._registry.access.refusal(self._client, right, destination)


def _size(entries: Sequence[c.Entry]) -> int:
    """About how many bytes of memory they take."""
    return sum([len(body) + envelope.weight for envelope, body, _ in entries])


#: the token of the session's own Disconnect; no receipt of a client holds a NUL
_LEAVE = b"\0leave"

_TRANSACTION_COMMANDS: dict[bytes, type[c.Begin | c.Commit | c.Abort]] = {
    wire.BEGIN: c.Begin,
    wire.COMMIT: c.Commit,
    wire.ABORT: c.Abort,
}

_HANDLERS: dict[bytes, Callable[[StompSession, Frame], None]] = {
    wire.CONNECT: StompSession._connect,
    wire.STOMP: StompSession._connect,
    wire.SEND: StompSession._send,
    wire.SUBSCRIBE: StompSession._subscribe,
    wire.UNSUBSCRIBE: StompSession._unsubscribe,
    wire.ACK: StompSession._ack,
    wire.NACK: StompSession._nack,
    wire.BEGIN: StompSession._transaction,
    wire.COMMIT: StompSession._transaction,
    wire.ABORT: StompSession._transaction,
    wire.DISCONNECT: StompSession._disconnect,
}

_HTTP_TEXT = (
    b"This port speaks STOMP. The web console and the REST API are on the web port (8000 by default).\n"
)
_HTTP_ANSWER = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_HTTP_TEXT), _HTTP_TEXT)
)
