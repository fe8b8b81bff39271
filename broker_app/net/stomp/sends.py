"""SEND frames of a session: the meaning of their headers, and the permission to send."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from broker_app.core import commands as c
from broker_app.core.destination import Destination
from broker_app.features.services import profiles
from broker_app.net.stomp import bridge_flows, channel_sends, headers
from broker_app.net.stomp.conversation import Conversation
from broker_app.net.stomp.subscriptions import SubscriptionFrames, bridge_of, client_of, named_destination
from broker_app.rules.event import SEND
from mom_client.stomp.frame import Frame, Headers

#: destinations for which a session caches the permission to send
MAX_SENDS = 1_000

#: kinds of SEND: that of the bridge of another broker has a flow, one to a profile is a seed, one to a
#: channel is handed to an application
PLAIN, FLOW, SEED, CHANNEL = range(4)
#: what the headers of a SEND mean: ("" if it is sent by itself, or the name of its transaction or flow, or
#: the prefix of profiles or channels; envelope, or `channel_sends.ChannelSend`; kind)
SendPlan = tuple[str, Any, int]


class Sends:
    """Plans SEND frames. A plan is kept with the header block, so it is made once for thousands of frames."""

    __slots__ = ("_conversation", "_permitted", "_subscriptions")

    def __init__(self, conversation: Conversation, subscriptions: SubscriptionFrames) -> None:
        self._conversation = conversation
        self._subscriptions = subscriptions
        #: destinations sent to: True if permitted by the present policy, False if by an earlier one
        self._permitted: dict[Destination, bool] = {}

    def plan(self, given: Headers) -> SendPlan:
        """The plan of all SEND frames with these headers. Raises Refused."""
        criteria = profiles.criteria_of(given.get("destination"))
        if criteria is not None:
            return self._plan_of_seed(given, criteria)
        if channel_sends.is_channel(given):
            return self._plan_of_channel(given)
        destination = named_destination(self._conversation, given)
        if not self._permitted.get(destination):
            self._permit(destination)
        reply_to = given.get("reply-to")
        if reply_to is not None and reply_to.startswith(("/temp-queue/", "/temp-topic/")):
            reply_to = self._subscriptions.subscribe_to_reply(reply_to)
        else:
            reply_to = None
        envelope = headers.envelope(given, destination, reply_to)
        if bridge_flows.FLOW in given:
            return bridge_of(self._conversation, bridge_flows.FLOW).check_plan(given), envelope, FLOW
        return given.get("transaction", ""), envelope, PLAIN

    def _plan_of_seed(self, given: Headers, criteria: str) -> SendPlan:
        """The plan of messages to a profile. The permission is checked for each copy; who may send nowhere
        gets none stored."""
        access, client = self._conversation.sessions.access, client_of(self._conversation)
        access.check_may_send(client)
        sender = access.principal_of(client)
        envelope = profiles.seed(headers.envelope(given, profiles.SEEDS), criteria, sender)
        return profiles.PREFIX, envelope, SEED

    def _plan_of_channel(self, given: Headers) -> SendPlan:
        """The plan of what is sent to applications. Those that differ in an id alone have one plan."""
        plan = channel_sends.PREFIX, self._channel_send(given), CHANNEL
        if given.model is not None:
            given.model.plan = plan
        return plan

    def _channel_send(self, given: Headers) -> channel_sends.ChannelSend:
        """The meaning of the headers. Who may send nowhere may not send to applications."""
        plan = channel_sends.plan(given)
        if not plan.is_answer:
            self._conversation.sessions.access.check_may_send(client_of(self._conversation))
        if plan.reply_to:
            plan = plan._replace(reply_to=self._subscriptions.subscribe_to_reply(plan.reply_to))
        return plan

    def _permit(self, destination: Destination) -> None:
        """Check the permission to send, once until the policy changes. Raises Refused."""
        self._conversation.sessions.access.check(client_of(self._conversation), SEND, destination)
        if destination not in self._permitted and len(self._permitted) >= MAX_SENDS:
            del self._permitted[next(iter(self._permitted))]
        self._permitted[destination] = True

    def policy_changed(self) -> None:
        """Check each destination again when it is next sent to."""
        self._permitted = dict.fromkeys(self._permitted, False)

    @property
    def destinations(self) -> Iterable[Destination]:
        """The destinations that were sent to recently."""
        return self._permitted

    def send(self, frame: Frame) -> None:
        """Send within a transaction, to a profile or to a channel. Raises Refused."""
        transaction, envelope, kind = frame.headers.plan
        conversation = self._conversation
        if kind == CHANNEL:
            channel_sends.send(conversation, envelope, frame.headers, frame.body)
            if frame.receipt is not None:  # once all that was sent before is confirmed
                conversation.sessions.channels.publisher.hand_over()
                conversation.submit(c.Answer(conversation.peer, frame.receipt))
            return
        size = len(frame.body) + envelope.overhead_bytes
        if kind == SEED:
            conversation.sessions.seed_shares.admit(conversation.peer.user, size)
            transaction = frame.headers.get("transaction", "")
        confirm = bool(transaction) and conversation.confirms_each_frame
        receipt = None if confirm else frame.receipt
        publish = c.Publish(conversation.peer, [(envelope, frame.body, receipt)])
        if transaction:
            enlist = c.Enlist(conversation.peer, transaction, publish, frame.receipt, confirm)
            conversation.submit(enlist, size)
        else:
            conversation.submit(publish, size)


def size_of(entries: Sequence[c.Entry]) -> int:
    """About how many bytes of memory the messages take."""
    return sum([len(body) + envelope.overhead_bytes for envelope, body, _ in entries])
