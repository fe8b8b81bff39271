"""The client: sends, subscriptions, transactions and requests over a connection that comes back by itself."""

import asyncio
import itertools
import json
import logging
import os
import secrets
import ssl
import sys
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Self, Unpack

from .activity import Activity
from .callbacks import ADDRESS, CallbackRoute, HostAddress, Service
from .connection import imq_uri
from .connection import transport as transports
from .connection.brokerlist import LIST_SUBSCRIPTION
from .connection.failover import Failover
from .connection.failover_uri import FailoverUri, check_listed, is_failover, parse
from .connection.keeper import ConnectionKeeper
from .connection.link import Link, Opener
from .connection.pace import Pace
from .connection.search import ATTEMPT_ERRORS, BrokerSearch, Timing
from .connection.selection import BrokerSelection, failover_of, preferred_of
from .connection.updates import UpdateSource
from .errors import ClientError, ConnectionLost, Refused
from .events import ConnectionEvent, EventStream, ExceptionListener, Listener
from .frame_sender import FrameSender
from .message import Message
from .requests import Requests
from .sending import Composer, SendOptions, checked_broker, forwarding_address
from .stomp import AckRun, Frame, Limits
from .stomp import frame as wire
from .subscription import AckMode, Subscription, Subscriptions
from .tracked import TrackedSends
from .transaction import Transaction, Transactions
from .unsettled import Unsettled

__all__ = ["Client", "connect"]

log = logging.getLogger("mom_client")

#: Where the broker sends refusals of single acts when `mom-soft-errors` was asked for.
REFUSED_SUBSCRIPTION = "$mom.refused"


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
    listener: Listener | None = None,
    exception_listener: ExceptionListener | None = None,
    wait_connected: bool = True,
    store_and_forward: bool = False,
    broker: str | None = None,
    service: str | Service | None = None,
) -> "Client":
    """A client of the broker at `url`; use it as ``async with connect(…) as mom``.

    url                one address or several to choose from (`connection.transport`), or a failover URI,
                       ``failover:(a,b)?options`` (`connection.failover_uri`), or a list of GlassFish MQ,
                       ``imqAddressList=a,b&options`` (`connection.imq_uri`); default: the environment's
                       MOM_URL (commas between several), else stomp://127.0.0.1:61613
    login, passcode    a user; or
    token              ``mom_…``; default: the environment's MOM_TOKEN when there is no login
    host               virtual host
    headers            more headers of CONNECT
    heart_beat_s       how often each side shows that it lives; 0 switches that off
    connect_timeout_s  for one attempt, login included
    resend_s           how long an unconfirmed send survives without a connection
    max_unconfirmed    sends in flight before `send` waits
    reconnect          whether to come back after a lost connection
    pace               how patiently; a failover URI has options for this, `reconnect` and `resend_s`, and
                       defaults of its own
    limits             how large frames of the broker may be
    tls                context for stomp+tls and wss, default `mom_client.connection.transport.tls_context()`
    opener             how to open a transport for an address, for in-process pipes
    listener           called with a `ConnectionEvent` when the connection changes; it must not wait
    exception_listener called once, after the last event, with the error when no connection will come again
    wait_connected     False: entering does not wait for the first connection; what is sent waits for it
    store_and_forward  whether all that is sent to a queue is for that queue of another broker: the broker at
                       `url` keeps it until the other has it, which may be switched off meanwhile
    broker             the other, by the name of the bridge to it; also for `Client.destination`
    service            the name under which this program registers; its messages are those of that queue. They
                       come through the callback broker of this machine, if one runs: see
                       `mom_client.callbacks`, and MOM_AUTOCB=1, which starts one

    Raises ValueError for a `broker` that is missing or no name, and for a wrong URL. Entering raises Refused
    when the broker does not accept the login or the service, ConnectionLost when no broker answers.
    """
    if url is None:
        url = os.environ.get("MOM_URL", transports.DEFAULT_ADDRESS)
    uri, addresses = _addresses(url)
    if login is None and token is None:
        token = os.environ.get("MOM_TOKEN") or None
    if token is not None:
        login, passcode = "token", token
    if store_and_forward or broker is not None:
        broker = checked_broker(broker)
    # Over its next connection it takes over what the broker still holds for a broken one.
    hello = {"host": host, "mom-soft-errors": "true", "client-instance": secrets.token_hex(8)}
    if login is not None:
        hello["login"] = login
    if passcode is not None:
        hello["passcode"] = passcode
    hello.update(headers or {})
    service = Service(service) if isinstance(service, str) else service

    preferred = preferred_of(uri) if uri is not None else ()

    def hello_of(address: str) -> Mapping[str, str]:
        said = {**hello, "mom-priority": "true"} if address in preferred else hello
        return said if service is None else {**said, **service.headers()}

    async def open_by_address(address: str) -> transports.Transport:
        return await transports.open_transport(address, tls)

    opener = opener or open_by_address
    if uri is None:
        timing = Timing(heart_beat_s, connect_timeout_s, resend_s, reconnect, wait_s=resend_s)
        search = BrokerSearch(Failover(addresses, pace), opener, hello_of, timing, limits)
    else:
        timing = _timing(uri, heart_beat_s, connect_timeout_s)
        search = _search(uri, opener, hello_of, timing, limits)
    return Client(
        search,
        timing,
        uri,
        listener=listener,
        exception_listener=exception_listener,
        wait_connected=wait_connected,
        max_unconfirmed=max_unconfirmed,
        store_and_forward=store_and_forward,
        broker=broker,
        route=None
        if service is None
        else _route(service, search.failover, opener, hello, timing, limits, max_unconfirmed),
    )


