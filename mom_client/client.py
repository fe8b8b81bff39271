"""The client: sends, subscriptions, transactions and requests over a connection that comes back by itself."""

import asyncio
import contextlib
import itertools
import json
import logging
import os
import ssl
from collections.abc import Generator, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self, Unpack

from . import transport as transports
from .errors import ClientError, ConnectionLost, Refused, Timeout
from .failover import Failover, Pace
from .link import ErrorFrame, Link, Opener
from .message import Message
from .sending import Composer, SendOptions, checked_broker, forwarding_address
from .stomp import AckRun, Frame, Limits
from .stomp import frame as wire
from .stomp.connection import Connection
from .subscription import AckMode, Subscription
from .transaction import Transaction
from .unconfirmed import Unconfirmed

__all__ = ["Client", "connect"]

log = logging.getLogger("mom_client")

#: Where the broker sends refusals of single acts when `mom-soft-errors` was asked for.
REFUSED_SUBSCRIPTION = "$mom.refused"
REPLIES = "/temp-queue/replies"
#: Refusals of a login that no other attempt will change.
_FINAL = frozenset(("not-authenticated", "not-allowed", "wrong-host", "unsupported-version"))


def connect(
    url: str | Sequence[str] | None = None,
    *,
    login: str | None = None,
    passcode: str | None = None,
    token: str | None = None,
    host: str = "/",
    headers: Mapping[str, str] | None = None,
    heart_beat_s: float = 10.0,
    connect_timeout_s: float = 10.0,
    resend_s: float = 30.0,
    max_unconfirmed: int = 10_000,
    reconnect: bool = True,
    pace: Pace = Pace(),  # noqa: B008 -- immutable
    limits: Limits = Limits(),  # noqa: B008 -- immutable
    tls: ssl.SSLContext | None = None,
    opener: Opener | None = None,
    store_and_forward: bool = False,
    broker: str | None = None,
) -> "Client":
    """A client of the broker at `url`; use it as ``async with connect(…) as mom``.

    url                one address or several to choose from, see `mom_client.transport`; default: the
                       environment's MOM_URL (commas between several), else stomp://127.0.0.1:61613
    login, passcode    a user; or
    token              ``mom_…``; default: the environment's MOM_TOKEN when there is no login
    host               virtual host
    headers            more headers of CONNECT
    heart_beat_s       how often each side shows that it lives; 0 switches that off
    connect_timeout_s  for one attempt, login included
    resend_s           how long an unconfirmed send survives without a connection
    max_unconfirmed    sends in flight before `send` waits
    reconnect          whether to come back after a lost connection
    pace               how patiently
    limits             how large frames of the broker may be
    tls                context for stomp+tls and wss, default `mom_client.transport.tls_context()`
    opener             how to open a transport for an address, for in-process pipes
    store_and_forward  whether all that is sent to a queue is for that queue of another broker: the broker at
                       `url` keeps it until the other has it, which may be switched off meanwhile
    broker             the other, by the name of the bridge to it; also for `Client.destination`

    Raises ValueError for a `broker` that is missing or no name. Entering raises Refused when the broker does
    not let us in, ConnectionLost when nobody answers.
    """
    if url is None:
        url = os.environ.get("MOM_URL", transports.DEFAULT_ADDRESS)
    addresses = [part.strip() for part in url.split(",")] if isinstance(url, str) else list(url)
    if login is None and token is None:
        token = os.environ.get("MOM_TOKEN") or None
    if token is not None:
        login, passcode = "token", token
    if store_and_forward or broker is not None:
        broker = checked_broker(broker)
    hello = {"host": host, "mom-soft-errors": "true"}
    if login is not None:
        hello["login"] = login
    if passcode is not None:
        hello["passcode"] = passcode
    hello.update(headers or {})

    async def open_by_address(address: str) -> transports.Transport:
        return await transports.open_transport(address, tls)

    return Client(
        Failover(addresses, pace),
        opener or open_by_address,
        hello,
        heart_beat_s=heart_beat_s,
        connect_timeout_s=connect_timeout_s,
        resend_s=resend_s,
        max_unconfirmed=max_unconfirmed,
        reconnect=reconnect,
        limits=limits,
        store_and_forward=store_and_forward,
        broker=broker,
    )


