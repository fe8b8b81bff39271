"""Accounts of connections and users: the memory that the broker uses for each."""

from __future__ import annotations

from broker_app.core.account import Account, UserAccount
from broker_app.core.model import Peer


class Accounts:
    """One account for each connection that needs one, and one for each user of such connections."""

    def __init__(self) -> None:
        self.users: dict[str, UserAccount] = {}

    def of(self, peer: Peer) -> Account:
        """The account of a connection, created when it has none."""
        if peer.account is None:
            of_user = self.of_user(peer.user)
            of_user.connections += 1
            peer.account = Account(of_user)
        return peer.account

    def of_user(self, user: str) -> UserAccount:
        """The account of a user, created when there is none."""
        return self.users.setdefault(user, UserAccount())

    def close(self, peer: Peer) -> None:
        """Remove the account of a connection that ends."""
        account, peer.account = peer.account, None
        if account is not None:
            account.of_user.connections -= 1
            if not account.of_user.connections:
                del self.users[peer.user]
