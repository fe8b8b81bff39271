"""A flow: one store-and-forward queue on its way to the remote broker.

    suspended ──resume──► waiting ──connected──► starting ──offset──► subscribing ──alone──► running
      ▲                      ▲                      │                     │                    │
      │                      └───connection lost────┴─────────────────────┴────────────────────┤
      │                     retrying ◄──refused─────┴─────────────────────┴────────────────────┤
      └────────────────────────────────────stopping ◄─────idle, paused─────────────────────────┘

It consumes the queue only while it is running, so what cannot be sent stays visible in the queue. What was
sent is settled when the remote broker answered. When something breaks, everything without an answer returns
to the queue, and the flow starts again behind the position that the remote broker reports, its replication
offset: messages up to it are settled without being sent.
"""

from __future__ import annotations

import enum
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

from broker_app.base.events import FLOW_DEAD_LETTERED, FLOW_GAP, FLOW_STARTED, FLOW_SUSPENDED, Event
from broker_app.base.refused import Refused
from broker_app.core.model import Delivery, InnerReceiver, Peer, Subscription
from broker_app.engine import Engine
from broker_app.features.bridge import bridge_errors as errors
from broker_app.features.bridge.bridge_errors import BridgeError
from broker_app.features.bridge.counters import Counters
from broker_app.features.bridge.flow_parts import Consumer, Refusals, RemoteOffset, Status, Timers
from broker_app.features.bridge.framing import Framing, framing_for, knows_bridges, start_frame
from broker_app.features.bridge.inflight_window import FLIGHT_BYTES, Budget, InflightWindow
from broker_app.features.bridge.remote import Remote
from broker_app.features.bridge.timeline import Timeline
from mom_client.connection.link import Link
from mom_client.errors import Refused as RefusedThere
from mom_client.stomp import frame as wire
from mom_client.stomp.writes import in_writes

#: the problem of a message that follows a refused one
BROKEN: Final = "flow-broken"
#: header of CONNECTED from a MOM: bytes of the largest body that it accepts
MAX_BODY: Final = "mom-max-body"


class Phase(enum.Enum):
    """The phases of a flow; `report` makes the states of them that users see."""

    SUSPENDED = "suspended"
    WAITING = "waiting"  # for the connection
    STARTING = "starting"  # asked the remote broker
    SUBSCRIBING = "subscribing"  # here; other consumers may have unsettled messages
    RUNNING = "running"
    RETRYING = "retrying"  # was refused, and tries again at `retry_at`
    STOPPING = "stopping"  # sends no more, and waits for answers


#: nothing was sent yet, and nothing is in progress
_BEFORE_SENDING: Final = (Phase.STARTING, Phase.SUBSCRIBING)
_PASSIVE: Final = (Phase.WAITING, Phase.RETRYING)
#: errors that are over when a flow is running
_OVER_WHEN_RUNNING: Final = (
    errors.AUTH_SYNC_QUEUE,
    errors.AUTH_TARGET_QUEUE,
    errors.HELD,
    errors.OFFSET_AHEAD,
)