class Client:
    """Made by `connect`. One task reads; nothing here makes a task per message.

    A `send` that returned is stored as the broker promises. Sending is at least once: when a connection
    breaks before the receipt came, the message is sent again over the next; give it a `dedup_id` where a
    repeat would harm and the broker supports that.
    """

    _loop: asyncio.AbstractEventLoop
    _unconfirmed: Unconfirmed

    def __init__(
        self,
        failover: Failover,
        opener: Opener,
        hello: Mapping[str, str],
        *,
        heart_beat_s: float,
        connect_timeout_s: float,
        resend_s: float,
        max_unconfirmed: int,
        reconnect: bool,
        limits: Limits,
        store_and_forward: bool = False,
        broker: str | None = None,
    ) -> None:
        self._failover = failover
        self._opener = opener
        self._hello = hello
        self._heart_beat_s = heart_beat_s
        self._connect_timeout_s = connect_timeout_s
        self._resend_s = resend_s
        self._max_unconfirmed = max_unconfirmed
        self._reconnect = reconnect
        self._limits = limits
        self._link: Link | None = None
        self._address = ""
        self._version = "1.2"  # of the last connection
        self._epoch = 0  # which connection this is, from 1
        self._up = asyncio.Event()  # set while there is a connection, and when there will be none again
        self._closing = False
        self._end: Exception | None = None  # why there will be no connection again
        self._keeper: asyncio.Task[None] | None = None
        self._numbers = itertools.count(1)
        self._broker = broker
        self._composer = Composer(broker if store_and_forward else None)
        self._subscriptions: dict[str, Subscription] = {}
        self._requests: dict[str, asyncio.Future[Message]] = {}  # by correlation-id
        self._acts: dict[bytes, Transaction] = {}  # by the receipts of what was done within them

    # -- coming and going ----------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def __await__(self) -> Generator[Any, None, Self]:
        """``mom = await connect(…)``, for notebooks; `close` it in the end."""
        return self.open().__await__()

    async def open(self) -> Self:
        """Connect and log in. Raises Refused or ConnectionLost."""
        if self._keeper is not None:
            raise RuntimeError("this client was opened before; make another")
        self._loop = asyncio.get_running_loop()
        self._unconfirmed = Unconfirmed(self._max_unconfirmed, self._resend_s)
        link = await self._find_broker()
        self._establish(link)
        self._keeper = asyncio.create_task(self._keep_connected(link), name="mom_client")
        return self

    async def close(self) -> None:
        """Wait until the broker has carried out all that was sent, and leave. Twice is harmless."""
        self._closing = True
        link = self._link
        if link is not None and self._end is None:
            receipt = self._unconfirmed.new_receipt()
            answer = self._unconfirmed.expect(receipt)
            link.write(link.connection.disconnect(receipt.decode()))
            with contextlib.suppress(ClientError, TimeoutError):
                async with asyncio.timeout(self._connect_timeout_s):
                    await answer
        if self._keeper is not None:
            self._finish(ConnectionLost("the client was closed"))
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        if link is not None:
            await link.close()
        self._link = None

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._link is not None and self._end is None

    @property
    def address(self) -> str:
        """The broker's address as of the last connection."""
        return self._address

    @property
    def server(self) -> Mapping[str, str]:
        """The headers of the CONNECTED frame: server, session, version, …; empty without a connection."""
        return self._link.connection.headers if self._link is not None else {}

    async def _find_broker(self) -> Link:
        """A connection to the first broker that takes us. Raises ConnectionLost or a final Refused."""
        reasons: dict[str, str] = {}
        for address, delay_s in self._failover:
            await asyncio.sleep(delay_s)
            connection = Connection(heart_beat_s=(self._heart_beat_s,) * 2, limits=self._limits)
            try:
                async with asyncio.timeout(self._connect_timeout_s):
                    link = await Link.open(address, self._opener, connection, self._hello)
            except Refused as refused:
                if refused.code in _FINAL:
                    raise
                reasons[address] = str(refused)
            except TimeoutError:
                reasons[address] = f"no answer within {self._connect_timeout_s:g} s"
            except (OSError, ConnectionLost) as error:
                reasons[address] = str(error) or type(error).__name__
            else:
                self._address = address
                return link
            log.info("%s: %s", address, reasons[address])
        tried = "; ".join(f"{address}: {reason}" for address, reason in reasons.items())
        raise ConnectionLost(f"no broker answers ({tried})")

    def _establish(self, link: Link) -> None:
        """Begin an epoch: subscribe again and send again what has no receipt yet."""
        self._failover.connected()
        self._failover.learn(link.connection.headers.get("mom-failover", "").split(","))
        self._epoch += 1
        self._link = link
        self._version = link.connection.version
        for subscription in self._subscriptions.values():
            self._subscribe_again(subscription)
        for frame in self._unconfirmed.frames_to_resend():
            link.write(frame)
        self._up.set()

    def _subscribe_again(self, subscription: Subscription) -> None:
        def look_at(answer: "asyncio.Future[None]") -> None:
            if not answer.cancelled() and isinstance(answer.exception(), Refused):
                self._subscriptions.pop(subscription.id, None)
                subscription._end(answer.exception())

        subscription._go_on()
        self._perform(wire.SUBSCRIBE, subscription.headers).add_done_callback(look_at)

    async def _keep_connected(self, link: Link) -> None:
        """Read until the connection breaks, find another, go on."""
        try:
            while True:
                reason = await self._read_until_lost(link)
                if self._closing or not self._reconnect:
                    raise reason
                log.warning("%s: %s; reconnecting", self._address, reason)
                self._establish(link := await self._find_another_broker())
        except ClientError as error:
            self._finish(error)
        except BaseException as error:
            self._finish(ConnectionLost(f"the client failed: {error!r}"))
            raise

    async def _find_another_broker(self) -> Link:
        """`_find_broker` for as long as it takes; meanwhile sends run out of time."""
        detail = f"no connection for {self._resend_s:g} s; the message may or may not have been stored"
        expiry = asyncio.create_task(self._unconfirmed.expire(ConnectionLost(detail)))
        try:
            return await self._find_broker()
        finally:
            expiry.cancel()

    async def _read_until_lost(self, link: Link) -> ClientError:
        """Why the connection is no more; whatever belonged to it alone has failed then."""
        try:
            await link.run(self._take)
        except ErrorFrame as error:
            self._take(error.before)
            if error.receipt is not None:
                refused = Refused(error.code, error.detail, error.problem)
                self._unconfirmed.fail(error.receipt.encode(), refused)
            reason: ClientError = error
        except ConnectionLost as error:
            reason = error
        self._up.clear()
        self._link = None
        self._failover.lost(self._address)
        lost = ConnectionLost(f"the connection broke before the answer came: {reason}")
        self._unconfirmed.connection_lost(lost)
        self._fail_requests(lost)
        for subscription in self._subscriptions.values():
            subscription._drop()
        await link.close()
        return reason

    def _fail_requests(self, error: Exception) -> None:
        for reply in self._requests.values():
            if not reply.done():
                reply.set_exception(error)

    def _finish(self, reason: ClientError) -> None:
        """There will be no connection again."""
        if self._end is not None:
            return
        self._end = reason
        self._unconfirmed.fail_all(reason)
        self._fail_requests(reason)
        for subscription in self._subscriptions.values():
            subscription._end(None if self._closing else reason)
        self._up.set()
        self._unconfirmed.room.set()

    # -- what comes ----------------------------------------------------------------------------

    def _take(self, frames: list[Frame | AckRun]) -> None:
        subscriptions = self._subscriptions
        for frame in frames:
            if not isinstance(frame, Frame):
                self._unconfirmed.confirm(frame.ids)
            elif frame.command is wire.RECEIPT:
                self._unconfirmed.confirm((frame.headers.get("receipt-id", "").encode(),))
            else:
                id = frame.headers.get("subscription", "")
                subscription = subscriptions.get(id)
                if subscription is not None:
                    subscription._take(Message(frame, self, self._epoch))
                else:
                    self._take_unsubscribed(id, frame)

    def _take_unsubscribed(self, id: str, frame: Frame) -> None:
        """Refusals, and replies to requests."""
        if id == REFUSED_SUBSCRIPTION:
            refused = Refused.from_frame(frame.headers, frame.body)
            receipt = frame.headers.get("receipt-id", "").encode()
            if receipt in self._acts:
                self._acts[receipt]._refused(refused)
            elif not self._unconfirmed.fail(receipt, refused):
                log.warning("the broker refused: %s", refused)
            # What had begun was ended by the broker, since a right to it was taken away.
            ended = self._subscriptions.pop(str(refused.problem.get("subscription")), None)
            if ended is not None:
                ended._end(refused)
            return
        reply = self._requests.get(frame.headers.get("correlation-id", ""))
        if reply is not None and not reply.done():
            reply.set_result(Message(frame, self, self._epoch))

    # -- what goes -----------------------------------------------------------------------------

    def _perform(self, command: bytes, headers: Mapping[str, str]) -> "asyncio.Future[None]":
        """Send a frame that makes sense on this connection only. Raises ConnectionLost."""
        link = self._live()
        receipt = self._unconfirmed.new_receipt()
        link.write(link.connection.encode(command, {**headers, "receipt": receipt.decode()}))
        return self._unconfirmed.expect(receipt)

    def _live(self, *epochs: int) -> Link:
        """The connection there is now. Raises ConnectionLost, also when it is not that of `epochs`."""
        self._check_end()
        if self._link is None or any(epoch != self._epoch for epoch in epochs):
            raise ConnectionLost("the connection was lost")
        return self._link

    def _check_end(self) -> None:
        if self._end is not None:
            raise ConnectionLost(str(self._end)) from self._end

    async def _wait_connected(self) -> None:
        """Raises ConnectionLost when there is no connection within `resend_s`."""
        if self._link is None and self._end is None:
            try:
                async with asyncio.timeout(self._resend_s):
                    await self._up.wait()
            except TimeoutError:
                raise ConnectionLost(f"no connection for {self._resend_s:g} s") from None
        self._live()

    async def _wait_room(self) -> None:
        """Wait for room in the socket and among the unconfirmed."""
        if not self._unconfirmed.room.is_set():
            await self._unconfirmed.room.wait()
        if self._link is not None:
            await self._link.drain()

    # -- sending -------------------------------------------------------------------------------

    def destination(self, queue: str, *, store_and_forward: bool = False, broker: str | None = None) -> str:
        """What `send` takes for a queue.

        queue              its name, with or without /queue/
        store_and_forward  whether it is a queue of another broker: messages wait here until that has them
        broker             the other, by the name of the bridge to it; default: that of the client

        Raises ValueError for names that are missing, wrong or too long.
        """
        if store_and_forward:
            return forwarding_address(queue, self._broker if broker is None else broker)
        if broker is not None:
            raise ValueError("a queue of another broker is reached with store_and_forward=True")
        return queue if queue.startswith("/") else f"/queue/{queue}"

    async def send(
        self,
        destination: str,
        body: bytes | str = b"",
        *,
        confirm: bool = True,
        timeout_s: float | None = None,
        **options: Unpack[SendOptions],
    ) -> None:
        """Send a message and wait until the broker has it safe.

        body       bytes, or text to be sent as UTF-8
        confirm    False: return as soon as it is on its way, knowing nothing
        timeout_s  how long to wait for the confirmation; the message may arrive all the same
        options    headers, persistent, priority, ttl_s, delay_s, content_type, correlation_id, reply_to,
                   dedup_id: see `SendOptions`

        Sends from many tasks share the way: use `asyncio.gather`, or `send_nowait`. Raises Refused,
        Timeout, or ConnectionLost when there is no connection for `resend_s`; ValueError for what cannot
        be forwarded.
        """
        await self._wait_room()
        if not confirm:
            await self._wait_connected()
            frame = self._compose(destination, body, options, b"")
            self._live().write(frame)
            return None
        answer = self.send_nowait(destination, body, **options)
        if timeout_s is None:
            return await answer
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise Timeout(f"no receipt for a message to {destination} within {timeout_s:g} s") from None

    def send_nowait(
        self, destination: str, body: bytes | str = b"", **options: Unpack[SendOptions]
    ) -> "asyncio.Future[None]":
        """`send` without waiting: a future of its confirmation.

        Nothing holds you back: bound yourself what you have in flight. While there is no connection the
        message waits for the next. Raises ConnectionLost when none will come.
        """
        self._check_end()
        receipt = self._unconfirmed.new_receipt()
        frame = self._compose(destination, body, options, b"receipt:%b\n" % receipt)
        if self._link is not None:
            self._link.write(frame)
        return self._unconfirmed.expect(receipt, frame)

    def _compose(self, destination: str, body: bytes | str, options: SendOptions, lines: bytes) -> bytes:
        """A SEND frame; `lines` are further header lines."""
        if isinstance(body, str):
            body = body.encode()
            options.setdefault("content_type", "text/plain; charset=utf-8")
        head = self._composer.head(destination, options, self._version)
        return b"%b%bcontent-length:%d\n\n%b\0" % (head, lines, len(body), body)

    async def send_json(
        self,
        destination: str,
        value: Any,
        *,
        confirm: bool = True,
        timeout_s: float | None = None,
        **options: Unpack[SendOptions],
    ) -> None:
        """Send `value` as JSON; all else as `send`."""
        body = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
        options.setdefault("content_type", "application/json")
        await self.send(destination, body, confirm=confirm, timeout_s=timeout_s, **options)

    # -- receiving -----------------------------------------------------------------------------

    def subscribe(
        self,
        destination: str,
        *,
        ack: AckMode = "client-individual",
        credit: int | None = None,
        selector: str | None = None,
        exclusive: bool = False,
        durable: str | None = None,
        shared: bool | str = False,
        start: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Subscription:
        """A subscription, to be entered: ``async with mom.subscribe("/queue/a") as messages``.

        ack       client-individual: settle each message; client: acknowledging one settles all before it;
                  auto: a message is done as soon as it is sent to us
        credit    how many unsettled messages the broker hands out at most; None: its default
        selector  take only messages whose headers match: "colour = 'red' AND size > 3"
        exclusive be the only consumer of a queue that is served, or stand by until the others left
        durable   a name under which a topic's messages are kept while nobody is there; see `forget`
        shared    True: several may consume the durable subscription at once; a name instead: share what
                  comes to a topic with all who give that name, as long as anybody is there
        start     where in the history of a topic to begin: first, last, now, seq:<number>, time:<ms or RFC
                  3339>. After a reconnect it goes on behind the last message that was taken
        headers   more headers of SUBSCRIBE
        """
        given = {"id": str(next(self._numbers)), "destination": destination, "ack": ack}
        if credit is not None:
            given["credit"] = str(credit)
        if selector is not None:
            given["selector"] = selector
        if exclusive:
            given["exclusive"] = "true"
        if durable is not None:
            given["durable-name"] = durable
        if shared:
            given["share"] = shared if isinstance(shared, str) else "true"
        if start is not None:
            given["from"] = start
        return Subscription(self, {**given, **(headers or {})})

    async def forget(self, durable: str) -> None:
        """Delete a durable subscription and all that it keeps. Raises Refused while others consume it."""
        await self._wait_connected()
        await self._perform(wire.UNSUBSCRIBE, {"durable-name": durable, "delete": "true"})

    async def _start_subscription(self, subscription: Subscription) -> None:
        await self._wait_connected()
        self._subscriptions[subscription.id] = subscription
        try:
            await self._perform(wire.SUBSCRIBE, subscription.headers)
        except ConnectionLost:
            self._check_end()  # otherwise the next connection makes it again
        except BaseException:
            self._subscriptions.pop(subscription.id, None)
            raise

    async def _end_subscription(self, subscription: Subscription) -> None:
        subscription._end()
        if self._subscriptions.pop(subscription.id, None) is not None and self.connected:
            with contextlib.suppress(ClientError):
                await self._perform(wire.UNSUBSCRIBE, {"id": subscription.id})

    def _abandon(self, subscription: Subscription) -> None:
        """End a subscription whose messages nobody takes."""
        if self._subscriptions.pop(subscription.id, None) is not None:
            link = self._live()
            link.write(link.connection.encode(wire.UNSUBSCRIBE, {"id": subscription.id}))

    async def _settle(
        self,
        message: Frame,
        epoch: int,
        *,
        requeue: bool | None,
        confirm: bool,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """ACK `message` (requeue None) or NACK it."""
        if confirm:
            await self._unconfirmed.expect(self._settle_nowait(message, epoch, requeue, headers))
        elif self._link is not None and epoch == self._epoch and self._end is None:
            self._link.write(self._link.connection.settle(message, requeue, headers))
            await self._link.drain()

    def _settle_nowait(
        self, message: Frame, epoch: int, requeue: bool | None, headers: Mapping[str, str]
    ) -> bytes:
        """Settle with a receipt: its name."""
        link = self._live(epoch)
        receipt = self._unconfirmed.new_receipt()
        link.write(link.connection.settle(message, requeue, {**headers, "receipt": receipt.decode()}))
        return receipt

    # -- transactions --------------------------------------------------------------------------

    def transaction(self) -> Transaction:
        """Several sends and acknowledgements as one: ``async with mom.transaction() as tx``."""
        return Transaction(self, f"tx-{next(self._numbers)}")

    async def _begin(self, id: str) -> int:
        await self._wait_connected()
        epoch = self._epoch
        await self._perform(wire.BEGIN, {"transaction": id})
        return epoch

    async def _commit(self, id: str, epoch: int) -> None:
        self._live(epoch)
        try:
            await self._perform(wire.COMMIT, {"transaction": id})
        except ConnectionLost as error:
            raise ConnectionLost(f"{error}; whether the transaction was committed is unknown") from error

    def _abort(self, id: str, epoch: int) -> None:
        """Abort, unless the broker has done so because the connection was lost."""
        if self.connected and epoch == self._epoch:
            link = self._live()
            link.write(link.connection.encode(wire.ABORT, {"transaction": id}))

    def _send_within(
        self, transaction: Transaction, epoch: int, destination: str, body: bytes | str, options: SendOptions
    ) -> bytes:
        """Send what belongs to the connection of its transaction, and is not sent again: its receipt."""
        link = self._live(epoch)
        receipt = self._unconfirmed.new_receipt()
        lines = f"transaction:{transaction.id}\nreceipt:{receipt.decode()}\n".encode()
        link.write(self._compose(destination, body, options, lines))
        self._acts[receipt] = transaction
        return receipt

    def _settle_within(
        self, transaction: Transaction, epoch: int, message: Message, requeue: bool | None
    ) -> bytes:
        """Settle `message` within a transaction: the receipt."""
        self._live(epoch)
        headers = {"transaction": transaction.id}
        receipt = self._settle_nowait(message._frame, message._epoch, requeue, headers)
        self._acts[receipt] = transaction
        return receipt

    def _forget_acts(self, receipts: Iterable[bytes]) -> None:
        """A transaction is over: nobody waits for answers to what was done within it."""
        for receipt in receipts:
            del self._acts[receipt]

    # -- requests ------------------------------------------------------------------------------

    async def request(
        self,
        destination: str,
        body: bytes | str = b"",
        *,
        timeout_s: float = 30.0,
        **options: Unpack[SendOptions],
    ) -> Message:
        """Send a request and wait for the reply, which comes over a private temporary queue.

        Options as of `send`; a request is not persistent unless said so. Raises Timeout; Refused;
        ConnectionLost when the connection broke in between, since the reply queue is gone with it.
        What is forwarded to another broker has no reply: ValueError.
        """
        if self._composer.forwards(destination):
            raise ValueError(
                f"nobody at another broker can reply to a request: send to {destination}, or ask here"
            )
        await self._wait_room()
        await self._wait_connected()
        correlation_id = f"{self.server.get('session', '')}-{next(self._numbers)}"
        options["correlation_id"], options["reply_to"] = correlation_id, REPLIES
        options.setdefault("persistent", False)
        reply: asyncio.Future[Message] = self._loop.create_future()

        def pass_refusal(sent: "asyncio.Future[None]") -> None:
            if not sent.cancelled() and sent.exception() is not None and not reply.done():
                reply.set_exception(sent.exception() or ConnectionLost())

        self._requests[correlation_id] = reply
        try:
            async with asyncio.timeout(timeout_s):
                receipt = self._unconfirmed.new_receipt()
                frame = self._compose(destination, body, options, b"receipt:%b\n" % receipt)
                self._live().write(frame)
                self._unconfirmed.expect(receipt).add_done_callback(pass_refusal)
                return await reply
        except TimeoutError:
            raise Timeout(f"no reply from {destination} within {timeout_s:g} s") from None
        finally:
            del self._requests[correlation_id]
