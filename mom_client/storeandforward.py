"""The names of store-and-forward queues: what waits in one broker for a queue of another.

A message for the queue `queue1` of the broker that is configured as `broker2` waits in the queue
`storeAndForward:broker2/queue/queue1`. The broker goes up to the first `/queue/`; the rest, which may contain
`/`, is the queue there. Dead letters, in the queue of the same name with `.dead` behind it, stay here.
"""

from __future__ import annotations

from typing import NamedTuple

PREFIX = "storeAndForward:"
_SEPARATOR = "/queue/"
#: where addresses name the two elements one after the other: /bridge/<broker>/<queue>
BRIDGE_PREFIX = "/bridge/"
#: where a broker keeps how far others have come with what they send to it
SYNC_QUEUE = "storeAndForwardSyncQueue"
#: most characters of the two elements
MAX_BROKER, MAX_QUEUE = 20, 79
#: how the names of queues of dead letters end
DEAD_SUFFIX = ".dead"


class Forwarded(NamedTuple):
    """The target of a store-and-forward queue: `queue` of the remote broker configured as `broker`.
    `forwarded` makes one from typed names."""

    broker: str
    queue: str

    @property
    def name(self) -> str:
        return f"{PREFIX}{self.broker}{_SEPARATOR}{self.queue}"

    @property
    def address(self) -> str:
        """The queue that holds the messages here."""
        return f"/queue/{self.name}"


def forwarded(broker: str, queue: str) -> Forwarded:
    """The two elements without white space around them. ValueError names the element that is wrong and its
    limit."""
    found = Forwarded(broker.strip(), queue.strip())
    _check_length("broker name", found.broker, MAX_BROKER)
    _check_length("queue name", found.queue, MAX_QUEUE)
    for separator in "/:":
        if separator in found.broker:
            raise ValueError(
                f"the broker name {found.broker!r} of a store-and-forward queue contains {separator!r}; "
                "neither / nor : may be in it"
            )
    if found.queue.endswith(DEAD_SUFFIX):
        raise ValueError(
            f"the queue name {found.queue!r} of a store-and-forward queue ends in {DEAD_SUFFIX}; "
            "dead letters are not forwarded"
        )
    return found


def parse(name: str) -> Forwarded | None:
    """The bridge and the remote queue in the name of a store-and-forward queue; None for other queues, and
    for its dead letters. ValueError for an invalid name that begins like one."""
    if not name.startswith(PREFIX):
        return None
    alive = name.removesuffix(DEAD_SUFFIX)
    broker, separator, queue = alive.removeprefix(PREFIX).partition(_SEPARATOR)
    if not separator:
        raise ValueError(
            f"{name[:80]!r} names no queue; "
            f"a store-and-forward queue is called {PREFIX}<broker>{_SEPARATOR}<queue>"
        )
    found = forwarded(broker, queue)
    return found if alive == name else None


def parse_bridge(address: str) -> Forwarded:
    """The target of the address /bridge/<broker>/<queue>. Raises ValueError."""
    broker, separator, queue = address.removeprefix(BRIDGE_PREFIX).partition("/")
    if not separator:
        raise ValueError(f"{address[:80]!r} names no queue; use {BRIDGE_PREFIX}<broker>/<queue>")
    return forwarded(broker, queue)


def _check_length(element: str, text: str, most: int) -> None:
    if not text:
        raise ValueError(
            f"the {element} of a store-and-forward queue is empty; 1 to {most} characters are needed"
        )
    if len(text) > most:
        raise ValueError(
            f"the {element} of a store-and-forward queue has {len(text)} characters; "
            f"at most {most} are allowed"
        )
