"""The shares of users in a number that is limited for the whole node.

One user has at most half of it, so that none can take it from all others. The last tenth is reserved for
administrators, who have no share: they can repair a node on which users have taken all that they may.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from broker_app.base.refused import Refused

Code = Literal["busy", "too-many"]


def reserve(most: int) -> int:
    """The places of `most` that are reserved for administrators; none where there is one place."""
    return min(most - 1, max(1, most // 10))


class Shares:
    """Counts what each user has taken. `most` returns the number for the node, which may change while it
    runs; `things` names them in the plural, and `remedy` is what a refused user can do."""

    def __init__(
        self,
        most: Callable[[], int],
        things: str,
        remedy: str = "send it again later",
        code: Code = "busy",
    ) -> None:
        self._most = most
        self._things = things
        self._remedy = remedy
        self._code = code
        self._taken: Counter[str] = Counter()
        self._total = 0

    @property
    def total(self) -> int:
        """The number that all users have taken."""
        return self._total

    def check(self, user: str, *, admin: bool, count: int = 1) -> None:
        """Raise Refused if a user may not take `count` more."""
        most = self._most()
        if self._total + count > most:
            raise self._refused(f"there are {self._total} {self._things} already, of {most} on this node")
        if admin:
            return
        share, reserved = max(1, most // 2), reserve(most)
        if self._taken[user] + count > share:
            raise self._refused(
                f"{user or 'anonymous'} has {self._taken[user]} {self._things} already; "
                f"the share of one user is {share} of {most} on this node"
            )
        if self._total + count > most - reserved:
            raise self._refused(
                f"there are {self._total} {self._things} already; "
                f"of {most} on this node the last {reserved} are reserved for administrators"
            )

    def add(self, user: str, count: int = 1) -> None:
        """Count what a user has taken, or given back where `count` is negative."""
        self._total += count
        self._taken[user] += count
        if not self._taken[user]:
            del self._taken[user]

    def take(self, user: str, *, admin: bool, count: int = 1) -> None:
        """Check, and count. Raises Refused."""
        self.check(user, admin=admin, count=count)
        self.add(user, count)

    @contextmanager
    def taken(self, user: str, *, admin: bool) -> Iterator[None]:
        """Take one for the length of the `with` block. Raises Refused."""
        self.take(user, admin=admin)
        try:
            yield
        finally:
            self.add(user, -1)

    def _refused(self, why: str) -> Refused:
        return Refused(self._code, f"{why}: {self._remedy}")
