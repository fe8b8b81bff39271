"""A STOMP session: one client's conversation, whatever the transport.

Frames become commands for the engine; the engine's deliveries and answers become frames. Runs of SEND are one
command. A session has no I/O, no clock and no randomness of its own: the transport brings bytes, the registry
brings time, and `SessionEnvironment` both clock and randomness. Its parts:

| module | |
|---|---|
| `conversation` | what the parts share; the table of states and events |
| `opening` | from CONNECT to CONNECTED, by login (`handshake`) and registration (`registrations`) |
| `sends`, `acknowledgements`, `subscriptions` | frames to commands |
| `browsers` | what waits in queues, to be looked at |
| `flow_control` | when nothing is read; a client that takes nothing |
| `timeouts` | heart-beats, and what was not received in time |
| `disconnection` | refusals, ERROR, and the end |
| `revocation` | permissions that are lost |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from broker_app.base.deadline import Deadline
from broker_app.base.internal_errors import internal_errors
from broker_app.base.refused import Refused, internal
from broker_app.core import commands as c
from broker_app.core.delivery.unsettled import LARGE_BODY
from broker_app.core.message import Message
from broker_app.core.model import Peer, Subscription
from broker_app.net.auth.login import Identity
from broker_app.net.policy.access import Client
from broker_app.net.stomp import rendering
from broker_app.net.stomp.acknowledgements import Acknowledgements
from broker_app.net.stomp.browsers import Browsers
from broker_app.net.stomp.conversation import (
    ACCEPTS,
    AUTHENTICATING,
    CLOSED,
    CLOSING,
    CONNECTING,
    ENDED,
    OPEN,
    Conversation,
    Sessions,
    Transport,
)
from broker_app.net.stomp.delivery_tags import first_tag
from broker_app.net.stomp.disconnection import LAST_RECEIPT, Disconnection
from broker_app.net.stomp.flow_control import FlowControl
from broker_app.net.stomp.login.handshake import Handshake
from broker_app.net.stomp.login.opening import CLOSED_EVENT, Opening, frame_limits
from broker_app.net.stomp.login.opening import OPENED_EVENT as OPENED_EVENT
from broker_app.net.stomp.login.opening import VERSION as VERSION
from broker_app.net.stomp.revocation import Revocation
from broker_app.net.stomp.sends import FLOW, Sends, size_of
from broker_app.net.stomp.subscriptions import SubscriptionFrames
from broker_app.net.stomp.timeouts import Timeouts
from mom_client.stomp import frame as wire
from mom_client.stomp.errors import Malformed
from mom_client.stomp.frame import AckRun, Frame
from mom_client.stomp.parser import READ_BYTES, Parser
from mom_client.stomp.writes import in_writes

Frames = Sequence[Frame | AckRun | Malformed]
#: reads one frame, and nothing behind it
_ONE_FRAME: Final = 1


class StompSession:
    """One client.

    The transport calls `receive`, `congested`, `uncongested` and `lost`; the engine calls `flush`, `render`,
    `send`, `throttle`, `close` and `failed`; the registry calls `tick`.

    `identity` is set if the transport knows the client already (a browser's session cookie); a client
    certificate names it when the transport is ready. Either is used if CONNECT has no login.
    """

    __slots__ = (
        "_acknowledgements",
        "_deadline",
        "_disconnection",
        "_flow_control",
        "_handshake",
        "_opening",
        "_parser",
        "_revocation",
        "_sends",
        "_subscriptions",
        "_timeouts",
        "_waiting",
        "conversation",
        "number",
        "preauthenticated",
        "since_s",
    )

    def __init__(self, sessions: Sessions, transport: Transport, identity: Identity | None = None) -> None:
        config = sessions.config
        #: True if the transport named the client before it logged in
        self.preauthenticated = identity is not None
        self._parser = parser = Parser(limits=frame_limits(config, is_known=False))
        #: state, client and counters; read by what shows connections
        peer = Peer(self)
        peer.next_tag = first_tag()
        self.conversation = conversation = Conversation(sessions, self, transport, peer)
        self._flow_control = flow_control = FlowControl(conversation)
        self._handshake = Handshake(conversation, identity)
        self._timeouts = Timeouts(conversation, parser, self._handshake, flow_control)
        self._disconnection = Disconnection(conversation, flow_control)
        self._acknowledgements = Acknowledgements(conversation)
        self._opening = Opening(conversation, parser, self._handshake, flow_control, self._acknowledgements)
        browsers = Browsers(conversation, flow_control)
        self._subscriptions = SubscriptionFrames(conversation, parser, self._acknowledgements, browsers)
        self._sends = Sends(conversation, self._subscriptions)
        self._revocation = Revocation(conversation, self._sends, self._disconnection)
        self._deadline = Deadline(sessions.environment.monotonic)
        #: frames that are left of those that were read, for the next turn of the loop
        self._waiting: list[Frame | AckRun | Malformed] = []
        #: when it began, seconds since 1970
        self.since_s = sessions.environment.time()
        #: the number of this connection on the node, starting at 1
        self.number = sessions.join(self)

    # ------------------------------------------------------------------ facts, to be shown

    @property
    def user(self) -> str:
        """The name of the user; empty before the login."""
        return self.identity.user if self.identity else ""

    @property
    def client(self) -> Client | None:
        """The client and its connection, as rules see them; None before the login."""
        return self.conversation.client

    @property
    def identity(self) -> Identity | None:
        """The identity of the client, as far as it is known."""
        return self._handshake.identity

    @property
    def peer_name(self) -> str:
        """Transport and address: "tcp 127.0.0.1:50000"."""
        return self.conversation.transport.peer_name

    @property
    def peer(self) -> Peer:
        """The client as the core knows it."""
        return self.conversation.peer

    @property
    def service(self) -> str | None:
        """The name of the service that the client is registered as; None if it is none."""
        return self.conversation.sessions.registrar.service_of(self.peer.connection)

    @property
    def heart_beats(self) -> tuple[float, float]:
        """Seconds between heart-beats as agreed (from the client, to the client); 0 is none."""
        return self._handshake.beat_in_s, self._handshake.beat_out_s

    @property
    def idle_s(self) -> float:
        """Seconds since something was received from the client."""
        return self.conversation.sessions.environment.monotonic() - self.conversation.last_received_s

    @property
    def is_draining(self) -> bool:
        """True if the client receives nothing new, and is disconnected when it has settled everything."""
        return self._disconnection.is_draining

    @property
    def is_throttled(self) -> bool:
        """True if the broker reads nothing more from the client for now."""
        return bool(self._flow_control.reasons)

    # ------------------------------------------------------------------ from the transport

    def admitted(self, certified: tuple[str, ...] = ()) -> None:
        """The transport is ready; `certified` are the names in an accepted client certificate."""
        self._handshake.certify(certified)
        sessions = self.conversation.sessions
        if sessions.full:
            most = sessions.config.max_connections
            self.close(Refused("too-many", f"this node serves at most {most} connections"))

    def receive(self, data: bytes) -> None:
        """Process bytes of the client, in any pieces."""
        conversation = self.conversation
        conversation.last_received_s = conversation.sessions.environment.monotonic()
        if conversation.state >= CLOSING:
            return
        self._parser.put(data)
        conversation.bytes_in += len(data)
        if conversation.state != AUTHENTICATING:
            self._read(len(data), conversation.last_received_s)

    def read_on(self) -> None:
        """Process what is left of what was received."""
        try:
            self._read(0, self.conversation.sessions.environment.monotonic())
        except Exception as error:
            self.failed(error)

    def _read(self, size: int, now: float) -> None:
        """Process what was received, `size` bytes of it just now, for one turn of the loop at most."""
        conversation, parser, deadline = self.conversation, self._parser, self._deadline
        counted = conversation.frames_in
        deadline.begin(now)
        while True:
            if self._waiting:
                frames, self._waiting = self._waiting, []
            else:
                frames = parser.read(READ_BYTES if conversation.state == OPEN else _ONE_FRAME)
                conversation.frames_in += len(frames)
            self._take(frames, deadline)
            if conversation.state >= CLOSING:
                self._waiting.clear()
                parser.discard()
                return
            is_left = bool(self._waiting) or parser.has_unread
            if not is_left or conversation.state == AUTHENTICATING or deadline.passed:
                break
        if conversation.state == CONNECTING:
            self._check_first_bytes()
        too_fast = self._flow_control.received(conversation.frames_in - counted, size)
        if too_fast is not None:
            self.close(too_fast)
        elif (is_left or self._flow_control.reasons) and conversation.state != AUTHENTICATING:
            self._flow_control.unread(is_left)

    def _check_first_bytes(self) -> None:
        """Refuse a long SEND instead of CONNECT before its body is received; no other frame is so long."""
        if self._parser.buffered > 2 * self._parser.limits.max_header_bytes:
            self.close(Refused("not-connected", "SEND came before CONNECT"))

    def congested(self) -> None:
        """The transport is full: the client does not take what was written."""
        self._flow_control.congested()

    def uncongested(self) -> None:
        """The transport has room again."""
        self._flow_control.uncongested(draining=self.is_draining)
        self._subscriptions.browsers.uncongested()

    def lost(self) -> None:
        """The connection has ended."""
        conversation = self.conversation
        if conversation.state != CLOSED:
            if conversation.state == OPEN:
                conversation.submit(c.Disconnect(conversation.peer))
            conversation.follow(ENDED)
            self._waiting.clear()
            self._parser.discard()
            self._acknowledgements.renew_tags()
            self._subscriptions.browsers.close()
        if conversation.sessions.leave(self) and conversation.peer.connection:
            conversation.sessions.notify(CLOSED_EVENT, self)
            self._opening.registration.ended()

    @property
    def is_over(self) -> bool:
        """True if the connection has ended, and the engine has carried out its end."""
        conversation = self.conversation
        is_known = bool(conversation.peer.connection) and conversation.sessions.engine.ended is None
        return conversation.state == CLOSED and (conversation.peer.disconnected or not is_known)

    def forget(self) -> None:
        """Let go of what refers to this session, which is over."""
        self.conversation.forget()
        self._acknowledgements.renew_tags()

    def _take(self, frames: Frames, deadline: Deadline) -> None:
        """Turn frames into commands; adjacent SENDs become one. What takes long waits once the deadline has
        passed, with all that follows."""
        conversation = self.conversation
        entries: list[c.Entry] = []
        for index, frame in enumerate(frames):
            if type(frame) is Frame and frame.command is wire.SEND and conversation.state == OPEN:
                plan = frame.headers.plan
                if plan is None and frame.headers.model is not None:
                    plan = frame.headers.plan = frame.headers.model.plan
                if plan is None:
                    if index and deadline.passed:
                        self._waiting = list(frames[index:])
                        break
                    try:
                        plan = frame.headers.plan = self._sends.plan(frame.headers)
                    except Refused as refusal:
                        entries = self._publish(entries)
                        self._disconnection.refuse_frame(frame, refusal)
                        if conversation.state >= CLOSING:
                            return
                        continue
                if not plan[0]:
                    entries.append((plan[1], frame.body, frame.receipt))
                    continue
                if plan[2] == FLOW and conversation.bridge is not None:
                    conversation.bridge.take(plan[0], plan[1], frame.body, frame.receipt)
                    continue
            elif index and deadline.passed:
                self._waiting = list(frames[index:])
                break
            if entries or conversation.bridge is not None:
                entries = self._publish(entries)
            instead = self._take_other(frame)
            if conversation.state >= CLOSING:
                return
            if instead:
                self._waiting = [*instead, *frames[index + 1 :]]
                break
        if entries or conversation.bridge is not None:
            self._publish(entries)

    def _take_other(self, frame: Frame | AckRun | Malformed) -> list[Frame]:
        """Process all but a SEND whose command is made of its headers alone; returns the frames that are to
        be processed in place of this one."""
        if type(frame) is Frame:
            self._do(frame)
        elif type(frame) is AckRun:
            self.conversation.frames_in += len(frame.ids) - 1
            return self._acknowledgements.run(frame.ids)
        else:
            self._disconnection.malformed(frame)  # type: ignore[arg-type]  # the only kind that is left
        return []

    def _publish(self, entries: list[c.Entry]) -> list[c.Entry]:
        conversation = self.conversation
        if conversation.bridge is not None:
            for forward in conversation.bridge.hand_over():
                conversation.submit(forward, size_of(forward.entries))
        if not entries:
            return entries
        conversation.submit(c.Publish(conversation.peer, entries), size_of(entries))
        return []

    def _do(self, frame: Frame) -> None:
        try:
            if frame.command not in ACCEPTS[self.conversation.state]:
                raise Refused("not-connected", f"{frame.command.decode()} came before CONNECT")
            _HANDLERS[frame.command](self, frame)
        except Refused as refusal:
            self._disconnection.refuse_frame(frame, refusal)

    # ------------------------------------------------------------------ other frames

    def _transaction(self, frame: Frame) -> None:
        name = frame.headers.get("transaction")
        if not name:
            raise Refused("malformed-frame", f"{frame.command.decode()} needs a transaction header")
        command = _TRANSACTION_COMMANDS[frame.command]
        self.conversation.submit(command(self.conversation.peer, name, frame.receipt))

    # ------------------------------------------------------------------ from the engine

    def flush(self, peer: Peer) -> None:
        """Send the receipts, deliveries and refusals that the core has collected for the client."""
        conversation, tags = self.conversation, self._acknowledgements.tags
        receipts, deliveries = peer.receipts, peer.deliveries
        parts: list[bytes] = []
        leaving = False
        if receipts:
            peer.receipts = []
            if receipts[-1] is LAST_RECEIPT:
                receipts.pop()
                leaving = True
                last = self._disconnection.last_receipt()
                if last is not None:
                    receipts.append(last)
            parts = rendering.receipts(receipts)
        frames = len(parts) + len(deliveries)
        if deliveries:
            peer.deliveries = []
            parts += conversation.renderer.deliveries(deliveries)
            if tags.by_message:
                tags.remember(deliveries)
        if parts:
            conversation.frames_out += frames
            if len(parts) > frames:  # large bodies are among them
                for part in in_writes(parts):
                    conversation.write(part)
            else:
                data = b"".join(parts)
                conversation.write(data)
            if deliveries and (len(parts) > frames or len(data) > LARGE_BODY):
                conversation.sessions.engine.broker.unsettled.release_bodies(deliveries)
        if peer.refusals:
            refusals, peer.refusals = peer.refusals, []
            if conversation.soft_errors:
                self._disconnection.send_refusals(refusals)
            else:
                for receipt, refusal in refusals:
                    self._disconnection.send_error(refusal, receipt)
        if leaving:
            self._disconnection.finish()

    def render(self, subscription: Subscription, messages: list[Message]) -> list[bytes]:
        """The parts of the MESSAGE frames that all subscriptions with the same render key get."""
        renderer = self.conversation.renderer
        return list(in_writes(renderer.deliveries([(subscription, 0, message) for message in messages])))

    def send(self, part: bytes) -> None:
        """Send a part that was rendered once for many clients."""
        self.conversation.write(part)

    def throttle(self, on: bool) -> None:
        """Read nothing from the client while too much that it sent is blocked."""
        self._flow_control.throttle(on)

    def hold(self, on: bool) -> None:
        """Read nothing from the client while too much that it sent is held by an interceptor."""
        self._flow_control.hold(on)

    def close(self, refusal: Refused) -> None:
        """End the session by an ERROR."""
        self._disconnection.refuse(refusal, None, soft=False)

    def subscription_ended(self, _: Subscription, refusal: Refused) -> None:
        """End the session: STOMP has no frame by which a broker ends one subscription."""
        self.close(refusal)

    def refuse(self, refusal: Refused) -> None:
        """Refuse what the client has asked for, and end the session unless it asked for `mom-soft-errors`."""
        self._disconnection.refuse(refusal, None, soft=True)

    def failed(self, error: Exception) -> None:
        """An internal error was met at this client: end its session, and no other."""
        internal_errors.note("a session", error, f"{self.peer_name} {self.user}")
        try:
            if self.conversation.state == CLOSING:  # the answer that its end waits for may be lost
                self._disconnection.send_error(internal(), None)
            else:
                self.close(internal())
        except Exception as failure:
            internal_errors.note("closing a client", failure, self.peer_name)
            self.conversation.transport.abort()
            self.lost()

    # ------------------------------------------------------------------ from the registry

    def drain(self, reason: str, within_s: float) -> None:
        """Deliver nothing new, and end the session when everything is settled, or after `within_s`."""
        self._disconnection.drain(reason, within_s)

    def shutdown(self, refusal: Refused) -> None:
        """The broker stops: report why, and end the session."""
        self._disconnection.shut_down(refusal)

    def hold_input(self, on: bool) -> None:
        """Read nothing from the client while the broker is about to hand over."""
        self._flow_control.leave(on)

    def suspend(self) -> None:
        """The broker is paused: read nothing, and deliver nothing."""
        self._flow_control.suspend()

    def resume(self) -> None:
        """The broker is not paused any more."""
        self._flow_control.end_suspension(draining=self.is_draining)

    def tick(self, now: float, step: float) -> None:
        """Send heart-beats and end what is late; called every `step` seconds."""
        conversation, flow_control = self.conversation, self._flow_control
        if flow_control.is_stuck(now):
            stuck_s = conversation.sessions.STUCK_S
            conversation.sessions.log(
                "%s received nothing for %d s and was disconnected", self.peer_name, stuck_s
            )
            conversation.transport.abort()
            self.lost()  # now, for a WebSocket's server may go on to wait for the client
            return
        drained = self._disconnection.drained(now)
        if drained is not None:
            self.close(drained)
            return
        if conversation.state == OPEN:
            if flow_control.reasons and conversation.transport.hung_up():
                # The rest is little, and shows whether the client disconnected or broke off.
                flow_control.resume_hung_up()
            if self._timeouts.beat_is_due(now, step):
                conversation.write(b"\n")
        expired = self._timeouts.expired(now, step)
        if expired is not None:
            self.close(expired)

    def configured(self) -> None:
        """Apply changed settings of the node."""
        self._flow_control.configure()

    def policy_changed(self) -> None:
        """Forget what followed from the former policy, and end a login that is no longer valid."""
        self._parser.forget()  # the plans that are kept with the headers
        self._sends.policy_changed()
        self.recheck_login()

    def recheck_login(self) -> None:
        """End the session if the login is no longer valid."""
        identity = self.identity
        if identity is not None and not self.conversation.sessions.logins.is_valid(identity):
            self.close(Refused("not-authenticated", f"the login of {identity.user} is no longer valid"))

    def recheck_permissions(self) -> None:
        """End subscriptions, flows and transactions that are not permitted any more."""
        self._revocation.recheck()


_TRANSACTION_COMMANDS: dict[bytes, type[c.Begin | c.Commit | c.Abort]] = {
    wire.BEGIN: c.Begin,
    wire.COMMIT: c.Commit,
    wire.ABORT: c.Abort,
}

#: runs of SEND are taken without it; those within a transaction, to profiles and to channels are not
_HANDLERS: dict[bytes, Callable[[StompSession, Frame], None]] = {
    wire.CONNECT: lambda session, frame: session._opening.connect(frame),
    wire.STOMP: lambda session, frame: session._opening.connect(frame),
    wire.SEND: lambda session, frame: session._sends.send(frame),
    wire.SUBSCRIBE: lambda session, frame: session._subscriptions.subscribe(frame),
    wire.UNSUBSCRIBE: lambda session, frame: session._subscriptions.unsubscribe(frame),
    wire.ACK: lambda session, frame: session._acknowledgements.ack(frame),
    wire.NACK: lambda session, frame: session._acknowledgements.nack(frame),
    wire.BEGIN: StompSession._transaction,
    wire.COMMIT: StompSession._transaction,
    wire.ABORT: StompSession._transaction,
    wire.DISCONNECT: lambda session, frame: session._disconnection.leave(frame.receipt),
}
