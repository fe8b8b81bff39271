"""The rights of owners: what acts for a user without a connection may do what the user may do."""

from __future__ import annotations

from broker_app.callback.webhooks.callback import Callback
from broker_app.core.destination import parse
from broker_app.core.errors import Refused
from broker_app.net.auth.login import Identity
from broker_app.net.policy.access import Access, Client, ConnectionInfo
from broker_app.rules.event import CALLBACK, RECEIVE


class OwnerRights:
    """Checks the owners of callbacks against the current policy."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def refusal(self, callback: Callback) -> str:
        """The reason why the owner of a callback may not receive its messages; empty if that is allowed."""
        client = Client(Identity(callback.owner), ConnectionInfo(CALLBACK))
        try:
            refused = self._access.refusal(client, RECEIVE, parse(callback.address))
        except Refused as invalid:
            return invalid.detail
        if refused is None:
            return ""
        if refused.code == "not-authenticated":
            return f"its owner {callback.owner} is no user that may log in"
        return refused.detail
