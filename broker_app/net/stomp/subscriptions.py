"""SUBSCRIBE and UNSUBSCRIBE of a session, flows of bridges, and its temporary destinations."""

from __future__ import annotations

from broker_app.base import times
from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.destination import DURABLE_PREFIX, TEMP_QUEUE, TEMP_TOPIC, Destination, parse
from broker_app.core.position import known_start
from broker_app.core.remote.sync_queue import SYNC_ADDRESS
from broker_app.core.selectors import compiler
from broker_app.core.selectors.selector import Selector
from broker_app.net.policy.access import Client
from broker_app.net.stomp import bridge_flows, durable_names, header_names, headers, rendering
from broker_app.net.stomp.acknowledgements import Acknowledgements
from broker_app.net.stomp.bridge_flows import Bridged
from broker_app.net.stomp.browsers import Browsers
from broker_app.net.stomp.conversation import FRAME_BYTES, Conversation
from broker_app.rules.event import RECEIVE
from broker_app.telemetry import client_events
from mom_client.stomp.frame import Frame, Headers
from mom_client.stomp.parser import Parser


class SubscriptionFrames:
    """Turns SUBSCRIBE and UNSUBSCRIBE frames into commands."""

    __slots__ = ("_acknowledgements", "_conversation", "_parser", "_temporary", "browsers")

    def __init__(
        self,
        conversation: Conversation,
        parser: Parser,
        acknowledgements: Acknowledgements,
        browsers: Browsers,
    ) -> None:
        self.browsers = browsers
        self._conversation = conversation
        self._parser = parser
        self._acknowledgements = acknowledgements
        #: temporary destinations that the client subscribed to, or was subscribed to for its reply-to
        self._temporary: set[str] = set()

    def subscribe(self, frame: Frame) -> None:
        """Raises Refused."""
        conversation, given = self._conversation, frame.headers
        id = given.get("id")
        if id is None:
            if conversation.version != "1.0":
                raise Refused("malformed-frame", "SUBSCRIBE needs an id header")
            id = given.get("destination", "")
        destination = named_destination(conversation, given)
        if bridge_flows.SOURCE in given:
            self._begin_flow(frame, id, destination)
            return
        # In the time of this connection; the core finds it compiled.
        selector = compiler.compile(given["selector"]) if given.get("selector") else None
        owns = conversation.names.owns(destination)
        if destination.kind in (TEMP_QUEUE, TEMP_TOPIC) and not owns:
            raise Refused(
                "not-allowed", f"{destination.address} is the temporary destination of another connection"
            )
        if headers.browser(given):
            self._browse(frame, id, destination, selector)
            return
        conversation.sessions.access.check(client_of(conversation), RECEIVE, destination)
        if id in self.browsers:
            raise Refused("conflict", f"subscription id {id!r} is already in use on this connection")
        if owns:
            self._temporary.add(destination.address)
        subscribe = self._command(frame, id, destination)
        if subscribe.durable:
            access = conversation.sessions.access
            access.check_may_change(client_of(conversation), "make a durable subscription")
        conversation.submit(subscribe, FRAME_BYTES + len(subscribe.selector))
        conversation.note(client_events.SUBSCRIBED, destination.address)

    def _browse(self, frame: Frame, id: str, destination: Destination, selector: Selector | None) -> None:
        conversation, given = self._conversation, frame.headers
        header_names.check(header_names.SUBSCRIBE, given, destination)
        if not destination.is_queue:
            raise Refused("unsupported", "header browser: only queues can be browsed; a topic has `from`")
        ack = headers.ack_mode(given)
        self.browsers.begin(client_of(conversation), id, destination, selector, ack)
        self._acknowledgements.tags.browses |= ack != c.AUTO
        self._name(id, given)
        conversation.submit(c.Answer(conversation.peer, frame.receipt))
        conversation.note(client_events.SUBSCRIBED, destination.address)

    def _name(self, id: str, given: Headers) -> None:
        """Note whether the client has given this id to a subscription."""
        nameless = self._conversation.renderer.nameless
        if "id" in given:
            nameless.discard(id)
        else:
            nameless.add(id)

    def _command(self, frame: Frame, id: str, destination: Destination) -> c.Subscribe:
        conversation, given = self._conversation, frame.headers
        header_names.check(header_names.SUBSCRIBE, given, destination)
        ack = headers.ack_mode(given)
        self._acknowledgements.cumulative |= ack == c.CLIENT
        max_credit = conversation.sessions.engine.broker.turn.limits.max_credit
        credit = headers.credit(given, conversation.sessions.config.credit, max_credit)
        self._name(id, given)
        # Subscriptions with the same key get the same bytes, rendered once.
        render_key = (conversation.version, given.get("id")) if ack == c.AUTO else None
        subscribe = c.Subscribe(
            conversation.peer, id, destination.address, ack, credit, render_key, receipt=frame.receipt
        )
        subscribe.selector, subscribe.exclusive = given.get("selector", ""), headers.exclusive(given)
        subscribe.name, subscribe.durable, subscribe.shared = durable_names.of_subscribe(
            given, destination, conversation.client_id
        )
        subscribe.priority, subscribe.no_local = headers.consumer_priority(given), headers.no_local(given)
        subscribe.snapshot = headers.snapshot(given, destination)
        turn = conversation.sessions.engine.broker.turn
        subscribe.start, unknown = known_start(times.start(headers.start(given)), turn)
        if unknown and frame.receipt is not None:
            subscribe.receipt = rendering.of_unknown_position(frame.receipt)
        subscribe.principal = conversation.client
        return subscribe

    def _begin_flow(self, frame: Frame, id: str, destination: Destination) -> None:
        given, bridge = frame.headers, bridge_of(self._conversation, bridge_flows.SOURCE)
        if destination.address != SYNC_ADDRESS:
            raise Refused("invalid", f"a flow begins at {SYNC_ADDRESS}, not at {destination.address}")
        target = parse(given.get(bridge_flows.TARGET, ""))
        self._conversation.submit(bridge.begin(given, id, target, frame.receipt))

    def subscribe_to_reply(self, alias: str) -> str:
        """The address for replies to the temporary destination `alias`, which the client is subscribed to."""
        conversation = self._conversation
        destination = conversation.names.resolve(alias)
        if conversation.names.owns(destination) and destination.address not in self._temporary:
            self._temporary.add(destination.address)
            conversation.submit(c.Subscribe(conversation.peer, alias, destination.address))
        return destination.address

    def unsubscribe(self, frame: Frame) -> None:
        """Raises Refused."""
        conversation, given = self._conversation, frame.headers
        id = given.get("id")
        forget = durable_names.to_forget(given, id, conversation.client_id)
        if forget:
            self._delete(forget, frame.receipt)
            return
        if id is None:
            id = given.get("destination")
            if id is None or conversation.version != "1.0":
                raise Refused("malformed-frame", "UNSUBSCRIBE needs the id header of its SUBSCRIBE")
        if id in self.browsers:
            self.browsers.end(id)
            conversation.submit(c.Answer(conversation.peer, frame.receipt))
            return
        subscription = conversation.peer.subscriptions.get(id)
        if subscription is not None and subscription.address in self._temporary:
            # A later reply-to subscribes again: the plans that the parser keeps with headers are out of date.
            self._temporary.remove(subscription.address)
            self._parser.forget()
        if subscription is not None:
            conversation.note(client_events.UNSUBSCRIBED, subscription.address)
        keep = headers.keep_unsettled(given)
        command = c.Unsubscribe(conversation.peer, id, frame.receipt, keep, forget=forget is not None)
        conversation.submit(command)

    def _delete(self, name: str, receipt: bytes | None) -> None:
        """Delete a durable subscription; the core checks whose it is."""
        conversation = self._conversation
        sessions = conversation.sessions
        sessions.access.check_may_change(client_of(conversation), "delete a durable subscription")
        named = sessions.engine.broker.destinations.named.get(DURABLE_PREFIX + name)
        if named is not None:
            sessions.access.check(client_of(conversation), RECEIVE, parse(named.terms.filter))
        conversation.submit(c.DeleteSubscription(conversation.peer, name, conversation.peer.user, receipt))


def client_of(conversation: Conversation) -> Client:
    """The client of a session that is open."""
    client = conversation.client
    assert client is not None
    return client


def named_destination(conversation: Conversation, given: Headers) -> Destination:
    """The destination that a frame names. Raises Refused."""
    address = given.get("destination")
    if address is None:
        raise Refused("bad-destination", "the frame has no destination header")
    return conversation.names.resolve(address)


def bridge_of(conversation: Conversation, header: str) -> Bridged:
    """The bridge behind a session. Raises Refused if a client that is none uses the `header` of bridges."""
    if conversation.bridge is None:
        raise Refused("invalid", f"header {header} is for bridges; CONNECT with {bridge_flows.SENDER}")
    return conversation.bridge
