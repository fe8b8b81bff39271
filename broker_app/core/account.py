"""Memory that the broker uses for clients, counted for each connection and each user."""

from __future__ import annotations

from broker_app.core.limits import Limits


class UserAccount:
    """The sums of all connections of one user; `connections` is how many have an account."""

    __slots__ = ("connections", "enlisted", "searches", "waiting")

    def __init__(self) -> None:
        self.connections = 0
        self.waiting = 0
        self.enlisted = 0
        #: searches in the selectors of subscriptions without a name
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
        """Count a message, or (less than 0) its end."""
        self.waiting += size
        self.of_user.waiting += size

    def enlist(self, size: int) -> None:
        """Count bytes of a transaction, or (less than 0) their end."""
        self.enlisted += size
        self.of_user.enlisted += size

    def has_room(self, size: int, limits: Limits) -> bool:
        """Return whether so much more may wait. When other connections of the user have used up the share of
        the user, a connection still has a minimum of its own; without waiting messages it always takes
        one."""
        waiting = self.waiting + size
        if not self.waiting or waiting <= limits.transient_per_peer // max(1, self.of_user.connections):
            return True
        return waiting <= limits.transient_per_peer and (
            self.of_user.waiting + size <= limits.transient_per_user
        )
