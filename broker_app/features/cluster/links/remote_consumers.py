"""The consumers of another broker: a client of the engine that subscribes for them, and is sent messages.

Credit bounds the messages that are under way, twice of it for quick consumers (`read_ahead`), `WINDOW_BYTES`
their bytes. Where messages come back because no consumer was free, less is sent at a time, until consumers
acknowledge again.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from broker_app.base.deadline import Deadline
from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.destination import DURABLE_PREFIX, SHARED_PREFIX, is_reserved, is_topic
from broker_app.core.message import Envelope
from broker_app.core.model import Delivery, InnerReceiver, Peer, Subscription
from broker_app.engine import Engine
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links.read_ahead import ReadAhead
from broker_app.features.cluster.report import InterestReport

#: bytes of deliveries that are not settled, beyond which nothing more is sent
WINDOW_BYTES: Final = 32 * f.MIB
#: credit of a subscription, at most
MOST_CREDIT: Final = 20_000
#: a message with fewer bytes counts as one with so many
LEAST_BYTES: Final = 512
#: ids of messages to topics that are remembered, so that each crosses once though several filters match
_REMEMBERED: Final = 4_096
#: later than all messages, in milliseconds since 1970
_NEVER_MS: Final = 1 << 62


class _Consumers:
    """The consumers of one subscription: `credit` is what they take, `present` what they are sent now."""

    __slots__ = ("acked", "address", "ahead", "consumers", "credit", "present", "selector")

    def __init__(self, address: str, selector: str, consumers: int, credit: int) -> None:
        self.address = address
        self.selector = selector
        self.consumers = consumers
        self.credit = self.present = credit
        #: deliveries that were acknowledged since `present` has changed
        self.acked = 0
        self.ahead = ReadAhead()


class RemoteConsumers(InnerReceiver):
    """The consumers of one broker, over one connection. `send` takes frames for it; `broken` is called when
    deliveries could not be sent, and are lost unless the connection ends."""

    def __init__(
        self,
        engine: Engine,
        broker: str,
        send: Callable[[f.Frame], None],
        broken: Callable[[Exception], None],
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._steady = steady
        self._broken = broken
        self._broker = broker
        self._send = send
        self.peer = Peer(self, user=f"broker {broker}", detailed=True)
        self._consumers: dict[int, _Consumers] = {}
        #: those that are sent less than they take
        self._reduced: set[int] = set()
        #: those that were sent messages since the last look, or are sent more than they take
        self._served: set[int] = set()
        #: bytes that are not settled, by tag
        self._bytes: dict[int, int] = {}
        self._under_way = 0
        self._is_full = self._is_congested = False
        self._deadline = Deadline(steady)
        #: deliveries that wait for a later turn of the loop, in order; their bytes are under way
        self._waiting: list[Delivery] = []
        #: messages that were sent
        self.sent = 0
        #: messages that were stored since then are sent as repeats: of a broker that has failed, clients may
        #: have sent them again to another one
        self.repeats_since_ms = _NEVER_MS
        self._ids: set[bytes] = set()
        self._oldest_ids: deque[bytes] = deque()
        self._topics = 0

    # ------------------------------------------------------------------ what the other broker wants

    def subscribe(self, frame: f.Subscribe) -> None:
        """Begin a subscription. Raises Refused for one that no broker would ask for."""
        if frame.number in self._consumers:
            raise Refused("protocol-error", f"subscription {frame.number} began twice")
        if is_reserved(frame.address.split("/", 2)[-1]):
            raise Refused("protocol-error", f"{frame.address} is of its own broker only")
        of_topic = frame.terms is None and is_topic(frame.address)
        credit = _bounded(frame.credit)
        consumers = self._consumers[frame.number] = _Consumers(
            frame.address, frame.selector, frame.consumers, credit
        )
        self._topics += of_topic
        command = c.Subscribe(
            self.peer,
            str(frame.number),
            frame.address,
            c.AUTO if of_topic else c.INDIVIDUAL,
            consumers.credit,
            selector=frame.selector,
            exclusive=frame.exclusive_since_us > 0,
            exclusive_since_us=frame.exclusive_since_us,
            priority=frame.priority,
            remote=True,
            receipt=frame.number,
        )
        if frame.terms is not None:
            terms = frame.terms
            command.address, command.selector, command.shared = terms.filter, terms.selector, terms.shared
            command.durable = frame.address.startswith(DURABLE_PREFIX)
            command.name = frame.address.removeprefix(DURABLE_PREFIX if command.durable else SHARED_PREFIX)
            command.owner = terms.owner
        self._engine.submit(command, 500 + len(frame.selector))

    def set_credit(self, frame: f.Credit) -> None:
        """Change the credit of a subscription."""
        consumers = self._consumers.get(frame.number)
        if consumers is not None:
            consumers.credit, consumers.consumers = _bounded(frame.credit), frame.consumers
            self._set_present(frame.number, consumers, consumers.credit)

    def unsubscribe(self, number: int) -> None:
        """End a subscription. Consumers that have left may still hold deliveries: each is reported."""
        if self._forget(number):
            self._engine.submit(c.Unsubscribe(self.peer, str(number), keep_unsettled=True))

    def _forget(self, number: int) -> bool:
        consumers = self._consumers.pop(number, None)
        self._reduced.discard(number)
        if consumers is None:
            return False
        self._topics -= is_topic(consumers.address)
        return True

    def end(self) -> None:
        """End everything, because the connection has ended."""
        self._waiting = []
        self._engine.submit(c.Disconnect(self.peer))

    # ------------------------------------------------------------------ what is settled

    def settled(self, frame: f.Settled) -> None:
        """Settle deliveries."""
        if self._reduced:
            self._count_acked(frame.acked)
        if frame.returned:
            self._reduce(frame.returned)
        submit = self._engine.submit
        if acked := self._settle(frame.acked):
            submit(c.Settle(self.peer, acked, lenient=True))
        if returned := self._settle(frame.returned):
            submit(c.Return(self.peer, returned, attempted=False, lenient=True))
        for failed in frame.failed:
            if not self._settle([failed.tag]):
                continue
            submit(
                c.Return(
                    self.peer,
                    [failed.tag],
                    dead_reason=failed.dead_reason,
                    detail=failed.detail,
                    delay_ms=max(0, failed.delay_ms),
                    lenient=True,
                )
            )
        self._check_room()

    def confirm(self, number: int) -> None:
        """Confirm what was settled before once it is recorded."""
        self._engine.submit(c.Answer(self.peer, f.Confirmed(number)))

    def sent_again(self, frame: f.SentAgain) -> None:
        """Deliver a message as a repeat from now on, which its client has sent to the other broker, too."""
        self._engine.submit(c.MarkRepeat(self.peer, frame.address, frame.digest))

    def _settle(self, tags: list[int]) -> list[int]:
        """Those of the tags that were delivered and are not settled: they are, from now on."""
        sizes, known, settled = self._bytes, [], 0
        for tag in tags:
            size = sizes.pop(tag, 0)
            if size:
                known.append(tag)
                settled += size
        self._under_way -= settled
        return known

    def _reduce(self, tags: list[int]) -> None:
        """Send less at a time to subscriptions from which deliveries came back."""
        held = (self.peer.unsettled.get(tag) for tag in tags)
        for number in {int(one[0].id) for one in held if one is not None}:
            consumers = self._consumers.get(number)
            if consumers is not None:
                if consumers.present > consumers.credit:
                    consumers.ahead.came_back(self._steady())
                self._set_present(number, consumers, max(1, consumers.present // 2))

    def _count_acked(self, tags: list[int]) -> None:
        """Send more at a time again where consumers acknowledge."""
        for tag in tags:
            held = self.peer.unsettled.get(tag)
            number = int(held[0].id) if held is not None else -1
            if number in self._reduced:
                consumers = self._consumers[number]
                consumers.acked += 1
                if consumers.acked >= consumers.present:
                    self._set_present(number, consumers, min(consumers.credit, 2 * consumers.present))

    def read_ahead(self, link_s: float) -> None:
        """Send quick consumers as much again as they take, while they are the only ones of their queue: it
        waits at their broker, which gives it to them sooner. `link_s`: a trip over the link and back."""
        now_s, served, self._served = self._steady(), self._served, set()
        for number in served:
            consumers, subscription = self._consumers.get(number), self.peer.subscriptions.get(str(number))
            if consumers is None or subscription is None or number in self._reduced:
                continue
            queue, credit, ahead = subscription.queue, consumers.credit, consumers.ahead
            if len(queue.consumers) > 1 or queue.selective is not None:
                ahead.is_on = False
            elif ahead.look(subscription.acked, credit, now_s, link_s):
                self._served.add(number)
            self._set_present(number, consumers, min(2 * credit, MOST_CREDIT) if ahead.is_on else credit)

    def _set_present(self, number: int, consumers: _Consumers, credit: int) -> None:
        consumers.acked = 0
        if credit < consumers.credit:
            self._reduced.add(number)
        else:
            self._reduced.discard(number)
        if credit != consumers.present:
            consumers.present = credit
            self._engine.submit(c.SetCredit(self.peer, str(number), credit))

    # ------------------------------------------------------------------ what is delivered

    def flush(self, peer: Peer) -> None:
        """Send what the engine has for the other broker."""
        receipts, peer.receipts = peer.receipts, []
        confirmed = [receipt for receipt, _ in receipts if isinstance(receipt, f.Confirmed)]
        if confirmed:
            self._send(confirmed[-1])
        refusals, peer.refusals = peer.refusals, []
        for number, refusal in refusals:
            if isinstance(number, int) and self._forget(number):
                self._send(f.NotSubscribed(number, refusal.code, refusal.detail[:1_000]))
        if peer.deliveries:
            deliveries, peer.deliveries = peer.deliveries, []
            if self._waiting:
                self._wait(deliveries)
            else:
                self._deliver(deliveries)

    def _deliver(self, deliveries: list[Delivery]) -> None:
        """Send deliveries, as many as there is time for in a turn of the loop: a window of large ones takes
        longer."""
        self._deadline.begin()
        try:
            rest = self._send_deliveries(deliveries)
        except Exception as error:
            self._broken(error)
            return
        if rest:
            self._wait(rest)
            asyncio.get_running_loop().call_soon(self._deliver_on)
        self._check_room()

    def _deliver_on(self) -> None:
        """Send what waits, without what the engine has taken back meanwhile, if the connection takes it."""
        if self._is_congested or not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        self._settle([tag for _, tag, _ in waiting])  # they are counted again when they are sent
        held = self.peer.unsettled
        self._deliver([one for one in waiting if not one[1] or one[1] in held])

    def _wait(self, deliveries: list[Delivery]) -> None:
        """Add deliveries to those that wait, and count their bytes."""
        self._waiting += deliveries
        for _, tag, message in deliveries:
            if tag:
                self._bytes[tag] = length = max(LEAST_BYTES, len(message.body))
                self._under_way += length

    def _send_deliveries(self, deliveries: list[Delivery]) -> list[Delivery]:
        """Send deliveries until the turn is over; returns the rest."""
        envelopes: dict[Envelope, int] = {}
        shared: list[f.SharedEnvelope] = []
        messages: list[f.RemoteDelivery] = []
        size = held = number = 0
        id_of, sizes, repeats_since_ms = self._engine.broker.turn.ids.of, self._bytes, self.repeats_since_ms
        last: Subscription | None = None
        left = iter(deliveries)
        rest: list[Delivery] = []
        for subscription, tag, message in left:
            if subscription is not last:
                last, number = subscription, int(subscription.id)
                if tag:
                    self._served.add(number)
            envelope, body = message.envelope, message.body
            index = envelopes.get(envelope)
            more = length = len(body)
            if index is None:
                more += _bytes_of(envelope)
            if messages and size + more > f.USUAL_BYTES:  # a large one has a frame of its own
                self._send_messages(shared, messages)
                envelopes, shared, messages, size, index = {}, [], [], 0, None
                if self._deadline.passed:
                    rest = [(subscription, tag, message), *left]
                    break
            id = id_of(message)
            if not tag and self._topics > 1 and self._is_known(id):
                continue
            if index is None:
                index = envelopes[envelope] = len(shared)
                shared.append(_shared(envelope))
            time_ms = message.time_ms
            attempts = message.attempts or int(time_ms >= repeats_since_ms)
            messages.append(
                f.RemoteDelivery(number, tag, index, attempts, time_ms, message.expires_ms, id, body)
            )
            if tag:
                sizes[tag] = length = max(LEAST_BYTES, length)
                held += length
            size += more + f.DELIVERY_BYTES
        self._under_way += held
        if messages:
            self._send_messages(shared, messages)
        return rest

    def _send_messages(self, shared: list[f.SharedEnvelope], messages: list[f.RemoteDelivery]) -> None:
        self.sent += len(messages)
        self._send(f.Deliver(shared, messages))

    def _is_known(self, id: bytes) -> bool:
        """Return whether a message to a topic was sent before, for another filter that matches."""
        if id in self._ids:
            return True
        self._ids.add(id)
        self._oldest_ids.append(id)
        if len(self._oldest_ids) > _REMEMBERED:
            self._ids.discard(self._oldest_ids.popleft())
        return False

    def interest(self) -> list[InterestReport]:
        """The interest of the other broker's consumers."""
        return [
            InterestReport(
                broker=self._broker,
                address=one.address,
                selector=one.selector,
                consumers=one.consumers,
                credit=one.credit,
            )
            for one in self._consumers.values()
        ]

    @property
    def unsettled(self) -> int:
        """Deliveries that are not settled."""
        return len(self.peer.unsettled)

    # ------------------------------------------------------------------ room

    def congested(self, on: bool) -> None:
        """Deliver nothing while the connection takes nothing more."""
        before = self._is_full or self._is_congested
        self._is_congested = on
        self._paused_changed(before)
        if not on:
            self._deliver_on()

    def _check_room(self) -> None:
        before = self._is_full or self._is_congested
        if self._is_full:
            self._is_full = self._under_way > WINDOW_BYTES // 2
        else:
            self._is_full = self._under_way > WINDOW_BYTES
        self._paused_changed(before)

    def _paused_changed(self, before: bool) -> None:
        now = self._is_full or self._is_congested
        if now != before:
            self._engine.submit(c.Pause(self.peer) if now else c.Resume(self.peer))

    # ------------------------------------------------------------------ from the engine

    def subscription_ended(self, subscription: Subscription, refusal: Refused) -> None:
        """Report that the broker has ended a subscription."""
        number = int(subscription.id)
        if self._forget(number):
            self._send(f.NotSubscribed(number, refusal.code, refusal.detail[:1_000]))


def _bounded(credit: int) -> int:
    return max(1, min(credit, MOST_CREDIT))


def _bytes_of(envelope: Envelope) -> int:
    """About the size of an envelope in a frame: its group and other options are headers, too."""
    return 2 * len(envelope.block) + 1_000


def _shared(envelope: Envelope) -> f.SharedEnvelope:
    options = envelope.options
    return f.SharedEnvelope(
        *(envelope.address, envelope.block, envelope.persistent, envelope.priority),
        *((options.group, options.dedup_id) if options is not None else ("", "")),
    )
