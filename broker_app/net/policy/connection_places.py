"""The places of connections that have logged in, shared by their users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from broker_app.base.refused import Refused
from broker_app.base.shares import Shares
from broker_app.core.model import ClientKey
from broker_app.net.auth.login import Identity

Session = TypeVar("Session")


def client_key(identity: Identity, client_id: str, instance: str) -> ClientKey:
    """The same for all connections of a client of one user and token; empty if it has no name."""
    return (identity.user, identity.token, client_id, instance) if client_id or instance else ()


class ConnectionPlaces(Generic[Session]):
    """The sessions that have a place. `key_of` returns the key of the client of one, and `end` ends one that
    its client has left behind."""

    def __init__(
        self, shares: Shares, key_of: Callable[[Session], ClientKey], end: Callable[[Session], None]
    ) -> None:
        self._shares = shares
        self._key_of = key_of
        self._end = end
        self._users: dict[Session, str] = {}

    def __len__(self) -> int:
        return len(self._users)

    def take(self, session: Session, user: str, key: ClientKey, *, admin: bool) -> None:
        """Give a session a place. Raises Refused when there is none; former sessions of the same client give
        way, whose places are free at once."""
        try:
            self._shares.check(user, admin=admin)
        except Refused:
            for former in [one for one in self._users if key and self._key_of(one) == key]:
                self._end(former)
                self.leave(former)
        self._shares.take(user, admin=admin)
        self._users[session] = user

    def leave(self, session: Session) -> None:
        """Free the place of a session, if it has one."""
        user = self._users.pop(session, None)
        if user is not None:
            self._shares.add(user, -1)
