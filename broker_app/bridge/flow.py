"""A flow: one store-and-forward queue on its way to the remote broker.

    asleep ──wake──► waiting ──connected──► beginning ──mark──► joining ──joined──► open
      ▲                 ▲                       │                  │                 │
      │                 └──────connection lost──┴──────────────────┴─────────────────┤
      │                     resting ◄──refused──┴──────────────────┴─────────────────┤
      └────────────────────────────────────leaving ◄─────idle, paused────────────────┘

It consumes the queue only while it is open, so what cannot be sent waits there for everybody to see. What was
sent is settled when the remote broker answered. Whatever breaks, all that has no answer goes back to the
queue, and the flow begins anew at the position that the remote broker names, its mark: what is there up to it
is settled without being sent.
"""

from __future__ import annotations

import enum
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

from broker_app.bridge import bridge_errors as troubles
from broker_app.bridge.bridge_errors import BridgeError
from broker_app.bridge.counters import Counters
from broker_app.bridge.framing import Carriage, ToMom, to_foreign
from broker_app.bridge.inflight_window import FLIGHT_BYTES, Budget, Flight
from broker_app.bridge.timeline import Timeline
from broker_app.core import commands as c
from broker_app.core import views
from broker_app.core.errors import Refused
from broker_app.core.model import Delivery, InnerReceiver, Peer
from broker_app.engine import Engine
from broker_app.remote import Remote
from mom_client.errors import Refused as RefusedThere
from mom_client.link import Link
from mom_client.stomp import frame as wire
from mom_client.storeandforward import SYNC_QUEUE

#: the problem of a message that came behind a refused one
BROKEN: Final = "flow-broken"
#: what a MOM tells bridges in CONNECTED: bytes of the largest body that it takes
MAX_BODY: Final = "mom-max-body"
#: what a settled delivery takes in the engine's inbox
SETTLED_BYTES: Final = 16


class Phase(enum.Enum):
    """Where a flow is on its way; `report` says what people see of it."""

    ASLEEP = "asleep"
    WAITING = "waiting"  # for the connection
    BEGINNING = "beginning"  # asked the remote broker
    JOINING = "joining"  # subscribed here; others may hold messages still
    OPEN = "open"
    RESTING = "resting"  # was refused, and tries again at `retry_at`
    LEAVING = "leaving"  # takes no more, and waits for answers


#: where nothing was sent yet, and where nothing is under way
_BEGINNING: Final = (Phase.BEGINNING, Phase.JOINING)
_IDLE: Final = (Phase.WAITING, Phase.RESTING)
#: the troubles that are over when a flow has begun
_OVER_WHEN_OPEN: Final = (
    troubles.AUTH_SYNC_QUEUE,
    troubles.AUTH_TARGET_QUEUE,
    troubles.HELD,
    troubles.MARK_AHEAD,
)


