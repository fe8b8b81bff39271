"""Rights to messages on the topics of the broker itself, `$mom.…`, looked up in one table for each message.

A topic that is not in the table is for administrators. A client that may see a part of a message gets
that part.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from broker_app.base.reply_types import Facts
from broker_app.base.system_topics import ALL, OF_CALLBACK, OF_CONNECTION, OF_DESTINATION, OF_JOB, OF_ROWS
from broker_app.core.destination import TOPIC, Destination
from broker_app.core.topics.topic import matches
from broker_app.net.policy.access import Access, Client
from broker_app.net.policy.system_topics import OPEN_TOPICS
from broker_app.rules.event import BROWSE, RECEIVE

#: (topic, facts) → the facts that are shown, or None
Viewer = Callable[[str, Facts], Facts | None]


class JobOwner(NamedTuple):
    """The user of a job, and the address of its messages, or empty."""

    user: str
    address: str


class SystemRights:
    """Decides for each message of a system topic what a client is shown. `job_owner` finds a job by its id,
    `destination_of` the destination whose rights an address needs."""

    def __init__(
        self,
        access: Access,
        job_owner: Callable[[str], JobOwner | None],
        destination_of: Callable[[str], Destination | None],
    ) -> None:
        self._access = access
        self._job_owner = job_owner
        self._destination_of = destination_of

    def owner(self, user: str) -> Client | None:
        """The client as which a durable subscription of a user receives; None if the user has gone."""
        return self._access.owner(user, "")

    def may_subscribe(self, client: Client | None, topic: str) -> bool:
        """Return whether a client may have a subscription to a topic."""
        if client is None:
            return False
        # What allows a whole kind of topics is cached once, and not for each destination that has one.
        pattern = _open_topic(topic) or topic
        return any(
            self._access.allows(client, RECEIVE, Destination(TOPIC, name))
            for name in dict.fromkeys((pattern, topic))
        )

    def kind(self, topic: str) -> str:
        """The topics that have the same viewers as a topic: their filter, or the topic alone."""
        return _open_topic(topic) or topic

    def viewer(self, client: Client | None, topic: str) -> Viewer | None:
        """Return what makes of the facts of messages what a client may see of them, for all topics of the
        kind of `topic`; None if that is nothing. It may be kept until the policy can change."""
        if client is None:
            return None
        identity, pattern = client.identity, _open_topic(topic)
        if self._access.narrow_token(identity):  # its grants may name single topics of a kind
            return partial(self.shown, client)
        if not self.may_subscribe(client, topic):
            return None
        readers = OPEN_TOPICS[pattern] if pattern is not None else None
        if readers is None or (readers != OF_CALLBACK.name and self._access.sees_everything(identity)):
            return _whole
        decide = _KINDS[readers]
        return lambda topic, facts: decide(self, client, facts)

    def shown(self, client: Client | None, topic: str, facts: Facts) -> Facts | None:
        """The part of a message that a client may see, the message itself if it is all; None for nothing."""
        if client is None or not self.may_subscribe(client, topic):
            return None
        pattern = _open_topic(topic)
        # Of topics that are not open, the check above was the one for administrators.
        return facts if pattern is None else _KINDS[OPEN_TOPICS[pattern]](self, client, facts)

    def _all(self, client: Client, facts: Facts) -> Facts | None:
        return facts

    def _destination(self, client: Client, facts: Facts) -> Facts | None:
        """Facts about one destination, for those who may browse it."""
        return facts if self._may_browse(client, facts.get("destination") or facts["name"]) else None

    def _destinations(self, client: Client, facts: Facts) -> Facts | None:
        """The rows of those destinations that the client may browse."""
        member = "destinations" if "destinations" in facts else "rows"
        rows = facts[member]
        seen = [row for row in rows if self._may_browse(client, _address(row))]
        return facts if len(seen) == len(rows) else {**facts, member: seen}

    def _connection(self, client: Client, facts: Facts) -> Facts | None:
        """Facts about one connection, for its user, and for others as GET connections."""
        access, identity = self._access, client.identity
        seen = access.is_unruled(identity) or access.has_all_rights_of(identity, facts["user"])
        return facts if seen else None

    def _callback(self, client: Client, facts: Facts) -> Facts | None:
        """The status of a callback, for its owner; administrators see its URL in part."""
        if self._access.has_all_rights_of(client.identity, facts["owner"]):
            return facts
        if self._access.sees_as_admin(client.identity):
            return {**facts, "url": public_url(facts["url"])}
        return None

    def _job(self, client: Client, facts: Facts) -> Facts | None:
        """The progress of a job, for its user, and those who may browse the destination of its messages."""
        access, identity, found = self._access, client.identity, self._job_owner(facts["id"])
        if access.sees_everything(identity):
            return facts
        if found is None:
            return None
        own = access.has_all_rights_of(identity, found.user)
        return facts if own or (found.address and self._may_browse(client, found.address)) else None

    def _may_browse(self, client: Client, address: str) -> bool:
        view: Container[str] | None = self._access.view(client)
        if view is not None:
            return address in view
        destination = self._destination_of(address)
        return destination is not None and self._access.allows(client, BROWSE, destination)


_KINDS: Final[dict[str, Callable[[SystemRights, Client, Facts], Facts | None]]] = {
    ALL.name: SystemRights._all,
    OF_DESTINATION.name: SystemRights._destination,
    OF_ROWS.name: SystemRights._destinations,
    OF_CONNECTION.name: SystemRights._connection,
    OF_CALLBACK.name: SystemRights._callback,
    OF_JOB.name: SystemRights._job,
}


def _whole(topic: str, facts: Facts) -> Facts:
    return facts


@lru_cache(maxsize=50_000)
def _open_topic(topic: str) -> str | None:
    """The entry of `OPEN_TOPICS` for a topic; None if it is for administrators."""
    return next((pattern for pattern in OPEN_TOPICS if matches(pattern, topic)), None)


def public_url(url: str) -> str:
    """A URL as it is shown to others than its owner: user info and query may be secrets."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _address(row: Any) -> str:
    """The address of a row: of a table, or of `$mom.stats`."""
    address: str = row[0] if isinstance(row, list) else row["name"]
    return address
