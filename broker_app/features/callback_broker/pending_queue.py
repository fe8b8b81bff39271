"""The messages of one service that wait at its origin, each as a callback message in the local queue."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from broker_app.base.internal_errors import internal_errors
from broker_app.base.refused import Refused
from broker_app.core.message import Envelope, Message
from broker_app.core.model import Subscription
from broker_app.core.position import FROM_NOW
from broker_app.core.storage.transfers import REFUSED as NOT_NOW
from broker_app.features.callback_broker.callback_messages import (
    FETCHED,
    FETCHING,
    GONE,
    SETTLING,
    WAITING,
    CallbackMessage,
    CallbackMessages,
)
from broker_app.features.callback_broker.origin_events import Original
from broker_app.features.callback_broker.origin_link import OriginLink, OriginLost
from broker_app.net.rest.messages.chosen import LEFT

log = logging.getLogger(__name__)

#: callback messages of one queue; what waits beyond is listed when there is room again
MOST: Final = 10_000
#: originals that are fetched together
AT_ONCE: Final = 64
#: seconds between two comparisons with what waits at the origin
_COMPARE_S: Final = 0.5


class WantedMessage(NamedTuple):
    """A delivery of a callback message, whose original is to be fetched."""

    one: CallbackMessage
    subscription: Subscription
    tag: int

    @property
    def is_open(self) -> bool:
        """True if its consumer still holds it."""
        return self.tag in self.subscription.peer.unsettled


class Fetched(NamedTuple):
    """The results of fetches: originals to deliver; deliveries whose originals are gone; deliveries to
    return, to be fetched later."""

    originals: list[tuple[WantedMessage, Message]]
    gone: list[WantedMessage]
    later: list[WantedMessage]


class Connection(Protocol):
    """The connection to the origin, as a pending queue uses it."""

    async def call(self, operation: str, **members: Any) -> dict[str, object]: ...

    def send(self, operation: str, **members: Any) -> None: ...

    async def wait_connected(self) -> None: ...


class PendingQueue:
    """Keeps the callback messages of one service of one origin. `deliver` gets what was fetched; `closed` is
    called when the queue has ended."""

    def __init__(
        self,
        name: str,
        connection: Connection,
        callback_messages: CallbackMessages,
        deliver: Callable[[Fetched], None],
        closed: Callable[[PendingQueue], None],
    ) -> None:
        self.name = name
        self.address = f"/queue/{name}"
        self.fetched = 0
        self.gone = 0
        self._connection = connection
        self._callback_messages = callback_messages
        self._deliver = deliver
        self._closed = closed
        self._messages: dict[int, CallbackMessage] = {}
        self._wanted: deque[WantedMessage] = deque()
        self._fetching: asyncio.Task[None] | None = None
        self._comparing: asyncio.Task[None] | None = None
        #: the connection over which it is notified
        self._link: OriginLink | None = None
        #: comparisons with what waits at the origin, so far
        self._comparisons = 0
        #: whether there is more at the origin than is listed here
        self._more = False
        callback_messages.watch(self.address)

    def status(self) -> dict[str, object]:
        """The name of the queue, and the numbers of originals by what became of them."""
        states = [one.state for one in self._messages.values()]
        held = sum(state in (FETCHED, SETTLING) for state in states)
        pending = len(states) - held
        return {
            "name": self.name,
            "pending": pending,
            "held": held,
            "more": self._more,
            "fetched": self.fetched,
            "gone": self.gone,
        }

    def listed(self) -> list[dict[str, object]]:
        """The messages that wait or are held, in the order of their arrival."""
        return [
            {"id": one.id, "seq": one.seq, "state": one.state}
            for one in self._messages.values()
            if one.state != GONE
        ]

    def close(self) -> None:
        """End: callback messages are removed, and what is held goes back at the origin."""
        for task in (self._fetching, self._comparing):
            if task is not None:
                task.cancel()
        self._return_all()
        for one in self._messages.values():
            if one.state == FETCHED:
                self._connection.send("nack", receipt=one.receipt)
        self._callback_messages.remove(list(self._messages.values()))
        self._messages.clear()
        self._callback_messages.unwatch(self.address)
        self._closed(self)

    # ------------------------------------------------------------------ arrivals

    async def follow(self, link: OriginLink) -> None:
        """Be notified over this connection; returns when all that waits is listed. Raises Refused or
        OriginLost."""
        if self._link is not link:
            self._link = link
            await link.call("subscribe", id=self.name, queue=self.name, mode="notify", after=FROM_NOW)
            await self._compare(link.call)

    def arrived(self, event: dict[str, Any]) -> None:
        """Take a notification."""
        self._add(zip(event["seqs"], event["ids"], strict=True))
        # Many are not counted each time: they are compared when they have become few.
        if event["more"] or (len(self._messages) <= AT_ONCE and self._waiting != event["pending"]):
            self._compare_soon()

    @property
    def _waiting(self) -> int:
        return sum(one.state == WAITING for one in self._messages.values())

    def _add(self, found: Any) -> None:
        new = []
        for seq, id in found:
            if seq in self._messages:
                continue
            if len(self._messages) >= MOST:
                self._more = True
                break
            self._messages[seq] = one = CallbackMessage(seq, id, self)
            new.append(one)
        if new:
            self._callback_messages.publish(new)

    def _compare_soon(self) -> None:
        if self._comparing is None or self._comparing.done():
            self._comparing = asyncio.create_task(self._compare_later())

    async def _compare_later(self) -> None:
        await asyncio.sleep(_COMPARE_S)
        try:
            await self._compare(self._connection.call)
        except (OriginLost, Refused) as error:
            log.info("%s: what waits at the origin cannot be listed now: %s", self.address, error)

    async def _compare(self, call: Callable[..., Any]) -> None:
        """List what waits at the origin: add what is missing here, and remove what is not there any more."""
        self._comparisons += 1
        comparison, self._more = self._comparisons, False
        known = {seq for seq, one in self._messages.items() if one.state == WAITING}
        after = 0
        while True:
            page = await call("pending", id=self.name, after=after)
            known.difference_update(page["seqs"])
            self._add(zip(page["seqs"], page["ids"], strict=True))
            if not page["more"] or self._more:
                break
            after = page["seq"]
        if self._more:
            return
        left = (one for seq in known if (one := self._messages.get(seq)) is not None)
        # One that was returned meanwhile may wait at a place that was listed before.
        gone = [one for one in left if one.state == WAITING and one.returned_at < comparison]
        for one in gone:
            del self._messages[one.seq]
        self._callback_messages.remove(gone)

    def connection_lost(self) -> None:
        """Forget what was fetched: it belonged to the connection, and has been returned at the origin."""
        for one in self._messages.values():
            if one.state in (FETCHED, SETTLING):
                self._waits_again(one)

    def _waits_again(self, one: CallbackMessage) -> None:
        one.state, one.receipt, one.returned_at = WAITING, "", self._comparisons

    # ------------------------------------------------------------------ originals

    def want(self, one: CallbackMessage, subscription: Subscription, tag: int) -> None:
        """Fetch the original for a delivery."""
        self._wanted.append(WantedMessage(one, subscription, tag))
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.create_task(self._fetch_all())

    async def _fetch_all(self) -> None:
        while self._wanted:
            try:
                await self._connection.wait_connected()
                await self._fetch()
            except OriginLost:
                continue
            except Exception as error:  # of this queue, and of no other
                internal_errors.note("fetching originals", error, self.address)
                self._return_all()

    async def _fetch(self) -> None:
        first = [self._wanted.popleft() for _ in range(min(AT_ONCE, len(self._wanted)))]
        open_ = [wanted for wanted in first if wanted.is_open]
        batch = [wanted for wanted in open_ if wanted.one.state == WAITING]
        if len(batch) < len(open_):
            gone = [wanted for wanted in open_ if wanted.one.state == GONE]
            # Its last consumer has gone before the origin has confirmed what that had settled.
            settling = [wanted for wanted in open_ if wanted.one.state == SETTLING]
            self._deliver(Fetched([], gone, settling))
        if not batch:
            return
        seqs = [wanted.one.seq for wanted in batch]
        for wanted in batch:
            wanted.one.state = FETCHING
        try:
            answer = await self._connection.call("receive", queue=self.name, seqs=seqs, lease_s=0, exact=True)
        except OriginLost:
            self._not_fetched(batch)
            self._wanted.extendleft(reversed(batch))
            raise
        except Refused as refused:  # its consumers are paused, or this user may receive no more
            log.warning("%s: the origin delivers nothing now: %s", self.address, refused)
            self._not_fetched(batch)
            self._deliver(Fetched([], [], batch))
            return
        self._take(batch, answer)

    def _not_fetched(self, batch: list[WantedMessage]) -> None:
        for wanted in batch:
            self._waits_again(wanted.one)

    def _take(self, batch: list[WantedMessage], answer: dict[str, Any]) -> None:
        items: dict[int, Original] = {item.seq: item for item in answer["items"]}
        status = {row["seq"]: row["status"] for row in answer["missing"]}
        fetched = Fetched([], [], [])
        left: list[WantedMessage] = []
        for wanted in batch:
            one = wanted.one
            item = items.get(one.seq)
            if item is not None:
                one.state, one.receipt = FETCHED, item.receipt
                self.fetched += 1
                if wanted.is_open:
                    fetched.originals.append((wanted, _original(item, one)))
                else:
                    self.release(one)
            elif status.get(one.seq) == LEFT:
                left.append(wanted)
            elif status.get(one.seq) == NOT_NOW:
                fetched.later.append(wanted)
            else:
                self.gone += 1
                self._messages.pop(one.seq, None)
                fetched.gone.append(wanted)
        self._not_fetched([*left, *fetched.later])
        self._wanted.extendleft(reversed(left))
        self._deliver(fetched)

    def _return_all(self) -> None:
        wanted = [one for one in self._wanted if one.is_open]
        self._wanted.clear()
        self._deliver(Fetched([], [], wanted))

    # ------------------------------------------------------------------ settling

    async def settle(self, one: CallbackMessage, operation: str, **members: Any) -> None:
        """Acknowledge or return an original at the origin. Raises Refused when it is not held any more."""
        if one.state != FETCHED:
            raise Refused("lease-lost", "the connection to the origin broke; the message is delivered again")
        one.state = SETTLING
        try:
            await self._connection.call(operation, receipt=one.receipt, **members)
        except OriginLost as lost:
            raise Refused(
                "lease-lost", f"the origin did not confirm it, and may deliver the message again: {lost}"
            ) from lost
        except Refused:
            if one.state == SETTLING:
                self._waits_again(one)
            raise
        if operation == "ack" or members.get("dead"):
            one.state, one.receipt = GONE, ""
            self._messages.pop(one.seq, None)
            self._list_more()
        else:
            self._waits_again(one)

    def release(self, one: CallbackMessage) -> None:
        """Return an original whose callback message was returned, or was refused here."""
        if one.state == FETCHED:
            self._connection.send("nack", receipt=one.receipt)
            self._waits_again(one)
        elif one.state == GONE and one.message is None:
            self._messages.pop(one.seq, None)

    def _list_more(self) -> None:
        if self._more and len(self._messages) < MOST // 2:
            self._compare_soon()


def _original(item: Original, one: CallbackMessage) -> Message:
    """The original, in the place of its callback message."""
    assert one.message is not None
    envelope = Envelope(
        item.destination,
        item.block_base64,
        persistent=item.persistent,
        priority=item.priority,
        expires_ms=item.expires_ms,
    )
    message = Message(envelope, item.body_base64, one.message.position, item.time_ms, recorded=False)
    message.explicit_id = item.id.encode()
    message.attempts = item.attempts
    return message
