"""The rights of owners: what acts for a user without a connection may do what the user may do."""

from __future__ import annotations

from broker_app.base.refused import Refused
from broker_app.core.destination import Destination, parse
from broker_app.features.callbacks.webhooks.callback import Callback
from broker_app.net.policy.access import Access
from broker_app.net.policy.principal import Principal
from broker_app.rules.event import CALLBACK, RECEIVE, SEND


class OwnerRights:
    """Checks the owners of callbacks against the current policy."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def refusal(self, callback: Callback) -> str:
        """The reason why the owner of a callback may not receive its messages; empty if that is allowed."""
        client = self._access.owner(callback.owner, CALLBACK)
        if client is None:
            return f"its owner {callback.owner} is no user that may log in"
        try:
            refused = self._access.refusal(client, RECEIVE, parse(callback.address))
        except Refused as invalid:
            return invalid.detail
        return refused.detail if refused is not None else ""


class SenderRights:
    """Checks the senders of messages that are copied later, against the current policy."""

    def __init__(self, access: Access) -> None:
        self._access = access

    @property
    def policy(self) -> object:
        """The policy that decides; another object after each change."""
        return self._access.policy

    def may_send(self, sender: Principal, destination: Destination) -> bool:
        """Return whether a sender may send to a destination now, as from where the message came."""
        client = self._access.client_of(sender)
        return client is not None and self._access.allows(client, SEND, destination)
