"""The messages by which handlers get calls, and clients the answers to their requests."""

from __future__ import annotations

from typing import Final

from broker_app.core.commands import DeliverTo, Publish
from broker_app.core.message import Envelope
from broker_app.core.model import InnerReceiver, Peer, Subscription
from broker_app.engine import Engine
from broker_app.features.channels.content import Answer, Content
from broker_app.features.channels.handlers import REQUESTS
from mom_client.stomp.encode import encode_headers

#: bytes that a message counts in addition to its body
_HEAD_BYTES: Final = 300


class Publisher(InnerReceiver):
    """A peer of the engine that sends these messages, and receives nothing."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._peer = Peer(self, user="$channel", own=True)

    def call(self, handler: Subscription, id: str, site: str, content: Content) -> None:
        """Hand a call of another application, at `site`, to a handler. `id` is empty for a message."""
        lines = [("channel-from", site), ("need-response", "true" if id else "false")]
        if id:
            lines.append(("channel-call", id))
        if content.lengths is not None:
            lines.append(("parts", content.lengths))
        envelope = Envelope(REQUESTS, encode_headers(lines), persistent=False)
        deliver = DeliverTo(handler, ((envelope, content.body),))
        self._engine.submit(deliver, _HEAD_BYTES + len(content.body))

    def reply(self, address: str, correlation_id: str, answer: Answer) -> None:
        """Send an answer to the temporary queue of its client."""
        content = answer.content
        lines = [("correlation-id", correlation_id), ("channel-status", answer.status)]
        if answer.reason:
            lines.append(("reason", answer.reason))
        if content.lengths is not None:
            lines.append(("parts", content.lengths))
        envelope = Envelope(address, encode_headers(lines), persistent=False)
        publish = Publish(self._peer, [(envelope, content.body, None)])
        self._engine.submit(publish, _HEAD_BYTES + len(content.body))
