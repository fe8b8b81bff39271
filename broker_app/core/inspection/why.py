"""The reasons why a message is where it is: the consumer that has it, or what it waits for. Changes nothing.

Reasons describe the present state, the most important first. They are for users who ask about one message, so
finding them may read all consumers and deliveries of its queue.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from broker_app.core import header_block
from broker_app.core.broker import Broker
from broker_app.core.message import Message
from broker_app.core.model import Queue, Subscription
from broker_app.core.selectors.selector import Selector
from broker_app.core.storage import dead_letter_headers
from broker_app.core.storage.lane import Lane

#: consumers that are checked one by one
MAX_CONSUMERS = 20

_WORD = re.compile(r"[A-Za-z_$][\w$.-]*")
_UNITS = (("day", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))


class Reason(NamedTuple):
    """`code` is stable, `sentence` is for users, `facts` for programs; those that end in `_ms` are times in
    ms since 1970."""

    code: str
    sentence: str
    facts: dict[str, Any]


def why(broker: Broker, address: str, message: Message, now_ms: int) -> list[Reason]:
    """The reasons for `message` in the queue of `address`; empty when it is not there. Called between two
    batches. `message` may be a copy that was read back from the journal."""
    queue = broker.destinations.queues.get(address)
    reasons = [*_scheduled(broker, address, message, now_ms)]
    if queue is not None and not reasons:
        reasons = [*_unsettled(broker, queue, message, now_ms)] or [*_waiting(broker, queue, message, now_ms)]
    return [*_died(message), *reasons, *_returned(message)] if reasons else []


# ---------------------------------------------------------------------- where the message is


def _scheduled(broker: Broker, address: str, message: Message, now_ms: int) -> Iterator[Reason]:
    schedule = broker.scheduler.schedules.get(address)
    due_ms = schedule.due_of(message.position) if schedule is not None and message.recorded else 0
    if due_ms > now_ms:
        yield Reason("delayed", f"it is due in {_span(due_ms - now_ms)}", {"due_ms": due_ms})
    elif due_ms:
        yield Reason("due", "it is due, and is being read back from the journal", {"due_ms": due_ms})


def _unsettled(broker: Broker, queue: Queue, message: Message, now_ms: int) -> Iterator[Reason]:
    for peer, tag, subscription, held in broker.unsettled.of(queue):
        if held.position != message.position:
            continue
        until_ms = broker.unsettled.leases.until_ms(peer, tag)
        if peer is broker.unsettled.delayed.peer:
            sentence = f"it was returned and waits another {_span(until_ms - now_ms)} for the next attempt"
            if not until_ms:
                sentence = "it was returned and becomes a dead letter once its body is read from the journal"
            yield Reason("retry-later", sentence, {"attempt": held.attempts + 1, "until_ms": until_ms})
            continue
        facts: dict[str, Any] = {**_consumer(subscription), "attempt": held.attempts + 1}
        sentence = f"{_name(subscription)} has received it and has not settled it"
        if until_ms:
            facts["lease_until_ms"] = until_ms
            sentence += f"; its lease ends in {_span(until_ms - now_ms)}"
        yield Reason("unsettled", sentence, facts)


def _waiting(broker: Broker, queue: Queue, message: Message, now_ms: int) -> Iterator[Reason]:
    ahead = _ahead(queue, message)
    if ahead is None:
        return
    if 0 < message.expires_ms <= now_ms:
        yield Reason(
            "expired", "it has expired and is about to be removed", {"expired_ms": message.expires_ms}
        )
    if queue.consumers_paused:
        yield Reason(
            "paused",
            f"an administrator paused the consumers of {queue.address}",
            {"paused": queue.policy.paused},
        )
    yield from _consumers(broker, queue, message)
    if ahead:
        facts = {"ahead": ahead, "depth": queue.depth}
        yield Reason("behind", f"{_count(ahead, 'message')} of {queue.address} come before it", facts)
    if message.expires_ms > now_ms:
        yield Reason(
            "expires",
            f"it expires in {_span(message.expires_ms - now_ms)}",
            {"expires_ms": message.expires_ms},
        )


def _ahead(queue: Queue, message: Message) -> int | None:
    """The number of messages that are delivered before it; None when it does not wait there."""
    before = 0
    for lane in queue.lanes:
        if lane.priority == queue.lane_of(message):
            place = _place(lane, message.position)
            return None if place is None else before + place
        before += len(lane)
    return None


def _place(lane: Lane, position: int) -> int | None:
    """The number of messages of its lane before the one at `position`."""
    before = 0
    for waiting in lane.in_memory():
        if waiting.position == position:
            return before
        before += 1
    for positions in (lane.loading, *lane.paged.chunks()):
        if position in positions:
            return before + positions.index(position)
        before += len(positions)
    return None


# ---------------------------------------------------------------------- consumers


def _consumers(broker: Broker, queue: Queue, message: Message) -> Iterator[Reason]:
    """The reasons why no consumer of the queue has received it."""
    if not queue.consumers:
        yield Reason("no-consumer", f"{queue.address} has no consumers", {})
        return
    checked = list(islice(queue.consumers, MAX_CONSUMERS))
    for subscription in checked:
        yield _of_consumer(broker, queue, subscription, message)
    others = len(queue.consumers) - len(checked)
    if others:
        yield Reason(
            "more-consumers", f"{_count(others, 'more consumer')} were not checked", {"count": others}
        )


def _of_consumer(broker: Broker, queue: Queue, subscription: Subscription, message: Message) -> Reason:
    facts, who = _consumer(subscription), _name(subscription)
    if queue.active not in (None, subscription):
        active = _name(queue.active) if queue.active else ""
        return Reason("standby", f"{who} is on standby while {active} is the exclusive consumer", facts)
    selector = _selector(queue, subscription)
    if selector is not None and not selector.matches(message, broker.turn.ids):
        values = _named_in(selector.text, message)
        present = (
            ", ".join(f"{name} is {value!r}" for name, value in values.items())
            or "none of these headers exists"
        )
        facts |= {"selector": selector.text, "headers": values}
        return Reason("selector", f"{who} receives only {selector.text}; of this message {present}", facts)
    owner = _owner_of_group(queue, message)
    if owner not in (None, subscription):
        facts["group"] = group = queue.group_of(message)
        return Reason("group", f"the group {group!r} belongs to {_name(owner)}", facts)
    if subscription.peer.paused:
        return Reason("not-reading", f"{who} does not read from its connection", facts)
    if subscription.unsettled >= subscription.credit:
        return Reason(
            "no-credit",
            f"{who} has {subscription.unsettled} unsettled deliveries, its maximum",
            facts,
        )
    first = _served_first(broker, queue, subscription, message)
    if first is not None:
        facts |= {"priority": subscription.priority, "served_first": first.priority}
        return Reason(
            "lower-priority",
            f"{who} has priority {subscription.priority} and waits while {_name(first)}, with "
            f"{first.priority}, has credit",
            facts,
        )
    return Reason("ready", f"{who} can receive it when it is its turn", facts)


def _selector(queue: Queue, subscription: Subscription) -> Selector | None:
    """The selector of a consumer; that of a durable subscription has chosen the messages already."""
    return subscription.selector if queue.named is None else None


def _served_first(
    broker: Broker, queue: Queue, subscription: Subscription, message: Message
) -> Subscription | None:
    """A consumer of a higher priority that can take the message now."""
    for one in queue.consumers:
        if one.priority <= subscription.priority or one.unsettled >= one.credit or one.peer.paused:
            continue
        selector = _selector(queue, one)
        if selector is None or selector.matches(message, broker.turn.ids):
            return one
    return None


def _named_in(selector: str, message: Message) -> dict[str, str]:
    """The headers of a message that a selector names."""
    words = set(_WORD.findall(selector))
    return {
        name: value for name, value in header_block.headers(message.envelope.block).items() if name in words
    }


def _owner_of_group(queue: Queue, message: Message) -> Subscription | None:
    name, state = queue.group_of(message), queue.selective
    group = state.groups.find(name) if name and state is not None else None
    return group.owner if group is not None else None


def _consumer(subscription: Subscription) -> dict[str, Any]:
    return {
        "user": subscription.peer.user,
        "subscription": subscription.id,
        "unsettled": subscription.unsettled,
        "credit": subscription.credit,
        "since_ms": subscription.since_ms,
    }


def _name(subscription: Subscription) -> str:
    return f"subscription {subscription.id!r} of {subscription.peer.user or 'an unknown user'}"


# ---------------------------------------------------------------------- the past of the message


def _died(message: Message) -> Iterator[Reason]:
    """The reason of a dead letter: that no program consumes it is normal then."""
    headers = header_block.headers(message.envelope.block)
    origin = dead_letter_headers.origin_of(message.envelope.block)
    if origin:
        reason, detail = headers.get("dead-reason", ""), headers.get("dead-detail", "")
        facts = {"origin": origin, "dead_reason": reason, "dead_detail": detail}
        yield Reason(
            "dead-letter",
            f"it was dead-lettered in {origin}: {reason}" + (f", {detail}" if detail else ""),
            facts,
        )


def _returned(message: Message) -> Iterator[Reason]:
    if message.attempts:
        sentence = f"it was delivered {_count(message.attempts, 'time')} before"
        yield Reason("redelivered", sentence, {"attempts": message.attempts})


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _span(ms: int) -> str:
    """A length of time as text."""
    for unit, length in _UNITS:
        if ms >= 2 * length or (unit == "s" and ms >= length):
            number = ms // length
            return f"{number} {unit}s" if unit == "day" else f"{number} {unit}"
    return f"{max(0, ms)} ms"