def _route(
    service: Service,
    remote: Failover,
    opener: Opener,
    hello: Mapping[str, str],
    timing: Timing,
    limits: Limits,
    max_unconfirmed: int,
) -> "CallbackRoute[Client]":
    """The way of the messages of a service through the callback broker of this machine."""

    def make_client(host: HostAddress, ways: Failover) -> Client:
        search = BrokerSearch(ways, host.open, host.hello, timing, limits)
        search.failed = host.attempt_failed  # of the first search; later ones are events
        return Client(search, timing, listener=host.changed, max_unconfirmed=max_unconfirmed)

    return CallbackRoute(service, remote, HostAddress(service, hello, opener), make_client)


def _timing(uri: FailoverUri, heart_beat_s: float, connect_timeout_s: float) -> Timing:
    """The time limits of a URI; those of the arguments are for what it does not name."""
    if uri.rules is None:
        return Timing(heart_beat_s, connect_timeout_s, uri.send_timeout_s, reconnect=True)
    rules = uri.rules
    limit_s = rules.connect_timeout_s or connect_timeout_s
    return Timing(rules.heart_beat_s, limit_s, uri.send_timeout_s, rules.reconnect)


def _addresses(url: str | Sequence[str]) -> tuple[FailoverUri | None, list[str]]:
    """The failover URI, if it is one, and the addresses. Raises ValueError."""
    given = [url] if isinstance(url, str) else list(url)
    if len(given) == 1 and is_failover(given[0]):
        uri = parse(given[0])
        if uri.nested and not any(address.startswith("ws") for address in uri.addresses):
            names = ", ".join(f"nested.{name}" for name, _ in uri.nested)
            log.warning("%s: no address of the failover URI has a use for it", names[:200])
        return uri, list(uri.addresses)
    if len(given) == 1 and imq_uri.is_imq(given[0]):
        uri = imq_uri.parse(given[0])
        return uri, list(uri.addresses)
    if any(is_failover(one) or imq_uri.is_imq(one) for one in given):
        raise ValueError("such a URI has the whole list: write failover:(a,b) and no other address")
    addresses = [part.strip() for part in url.split(",")] if isinstance(url, str) else given
    if len(addresses) > 1:
        for address in addresses:
            check_listed(address)
    return None, addresses


def _search(
    uri: FailoverUri,
    opener: Opener,
    hello: Callable[[str], Mapping[str, str]],
    timing: Timing,
    limits: Limits,
) -> BrokerSearch:
    """The search for the brokers of a failover URI. Raises ValueError for a wrong `updateURIsURL`."""
    options = uri.options
    source = options.update_uris_url if options.update_uris_supported else ""
    updates = UpdateSource(source, rebalance=options.rebalance_update_uris) if source else None

    async def open_nested(address: str) -> transports.Transport:
        return await opener(uri.with_nested(address))

    return BrokerSearch(
        failover_of(uri),
        open_nested,
        hello,
        timing,
        limits,
        updates=updates,
        warn_every=options.warn_after_reconnect_attempts,
    )


