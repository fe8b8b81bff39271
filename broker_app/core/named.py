"""Subscriptions that have a name of their own, apart from any connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker_app.core import selector

if TYPE_CHECKING:
    from broker_app.core.queue import Queue

DURABLE_PREFIX = "/topic-subscription/"
SHARED_PREFIX = "/shared-subscription/"


class Terms(NamedTuple):
    """What a named subscription was made with: a topic filter ("/topic/prices.*"), a selector or nothing,
    whether several may consume it at once, and the user whose it is."""

    filter: str
    selector: str
    shared: bool
    owner: str


class NamedSubscription:
    """One name on a topic. Its messages wait in `queue`, which no client can address; whoever subscribes
    under the name consumes that queue. A durable one outlives its consumers and the process."""

    __slots__ = ("durable", "name", "queue", "selector", "terms")

    def __init__(self, name: str, terms: Terms, queue: Queue) -> None:
        self.name = name
        self.terms = terms
        self.queue = queue
        self.durable = queue.durable
        self.selector = selector.compile(terms.selector) if terms.selector else None
