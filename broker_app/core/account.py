"""What clients make the broker keep in memory, counted for each connection and for each user."""

from __future__ import annotations

from broker_app.core.limits import Limits


class UserAccount:
    """The sums of one user's connections, of which there are so many `connections` with an account."""

    __slots__ = ("connections", "enlisted", "searches", "waiting")

    def __init__(self) -> None:
        self.connections = 0
        self.waiting = 0
        self.enlisted = 0
        #: of the selectors of subscriptions without a name
        self.searches = 0


class Account:
    """The bytes of one connection: `waiting` of messages that live in memory only and wait for it or are
    unsettled, `enlisted` of what its transactions hold, `text_bytes` of the ids and selectors of its
    subscriptions."""

    __slots__ = ("enlisted", "of_user", "text_bytes", "waiting")

    def __init__(self, of_user: UserAccount) -> None:
        self.of_user = of_user
        self.waiting = 0
        self.enlisted = 0
        self.text_bytes = 0

    def keep(self, size: int) -> None:
        """Count a message that comes, or (less than 0) one that is gone."""
        self.waiting += size
        self.of_user.waiting += size

    def enlist(self, size: int) -> None:
        """Count what a transaction takes, or (less than 0) lets go."""
        self.enlisted += size
        self.of_user.enlisted += size

    def has_room(self, size: int, limits: Limits) -> bool:
        """Whether so much more may wait. Where others of its user have filled that user's share, a connection
        still has a part of its own, and one with nothing waiting always takes a message."""
        waiting = self.waiting + size
        if not self.waiting or waiting <= limits.transient_per_peer // self.of_user.connections:
            return True
        return waiting <= limits.transient_per_peer and (
            self.of_user.waiting + size <= limits.transient_per_user
        )
