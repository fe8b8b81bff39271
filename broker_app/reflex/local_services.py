"""Local services: functions that consume a queue, and answer to `reply-to`.

A message is settled together with its answer, in one run. When the function fails, the message is returned,
and tried again later; after the attempts that its queue allows it is a dead letter.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Final

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core import header_block
from broker_app.core.message import Message
from broker_app.core.model import InnerReceiver, Peer, Subscription
from broker_app.engine import Engine
from broker_app.reflex.chain import HeaderBlocks, ProcessStep
from broker_app.reflex.chains import type_of
from broker_app.reflex.declaration import ACCEPT
from broker_app.reflex.libraries import wire
from broker_app.reflex.libraries.library_client import CallFailure
from broker_app.reflex.patterns import EVERYTHING, Pattern
from broker_app.reflex.subject import MessageSubject

log = logging.getLogger(__name__)

#: messages that a service has at a time
CREDIT: Final = 100
#: seconds before a message is tried again; twice as long after each attempt, up to the longest
FIRST_RETRY_S, LONGEST_RETRY_S = 1.0, 60.0
#: seconds before a subscription that was refused is tried again
SUBSCRIBE_AGAIN_S: Final = 5.0
_SUBSCRIBED: Final = object()


class QueueConsumer(InnerReceiver, ABC):
    """The consumer of a queue within the broker, which acknowledges each message by itself."""

    def __init__(self, engine: Engine, address: str, selector: str = "") -> None:
        self._engine = engine
        self._address = address
        self._selector = selector
        self._loop = asyncio.get_running_loop()
        self._again: asyncio.TimerHandle | None = None
        self.peer = Peer(self, user="reflexes", own=True)
        #: why the queue cannot be consumed; empty if it is
        self.error = ""
        self.stopped = False

    @abstractmethod
    def take(self, tag: int, message: Message) -> None:
        """Process a message; it is to be settled or returned."""

    def start(self) -> None:
        """Begin to consume."""
        self._again = None
        subscribe = c.Subscribe(self.peer, "1", self._address, c.INDIVIDUAL, CREDIT, receipt=_SUBSCRIBED)
        subscribe.selector = self._selector
        self._engine.submit(subscribe)

    def stop(self) -> None:
        """Return what is not settled, and consume nothing more."""
        self.stopped = True
        if self._again is not None:
            self._again.cancel()
        self._engine.submit(c.Disconnect(self.peer))

    def flush(self, peer: Peer) -> None:
        deliveries, peer.deliveries = peer.deliveries, []
        refusals, peer.refusals = peer.refusals, []
        if _SUBSCRIBED in peer.receipts:
            self.error = ""
        peer.receipts.clear()
        for receipt, refusal in refusals:
            if receipt is _SUBSCRIBED:
                self._try_again(refusal)
            else:
                log.warning("the service of %s: %s", self._address, refusal.detail)
        for _, tag, message in deliveries:
            self.take(tag, message)

    def subscription_ended(self, _: Subscription, refusal: Refused) -> None:
        """Subscribe again later: the broker has ended the subscription."""
        self._try_again(refusal)

    def _try_again(self, refusal: Refused) -> None:
        if refusal.detail != self.error:
            log.warning("the service of %s cannot consume: %s", self._address, refusal.detail)
        self.error = refusal.detail
        if self._again is None:
            self._again = self._loop.call_later(SUBSCRIBE_AGAIN_S, self.start)

    def settle(self, tag: int) -> None:
        """Acknowledge a message."""
        self._engine.submit(c.Settle(self.peer, [tag], lenient=True))

    def retry(self, tag: int, message: Message) -> None:
        """Return a message, to be tried again later."""
        delay_s = min(LONGEST_RETRY_S, FIRST_RETRY_S * 2 ** min(message.attempts, 16))
        self._engine.submit(c.Return(self.peer, [tag], delay_ms=round(1000 * delay_s), lenient=True))

    def reject(self, tag: int, reason: str, detail: str) -> None:
        """Make a message a dead letter."""
        self._engine.submit(c.Return(self.peer, [tag], dead_reason=reason, detail=detail, lenient=True))


class LocalService(QueueConsumer):
    """Calls the first of its functions whose event matches."""

    def __init__(
        self, engine: Engine, blocks: HeaderBlocks, address: str, steps: Sequence[ProcessStep]
    ) -> None:
        super().__init__(engine, address, selector_of([step.declaration.event for step in steps]))
        self._blocks = blocks
        self._steps = [(Pattern(step.declaration.event), step) for step in steps]
        self._ids = engine.broker.turn.ids

    def take(self, tag: int, message: Message) -> None:
        type_ = type_of(message.envelope.block)
        step = next((step for pattern, step in self._steps if pattern.matches(type_)), None)
        if step is None:
            self.reject(tag, "UNDELIVERABLE", f"no function of this service is for the type {type_!r}")
            return
        subject = MessageSubject(
            *(self._address, type_, message.envelope, message.body, self.peer.user),
            *(self._ids.of(message), message.attempts + 1),
        )
        failure = step.call(subject, partial(self._answered, step, subject, tag, message))
        if failure is not None:
            self._failed(step, tag, message, failure.reason)

    def _answered(
        self,
        step: ProcessStep,
        subject: MessageSubject,
        tag: int,
        message: Message,
        result: wire.CallResult | CallFailure,
    ) -> None:
        if self.stopped:
            return  # its messages were returned
        if isinstance(result, CallFailure):
            self._failed(step, tag, message, result.reason)
        elif result.error:
            self._failed(step, tag, message, result.error)
        elif not result.accepted:
            step.statistics.decided(result.micros, accepted=False)
            step.statistics.refusal_events.note(step.declaration, subject, result.reason)
            self.reject(tag, "REJECTED", f"reflex {step.declaration.name}: {result.reason}")
        else:
            step.statistics.decided(result.micros, accepted=True)
            self._answer(step, message, result)
            self.settle(tag)

    def _failed(self, step: ProcessStep, tag: int, message: Message, reason: str) -> None:
        step.statistics.failed(step.declaration, reason)
        if step.declaration.on_failure == ACCEPT:
            self.settle(tag)
        else:
            self.retry(tag, message)

    def _answer(self, step: ProcessStep, message: Message, result: wire.CallResult) -> None:
        headers = header_block.headers(message.envelope.block)
        reply_to = headers.get("reply-to")
        if result.answer is None or not reply_to:
            return
        correlation_id = headers.get("correlation-id") or self._ids.of(message).decode()
        try:
            envelope = self._blocks.make(
                reply_to, {"correlation-id": correlation_id, **result.answer_headers}
            )
        except Refused as refusal:
            step.statistics.unpublished += 1
            step.statistics.note(step.declaration, f"the answer cannot be sent: {refusal.detail}")
            return
        self._engine.submit(
            c.Publish(self.peer, [(envelope, result.answer, None)]),
            len(result.answer) + envelope.overhead_bytes,
        )


def selector_of(events: Sequence[str]) -> str:
    """The selector of messages of these events; empty for all of them."""
    if any(event in EVERYTHING for event in events):
        return ""
    conditions = []
    for event in events:
        if event.endswith((".>", ".#")):
            parent = event[:-2]
            conditions.append(f"type = {_quoted(parent)}")
            pattern = parent.replace("!", "!!").replace("%", "!%").replace("_", "!_") + ".%"
            conditions.append(f"type LIKE {_quoted(pattern)} ESCAPE '!'")
        else:
            conditions.append(f"type = {_quoted(event)}")
    return " OR ".join(conditions)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
