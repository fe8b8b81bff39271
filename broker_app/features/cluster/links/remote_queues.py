"""The subscriptions that this broker has at another one for its own consumers, and the messages that come.

A subscription follows the interest of this broker: it begins with the first consumer that wants something,
has the credit of all of them, and ends with the last.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import count, groupby
from operator import attrgetter
from typing import Final, NamedTuple

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.destination import is_topic, parse
from broker_app.core.message import DeliveryOptions, Envelope
from broker_app.core.model import InnerReceiver, Peer
from broker_app.core.remote.interest import Want
from broker_app.core.remote.origin import Origin, RemoteMessage
from broker_app.engine import Engine
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links.message_checks import check_block, check_ids
from broker_app.features.cluster.links.remote_consumers import LEAST_BYTES, WINDOW_BYTES

#: how long a message waits for a consumer here before it goes back, milliseconds
PATIENCE_MS: Final = 100
#: messages that wait for consumers here, and bytes of their bodies, above which no more are read: from a
#: broker that keeps to what may be under way (`remote_consumers`) there are not more
_MOST_WAITING: Final = WINDOW_BYTES // LEAST_BYTES
_MOST_WAITING_BYTES: Final = WINDOW_BYTES
#: envelopes that are kept, so that sessions can keep what they made of them
_KEPT_ENVELOPES: Final = 1_024
_NUMBER = attrgetter("number")

_Key = tuple[str, bytes, bool, int, str, str]


class RefusedWant(NamedTuple):
    """A subscription that the other broker has refused, or ended."""

    code: str
    detail: str


class RemoteQueues(InnerReceiver):
    """The subscriptions at one other broker, over one connection. `send` takes frames for it."""

    def __init__(self, engine: Engine, broker: str, send: Callable[[f.Frame], None]) -> None:
        self._engine = engine
        self._broker = broker
        self._send = send
        self.peer = Peer(self, user=f"broker {broker}", own=True)
        turn = engine.broker.turn
        self._origin = Origin(self.peer, turn.schedule_flush, broker)
        self._interest = engine.broker.interest
        self._numbers: dict[Want, int] = {}
        self._wants: dict[int, Want] = {}
        self._credit: dict[int, tuple[int, int]] = {}
        #: those whose credit differs a little from what was sent
        self._small_changes: dict[Want, None] = {}
        self._next = count(1)
        self._envelopes: dict[_Key, Envelope] = {}
        #: what is not delivered from there, and why
        self.refused: dict[Want, RefusedWant] = {}
        #: messages that came, and those of them that found no consumer
        self.received = self.returned = 0
        #: those that are not settled
        self.unsettled = 0
        #: the last question of the core that was sent
        self._asked = 0

    # ------------------------------------------------------------------ interest

    def refresh(self, wants: Iterable[Want]) -> None:
        """Subscribe for what is wanted now, with its credit; end what is not wanted any more."""
        policies = self._engine.broker.turn.policies
        for want in wants:
            consumers = self._interest.consumers(want)
            number = self._numbers.get(want)
            if not consumers or policies.of(want.address).local_only:
                self.refused.pop(want, None)
                if number is not None:
                    self._end(want, number)
                    self._send(f.Unsubscribe(number))
                continue
            present = consumers, self._interest.credit(want)
            if number is None:
                if want not in self.refused:
                    self._begin(want, present)
            elif self._credit[number] != present:
                if _is_small(present[1] - self._credit[number][1], self._credit[number][1]):
                    self._small_changes[want] = None
                else:
                    self._set_credit(number, present)

    def send_small_changes(self) -> None:
        """Send the changes of credit that made little difference: many consumers that come or leave one after
        the other are one of them."""
        changes, self._small_changes = self._small_changes, {}
        for want in changes:
            number = self._numbers.get(want)
            present = self._interest.consumers(want), self._interest.credit(want)
            if number is not None and self._credit[number] != present:
                self._set_credit(number, present)

    def _set_credit(self, number: int, present: tuple[int, int]) -> None:
        self._credit[number] = present
        self._send(f.Credit(number, *present))

    def try_again(self) -> None:
        """Ask again for what was refused: the reason may have gone."""
        refused, self.refused = self.refused, {}
        self.refresh(refused)

    def _begin(self, want: Want, present: tuple[int, int]) -> None:
        number = next(self._next)
        self._numbers[want], self._wants[number], self._credit[number] = number, want, present
        self._send(
            f.Subscribe(
                *(number, want.address, *present),
                *(want.selector, want.exclusive_since_us, want.priority, want.terms),
            )
        )

    def _end(self, want: Want, number: int) -> None:
        del self._numbers[want], self._wants[number], self._credit[number]

    def not_subscribed(self, frame: f.NotSubscribed) -> None:
        """Note that the other broker delivers nothing for a subscription."""
        want = self._wants.get(frame.number)
        if want is not None:
            self._end(want, frame.number)
            self.refused[want] = RefusedWant(frame.code[:100], frame.detail[:1_000])

    # ------------------------------------------------------------------ messages

    @property
    def is_full(self) -> bool:
        """True if so much waits for consumers here that it has to go back before more is read."""
        origin = self._origin
        return origin.waiting > _MOST_WAITING or origin.waiting_bytes > _MOST_WAITING_BYTES

    def deliver(self, frame: f.Deliver) -> None:
        """Hand messages to the core."""
        envelopes = [self._envelope(shared) for shared in frame.envelopes]
        if any(one.envelope >= len(envelopes) for one in frame.messages):
            raise Refused("protocol-error", "a message came with an envelope that was not sent")
        origin, submit = self._origin, self._engine.submit
        self.received += len(frame.messages)
        for number, run in groupby(frame.messages, _NUMBER):
            want = self._wants.get(number)
            deliveries = list(run)
            check_ids([delivery.id for delivery in deliveries])
            if want is None:  # its consumers have left meanwhile
                tags = [delivery.tag for delivery in deliveries if delivery.tag]
                self.returned += len(tags)
                for settled in f.settled([], tags, []):
                    self._send(settled)
                continue
            messages = []
            size = unsettled = 0
            for delivery in deliveries:
                envelope, tag, body = envelopes[delivery.envelope], delivery.tag, delivery.body
                message = RemoteMessage(
                    origin, tag, envelope, body, delivery.time_ms, delivery.id, delivery.attempts
                )
                message.expires_ms = delivery.expires_ms
                messages.append(message)
                size += len(body) + envelope.overhead_bytes
                unsettled += tag > 0
            self.unsettled += unsettled
            if is_topic(want.address):
                submit(c.PublishRemote(origin, messages), size)
            else:
                submit(c.DeliverRemote(origin, want.address, messages), size)

    def _envelope(self, shared: f.SharedEnvelope) -> Envelope:
        """The envelope of these headers, the same object each time."""
        key = (
            *(shared.address, shared.block, shared.persistent, shared.priority),
            *(shared.group, shared.dedup_id),
        )
        envelope = self._envelopes.get(key)
        if envelope is None:
            _check_envelope(shared)
            if len(self._envelopes) >= _KEPT_ENVELOPES:
                self._envelopes.clear()
            options = None
            if shared.group or shared.dedup_id:
                # Groups of two brokers are two: each is kept together by the broker that stores its messages,
                # and may belong to a consumer of the other one.
                group = f"{shared.group} of {self._broker}" if shared.group else ""
                options = DeliveryOptions(dedup_id=shared.dedup_id, group=group)
            envelope = self._envelopes[key] = Envelope(
                shared.address,
                shared.block,
                persistent=shared.persistent,
                priority=shared.priority,
                options=options,
            )
        return envelope

    def flush(self, peer: Peer) -> None:
        """Report how deliveries have ended."""
        peer.receipts.clear()
        peer.refusals.clear()
        origin = self._origin
        acked, origin.acked = origin.acked, []
        ended, origin.returned = origin.returned, []
        returned = [one.tag for one in ended if not one.attempted]
        failed = [
            f.Failed(one.tag, one.reason, one.dead_reason, one.detail, one.delay_ms)
            for one in ended
            if one.attempted
        ]
        self.returned += len(returned)
        self.unsettled -= len(acked) + len(ended)
        for settled in f.settled(acked, returned, failed):
            self._send(settled)
        if origin.question != self._asked:
            self._asked = origin.question
            self._send(f.Confirm(origin.question))

    def confirmed(self, number: int) -> None:
        """Note that the other broker has recorded what was reported to it before this question."""
        self._engine.submit(c.RemoteRecorded(self._origin, number))

    def give_back_old(self) -> None:
        """Return what has waited too long for a consumer here."""
        if self._origin.waiting:
            since_ms = time.time_ns() // 1_000_000 - PATIENCE_MS
            self._engine.submit(c.ReturnRemote(self._origin, since_ms))

    def end(self) -> None:
        """Forget what came, because the connection has ended."""
        self._engine.submit(c.EndOrigin(self._origin))


def _check_envelope(shared: f.SharedEnvelope) -> None:
    """Raise Refused for one that no broker would send: the core takes messages as valid."""
    parse(shared.address)
    check_block(shared.block)
    if not 0 <= shared.priority <= 9:
        raise Refused("protocol-error", "a message came with a priority that no client can send")


def _is_small(change: int, credit: int) -> bool:
    """Return whether a change of credit may wait for a moment: it is at most the half."""
    return 2 * abs(change) <= credit
