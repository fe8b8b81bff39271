"""The messages by which handlers get calls, and clients the answers to their requests."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import Final

from broker_app.core.commands import DeliverTo, Entry, Publish
from broker_app.core.message import Envelope
from broker_app.core.model import InnerReceiver, Peer, Subscription
from broker_app.engine import Engine
from broker_app.features.channels.content import CallOutcome, ChannelContent
from broker_app.features.channels.handlers import REQUESTS
from mom_client.stomp.encode import encode_headers

#: bytes that a message counts in addition to its body
_HEAD_BYTES: Final = 300
#: bytes of messages that gather in one turn of the loop
_MOST_BYTES: Final = 1024 * 1024


@lru_cache(maxsize=64)
def _from(site: str) -> bytes:
    """The header line with the site of a call."""
    return encode_headers([("channel-from", site)])


class ClientHandler:
    """The handler of a client: its subscription, and what sends the calls to it."""

    __slots__ = ("_publisher", "_subscription", "peer")
    is_ready = True

    def __init__(self, subscription: Subscription, publisher: ChannelPublisher) -> None:
        self.peer = subscription.peer
        self._subscription = subscription
        self._publisher = publisher

    def call(self, id: str, site: str, content: ChannelContent, *, multiple: bool) -> None:
        """Send a call to the client, which learns from a refused answer that it had too many parts."""
        self._publisher.call(self._subscription, id, site, content)


class ChannelPublisher(InnerReceiver):
    """A peer of the engine that sends these messages, and receives nothing. Those of one turn of the loop are
    one command for each handler, and one for all answers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._peer = Peer(self, user="$channel", own=True)
        self._calls: dict[Subscription, list[tuple[Envelope, bytes]]] = {}
        self._replies: list[Entry] = []
        self._bytes = 0

    def call(self, handler: Subscription, id: str, site: str, content: ChannelContent) -> None:
        """Hand a call of another application, at `site`, to a client. `id` is empty for a message."""
        block = _from(site)
        # Of these the broker has made the ids, and checked the lengths: nothing in them needs an escape.
        block += b"need-response:true\nchannel-call:%b\n" % id.encode() if id else b"need-response:false\n"
        if content.lengths is not None:
            block += b"parts:%b\n" % content.lengths.encode()
        envelope = Envelope(REQUESTS, block, persistent=False)
        self._calls.setdefault(handler, []).append((envelope, content.body))
        self._gathered(content)

    def reply(self, address: str, correlation_id: str, answer: CallOutcome) -> None:
        """Send an answer to the temporary queue of its client."""
        content = answer.content
        lines = [("correlation-id", correlation_id), ("channel-status", answer.status)]
        if answer.reason:
            lines.append(("reason", answer.reason))
        if content.lengths is not None:
            lines.append(("parts", content.lengths))
        envelope = Envelope(address, encode_headers(lines), persistent=False)
        self._replies.append((envelope, content.body, None))
        self._gathered(content)

    def hand_over(self) -> None:
        """Give the engine what has gathered."""
        size, self._bytes = self._bytes, 0
        calls, self._calls = self._calls, {}
        replies, self._replies = self._replies, []
        for handler, messages in calls.items():
            self._engine.submit(DeliverTo(handler, messages), size)
            size = 0
        if replies:
            self._engine.submit(Publish(self._peer, replies), size)

    def _gathered(self, content: ChannelContent) -> None:
        if not self._bytes:
            asyncio.get_running_loop().call_soon(self.hand_over)
        self._bytes += _HEAD_BYTES + len(content.body)
        if self._bytes > _MOST_BYTES:
            self.hand_over()
