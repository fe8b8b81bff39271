"""The model and the laws of selectors, message groups and exclusive consumers, for the ledger.

- a consumer receives the messages that its selector matches; other messages wait and do not block it
- order: for each selector as accepted, within a priority; within a message group always
- progress: a consumer with credit receives a message that waits and matches, wherever it is in the queue
- a message group has one consumer at a time
- while there are exclusive consumers, only the first of them is served
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from broker_app.core.message import Envelope, Message
from broker_app.core.model import Queue, Subscription

COLOURS = (b"red", b"blue", b"green")
#: selectors and what they mean: of (colour, size or None, priority)
MEANING: dict[str, Callable[[str, int | None, int], bool]] = {
    "": lambda colour, size, priority: True,
    "colour = 'red'": lambda colour, size, priority: colour == "red",
    "colour IN ('red', 'blue') AND size > 3": lambda colour, size, priority: (
        colour != "green" and size is not None and size > 3
    ),
    "size IS NULL OR JMSPriority > 4": lambda colour, size, priority: size is None or priority > 4,
    "NOT (size BETWEEN 1 AND 4) AND JMSTimestamp > 0": lambda colour, size, priority: (
        size is not None and size > 4
    ),
}
SELECTORS = tuple(MEANING)


def wants(selector: str, envelope: Envelope) -> bool:
    """Return whether a selector matches messages with this envelope."""
    facts = dict(line.split(b":", 1) for line in envelope.block.split(b"\n") if line)
    size = int(facts[b"size"]) if b"size" in facts else None
    return MEANING[selector](facts.get(b"colour", b"green").decode(), size, envelope.priority)


def group_of(envelope: Envelope) -> str:
    return envelope.options.group if envelope.options else ""


def _group_in(queue: Queue, envelope: Envelope) -> str:
    """The group that counts there; what is for another broker keeps to its order alone."""
    return "" if queue.forwarded else group_of(envelope)


class Waiting(NamedTuple):
    """One message that waits, wherever it is."""

    priority: int
    order: int
    envelope: Envelope


class Choices:
    """The laws about picking. `envelopes` has by recorded position what was published there."""

    def __init__(self, envelope_at: Callable[[str, int], Envelope]) -> None:
        self._envelope_at = envelope_at
        #: the acceptance of the newest first delivery, by queue, group, priority and selector
        self._newest: dict[tuple[str, str, int, str], int] = {}

    def waiting(self, queue: Queue) -> Iterator[Waiting]:
        """The messages that wait in `queue`, in order."""
        for lane in queue.lanes:
            found = [Waiting(lane.priority, m.sequence, m.envelope) for m in lane.in_memory()]
            outside = [*lane.loading, *lane.paged]
            found += [
                Waiting(lane.priority, at + lane.shift, self._envelope_at(queue.address, at))
                for at in outside
            ]
            yield from sorted(found, key=lambda waiting: waiting.order)

    def check_deliveries(self, queue: Queue, got: list[tuple[Subscription, str, Message, int]]) -> None:
        """(subscription, its selector, message, acceptance or 0 for a repeat) of what left in a run."""
        waiting = list(self.waiting(queue))
        for _, selector, message, _ in got:
            assert wants(selector, message.envelope), "it goes to those who want it"
            priority = queue.lane_of(message)
            if not _group_in(queue, message.envelope):
                earlier = [w for w in waiting if (-w.priority, w.order) < (-priority, message.sequence)]
                assert not any(
                    wants(selector, w.envelope) and not _group_in(queue, w.envelope) for w in earlier
                ), "what stands before it goes first"
        first: dict[tuple[str, str, int, str], list[int]] = {}
        for _, selector, message, acceptance in got:
            if acceptance:
                key = (queue.address, _group_in(queue, message.envelope), queue.lane_of(message), selector)
                first.setdefault(key, []).append(acceptance)
        for key, accepted in first.items():
            assert min(accepted) > self._newest.get(key, 0), "first deliveries are in the order of acceptance"
            self._newest[key] = max(accepted)

    def check_nobody_waits_in_vain(self, queue: Queue, available: list[tuple[Subscription, str]]) -> None:
        """(consumer with credit, its selector); only when nothing is being read."""
        waiting = list(self.waiting(queue))
        for subscription, selector in available:
            for each in waiting:
                if not wants(selector, each.envelope):
                    continue
                name = _group_in(queue, each.envelope)
                group = queue.selective.groups.find(name) if queue.selective and name else None
                assert name, "no message waits for a free consumer"
                assert group is not None, f"group {name} is free"
                assert group.owner is not subscription, f"group {name} is this consumer's"
                assert group.owner is not None or group.unsettled, f"group {name} has no consumer"


def check_groups(held: list[tuple[Subscription, Message]]) -> None:
    """Check that the unsettled messages of one queue and group are with one subscription."""
    holders: dict[tuple[Queue, str], Subscription] = {}
    for subscription, message in held:
        name = _group_in(subscription.queue, message.envelope)
        if name and subscription.queue.selective is not None:
            holder = holders.setdefault((subscription.queue, name), subscription)
            assert holder is subscription, "a group is with one consumer at a time"


def active(queue: Queue) -> Subscription | None:
    return next((subscription for subscription in queue.consumers if subscription.exclusive), None)