class Flow(InnerReceiver):
    """The flow of the queue with the address `source` to the remote queue named `queue`.

    `id` is its name on the connection, `budget` is shared with the flows of the pipe, `needed` asks for a
    connection.
    """

    def __init__(
        self,
        source: str,
        queue: str,
        id: str,
        remote: Remote,
        engine: Engine,
        timeline: Timeline,
        budget: Budget,
        needed: Callable[[], None],
    ) -> None:
        self.source = source
        #: the name of the remote queue
        self.queue = queue
        self.id = id
        self.remote = remote
        self.counters = Counters()
        self.phase = Phase.SUSPENDED
        self.status = Status(timeline, queue)
        self._ids = engine.broker.turn.ids
        self._needed = needed
        #: the consumer of the queue
        self.consumer = Consumer(engine, source, id)
        self._link: Link | None = None
        self._framing: Framing
        self._window = InflightWindow(budget)
        #: delivered to the flow and not sent yet
        self._unsent: list[Delivery] = []
        #: True until the first message since the start is accepted: it is sent alone
        self._probing = False
        self._offset = RemoteOffset()
        self._refusals = Refusals()
        self._timers = Timers()
        #: bytes of the largest body that the remote broker accepts
        self._max_body = sys.maxsize
        #: the phase after `stop`
        self._then = Phase.SUSPENDED

    @property
    def paused(self) -> bool:
        """True if the bridge, or this queue of it, is paused."""
        return self.remote.desired == "paused" or self.queue in self.remote.paused_queues

    @property
    def in_flight(self) -> int:
        """Messages that were sent and have no answer."""
        return len(self._window.sent)

    @property
    def probe(self) -> bytes | None:
        """The receipt of the first message since the start, if it is the only one in flight."""
        return next(iter(self._window.sent)) if self._probing and self.in_flight == 1 else None

    def resume(self) -> None:
        """There is something to send."""
        if self.phase is Phase.SUSPENDED and not self.paused:
            self.phase = Phase.WAITING
            self._needed()
            if self._link is not None:
                self._start(self._link)

    def configure(self, remote: Remote) -> None:
        """Apply a changed configuration of the bridge; the connection stays."""
        if not remote.has_same_connection(self.remote):
            self._offset.forget_count()
        self.remote = remote
        if self.paused:
            self.stop()
        elif self.consumer.depth:
            self.resume()

    def connected(self, link: Link) -> None:
        """The pipe has a connection."""
        self._link = link
        self._timers.connected()
        if self.phase is Phase.WAITING:
            self._start(link)

    def _start(self, link: Link) -> None:
        """Ask the remote broker for its offset; then subscribe to the queue."""
        if not self.consumer.exists:
            self._suspend()
            return
        max_body = link.connection.headers.get(MAX_BODY, "")
        self._max_body = int(max_body) if max_body.isdecimal() else sys.maxsize
        self._framing = framing_for(link, f"/queue/{self.queue}", self.id, self._ids)
        if not knows_bridges(link):
            self._offset.foreign()
            self._subscribe()
            return
        self.phase = Phase.STARTING
        link.write(start_frame(link, self.source, self.queue, self.id, self._start_receipt))
        self._timers.expect_answer(link)

    @property
    def _start_receipt(self) -> str:
        return f"begin-{self.id}"

    def started(self, accepted: int, count: int) -> None:
        """The remote broker has all up to the position `accepted`, `count` messages of this queue so far."""
        if self.phase is not Phase.STARTING:
            return
        if self.consumer.has_unsent(accepted):
            detail = (
                f"{self.remote.name} has message {accepted} of {self.source}, and not all up to it were "
                "sent by this broker: is its journal an old copy? Start the broker under another name"
            )
            self.back_off(BridgeError(errors.OFFSET_AHEAD, detail))
            return
        gap, detail = self._offset.started(accepted, count)
        if gap:
            self.counters.gap += gap
            self.status.note(FLOW_GAP, detail=detail)
        self._subscribe()

    def _subscribe(self, event: Event | None = FLOW_STARTED) -> None:
        """Become the consumer of the queue; nothing is delivered before it is the only one."""
        if event is not None and self.status.error is None:
            self.status.note(event)
        self.phase = Phase.SUBSCRIBING
        self._timers.answered()
        self._offset.subscribed()
        self._probing = True
        window = 1 if self._refusals.cautious else self.remote.window
        self.consumer.subscribe(self, f"bridge:{self.remote.name}", window, Phase.SUBSCRIBING)

    def _check_alone(self) -> None:
        """Start sending when no other consumer has unsettled messages, which would come back later."""
        subscription = self.consumer.subscription
        if subscription is None or self.phase is not Phase.SUBSCRIBING:
            return
        queue = subscription.queue
        if queue.active is not subscription or queue.unsettled:
            detail = f"another consumer of {self.source} has to settle its messages, or to disconnect"
            if self.status.error is None or self.status.error.code != errors.HELD:
                self.status.failed(BridgeError(errors.HELD, detail))
            return
        self.phase = Phase.RUNNING
        self._timers.active()
        if self.status.error is not None and self.status.error.code in _OVER_WHEN_RUNNING:
            self.status.recovered()
            self._refusals.times = 0
        self.consumer.resume()

    def disconnected(self) -> None:
        """The connection is lost; what has no answer returns to the queue."""
        self._link = None
        self._give_back()
        if self.phase is Phase.STOPPING:
            self._stopped()
        elif self.phase not in (Phase.SUSPENDED, Phase.RETRYING):
            self.phase = Phase.WAITING

    def back_off(self, why: BridgeError, for_s: float | None = None) -> None:
        """Send nothing for a while (default `retry_s`); other flows and the connection continue."""
        self.status.failed(why)
        if self.phase is Phase.STOPPING:
            self._stopped()
            return
        self._give_back()
        self._unsubscribe_remote()
        self.phase = Phase.RETRYING
        self._timers.retry_at = time.monotonic() + (self.remote.retry_s if for_s is None else for_s)

    def retry(self) -> None:
        """Try again now."""
        if self.phase is Phase.RETRYING:
            self.phase = Phase.WAITING
            if self._link is not None:
                self._start(self._link)

    def stop(self, then: Phase = Phase.SUSPENDED) -> None:
        """Send no more, wait for answers to what is in flight, `then` suspend or wait for a connection."""
        self._then = then
        if self.phase is Phase.RUNNING and self.consumer.peer is not None:
            self.phase = Phase.STOPPING
            unsent, self._unsent = self._unsent, []
            self.consumer.return_deliveries([tag for _, tag, _ in unsent])
            self.consumer.unsubscribe()
            self._check_stopped()
        elif self.phase in _BEFORE_SENDING or (then is Phase.SUSPENDED and self.phase in _PASSIVE):
            self._stopped()

    def _check_stopped(self) -> None:
        if self.phase is Phase.STOPPING and not self._window.sent:
            self._stopped()

    def _stopped(self) -> None:
        self._give_back()
        self._unsubscribe_remote()
        if self._then is Phase.SUSPENDED or self.paused:
            self._suspend()
        else:
            self.phase = self._then

    def _suspend(self) -> None:
        self.phase = Phase.SUSPENDED
        self.status.clear()
        self.status.note(FLOW_SUSPENDED)
        if self.consumer.waiting:
            self.resume()  # it arrived while the flow stopped

    def _unsubscribe_remote(self) -> None:
        link = self._link
        if link is not None and knows_bridges(link):
            link.write(link.connection.encode(wire.UNSUBSCRIBE, {"id": self.id}))

    def _give_back(self) -> None:
        """Return everything that has no answer to the queue."""
        self.counters.unanswered += self.in_flight
        self._offset.unanswered(self._window.clear())
        self._unsent.clear()
        self._timers.answered()
        self.consumer.close()
        self._window.budget.stop_waiting(self)
        self._window.budget.share()

    def flush(self, peer: Peer) -> None:
        """Send the deliveries of the queue."""
        deliveries, peer.deliveries = peer.deliveries, []
        subscribed, peer.receipts = peer.receipts, []
        refusals, peer.refusals = peer.refusals, []
        if peer is not self.consumer.peer:
            return  # of an earlier start; all that it had is returned
        if subscribed:
            self._check_alone()
        for _, refusal in refusals:
            self.close(refusal)
        if deliveries:
            self._forward(peer, deliveries)

    def subscription_ended(self, _: Subscription, refusal: Refused) -> None:
        """Try again later: the broker has ended the subscription."""
        self.close(refusal)

    def close(self, refusal: Refused) -> None:
        """The queue does not let the flow consume it, or no longer."""
        self.back_off(BridgeError(errors.HELD, refusal.detail))

    def _forward(self, peer: Peer, deliveries: list[Delivery]) -> None:
        """Send deliveries; those that the remote broker has already are settled."""
        if deliveries[0][2].position <= self._offset.position:
            known = [tag for _, tag, message in deliveries if message.position <= self._offset.position]
            self.counters.duplicate += len(known)
            self.consumer.settle(known)
            deliveries = deliveries[len(known) :]
        if not deliveries:
            return
        self._timers.active()
        if self.phase is Phase.RUNNING:
            self._unsent += deliveries
            self._send_unsent(peer, in_turn=False)
        else:
            self.consumer.return_deliveries([tag for _, tag, _ in deliveries])

    def _send_unsent(self, peer: Peer, in_turn: bool) -> None:
        """Send as much as may be in flight: one message alone until one is accepted, then some bytes."""
        unsent, window = self._unsent, self._window
        if unsent and not window.sent and len(unsent[0][2].body) > self._max_body:
            self._refuse_too_large()
            return
        if not self._probing:
            count = window.fitting(unsent, self._max_body, in_turn)
        else:
            count = 0 if window.sent else min(1, len(unsent))
        if count:
            self._send(unsent[:count])
            del unsent[:count]
        if window.full or (unsent and not self._probing):
            self.consumer.pause()
        if unsent and not self._probing and not window.full:
            budget = window.budget
            if not (budget.room > 0 if in_turn else budget.open):
                budget.wait(self)  # other flows use the room up

    def _refuse_too_large(self) -> None:
        """Refuse the next message here: sent, it would cost all flows their connection."""
        _, tag, message = self._unsent[0]
        detail = (
            f"the body has {len(message.body)} bytes; {self.remote.name} accepts at most {self._max_body}"
        )
        self._refusals.cautious = True
        self._refusals.count(message.position)
        self._not_accepted(tag, BridgeError(errors.TOO_LARGE, detail))

    def _send(self, deliveries: list[Delivery]) -> None:
        link = self._link
        assert link is not None
        first = not self._window.sent
        self._window.add(deliveries)
        for part in in_writes(self._framing.frames(deliveries)):
            link.write(part)
        self.counters.sent += len(deliveries)
        if first:
            self._timers.expect_answer(link)

    def answered(self, receipts: Sequence[bytes], start: int) -> int:
        """Settle what `receipts` confirm, from `start` to the first that is not of this flow; its index."""
        tags, size = self._window.confirm(receipts, start)
        if tags and self.consumer.peer is not None:
            self._accepted(self.consumer.peer, tags, size)
        return start + len(tags)

    def _accepted(self, peer: Peer, tags: list[int], size: int) -> None:
        counters = self.counters
        counters.accepted += len(tags)
        counters.bytes += size
        self._offset.accepted(len(tags))
        self.consumer.settle(tags)
        self.status.progress_at = time.time()
        if self._window.sent and self._link is not None:
            self._timers.expect_answer(self._link)
        else:
            self._timers.answered()
        if self.status.error is not None:
            self.status.recovered()
            self._refusals.times = 0
        self._probing = False
        if self.phase is Phase.RUNNING:
            self._send_more(peer)
        else:
            self._check_stopped()
        self._window.budget.share()

    def room_available(self) -> None:
        """Other flows left room in the budget."""
        if self.phase is Phase.RUNNING and self.consumer.peer is not None:
            self._send_more(self.consumer.peer, in_turn=True)

    def _send_more(self, peer: Peer, in_turn: bool = False) -> None:
        """More may be in flight."""
        if self._refusals.cautious:
            self._refusals.cautious = False
            self.consumer.close()
            self._subscribe(event=None)
            return
        if self._unsent:
            self._send_unsent(peer, in_turn)
        window, budget = self._window, self._window.budget
        if peer.paused and not self._unsent and window.bytes < FLIGHT_BYTES // 2:
            if budget.open or (in_turn and budget.room > 0) or not window.sent:
                self.consumer.resume()
            else:
                budget.wait(self)

    def refused(self, receipt: bytes, refused: RefusedThere) -> bool:
        """The remote broker refused the frame with this receipt; False if it is not of this flow."""
        if receipt == self._start_receipt.encode():
            if self.phase is Phase.STARTING:
                self.back_off(errors.from_refusal(refused))
            return True
        tag = self._window.refuse(receipt)
        if tag is None:
            return False
        self.counters.refused += 1
        self._refusals.cautious = True
        if refused.code != BROKEN:  # else it is not about this message
            self._refusals.count(int(receipt))
        self._not_accepted(tag, errors.from_refusal(refused))
        return True

    def _not_accepted(self, tag: int, why: BridgeError) -> None:
        """Try a refused message again later, or make it a dead letter, which lets the next ones pass."""
        times = self._refusals.times
        if self.consumer.peer is None or not 0 < self.remote.dead_letter_after <= times:
            self.back_off(why)
            return
        detail = f"refused {times} times by {self.remote.name}: {why.detail}"
        self.consumer.dead_letter(tag, detail)
        self.counters.dead_lettered += 1
        self._refusals.times = 0
        self.status.note(FLOW_DEAD_LETTERED, why.code, detail)
        self.back_off(why)
        self.retry()  # the next one may be accepted

    def broken(self, refused: RefusedThere) -> None:
        """The remote broker ended the flow: a permission was revoked."""
        if self.phase in (Phase.SUBSCRIBING, Phase.RUNNING, Phase.STOPPING):
            self.back_off(errors.from_refusal(refused))

    def check(self, now: float, sent_bytes: int) -> bool:
        """Check time limits, with `sent_bytes` of the connection sent. True if the flow is stalled."""
        if self.phase is Phase.RETRYING and now >= self._timers.retry_at:
            self.retry()
        elif self.phase is Phase.SUBSCRIBING:
            self._check_alone()
        limit_s = self.remote.stalled_s
        if self._timers.is_overdue(now, sent_bytes, limit_s):
            self.status.stalled = True
            detail = f"{self.in_flight} messages were sent, and none was answered within {limit_s:g} s"
            self.status.failed(BridgeError(errors.STALLED, detail))
            return True
        if self.phase is not Phase.RUNNING or self._window.sent or self._unsent or self.consumer.depth:
            self._timers.active()
        elif self._timers.is_idle(now, self.remote.idle_s):
            self.stop()
        return False
