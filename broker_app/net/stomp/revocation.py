"""The end of subscriptions, flows and transactions whose permissions were revoked by a change of the
policy."""

from __future__ import annotations

from broker_app.base.refused import Refused
from broker_app.config import CLOSE
from broker_app.core import commands as c
from broker_app.core.destination import Destination, parse
from broker_app.core.remote.offset import Flow
from broker_app.features.services import profiles
from broker_app.net.stomp.conversation import OPEN, Conversation
from broker_app.net.stomp.disconnection import Disconnection
from broker_app.net.stomp.sends import Sends
from broker_app.rules.event import RECEIVE, SEND


class Revocation:
    """Ends subscriptions, flows and transactions that are not permitted any more, or the whole connection."""

    __slots__ = ("_conversation", "_disconnection", "_sends")

    def __init__(self, conversation: Conversation, sends: Sends, disconnection: Disconnection) -> None:
        self._conversation = conversation
        self._sends = sends
        self._disconnection = disconnection

    def recheck(self) -> None:
        """End what the client lost the permission for; the setting `revoked` decides how."""
        conversation = self._conversation
        client, sessions = conversation.client, conversation.sessions
        if conversation.state != OPEN or client is None or sessions.access.has_full_access(client.identity):
            return
        self._recheck_transactions()
        closes = sessions.config.revoked == CLOSE
        for id, address in [(one.id, one.address) for one in conversation.peer.subscriptions.values()]:
            if id in conversation.peer.flows:
                self._recheck_flow(conversation.peer.flows[id], closes=closes)
            else:
                self._recheck_subscription(id, address, closes=closes)
            if conversation.state != OPEN:
                return
        if closes:
            refusals = (self._revoked(SEND, destination) for destination in self._sends.destinations)
            refused = next(filter(None, refusals), None)
            if refused is not None:
                self._disconnection.refuse(refused, None, soft=False)

    def _recheck_subscription(self, id: str, address: str, *, closes: bool) -> None:
        revoked = self._revoked(RECEIVE, parse(address))
        if revoked is None:
            return
        detail = f"{revoked.detail}; subscription {id} was ended"
        self._conversation.submit(c.Unsubscribe(self._conversation.peer, id))
        refusal = Refused(revoked.code, detail, **revoked.facts, subscription=id)
        self._disconnection.refuse(refusal, None, soft=not closes)

    def _recheck_flow(self, flow: Flow, *, closes: bool) -> None:
        bridge = self._conversation.bridge
        revoked = bridge.revoked(flow) if bridge is not None and flow.broken is None else None
        if revoked is not None and closes:
            self._disconnection.refuse(revoked, None, soft=False)
        elif revoked is not None:
            self._conversation.submit(c.BreakFlow(self._conversation.peer, flow.id, revoked))

    def _recheck_transactions(self) -> None:
        """Messages that were sent with a permission which is now revoked must not be committed."""
        peer = self._conversation.peer
        for name, transaction in peer.transactions.items():
            refusals = (self._sending_revoked(address) for address in transaction.targets)
            refusal = next(filter(None, refusals), None)
            if refusal is not None:
                self._conversation.submit(c.MarkRollbackOnly(peer, name, refusal))

    def _sending_revoked(self, address: str) -> Refused | None:
        if address != profiles.SEEDS.address:
            return self._revoked(SEND, parse(address))
        client = self._conversation.client
        assert client is not None
        return self._conversation.sessions.access.sending_refusal(client)

    def _revoked(self, right: str, destination: Destination) -> Refused | None:
        client = self._conversation.client
        assert client is not None
        return self._conversation.sessions.access.refusal(client, right, destination)
