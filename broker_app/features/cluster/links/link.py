"""A link: one connection to another broker of the cluster, from the handshake to its end."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Final, Protocol, cast

from broker_app.base.deadline import Deadline
from broker_app.base.internal_errors import internal_errors
from broker_app.base.refused import Refused
from broker_app.engine import Engine
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links.handshake import Handshake
from broker_app.features.cluster.links.message_checks import check_identity
from broker_app.features.cluster.links.outbox import Assembly, Outbox
from broker_app.features.cluster.links.remote_consumers import WINDOW_BYTES, RemoteConsumers
from broker_app.features.cluster.links.remote_queues import RemoteQueues

#: seconds until both brokers must have proven who they are
HANDSHAKE_S: Final = 5.0
#: seconds between heart-beats, and without anything received until the connection counts as lost
BEAT_S: Final = 1.0
SILENCE_S: Final = 5.0
#: bytes that wait to be sent, above which the engine delivers nothing more
_OUTBOX_BYTES: Final = 1 * f.MIB
#: bytes that wait to be sent, in addition to those of messages, when the other broker has read too little
_MOST_OUTBOX_BYTES: Final = 32 * f.MIB
#: the detail for a broker that has not proven to be one of the cluster
_STRANGER: Final = "this port is for brokers of the cluster"
#: bytes of a frame with one message, in addition to its body
_FRAME_BYTES: Final = 1 * f.MIB
_STOPPED = "stopped"


class LinkOwner(Protocol):
    """The owner of links: decides which are kept, and shares what they carry."""

    def identity(self) -> f.Identity:
        """This broker, as others see it."""

    def connected(self, link: Link) -> None:
        """A connection was accepted; who is there is not known."""

    def admit(self, link: Link) -> None:
        """Take a link whose broker is known. Raises Refused for one that is not wanted."""

    def ended(self, link: Link, reason: Refused) -> None:
        """A link has ended, whether it was admitted or not."""

    def receive_record(self, link: Link, message: bytes) -> None:
        """Take a message about the change record."""

    def receive_use(self, link: Link, frame: f.SharedUse) -> None:
        """Take what the other broker uses of shared limits."""

    def receive_unused(self, link: Link, frame: f.AskUnused | f.Unused) -> None:
        """Take a question, or an answer, about queues without use."""

    def receive_reload(self, link: Link, frame: f.Reload | f.Reloaded) -> None:
        """Take the order to read the central file again, or the answer to one."""

    def receive_page(self, link: Link, frame: f.AskPage | f.Page) -> None:
        """Take a question about messages that wait here, or the answer to one."""

    def receive_channel(self, link: Link, frame: f.ChannelFrame) -> None:
        """Take what applications at the other broker send to those here."""

    def availability(self, link: Link, frame: f.Availability) -> None:
        """Take what the other broker says about itself."""


class Link(asyncio.Protocol):
    """One side of a link. `dials` is True at the broker that has connected. `most_bytes` is the largest
    message."""

    def __init__(
        self, engine: Engine, owner: LinkOwner, secret: str, most_bytes: int, *, dials: bool
    ) -> None:
        self._engine = engine
        self._owner = owner
        self.dials = dials
        self._most_bytes = most_bytes
        self._reader = f.Reader()
        self._turn = Deadline(time.monotonic)
        self._outbox = Outbox()
        self._large_call = Assembly(most_bytes)
        self._handshake = Handshake(secret, dials=dials, send=self.send)
        self._transport: asyncio.Transport
        self._deadline: asyncio.TimerHandle | None = None
        #: the other broker, once it is known
        self.broker: f.Identity | None = None
        self.consumers: RemoteConsumers
        self.queues: RemoteQueues
        #: whether messages pass
        self.is_up = False
        self.is_closed = False
        self.is_tls = False
        self.quiesced = False
        #: the number of clients of the other broker
        self.clients = 0
        self.since = time.time()
        self._heard = self._asked = self._taken = time.monotonic()
        #: bytes that the connection had taken a second ago
        self._taken_bytes = 0
        self._is_paused = False
        self._ping = 0
        self.round_trip_ms: float | None = None

    # ------------------------------------------------------------------ from asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_OUTBOX_BYTES)
        self._outbox.open(self._transport)
        self.is_tls = transport.get_extra_info("ssl_object") is not None
        connection: socket.socket = transport.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._deadline = asyncio.get_running_loop().call_later(HANDSHAKE_S, self._too_late)
        if not self.dials:
            self._owner.connected(self)
        self._handshake.begin()

    def data_received(self, data: bytes) -> None:
        self._reader.add(data)
        if not self._is_paused:
            self._take_frames()

    def _take_frames(self) -> None:
        """Take the frames that have come, as many as there is time for in a turn of the loop."""
        self._heard = time.monotonic()
        self._turn.begin(self._heard)
        if self._is_far_behind(waiting := self._outbox.waiting):  # most frames have an answer
            self._lose(_too_slowly(waiting))
            return
        try:
            for frame in self._reader:
                self._receive(frame)
                if self.is_closed:
                    return
                if self._turn.passed:
                    asyncio.get_running_loop().call_soon(self.writable)
                    self._pause_reading()
                    return
            if self.is_up and self._must_wait():
                self._engine.notify_when_writable(self)
                self._pause_reading()
        except Refused as refusal:
            self.close(refusal)
        except Exception as error:
            self._broken(error)

    def _must_wait(self) -> bool:
        """Return whether the engine has not carried out what came, so that no more is read."""
        must_wait = self._engine.must_wait
        return must_wait(self.consumers.peer) or must_wait(self.queues.peer) or self.queues.is_full

    def _pause_reading(self) -> None:
        self._is_paused = True
        self._transport.pause_reading()

    def writable(self) -> None:
        """Read on: the engine has room, or others were served."""
        if self.is_up and self._must_wait():
            self._engine.notify_when_writable(self)
        elif not self.is_closed:
            self._is_paused = False
            self._transport.resume_reading()
            self._take_frames()

    def pause_writing(self) -> None:
        if self.is_up:
            self.consumers.congested(True)

    def resume_writing(self) -> None:
        if self.is_up:
            self.consumers.congested(False)

    def connection_lost(self, error: Exception | None) -> None:
        self._end(
            Refused("connection-lost", str(error) if error else "the other broker closed the connection")
        )

    # ------------------------------------------------------------------ from the owner

    def send(self, frame: f.Frame) -> None:
        """Send a frame, unless the link has ended."""
        if not self.is_closed:
            self._outbox.send(frame)

    def send_call(self, frame: f.Call) -> bool:
        """Send what may be large, in pieces, unless too much waits; returns whether it was."""
        return not self.is_closed and self._outbox.send_call(frame)

    def close(self, refusal: Refused) -> None:
        """End the link, and say why."""
        if not self.is_closed:
            is_known = self._handshake.is_proven or refusal.code == "unauthorized"
            self.send(f.Refuse(refusal.code, refusal.detail[:1_000] if is_known else _STRANGER))
            self._outbox.flush()
            self._transport.close()
            self._end(refusal)

    def _lose(self, reason: str) -> None:
        """End the link at once: the other broker would not read why."""
        self._transport.abort()
        self._end(Refused("connection-lost", reason))

    def _is_far_behind(self, waiting: int) -> bool:
        """Return whether so many bytes wait for the other broker that it will not read them in time."""
        return waiting > WINDOW_BYTES + self._most_bytes + _MOST_OUTBOX_BYTES

    def each_second(self, now: float) -> None:
        """Ask whether the other broker is still there, and takes what it is sent; `now` is monotonic."""
        waiting = self._outbox.waiting
        taken_bytes = self._outbox.given - waiting
        if not waiting or taken_bytes != self._taken_bytes:
            self._taken, self._taken_bytes = now, taken_bytes
        if now - self._heard > SILENCE_S and not self._is_paused:
            self._lose(f"nothing came from it for {SILENCE_S:g} s")
        elif now - self._taken > SILENCE_S:
            self._lose(f"it has read nothing for {SILENCE_S:g} s, and {waiting} bytes wait for it")
        elif self._is_far_behind(waiting):
            self._lose(_too_slowly(waiting))
        elif self.is_up:
            self._ping += 1
            self._asked = now
            self.send(f.Ping(self._ping))

    # ------------------------------------------------------------------ frames

    def _receive(self, frame: f.Frame) -> None:
        if isinstance(frame, f.Refuse):
            self._transport.close()
            self._end(Refused(frame.code[:100], frame.detail[:1_000]))
            return
        if not self.is_up:
            self._receive_first(frame)
            return
        match frame:
            case f.Deliver():
                self.queues.deliver(frame)
            case f.Settled():
                self.consumers.settled(frame)
            case f.ChannelCall() | f.ChannelAnswer() if not frame.size:
                self._owner.receive_channel(self, frame)
            case f.Confirm(number):
                self.consumers.confirm(number)
            case f.Confirmed(number):
                self.queues.confirmed(number)
            case f.SentAgain():
                self.consumers.sent_again(frame)
            case f.Subscribe():
                self.consumers.subscribe(frame)
            case f.Credit():
                self.consumers.set_credit(frame)
            case f.Unsubscribe(number):
                self.consumers.unsubscribe(number)
            case f.NotSubscribed():
                self.queues.not_subscribed(frame)
            case f.Ping(number):
                self.send(f.Pong(number))
            case f.Pong(number) if number == self._ping:
                self.round_trip_ms = (time.monotonic() - self._asked) * 1000
            case f.Pong():
                pass  # of an earlier heart-beat
            case f.Availability():
                self.quiesced, self.clients = frame.quiesced, frame.clients
                self._owner.availability(self, frame)
            case f.SharedUse():
                self._owner.receive_use(self, frame)
            case f.AskUnused() | f.Unused():
                self._owner.receive_unused(self, frame)
            case f.Reload() | f.Reloaded():
                self._owner.receive_reload(self, frame)
            case f.Record(message):
                self._owner.receive_record(self, message)
            case f.ChannelCall() | f.ChannelAnswer() | f.Page() if frame.size:
                self._large_call.begin(frame)
            case f.ChannelPiece(piece):
                self._receive_piece(piece)
            case f.ChannelCredit(pieces):
                self._outbox.add_credit(pieces)
            case f.ChannelHandlers():
                self._owner.receive_channel(self, frame)
            case f.AskPage() | f.Page():
                self._owner.receive_page(self, frame)
            case _:
                raise Refused("protocol-error", "the handshake is over")

    def _receive_piece(self, piece: bytes) -> None:
        """Take a part of a large call."""
        call = self._large_call.take(piece)
        if credit := self._large_call.credit():
            self.send(f.ChannelCredit(credit))
        if isinstance(call, f.Page):
            self._owner.receive_page(self, call)
        elif call is not None:
            self._owner.receive_channel(self, call)

    def _receive_first(self, frame: f.Frame) -> None:
        """Take a frame of the handshake."""
        if not self._handshake.is_proven:
            if self._handshake.receive(frame):
                self._reader.most = f.USUAL_BYTES
                self.send(self._owner.identity())
            return
        if not isinstance(frame, f.Identity):
            raise Refused("protocol-error", "the other broker did not say who it is")
        check_identity(frame)
        self.broker = frame
        self.consumers = RemoteConsumers(self._engine, frame.name, self.send, self._broken)
        self.queues = RemoteQueues(self._engine, frame.name, self.send)
        self._owner.admit(self)
        if self._deadline is not None:
            self._deadline.cancel()
        self._reader.most = self._most_bytes + _FRAME_BYTES
        self.is_up = True
        self.queues.refresh(self._engine.broker.interest.all())

    def _broken(self, error: Exception) -> None:
        """End the link after an internal error: all that is not settled is delivered again."""
        internal_errors.note("a link of the cluster", error)
        self.close(Refused("internal", "the broker failed at this link; its log has the details"))

    def _too_late(self) -> None:
        self.close(Refused("timeout", f"the other broker was silent for {HANDSHAKE_S:g} s"))

    def _end(self, reason: Refused) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        if self._deadline is not None:
            self._deadline.cancel()
        if self.is_up:
            self.is_up = False
            self.consumers.end()
            self.queues.end()
        self._owner.ended(self, reason)


def _too_slowly(waiting: int) -> str:
    return f"it reads too slowly: {waiting} bytes wait for it"


def stopped() -> Refused:
    """The reason why a broker that stops ends its links."""
    return Refused(_STOPPED, "the broker stops")


def is_stop(reason: Refused) -> bool:
    """Return whether the other broker has ended a link because it stops."""
    return reason.code == _STOPPED
