"""Receiving: a subscription that lives as long as one request, and leaves leases behind."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from broker_app.base.process.in_thread import in_thread_if_large
from broker_app.base.refused import Refused
from broker_app.base.turns import in_turns
from broker_app.core import commands as c
from broker_app.core.destination import Destination
from broker_app.core.message import Message
from broker_app.core.selectors import compiler
from broker_app.engine.client import EngineClient
from broker_app.net.http.large_body import Piece
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.long_poll import WaitingRequest, WaitingRequests
from broker_app.net.http.refusals import invalid
from broker_app.net.http.replies import JSON, Header, Reply, encode, separated
from broker_app.net.http.requests import Departed, Request, boolean, whole_number, within
from broker_app.net.rest.messages import message_json
from broker_app.net.rest.messages.chosen import ChosenMessages
from broker_app.net.rest.messages.held_deliveries import RequestDeliveries, wait_decided
from broker_app.rules.event import RECEIVE

AUTO, LEASE = "auto", "lease"
#: queues whose requests are counted; the one that was asked for longest ago is forgotten
MOST_COUNTED: Final = 10_000


class Polls:
    """Counts receive requests by the address of their queue: callback brokers spare a broker these."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, int] = OrderedDict()

    def count(self, address: str) -> None:
        """Count a request."""
        self._counts[address] = self._counts.pop(address, 0) + 1
        if len(self._counts) > MOST_COUNTED:
            self._counts.popitem(last=False)

    def of(self, address: str) -> int:
        """The requests for a queue since the broker started."""
        return self._counts.get(address, 0)


class ReceiveRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a receive."""

    max: int | None = None
    wait_s: float = 0.0
    lease_s: float | None = None
    ack: str = LEASE
    selector: str | None = None
    seqs: list[int | str] | None = None


class Collection(RequestDeliveries):
    """The deliveries of one receive, which wake it."""

    def __init__(self, wait: WaitingRequest) -> None:
        super().__init__()
        self._wait = wait

    def collect(self, tag: int, message: Message) -> None:
        super().collect(tag, message)
        self._wait.woken.set()

    def end(self, refusal: Refused) -> None:
        self._wait.end(refusal)


class Receiver:
    """Endpoint `…/receive`."""

    #: rounds in which bodies are read back from the journal for a request that does not want to wait
    MAX_ROUNDS = 200

    def __init__(
        self,
        engine_client: EngineClient,
        waiting: WaitingRequests,
        blocks: message_json.Blocks,
        limits: RestLimits,
        chosen: ChosenMessages,
        polls: Polls,
    ) -> None:
        self._polls = polls
        self._engine_client = engine_client
        self._chosen = chosen
        self._waiting = waiting
        self._blocks = blocks
        self._limits = limits
        self._ids = engine_client.engine.broker.turn.ids

    async def receive(self, request: Request) -> Reply:
        """POST queues/{name}/receive"""
        query = request.query(("queue", "raw", "max"))
        destination = request.permitted(RECEIVE, "/queue/" + request.name)
        body = await request.json(ReceiveRequest, required=False)
        most = self._check(body, query)
        raw = boolean(query, "raw")
        if raw and most != 1:
            raise invalid("query/raw", "a raw reply holds one message; ask for max=1", most)
        began = time.monotonic()
        lease_s = body.lease_s if body.lease_s is not None else self._limits.default_lease_s
        if body.seqs is not None:
            return await self._receive_chosen(request, body, body.seqs, destination, lease_s)
        self._polls.count(destination.address)
        subscribe = c.Subscribe(self._engine_client.peer, "", destination.address, c.INDIVIDUAL, most)
        subscribe.lease_ms, subscribe.selector = round(lease_s * 1000), body.selector or ""
        found = await self._collect(request, subscribe, destination, body.wait_s)
        leases = [(tag, message, self._engine_client.leases.until_ms(tag)) for tag, message in found]
        if body.ack == AUTO and found:
            await self._settle([tag for tag, _ in found])
            leases = [(0, message, 0) for _, message in found]
        if raw:
            return self._raw(*leases[0]) if leases else Reply(204)
        rows = []
        async for lease in in_turns(leases):
            rows.append(await in_thread_if_large(len(lease[1].body), partial(self._row, *lease)))
            self._engine_client.leases.release_body(*lease[:2])
        return self._reply(rows, time.monotonic() - began, destination.address)

    def _check(self, body: ReceiveRequest, query: dict[str, str]) -> int:
        """The requested number of messages. Raises Refused if it is out of bounds."""
        limits = self._limits
        if body.seqs is not None:
            _check_chosen(body, query)
            within("/seqs", len(body.seqs), 1, limits.max_receive)
        if body.selector:
            compiler.compile(body.selector)  # so that its errors are reported before anything begins
        if body.ack not in (AUTO, LEASE):
            raise invalid("/ack", f"must be {AUTO} or {LEASE}", body.ack)
        within("/wait_s", body.wait_s, 0, limits.max_wait_s)
        if body.lease_s is not None:
            within("/lease_s", body.lease_s, 1, limits.max_lease_s)
        if body.max is None:
            return whole_number(query, "max", 1, 1, limits.max_receive)
        if "max" in query:
            raise invalid("query/max", "is given in the body as well")
        return int(within("/max", body.max, 1, limits.max_receive))

    async def _receive_chosen(
        self,
        request: Request,
        body: ReceiveRequest,
        seqs: list[int | str],
        source: Destination,
        lease_s: float,
    ) -> Reply:
        """Those of the messages that still wait; the others with the reason."""
        client = request.client.record_address
        render = self._row if body.ack == LEASE else self._settled_row
        received = await self._chosen.receive(source.address, seqs, request.user, lease_s, render, client)
        if body.ack == AUTO and received.tags:
            await self._settle(received.tags)
        missing = [
            {"seq": one.seq, "status": one.status, **({"detail": one.detail} if one.detail else {})}
            for one in received.missing
        ]
        return self._reply(received.rows, 0.0, source.address, b',"missing":' + encode(missing))

    # ------------------------------------------------------------------ taking

    async def _collect(
        self, request: Request, subscribe: c.Subscribe, source: Destination, wait_s: float
    ) -> list[tuple[int, Message]]:
        """Deliveries, as soon as there is one; none when the wait is over. When the client, its right or the
        API's time ends first, the messages go back."""
        engine_client = self._engine_client
        request.access.recheck(request.client, RECEIVE, source)
        wait = self._waiting.enter(request.client, source)
        arrived = wait.woken
        collection = Collection(wait)
        subscription = engine_client.open_collection(collection, request.user)
        keep = False
        try:
            pending_reply = engine_client.pending_reply()
            subscribe.id, subscribe.receipt = subscription, pending_reply
            subscribe.client = request.client.record_address
            engine_client.submit(subscribe)
            await engine_client.answer(pending_reply)
            await self._read_back(subscribe.address, arrived)
            await wait_decided(engine_client, subscription, collection)
            if not arrived.is_set() and wait_s:
                await _wait(arrived, request.wait_departed, wait_s)
                await wait_decided(engine_client, subscription, collection)
            if wait.refusal is not None:
                raise wait.refusal
            keep = True
        finally:
            self._waiting.leave(wait)
            pending_reply = engine_client.pending_reply()
            engine_client.submit(
                c.Unsubscribe(engine_client.peer, subscription, pending_reply, keep_unsettled=keep)
            )
            # Whatever happens to this request, the collection stays open until its last delivery came.
            closing = asyncio.ensure_future(engine_client.answer(pending_reply))
            closing.add_done_callback(lambda _: engine_client.close_collection(subscription))
            try:
                await asyncio.shield(closing)
            except Refused as refusal:
                if refusal.code != "not-found":  # the broker has ended the subscription before
                    raise
        return collection.found

    async def _read_back(self, address: str, arrived: asyncio.Event) -> None:
        """Give messages that are just being read from the journal the time to arrive."""
        queue = self._engine_client.engine.broker.destinations.queues.get(address)
        for _ in range(self.MAX_ROUNDS):
            if arrived.is_set() or queue is None or not queue.being_read:
                return
            await self._engine_client.turn()

    async def _settle(self, tags: list[int]) -> None:
        """Messages of ack=auto are gone before the reply leaves."""
        pending_reply = self._engine_client.pending_reply()
        self._engine_client.submit(c.Settle(self._engine_client.peer, tags, receipt=pending_reply))
        await self._engine_client.answer(pending_reply)

    # ------------------------------------------------------------------ replying

    def _reply(self, rows: list[list[Piece]], waited_s: float, address: str, members: bytes = b"") -> Reply:
        queue = self._engine_client.engine.broker.destinations.queues.get(address)
        more = queue is not None and queue.depth > 0
        tail = b'],"waited_s":%.3f,"more":%b%b}' % (waited_s, b"true" if more else b"false", members)
        return Reply(200, JSON, pieces=[b'{"items":[', *separated(rows), tail])

    def _row(self, tag: int, message: Message, until_ms: int) -> list[Piece]:
        receipt = self._engine_client.leases.receipt(tag) if tag else None
        return message_json.received_pieces(message, self._ids.of(message), receipt, until_ms, self._blocks)

    def _settled_row(self, _: int, message: Message, __: int) -> list[Piece]:
        return self._row(0, message, 0)

    def _raw(self, tag: int, message: Message, until_ms: int) -> Reply:
        """The bytes of the message as the body, everything else as `Mom-` headers."""
        facts = self._blocks.facts(message.envelope.block)
        headers: list[Header] = [
            (b"mom-id", self._ids.of(message)),
            (b"mom-attempt", b"%d" % (message.attempts + 1)),
            (b"mom-redelivered", b"true" if message.attempts else b"false"),
            (b"mom-time", message_json.rfc3339(message.time_ms)),
        ]
        if tag:
            headers.append((b"mom-receipt", self._engine_client.leases.receipt(tag).encode()))
        if until_ms:
            headers.append((b"mom-lease-until", message_json.rfc3339(until_ms)))
        headers += message_json.mom_headers(facts)
        return Reply(
            200, message_json.http_content_type(facts), message.body, (*headers, *message_json.UNTRUSTED)
        )


def _check_chosen(body: ReceiveRequest, query: dict[str, str]) -> None:
    """Raises Refused for what cannot be asked together with `seqs`."""
    for name in ("max", "selector"):
        if getattr(body, name) is not None or name in query:
            raise invalid(f"/{name}", "cannot be given together with seqs, which name the messages")
    if body.wait_s:
        raise invalid("/wait_s", "cannot be given together with seqs: they wait already or are gone")


async def _wait(arrived: asyncio.Event, departure: Callable[[], object], seconds: float) -> None:
    """Wait for an arrival. Raises Departed if the client disconnects first."""
    arrival = asyncio.ensure_future(arrived.wait())
    gone = asyncio.ensure_future(departure())  # type: ignore[call-overload]
    try:
        await asyncio.wait((arrival, gone), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            raise Departed
    finally:
        arrival.cancel()
        gone.cancel()