class Flow(InnerReceiver):
    """The flow of the queue with the address `source` to the remote queue named `queue`. `id` is its name on
    the connection, `budget` is shared with the other flows of the pipe, `awoken` asks for a connection."""

    def __init__(
        self,
        source: str,
        queue: str,
        id: str,
        remote: Remote,
        engine: Engine,
        timeline: Timeline,
        budget: Budget,
        awoken: Callable[[], None],
    ) -> None:
        self.source = source
        #: the name of the remote queue
        self.queue = queue
        self.target = f"/queue/{queue}"
        self.id = id
        self.remote = remote
        self.counters = Counters()
        self.phase = Phase.ASLEEP
        self.trouble: BridgeError | None = None
        #: seconds since 1970, 0 for never: when the remote broker took something last, of the last trouble
        self.progress_at = 0.0
        self.trouble_at = 0.0
        #: no answer for too long while there should be one
        self.stalled = False
        #: when a flow that rests tries again, by the loop's clock
        self.retry_at = 0.0
        self._engine = engine
        self._timeline = timeline
        self._awoken = awoken
        #: the consumer of the queue, one for each beginning
        self._peer: Peer | None = None
        self._link: Link | None = None
        self._carriage: Carriage
        self._flight = Flight(budget)
        self._budget = budget
        #: handed out and not written yet
        self._held: list[Delivery] = []
        #: nothing was taken yet since it began: the first message goes alone
        self._probing = False
        #: something was refused, and nothing taken since: no more is taken from the queue than goes
        self._cautious = False
        #: up to here the remote broker has all
        self._mark = 0
        #: bytes of the largest body that it takes
        self._largest = sys.maxsize
        #: the remote broker's count that is expected at the next beginning
        self._counted: int | None = None
        #: positions that it may have without our knowing
        self._doubtful: list[int] = []
        #: the message that was refused last, and how often in a row
        self._refused_position = self._refused_times = 0
        #: since when it waits for an answer, by the loop's clock; 0 while nothing is due
        self._waits_since = 0.0
        #: bytes of the connection that have to leave before that answer can come, and that had left when it
        #: was looked last
        self._due_behind = self._left_bytes = 0
        self._quiet_since = 0.0
        #: what it is to be when it has left
        self._then = Phase.ASLEEP

    # ------------------------------------------------------------------ facts

    @property
    def paused(self) -> bool:
        return self.remote.desired == "paused" or self.queue in self.remote.paused_queues

    @property
    def in_flight(self) -> int:
        return len(self._flight.sent)

    @property
    def depth(self) -> int:
        """Messages at home, those on their way too."""
        queue = self._engine.broker.destinations.queues.get(self.source)
        return queue.depth + queue.unsettled if queue is not None else 0

    @property
    def there(self) -> bool:
        """Whether there is such a queue (still)."""
        return self.source in self._engine.broker.destinations.queues

    @property
    def wants_connection(self) -> bool:
        return self.phase is not Phase.ASLEEP

    @property
    def probing(self) -> bool:
        """Whether one message is on its way, the first since the flow began last."""
        return self._probing and self.in_flight == 1

    # ------------------------------------------------------------------ coming and going

    def wake(self) -> None:
        """There is something to send."""
        if self.phase is Phase.ASLEEP and not self.paused:
            self.phase = Phase.WAITING
            self._awoken()
            if self._link is not None:
                self._begin(self._link)

    def adapt(self, remote: Remote) -> None:
        """Something is said otherwise about the bridge, and the connection stays."""
        if not remote.connects_like(self.remote):
            self._counted = None  # perhaps of another broker
        self.remote = remote
        if self.paused:
            self.leave()
        elif self.depth:
            self.wake()

    def connected(self, link: Link) -> None:
        """The pipe has a connection."""
        self._link = link
        self._left_bytes = 0
        if self.phase is Phase.WAITING:
            self._begin(link)

    def _begin(self, link: Link) -> None:
        """Ask the remote broker for the mark, and then the queue for messages."""
        if not self.there:
            self._fall_asleep()
            return
        version = link.connection.version
        largest = link.connection.headers.get(MAX_BODY, "")
        self._largest = int(largest) if largest.isdecimal() else sys.maxsize
        if not _knows_bridges(link):
            server = link.connection.headers.get("server", "")
            self._carriage = to_foreign(self.target, version, self._engine.broker.turn.ids, server)
            self._mark, self._counted = 0, None
            self._start()
            return
        self._carriage = ToMom(self.target, version, self.id)
        self.phase = Phase.BEGINNING
        headers = {
            "destination": f"/queue/{SYNC_QUEUE}",
            "id": self.id,
            "receipt": self._begin_receipt,
            "mom-source": self.source.removeprefix("/queue/"),
            "mom-target": self.target,
        }
        link.write(link.connection.encode(wire.SUBSCRIBE, headers))
        self._wait(link)

    @property
    def _begin_receipt(self) -> str:
        return f"begin-{self.id}"

    def begun(self, accepted: int, count: int) -> None:
        """The remote broker has all up to the position `accepted`, `count` messages of this queue so far."""
        if self.phase is not Phase.BEGINNING:
            return
        if accepted >= self._engine.broker.turn.next_position or self._has_unsent(accepted):
            detail = (
                f"{self.remote.name} has message {accepted} of {self.source}, and not all up to there was "
                "sent by this broker: is its journal an old copy? Start the broker under another name"
            )
            self.rest(BridgeError(troubles.MARK_AHEAD, detail))
            return
        if self._counted is not None:
            there = sum(position <= accepted for position in self._doubtful)
            gap = count - self._counted - there
            if gap:
                self.counters.gap += abs(gap)
                detail = f"it counts {count} messages, and {self._counted + there} were accepted"
                self._timeline.note("gap", self.queue, "GAP", detail)
        self._counted = count
        self._mark = accepted
        self._start()

    def _start(self) -> None:
        """The remote broker is ready."""
        if self.trouble is None:
            self._timeline.note("started", self.queue)
        self._join()

    def _has_unsent(self, accepted: int) -> bool:
        """Whether a message waits here that the mark would take for a repeat and that was never sent."""
        queue = self._engine.broker.destinations.queues.get(self.source)
        return queue is not None and views.has_untried(queue, accepted)

    def _join(self) -> None:
        """Become the consumer of the queue, to which nothing is handed out before it is the only one."""
        self.phase = Phase.JOINING
        self._waits_since = 0.0
        self._doubtful.clear()
        self._probing = True
        peer = self._peer = Peer(self, user=f"bridge:{self.remote.name}")
        peer.paused = True
        credit = 1 if self._cautious else min(self.remote.window, self._engine.broker.turn.limits.max_credit)
        self._submit(
            c.Subscribe(
                *(peer, self.id, self.source, c.INDIVIDUAL, credit), exclusive=True, receipt=Phase.JOINING
            )
        )

    def _see_whether_alone(self) -> None:
        """Subscribed: go on once nobody else holds messages, which would come back behind ours."""
        peer = self._peer
        subscription = peer.subscriptions.get(self.id) if peer is not None else None
        if peer is None or subscription is None or self.phase is not Phase.JOINING:
            return
        queue = subscription.queue
        if queue.active is not subscription or queue.unsettled:
            detail = (
                f"another consumer of {self.source} has messages of it; it has to settle them or to leave"
            )
            if self.trouble is None or self.trouble.code != troubles.HELD:
                self._note_trouble(BridgeError(troubles.HELD, detail))
            return
        self.phase = Phase.OPEN
        self._quiet_since = 0.0
        if self.trouble is not None and self.trouble.code in _OVER_WHEN_OPEN:
            self._recover()
        self._submit(c.Resume(peer))

    def disconnected(self) -> None:
        """The connection is gone; what has no answer goes back to the queue."""
        self._link = None
        self._give_back()
        if self.phase is Phase.LEAVING:
            self._left()
        elif self.phase not in (Phase.ASLEEP, Phase.RESTING):
            self.phase = Phase.WAITING

    def rest(self, why: BridgeError, for_s: float | None = None) -> None:
        """Go no further for a while (`retry_s`, if it is not said); siblings and the connection go on."""
        self._note_trouble(why)
        if self.phase is Phase.LEAVING:
            self._left()
            return
        self._give_back()
        self._leave_remote()
        self.phase = Phase.RESTING
        self.retry_at = time.monotonic() + (self.remote.retry_s if for_s is None else for_s)

    def retry(self) -> None:
        """Try again, now."""
        if self.phase is Phase.RESTING:
            self.phase = Phase.WAITING
            if self._link is not None:
                self._begin(self._link)

    def leave(self, then: Phase = Phase.ASLEEP) -> None:
        """Take no more, and wait for the answers to what is on its way; `then` sleep, or wait for another
        connection."""
        self._then = then
        if self.phase is Phase.OPEN and self._peer is not None:
            self.phase = Phase.LEAVING
            self._return_held()
            self._submit(c.Unsubscribe(self._peer, self.id, keep_unsettled=True))
            self._see_to_leaving()
        elif self.phase in _BEGINNING or (then is Phase.ASLEEP and self.phase in _IDLE):
            self._left()

    def _see_to_leaving(self) -> None:
        if self.phase is Phase.LEAVING and not self._flight.sent:
            self._left()

    def _left(self) -> None:
        self._give_back()
        self._leave_remote()
        if self._then is Phase.ASLEEP or self.paused:
            self._fall_asleep()
        else:
            self.phase = self._then

    def _fall_asleep(self) -> None:
        self.phase = Phase.ASLEEP
        self.stalled = False
        self.trouble = None
        self._timeline.note("suspended", self.queue)
        if self.there and self._engine.broker.destinations.queues[self.source].depth:
            self.wake()  # it came while the flow left

    def _leave_remote(self) -> None:
        link = self._link
        if link is not None and _knows_bridges(link):
            link.write(link.connection.encode(wire.UNSUBSCRIBE, {"id": self.id}))

    def _return_held(self) -> None:
        held, self._held = self._held, []
        if held and self._peer is not None:
            self._submit(c.Return(self._peer, [tag for _, tag, _ in held]))

    def _give_back(self) -> None:
        """Whatever was handed out and has no answer waits in the queue again."""
        self.counters.unanswered += self.in_flight
        self._doubtful += self._flight.abandon()
        self._held.clear()
        self._waits_since = 0.0
        self._end_consuming()
        self._budget.step_aside(self)
        self._budget.share()

    def _end_consuming(self) -> None:
        if self._peer is not None:
            self._submit(c.Disconnect(self._peer))
            self._peer = None

    def _submit(self, command: c.Command, size: int = 200) -> None:
        self._engine.submit(command, size)

    # ------------------------------------------------------------------ from the engine

    def flush(self, peer: Peer) -> None:
        deliveries, peer.deliveries = peer.deliveries, []
        joined, peer.receipts = peer.receipts, []
        refusals, peer.refusals = peer.refusals, []
        if peer is not self._peer:
            return  # of a former life; all that it held was given back
        if joined:
            self._see_whether_alone()
        for _, refusal in refusals:
            self._ended_here(refusal)
        if deliveries:
            self._forward(peer, deliveries)

    def close(self, refusal: Refused) -> None:
        self._ended_here(refusal)

    def _ended_here(self, refusal: Refused) -> None:
        """The queue does not let the flow consume it, or no longer."""
        self.rest(BridgeError(troubles.HELD, refusal.detail))

    def _forward(self, peer: Peer, deliveries: list[Delivery]) -> None:
        """Send what was handed out; what the remote broker has already is settled."""
        if deliveries[0][2].position <= self._mark:
            deliveries = self._settle_known(peer, deliveries)
        if not deliveries:
            return
        self._quiet_since = 0.0
        if self.phase is Phase.OPEN:
            self._held += deliveries
            self._send_held(peer, in_turn=False)
        else:
            self._submit(c.Return(peer, [tag for _, tag, _ in deliveries]))

    def _settle_known(self, peer: Peer, deliveries: list[Delivery]) -> list[Delivery]:
        known = [tag for _, tag, message in deliveries if message.position <= self._mark]
        self.counters.duplicate += len(known)
        self._submit(c.Settle(peer, known), SETTLED_BYTES * len(known))
        return deliveries[len(known) :]

    def _send_held(self, peer: Peer, in_turn: bool) -> None:
        """Send as much as may be on its way: one message alone as long as none was taken, then some bytes."""
        held, flight = self._held, self._flight
        if held and not flight.sent and len(held[0][2].body) > self._largest:
            self._keep_back(peer)
            return
        if not self._probing:
            count = flight.fitting(held, self._largest, in_turn)
        else:
            count = 0 if flight.sent else min(1, len(held))
        if count:
            self._send(held[:count])
            del held[:count]
        if (flight.full or (held and not self._probing)) and not peer.paused:
            self._submit(c.Pause(peer))
        if held and not self._probing and not flight.full:
            self._ask_for_room(in_turn)

    def _ask_for_room(self, in_turn: bool) -> None:
        """Stand in line, if it is others who use the room up."""
        budget = self._budget
        if not (budget.room > 0 if in_turn else budget.open):
            budget.stand_in_line(self)

    def _keep_back(self, peer: Peer) -> None:
        """The next message would cost all flows their connection: refused, without being sent."""
        _, tag, message = self._held[0]
        detail = f"the body has {len(message.body)} bytes; {self.remote.name} takes at most {self._largest}"
        self._cautious = True
        self._count_refusal(message.position)
        self._turned_down(peer, tag, BridgeError(troubles.TOO_LARGE, detail))

    def _send(self, deliveries: list[Delivery]) -> None:
        link = self._link
        assert link is not None
        first = not self._flight.sent
        self._flight.depart(deliveries)
        link.write(b"".join(self._carriage.frames(deliveries)))
        self.counters.sent += len(deliveries)
        if first:
            self._wait(link)

    # ------------------------------------------------------------------ from the remote broker

    def answered(self, receipts: Sequence[bytes], start: int) -> int:
        """Settle what `receipts` confirm, from `start` to the first that is not of this flow; its index."""
        tags, size = self._flight.arrive(receipts, start)
        if tags and self._peer is not None:
            self._accepted(self._peer, tags, size)
        return start + len(tags)

    def _accepted(self, peer: Peer, tags: list[int], size: int) -> None:
        counters = self.counters
        counters.accepted += len(tags)
        counters.bytes += size
        if self._counted is not None:
            self._counted += len(tags)
        self._submit(c.Settle(peer, tags), SETTLED_BYTES * len(tags))
        self.progress_at = time.time()
        self._waits_since = 0.0
        if self._flight.sent and self._link is not None:
            self._wait(self._link)
        if self.trouble is not None:
            self._recover()
        self._probing = False
        if self.phase is Phase.OPEN:
            self._go_on(peer)
        else:
            self._see_to_leaving()
        self._budget.share()

    def _recover(self) -> None:
        self.trouble, self.stalled = None, False
        self._refused_times = 0
        self._timeline.note("recovered", self.queue)

    def take_turn(self) -> None:
        """Others left room on the way."""
        if self.phase is Phase.OPEN and self._peer is not None:
            self._go_on(self._peer, in_turn=True)

    def _go_on(self, peer: Peer, in_turn: bool = False) -> None:
        """There is room for more on the way."""
        if self._cautious:
            self._cautious = False
            self._end_consuming()
            self._join()
            return
        if self._held:
            self._send_held(peer, in_turn)
        flight, budget = self._flight, self._budget
        if peer.paused and not self._held and flight.bytes < FLIGHT_BYTES // 2:
            if budget.open or (in_turn and budget.room > 0) or not flight.sent:
                self._submit(c.Resume(peer))
            else:
                budget.stand_in_line(self)

    def refused(self, receipt: bytes, refused: RefusedThere) -> bool:
        """The remote broker said no to what has this receipt; False when that is not of this flow."""
        if receipt == self._begin_receipt.encode():
            if self.phase is Phase.BEGINNING:
                self.rest(troubles.of_refusal(refused))
            return True
        tag = self._flight.turn_down(receipt)
        if tag is None:
            return False
        self.counters.refused += 1
        self._cautious = True
        why = troubles.of_refusal(refused)
        if refused.code != BROKEN:  # else it is not about this message
            self._count_refusal(int(receipt))
        self._turned_down(self._peer, tag, why)
        return True

    def _turned_down(self, peer: Peer | None, tag: int, why: BridgeError) -> None:
        """This delivery is not taken: try it again later, or give it to the dead letters."""
        if peer is not None and 0 < self.remote.park_after <= self._refused_times:
            self._park(peer, tag, why)
            self.rest(why)
            self.retry()  # the next one may be taken
        else:
            self.rest(why)

    def refused_first(self, refused: RefusedThere) -> None:
        """The remote broker said no to the one message that is on its way since the flow began."""
        self.refused(next(iter(self._flight.sent)), refused)

    def broken(self, refused: RefusedThere) -> None:
        """The remote broker ended the flow by itself: a right was taken away."""
        if self.phase in (Phase.JOINING, Phase.OPEN, Phase.LEAVING):
            self.rest(troubles.of_refusal(refused))

    def _count_refusal(self, position: int) -> None:
        if position != self._refused_position:
            self._refused_times = 0
        self._refused_position = position
        self._refused_times += 1

    def _park(self, peer: Peer, tag: int, why: BridgeError) -> None:
        """The message goes to the dead letters, and no longer stands in the way of others."""
        detail = f"refused {self._refused_times} times by {self.remote.name}: {why.detail}"
        self._submit(c.Return(peer, [tag], dead_reason="UNDELIVERABLE", detail=detail))
        self.counters.parked += 1
        self._refused_times = 0
        self._timeline.note("parked", self.queue, why.code, detail)

    # ------------------------------------------------------------------ time

    def _wait(self, link: Link) -> None:
        """An answer is due from now on, when all that was written so far has left."""
        self._waits_since = time.monotonic()
        self._due_behind = link.written

    def look(self, now: float, left: int) -> bool:
        """See to what time brings; True when the flow is stalled, and the connection with it. `left` bytes
        of the connection have left by now: a long body on a slow line is no stall."""
        if self._waits_since and self._left_bytes < min(left, self._due_behind):
            self._waits_since = now
        self._left_bytes = left
        if self.phase is Phase.RESTING and now >= self.retry_at:
            self.retry()
        elif self.phase is Phase.JOINING:
            self._see_whether_alone()
        if self._waits_since and now - self._waits_since > self.remote.stalled_s:
            self.stalled = True
            self._note_trouble(
                BridgeError(
                    troubles.STALLED,
                    f"{self.in_flight} messages were sent and none answered for {self.remote.stalled_s:g} s",
                )
            )
            return True
        if self.phase is Phase.OPEN:
            self._look_whether_idle(now)
        return False

    def _look_whether_idle(self, now: float) -> None:
        if self._flight.sent or self._held or self.depth:
            self._quiet_since = 0.0
        elif not self._quiet_since:
            self._quiet_since = now
        elif now - self._quiet_since >= self.remote.idle_s:
            self.leave()

    def _note_trouble(self, why: BridgeError) -> None:
        self.trouble = why
        self.trouble_at = time.time()
        self._timeline.note("stalled" if self.stalled else "refused", self.queue, *why)


def _knows_bridges(link: Link) -> bool:
    """Whether the remote broker is a MOM, and keeps marks."""
    return "mom-bridge" in link.connection.headers