class Client:
    """Made by `connect`. One task reads; no task is made for a message.

    A `send` that returned is stored as the broker promises. Sending is at least once: when a connection
    breaks before the receipt came, the message is sent again over the next. With a failover URI each message
    has a `dedup_id`, by which a broker stores it once; without one give it where a repeat would harm.
    """

    def __init__(
        self,
        search: BrokerSearch,
        timing: Timing,
        uri: FailoverUri | None = None,
        *,
        listener: Listener | None = None,
        exception_listener: ExceptionListener | None = None,
        wait_connected: bool = True,
        max_unconfirmed: int,
        store_and_forward: bool = False,
        broker: str | None = None,
        route: "CallbackRoute[Client] | None" = None,
    ) -> None:
        self._route = route
        self._max_unconfirmed = max_unconfirmed
        self._broker = broker
        self._numbers = itertools.count(1)
        #: frames of the broker that are taken in one turn of the loop: what is sent because of them leaves
        #: before the next ones are taken
        self.most_frames = sys.maxsize
        self._listener = listener
        self._exception_listener = exception_listener
        #: those that are still read
        self._event_streams: weakref.WeakSet[EventStream] = weakref.WeakSet()
        self._wait_connected = wait_connected
        self._keeper = keeper = ConnectionKeeper(search, timing, self._notify)
        activity = Activity()
        self._search = search
        composer = Composer(broker if store_and_forward else None)
        self._selection: BrokerSelection | None = None
        if uri is None:
            self._frame_sender = FrameSender(keeper, composer)
        else:
            tracked = TrackedSends(uri.options.max_cache_size) if uri.options.track_messages else None
            self._frame_sender = FrameSender(
                *(keeper, composer), dedup=secrets.token_hex(8), tracked=tracked, unsettled=Unsettled()
            )
        self._subscriptions = Subscriptions(self._frame_sender)
        if uri is not None:
            self._selection = BrokerSelection(uri, search, keeper, activity, self._subscriptions)
        self._transactions = Transactions(self._frame_sender, activity)
        self._requests = Requests(self._frame_sender, activity)
        keeper.established, keeper.take, keeper.refused = self._established, self._take, self._refused
        keeper.lost, keeper.ended = self._lost, self._ended

    # -- connection ----------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def __await__(self) -> Generator[Any, None, Self]:
        """``mom = await connect(…)``, for notebooks; `close` it in the end."""
        return self.open().__await__()

    async def open(self) -> Self:
        """Connect and log in. Raises Refused or ConnectionLost.

        With `wait_connected=False` this continues in the background, and its errors are those of sends. Then
        a subscription to the queue of the service waits for the callback broker when it is entered.
        """
        if self._wait_connected:
            await self._keeper.open(self._max_unconfirmed)
            if self._route is not None:
                try:
                    await self._route.opened()
                except asyncio.CancelledError:
                    await self.close()
                    raise
        else:
            self._keeper.start(self._max_unconfirmed)
        return self

    async def close(self) -> None:
        """Wait until the broker has processed all that was sent, and disconnect. Twice is harmless."""
        if self._selection is not None:
            await self._selection.close()
        if self._route is not None:
            await self._route.close()
        await self._keeper.close()
        self._end_events()

    def events(self) -> EventStream:
        """The events of the connection from now on, to be iterated; `listener` is called with the same."""
        stream = EventStream()
        if self._keeper.ended_with is None:
            self._event_streams.add(stream)
        else:
            stream.end()
        return stream

    def _end_events(self) -> None:
        for stream in self._event_streams:
            stream.end()
        self._event_streams.clear()

    async def log_in_again(self) -> None:
        """Log in with the present headers over a connection of its own, which ends at once: what is in flight
        over the one in use goes on. If that is refused, the client goes to another address."""
        link = self._keeper.link
        if link is None:
            return  # the next one has these headers
        try:
            other = await self._search.open(link.address)
        except ATTEMPT_ERRORS as error:
            self._notify(ConnectionEvent("closing", link.address, str(error) or type(error).__name__))
            other = link
        await other.close()

    @property
    def connected(self) -> bool:
        """True if there is a connection now."""
        return self._keeper.connected

    @property
    def address(self) -> str:
        """The broker's address as of the last connection."""
        return self._keeper.address

    @property
    def uses_callback_broker(self) -> bool:
        """True if the messages of its service come through the callback broker of this machine now."""
        client = self._route.client if self._route is not None else None
        return client is not None and client.connected and client.address == ADDRESS

    @property
    def spares(self) -> list[str]:
        """The addresses to which a spare connection is open (option `backup`)."""
        return self._selection.spares if self._selection is not None else []

    @property
    def requests(self) -> Requests:
        """The requests that wait for their replies."""
        return self._requests

    @property
    def server(self) -> Mapping[str, str]:
        """The headers of the CONNECTED frame: server, session, version, …; empty without a connection."""
        link = self._keeper.link
        return link.connection.headers if link is not None else {}

    def _established(self, link: Link) -> None:
        link.most_frames = self.most_frames
        self._subscriptions.subscribe_again(link.connection.headers.get("mom-journal", ""))
        if self._selection is not None:
            self._selection.connected(link)
        if self._route is not None:
            self._route.connected(link.address, link.connection.headers)

    def _lost(self, error: ConnectionLost) -> None:
        self._requests.fail(error)
        self._subscriptions.connection_lost()

    def _ended(self, reason: ClientError, closed: bool) -> None:
        self._requests.fail(reason)
        self._subscriptions.end(None if closed else reason)
        if closed:
            return
        self._end_events()
        if self._exception_listener is not None:
            try:
                self._exception_listener(reason)
            except Exception:
                log.exception("the exception listener failed on %s", reason)
        if self._selection is not None:
            self._ending = asyncio.ensure_future(self._selection.close())

    def _notify(self, event: ConnectionEvent) -> None:
        log.info("%s", event)
        for stream in self._event_streams:
            stream.put(event)
        if self._listener is not None:
            try:
                self._listener(event)
            except Exception:
                log.exception("the listener for connection events failed on %s", event)

    # -- received frames -----------------------------------------------------------------------

    def _take(self, frames: list[Frame | AckRun]) -> None:
        find, keeper = self._subscriptions.get, self._keeper
        for frame in frames:
            if not isinstance(frame, Frame):
                keeper.unconfirmed.confirm(frame.ids)
            elif frame.command is wire.RECEIPT:
                keeper.unconfirmed.confirm((frame.headers.get("receipt-id", "").encode(),))
            else:
                id = frame.headers.get("subscription", "")
                subscription = find(id)
                if subscription is not None:
                    subscription.take(Message(frame, self._frame_sender, keeper.epoch))
                elif id == REFUSED_SUBSCRIPTION:
                    self._soft_refusal(frame)
                elif id == LIST_SUBSCRIPTION and self._selection is not None:
                    self._selection.take(frame)
                else:
                    self._requests.take(Message(frame, self._frame_sender, keeper.epoch))

    def _refused(self, receipt: bytes, refused: Refused) -> None:
        """Report the refusal of one frame to whatever sent it."""
        if not self._transactions.refused(receipt, refused) and not self._keeper.unconfirmed.fail(
            receipt, refused
        ):
            log.warning("the broker refused: %s", refused)

    def _soft_refusal(self, frame: Frame) -> None:
        """The broker refuses a frame, or a subscription from now on, and goes on."""
        refused = Refused.from_frame(frame.headers, frame.body)
        receipt = frame.headers.get("receipt-id", "")
        if receipt or not self._requests.refused(frame.headers.get("correlation-id", ""), refused):
            self._refused(receipt.encode(), refused)
        self._subscriptions.revoked(str(refused.problem.get("subscription")), refused)

    # -- sending -------------------------------------------------------------------------------

    def destination(self, queue: str, *, store_and_forward: bool = False, broker: str | None = None) -> str:
        """The destination for `send` of a queue.

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
        await self._frame_sender.send(destination, body, confirm=confirm, timeout_s=timeout_s, **options)

    def send_nowait(
        self, destination: str, body: bytes | str = b"", **options: Unpack[SendOptions]
    ) -> "asyncio.Future[None]":
        """`send` without waiting: a future of its confirmation.

        Nothing holds you back: bound yourself what you have in flight. While there is no connection the
        message waits for the next. Raises ConnectionLost when none will come.
        """
        return self._frame_sender.send_nowait(destination, body, options)

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
        durable   a name under which a topic's messages are kept while no consumer is connected; see `forget`
        shared    True: several may consume the durable subscription at once; a name instead: share what
                  comes to a topic with all who give that name, as long as anybody is there
        start     where in the history of a topic to begin: first, last, now, seq:<number>, time:<ms or RFC
                  3339>. After a reconnect it continues after the last message that was taken
        headers   more headers of SUBSCRIBE
        """
        given = {"id": str(next(self._numbers)), "destination": destination, "ack": ack}
        is_routed = self._route is not None and destination == self._route.service.queue
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
        routed = self._routed if is_routed else None
        return Subscription(self._subscriptions, {**given, **(headers or {})}, routed)

    async def _routed(self) -> Subscriptions:
        """The subscriptions by way of the callback broker, if it is used. Raises ConnectionLost when there is
        no connection."""
        assert self._route is not None
        if not self._keeper.epoch:
            await self._keeper.wait_connected()
        client = await self._route.opened()
        return client._subscriptions if client is not None else self._subscriptions

    async def forget(self, durable: str) -> None:
        """Delete a durable subscription and all that it keeps. Raises Refused while others consume it."""
        await self._keeper.wait_connected()
        await self._frame_sender.send_command(wire.UNSUBSCRIBE, {"durable-name": durable, "delete": "true"})

    # -- transactions and requests -------------------------------------------------------------

    def transaction(self) -> Transaction:
        """Several sends and acknowledgements as one: ``async with mom.transaction() as tx``."""
        return Transaction(self._transactions, f"tx-{next(self._numbers)}")

    async def request(
        self,
        destination: str,
        body: bytes | str = b"",
        *,
        timeout_s: float = 30.0,
        **options: Unpack[SendOptions],
    ) -> Message:
        """Send a request and wait for the reply, which comes over a private temporary queue.

        Options as of `send`; a request is not persistent by default. Raises Timeout; Refused;
        ConnectionLost when the connection broke in between, since the reply queue is gone with it.
        What is forwarded to another broker has no reply: ValueError.
        """
        return await self._requests.request(destination, body, timeout_s, options)
