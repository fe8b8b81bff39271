"""A consumer's interest in a destination: an asynchronous iterator of messages."""

import asyncio
import collections
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Literal, Self

from .errors import ClientError, ConnectionLost, Overrun, Refused, Timeout
from .frame_sender import FrameSender
from .message import Message
from .stomp import frame as wire
from .unsettled import Unsettled

__all__ = ["AckMode", "Subscription", "Subscriptions"]

log = logging.getLogger("mom_client")

AckMode = Literal["auto", "client", "client-individual"]

#: With ack="auto" the broker knows no credit; what waits here beyond this ends the subscription.
MAX_WAITING_BYTES = 256 * 1024 * 1024
#: refusals of a subscription that was there before: the broker may not have noticed the end of the former
#: connection, which holds the name of a durable one or a place of the consumers
PASSING = frozenset(("conflict", "too-many", "busy"))
#: seconds to the second attempt, twice as many to each further one, up to the most; and for all of them
FIRST_PAUSE_S, LONGEST_PAUSE_S, GIVE_UP_S = 0.5, 5.0, 120.0
_MESSAGE_BYTES = 1000  #: memory of a waiting message in addition to its body


class Subscription:
    """Made by `Client.subscribe`. Enter it to subscribe, leave it to unsubscribe, iterate it in between.

    It outlives connections: after a reconnect it is made again by itself, and messages that were
    delivered and not settled are delivered again. `choose` finds the owner when it is entered, if that is
    not known before.
    """

    def __init__(
        self,
        owner: "Subscriptions",
        headers: dict[str, str],
        choose: "Callable[[], Awaitable[Subscriptions]] | None" = None,
    ) -> None:
        self.id = headers["id"]
        self.headers = headers  #: of the SUBSCRIBE frame
        self._owner = owner
        self._choose = choose
        self._messages: collections.deque[Message] = collections.deque()
        self._waiting_bytes = 0
        self._last: Message | None = None
        #: the journal and the position of the newest message of a history
        self._read_to: tuple[str, int] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._error: BaseException | None = None
        #: where deliveries are noted that have to be settled, if they are counted
        self.unsettled: Unsettled | None = None

    @property
    def destination(self) -> str:
        return self.headers["destination"]

    @property
    def waiting(self) -> int:
        """Messages that were delivered and not yet taken."""
        return len(self._messages)

    async def __aenter__(self) -> Self:
        if self._choose is not None:
            self._owner = await self._choose()
        await self._owner.start(self)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._owner.stop(self)

    async def drain(self) -> None:
        """Receive nothing new. What was received before can still be iterated, and settled: messages of a
        topic without a durable name excepted, which cannot wait. Raises Refused or ConnectionLost."""
        await self._owner.drain(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        """The next message. Iteration ends when the client is closed or the subscription was left."""
        while not self._messages:
            if self._error is not None:
                raise self._error
            if self._ended:
                raise StopAsyncIteration
            if self._waiter is not None:
                raise RuntimeError(f"two tasks wait on subscription {self.id}; give each its own")
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        message = self._last = self._messages.popleft()
        self._waiting_bytes -= len(message.body) + _MESSAGE_BYTES
        return message

    async def get(self, timeout_s: float | None = None) -> Message:
        """The next message. Raises Timeout, or ConnectionLost when the subscription has ended."""
        try:
            async with asyncio.timeout(timeout_s):
                return await anext(self)
        except TimeoutError:
            raise Timeout(f"no message on {self.destination} within {timeout_s} s") from None
        except StopAsyncIteration:
            raise ConnectionLost(f"the subscription to {self.destination} has ended") from None

    @property
    def is_kept(self) -> bool:
        """True if what is not delivered waits at the broker, also while there is no subscription."""
        return self.destination.startswith("/queue/") or "durable-name" in self.headers

    def take(self, message: Message) -> None:
        if self.unsettled is not None:
            self.unsettled.delivered(message.frame, cumulative=self.headers["ack"] == "client")
        self._messages.append(message)
        self._waiting_bytes += len(message.body) + _MESSAGE_BYTES
        if self._waiting_bytes > MAX_WAITING_BYTES:
            self._owner.abandon(self)
            self.end(Overrun(f"{len(self._messages)} messages of {self.destination} wait unread; "
                              "use ack='client-individual' or read faster"))  # fmt: skip
        self._wake()

    def drop(self) -> None:
        """Drop what was received over a lost connection: it cannot be settled, and is delivered again."""
        if self.headers["ack"] != "auto":
            self._messages.clear()
            self._waiting_bytes = 0

    def note_newest(self, epoch: int, journal: str) -> None:
        """Remember how far the connection of this epoch has read a history, and the journal of its broker."""
        newest = self._messages[-1] if self._messages else self._last
        if newest is not None and newest.seq is not None and newest.epoch == epoch:
            self._read_to = journal, newest.seq

    def resume_after_newest(self, journal: str) -> None:
        """Let a connection begin in history behind what the former ones have brought. The position has the
        tag of its journal: a broker with another one, `journal`, does not take it for its own."""
        if "from" not in self.headers or self._read_to is None:
            return
        origin, seq = self._read_to
        if not (origin and journal):  # a broker of before there were tags
            self.headers["from"] = f"seq:{seq + 1}"
            return
        self.headers["from"] = f"seq:{origin}-{seq + 1}"
        if origin != journal:
            log.warning("%s: this broker has another journal, whose history comes whole", self.destination)

    def end(self, error: BaseException | None = None) -> None:
        self._ended = True
        self._error = self._error or error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Subscriptions:
    """The subscriptions of one client, by id."""

    def __init__(self, frame_sender: FrameSender) -> None:
        self._frame_sender = frame_sender
        self._by_id: dict[str, Subscription] = {}
        #: the tag of the journal of the broker, of the last connection; empty if it names none
        self._journal = ""
        #: further attempts to subscribe again, by id
        self._attempts: dict[str, asyncio.TimerHandle] = {}
        #: subscriptions to which nothing is delivered now, and the epoch of their connection
        self._held: list[Subscription] = []
        self._held_epoch = 0

    def get(self, id: str) -> Subscription | None:
        """The subscription of an id, if there is one."""
        return self._by_id.get(id)

    async def start(self, subscription: Subscription) -> None:
        """Subscribe. Raises Refused or ConnectionLost."""
        keeper = self._frame_sender.keeper
        await keeper.wait_connected()
        self._by_id[subscription.id] = subscription
        if subscription.headers["ack"] != "auto":
            subscription.unsettled = self._frame_sender.unsettled
        try:
            await self._frame_sender.send_command(wire.SUBSCRIBE, subscription.headers)
        except ConnectionLost:
            keeper.check_end()  # otherwise the next connection makes it again
        except BaseException:
            self._by_id.pop(subscription.id, None)
            raise

    async def stop(self, subscription: Subscription) -> None:
        """Unsubscribe."""
        subscription.end()
        if self._by_id.pop(subscription.id, None) is not None and self._frame_sender.keeper.connected:
            self._returned(subscription.id)
            with contextlib.suppress(ClientError):
                await self._frame_sender.send_command(wire.UNSUBSCRIBE, {"id": subscription.id})

    async def drain(self, subscription: Subscription) -> None:
        """Unsubscribe, and leave what was delivered with this connection to be settled."""
        if subscription.id in self._by_id:
            # What comes before the receipt is still for the subscription.
            await self._end_delivery(subscription)
            self._by_id.pop(subscription.id, None)
            subscription.end()

    def _end_delivery(self, subscription: Subscription) -> "asyncio.Future[None]":
        """Unsubscribe; what was delivered can still be settled. Raises ConnectionLost."""
        unsubscribe = {"id": subscription.id, "keep-unsettled": "true"}
        return self._frame_sender.send_command(wire.UNSUBSCRIBE, unsubscribe)

    async def hold(self) -> None:
        """Have nothing new delivered of what waits at the broker meanwhile. Raises Refused or
        ConnectionLost."""
        keeper = self._frame_sender.keeper
        if not keeper.live().is_to_mom:
            return  # others return what is not settled
        self._held_epoch = keeper.epoch
        self._held = [one for one in self._by_id.values() if one.is_kept and one.unsettled is not None]
        await asyncio.gather(*map(self._end_delivery, self._held))

    def resume(self) -> None:
        """Have messages delivered again to what was held, unless another connection has subscribed again."""
        keeper, held = self._frame_sender.keeper, self._held
        self._held = []
        if keeper.connected and keeper.epoch == self._held_epoch:
            give_up_at = asyncio.get_running_loop().time() + GIVE_UP_S
            for subscription in held:
                if subscription.id in self._by_id:
                    self._subscribe_again(subscription, FIRST_PAUSE_S, give_up_at)

    @property
    def are_settled(self) -> bool:
        """True if no delivery has to be settled, as far as they are counted."""
        return not self._frame_sender.unsettled

    async def wait_settled(self) -> None:
        """Wait until none has to be settled."""
        if self._frame_sender.unsettled is not None:
            await self._frame_sender.unsettled.none()

    def _returned(self, id: str) -> None:
        """Note that a subscription has ended, and the broker has got back what was not settled."""
        if self._frame_sender.unsettled is not None:
            self._frame_sender.unsettled.returned(id)

    def abandon(self, subscription: Subscription) -> None:
        """Unsubscribe from messages that the application does not take."""
        if self._by_id.pop(subscription.id, None) is not None:
            self._returned(subscription.id)
            link = self._frame_sender.keeper.live()
            link.write(link.connection.encode(wire.UNSUBSCRIBE, {"id": subscription.id}))

    def revoked(self, id: str, refusal: Refused) -> None:
        """The broker has ended a subscription, because the permission was taken away."""
        ended = self._by_id.pop(id, None)
        if ended is not None:
            self._returned(id)
            ended.end(refusal)

    def subscribe_again(self, journal: str) -> None:
        """Subscribe again over a new connection, to a broker whose journal has this tag."""
        self._journal = journal
        give_up_at = asyncio.get_running_loop().time() + GIVE_UP_S
        for subscription in self._by_id.values():
            subscription.resume_after_newest(journal)
            self._subscribe_again(subscription, FIRST_PAUSE_S, give_up_at)

    def _subscribe_again(self, subscription: Subscription, pause_s: float, give_up_at: float) -> None:
        def check(answer: "asyncio.Future[None]") -> None:
            refusal = None if answer.cancelled() else answer.exception()
            if not isinstance(refusal, Refused) or subscription.id not in self._by_id:
                return
            loop = asyncio.get_running_loop()
            if refusal.code in PASSING and loop.time() + pause_s <= give_up_at:
                self._attempts[subscription.id] = loop.call_later(pause_s, try_again)
            else:
                del self._by_id[subscription.id]
                subscription.end(refusal)

        def try_again() -> None:
            del self._attempts[subscription.id]
            if subscription.id in self._by_id:
                self._subscribe_again(subscription, min(2 * pause_s, LONGEST_PAUSE_S), give_up_at)

        self._frame_sender.send_command(wire.SUBSCRIBE, subscription.headers).add_done_callback(check)

    def connection_lost(self) -> None:
        """Drop what can no longer be settled."""
        self._cancel_attempts()
        if self._frame_sender.unsettled is not None:
            self._frame_sender.unsettled.clear()
        for subscription in self._by_id.values():
            subscription.drop()
            subscription.note_newest(self._frame_sender.keeper.epoch, self._journal)

    def end(self, error: BaseException | None) -> None:
        """End all of them; iterations over them raise `error`, or stop."""
        self._cancel_attempts()
        for subscription in self._by_id.values():
            subscription.end(error)

    def _cancel_attempts(self) -> None:
        for attempt in self._attempts.values():
            attempt.cancel()
        self._attempts.clear()
