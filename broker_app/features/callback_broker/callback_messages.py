"""Callback messages: local messages without a body, each for a message that waits at an origin.

They are not persistent: after a restart they are made again from what waits at the origin.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from broker_app.base import states
from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.message import Envelope, Message
from broker_app.core.model import InnerReceiver, Peer, Subscription
from broker_app.core.storage.transfers import UNSETTLED
from broker_app.engine import Engine
from mom_client.stomp.encode import encode_headers

#: states of an original; one that is GONE is not listed
WAITING, FETCHING, FETCHED, SETTLING = states.ORIGINAL
GONE: Final = "gone"
#: header of a callback message: the id of the original
ORIGINAL: Final = "mom-original"


class OriginalQueue(Protocol):
    """The queue of the originals, at their origin."""

    address: str

    def want(self, one: CallbackMessage, subscription: Subscription, tag: int) -> None:
        """Fetch the original for a delivery."""

    async def settle(self, one: CallbackMessage, operation: str, **members: Any) -> None:
        """Acknowledge or return an original. Raises Refused when it is not held any more."""

    def release(self, one: CallbackMessage) -> None:
        """Return an original whose callback message was returned, or was refused here."""


@dataclass(slots=True, eq=False)
class CallbackMessage:
    """One callback message. `seq` and `id` are those of the original, which waits in `queue`.

    `envelope` is what it was published with. `receipt` settles the original while it is fetched.
    `returned` is True after a consumer has returned the callback message, until it is delivered again.
    `returned_at` is the number of the comparison with the origin during which the original began to wait
    there again."""

    seq: int
    id: str
    queue: OriginalQueue = field(repr=False)
    envelope: Envelope | None = None
    message: Message | None = None
    state: str = WAITING
    receipt: str = ""
    returned: bool = False
    returned_at: int = 0


class CallbackMessages(InnerReceiver):
    """All callback messages of the broker, and the peer that publishes them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._peer = Peer(self, user="callback broker", detailed=True)
        self._by_message: dict[Message, CallbackMessage] = {}
        #: those that were published and are not in their queue yet
        self._published: dict[Envelope, CallbackMessage] = {}
        self._watched: dict[str, int] = {}

    def of(self, message: Message) -> CallbackMessage | None:
        """The callback message that a local message is; None for any other message."""
        return self._by_message.get(message)

    # ------------------------------------------------------------------ local queues

    def watch(self, address: str) -> None:
        """Watch what is returned to a local queue. Each call needs an `unwatch`."""
        self._watched[address] = self._watched.get(address, 0) + 1
        if self._watched[address] == 1:
            self._engine.broker.store.taps.add(address, self)

    def unwatch(self, address: str) -> None:
        """Watch a queue no longer."""
        self._watched[address] -= 1
        if not self._watched[address]:
            del self._watched[address]
            self._engine.broker.store.taps.remove(address, self)

    def publish(self, messages: list[CallbackMessage]) -> None:
        """Publish callback messages, in order."""
        entries: list[c.Entry] = []
        for one in messages:
            headers = encode_headers([(ORIGINAL, one.id)])
            one.envelope = envelope = Envelope(one.queue.address, headers, persistent=False)
            self._published[envelope] = one
            entries.append((envelope, b"", one))
        self._engine.submit(c.Publish(self._peer, entries), 100 * len(entries))

    def remove(self, messages: list[CallbackMessage]) -> None:
        """Remove callback messages whose originals are gone. One that is just being delivered stays known
        until then."""
        by_address: dict[str, list[CallbackMessage]] = {}
        for one in messages:
            one.state = GONE
            if one.message is not None:
                by_address.setdefault(one.queue.address, []).append(one)
        for address, group in by_address.items():
            chosen = [c.Chosen(one.message.position) for one in group if one.message is not None]
            self._engine.submit(c.Transfer(self._peer, address, chosen, receipt=group))

    def settled(self, one: CallbackMessage) -> None:
        """The original is gone, and the callback message is settled by a command that was submitted."""
        self._engine.submit(c.Answer(self._peer, one))

    # ------------------------------------------------------------------ called by the core

    def note(self, message: Message) -> bool:
        """Know a callback message: its consumer may get it before the answer to `publish` comes."""
        one = self._published.pop(message.envelope, None)
        if one is not None:
            self._know(one, message)
        return False

    def note_returned(self, message: Message) -> bool:
        """Return the original of a callback message that was returned."""
        one = self._by_message.get(message)
        if one is not None:
            one.returned = True
            self._loop.call_soon(one.queue.release, one)
        return False

    def flush(self, peer: Peer) -> None:
        receipts, peer.receipts = peer.receipts, []
        refusals, peer.refusals = peer.refusals, []
        for token, answer in receipts:
            if isinstance(token, list):
                self._removed(token, answer)
            elif isinstance(answer, Message):
                self._is_published(token, answer)
            else:
                self._ended(token)
        for token, refusal in refusals:
            self._not_published(token, refusal)

    def _know(self, one: CallbackMessage, message: Message) -> None:
        one.message = message
        self._by_message[message] = one

    def _is_published(self, one: CallbackMessage, message: Message) -> None:
        if one.message is not message:  # a reflex has replaced it
            self._dismiss(one)
            self._know(one, message)
        if one.state == GONE:
            self.remove([one])

    def _not_published(self, token: Any, refusal: Refused) -> None:
        """The local queue is full, or a reflex has refused the callback message."""
        for one in token if isinstance(token, list) else [token]:
            self._dismiss(one)
            one.state = GONE
            one.queue.release(one)

    def _dismiss(self, one: CallbackMessage) -> None:
        if one.envelope is not None:
            self._published.pop(one.envelope, None)

    def _removed(self, group: list[CallbackMessage], results: Any) -> None:
        for one, result in zip(group, results, strict=False):
            if result.status != UNSETTLED:
                self._forget(one)

    def _ended(self, one: CallbackMessage) -> None:
        if one.returned:  # its consumer has gone before it could be settled
            self.remove([one])
        else:
            self._forget(one)

    def _forget(self, one: CallbackMessage) -> None:
        if one.message is not None:
            self._by_message.pop(one.message, None)
