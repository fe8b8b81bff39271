"""The topics of the broker itself that others than administrators may subscribe to, and for whom each of
their messages is. All other destinations whose name begins with `$` are for administrators alone."""

from __future__ import annotations

from typing import Final

from broker_app.base.system_topics import ALL, TOPICS
from broker_app.core.destination import TOPIC, Destination, is_reserved, topic_of_dead_letters
from broker_app.core.topics.topic import ONE, REST
from broker_app.rules.event import RECEIVE

#: filter of topics → for whom a message of them is, by a decision of `SystemRights`
OPEN_TOPICS: Final = {
    "$channel.requests": ALL.name,
    **{topic.pattern: topic.readers.name for topic in TOPICS if topic.readers.name},
}


def is_of_broker(destination: Destination) -> bool:
    """Return True for names that begin with $, but for those that are under the rights of another one."""
    return is_reserved(destination.name) and topic_of_dead_letters(destination) is None


def is_open(right: str, destination: Destination) -> bool:
    """Return True if others than administrators may have a right to a destination of the broker itself."""
    if destination.kind != TOPIC or right != RECEIVE:
        return False
    return any(_overlap(topic, destination.name) for topic in OPEN_TOPICS)


def _overlap(one: str, other: str) -> bool:
    """Return whether a topic may match both filters."""
    levels, others = one.split("."), other.replace("#", REST).split(".")
    for level, of_other in zip(levels, others, strict=False):
        if REST in (level, of_other):
            return True
        if level != of_other and ONE not in (level, of_other):
            return False
    rest = [*levels[len(others) :], *others[len(levels) :]]
    return not rest or rest[0] == REST
