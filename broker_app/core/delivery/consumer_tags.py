"""The tags of a peer's unsettled deliveries by subscription."""

from __future__ import annotations

from itertools import takewhile

from broker_app.core.model import Peer, Subscription


class ConsumerTags:
    """An index that costs deliveries nothing: it is brought up to date when a subscription ends, with what
    was delivered since the last one ended. So it has tags, too, that are settled meanwhile; when they are too
    many, it is made again."""

    def __init__(self, peer: Peer) -> None:
        self._unsettled = peer.unsettled
        self._tags: dict[Subscription, list[int]] = {}
        self._count = 0
        #: the newest tag that was read
        self._newest = 0

    def take(self, subscription: Subscription) -> list[int]:
        """Remove and return the tags of a subscription, in order."""
        if self._count > 2 * len(self._unsettled):
            self._tags, self._count, self._newest = {}, 0, 0
        self._read()
        tags = self._tags.pop(subscription, [])
        self._count -= len(tags)
        return [tag for tag in tags if tag in self._unsettled]

    def _read(self) -> None:
        """Add the tags of what was delivered since the last time."""
        unsettled, newest = self._unsettled, self._newest
        new = list(takewhile(lambda tag: tag > newest, reversed(unsettled)))
        for tag in reversed(new):
            self._tags.setdefault(unsettled[tag][0], []).append(tag)
        self._count += len(new)
        self._newest = new[0] if new else newest
