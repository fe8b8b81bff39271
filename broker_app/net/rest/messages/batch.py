"""Publishing many messages with one request: a JSON array, or lines of JSON as they arrive."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec

from broker_app.base.process.in_thread import in_thread_if_large
from broker_app.base.refused import Refused
from broker_app.base.turns import in_turns
from broker_app.core import commands as c
from broker_app.core.destination import Destination
from broker_app.core.message import Duplicate, Envelope, Message
from broker_app.core.model import Peer
from broker_app.engine.client import BatchReply, EngineClient, PendingReply
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.refusals import body_of, invalid, too_large
from broker_app.net.http.replies import JSON, NDJSON, Reply, encode
from broker_app.net.http.requests import Departed, Idempotency, Request, boolean, decode, elements
from broker_app.net.rest.messages import cloudevents
from broker_app.net.rest.messages.cloudevents import item_of
from broker_app.net.rest.messages.envelopes import Envelopes, Item
from broker_app.net.rest.messages.publish import COMMAND_BYTES, RestPublisher
from broker_app.rules.event import SEND

#: submitted lines whose answers are awaited together
_RUN = 1_000


_ITEMS = msgspec.json.Decoder(list[Item])
_Outcome = Refused | tuple[Envelope, bytes]
_Answer = Message | Refused | None


class BatchPublisher:
    """Endpoints `…/messages/batch`."""

    def __init__(
        self, engine_client: EngineClient, publisher: RestPublisher, envelopes: Envelopes, limits: RestLimits
    ) -> None:
        self._engine_client = engine_client
        self._publisher = publisher
        self._envelopes = envelopes
        self._limits = limits
        self._ids = engine_client.engine.broker.turn.ids
        self._transactions = itertools.count(1)

    async def to_queue(self, request: Request) -> Reply:
        """POST queues/{name}/messages/batch"""
        query = request.query(("queue", "atomic"))
        destination = self._publisher.permitted(request, "/queue/" + request.name).destination
        return await self.publish(request, destination, atomic=boolean(query, "atomic"))

    async def to_topic(self, request: Request) -> Reply:
        """POST topics/{name}/messages/batch"""
        query = request.query(("topic", "atomic"))
        destination = self._publisher.permitted(request, "/topic/" + request.name).destination
        return await self.publish(request, destination, atomic=boolean(query, "atomic"))

    async def publish(self, request: Request, destination: Destination, *, atomic: bool = False) -> Reply:
        """Publish the messages in the body of a request, which its client may."""
        _check_headers(request)
        if self._engine_client.engine.full:
            await self._engine_client.backpressure.wait()
        if request.check_json(NDJSON, cloudevents.BATCH) == NDJSON:
            if atomic:
                raise Refused("unsupported-type", "an atomic batch must be complete: send application/json")
            return await self._stream(request, destination)
        body = await request.body(self._limits.max_batch_bytes)
        cut, read = (elements, item_of) if request.media_type == cloudevents.BATCH else (_items, _item)
        items = await in_thread_if_large(len(body), partial(cut, body, self._limits.max_batch_items))
        outcomes = [
            await self._outcome(destination, item, read, request.idempotency, number)
            async for number, item in in_turns(enumerate(items))
        ]
        request.access.recheck(request.client, SEND, destination)
        if atomic:
            return await self._atomic(request, outcomes)
        answers = await self._answers(self._start(request, outcomes))
        if answers and isinstance(answers[0], Refused) and len(outcomes) == sum(map(_is_refusal, answers)):
            raise answers[0]  # all of them were refused by the broker
        results = [result async for result in in_turns(self._results(outcomes, answers, 0))]
        return Reply(200, JSON, b'{"results":[' + b",".join(results) + b"]}")

    # ------------------------------------------------------------------ carrying out

    def _start(self, request: Request, outcomes: Sequence[_Outcome]) -> BatchReply | None:
        """Publish what is well-formed, each message by itself."""
        good = [outcome for outcome in outcomes if not isinstance(outcome, Refused)]
        if not good:
            return None
        engine_client = self._engine_client
        batch_reply = engine_client.batch_reply(len(good))
        entries = [(envelope, body, batch_reply.item(i)) for i, (envelope, body) in enumerate(good)]
        command = c.Publish(engine_client.peer, entries, request.user, request.client.record_address)
        engine_client.submit(command, _size(good))
        return batch_reply

    async def _answers(self, batch_reply: BatchReply | None) -> Sequence[_Answer]:
        """The result of each message, in order."""
        if batch_reply is None:
            return ()
        await self._engine_client.answer(batch_reply)
        return batch_reply.answers

    def _enlist(
        self, peer: Peer, outcomes: Sequence[_Outcome], transaction: str, user: str
    ) -> PendingReply | None:
        good = [outcome for outcome in outcomes if not isinstance(outcome, Refused)]
        if not good:
            return None
        pending_reply = self._engine_client.pending_reply(len(good))
        command = c.Publish(peer, [(envelope, body, pending_reply) for envelope, body in good], user)
        self._engine_client.submit(c.Enlist(peer, transaction, command), _size(good))
        return pending_reply

    async def _atomic(self, request: Request, outcomes: list[_Outcome]) -> Reply:
        """All or nothing: one transaction."""
        errors = [
            {**error, "pointer": f"/{i}{error['pointer']}"}
            for i, outcome in enumerate(outcomes)
            if isinstance(outcome, Refused)
            for error in _errors_of(outcome)
        ]
        if errors:
            raise Refused("invalid", f"nothing was published: {len(errors)} errors", errors=errors)
        engine_client = self._engine_client
        peer = Peer(engine_client, user="rest", detailed=True)
        peer.client = request.client.record_address
        transaction = str(next(self._transactions))
        engine_client.submit(c.Begin(peer, transaction))
        published = self._enlist(peer, outcomes, transaction, request.user)
        done = engine_client.pending_reply()
        engine_client.submit(c.Commit(peer, transaction, done))
        engine_client.submit(c.Disconnect(peer))
        try:
            await engine_client.answer(done)
            messages = [] if published is None else await engine_client.answer(published)
        finally:
            if published is not None:
                engine_client.forget(published)
        return Reply(200, JSON, b'{"results":[' + b",".join(self._results(outcomes, messages, 0)) + b"]}")

    def _results(
        self, outcomes: Sequence[_Outcome], answers: Sequence[_Answer], first: int
    ) -> Iterator[bytes]:
        """One JSON object for each item, in order."""
        following = iter(answers)
        of = self._ids.of
        for i, outcome in enumerate(outcomes, first):
            answer = outcome if isinstance(outcome, Refused) else next(following)
            if isinstance(answer, Refused):
                yield encode({"i": i, "error": body_of(answer)})
            else:
                assert answer is not None, "a detailed peer gets the message"
                repeat = b',"duplicate":true' if isinstance(answer, Duplicate) else b""
                yield b'{"i":%d,"id":"%b"%b}' % (i, of(answer), repeat)

    # ------------------------------------------------------------------ lines

    async def _stream(self, request: Request, destination: Destination) -> Reply:
        """Publish line by line while they arrive; what was accepted stays, whatever comes after it."""
        runs: list[tuple[list[_Outcome], BatchReply | None]] = []
        results: list[bytes] = []
        count = waiting = 0
        try:
            async for lines in request.lines(self._limits.max_batch_bytes):
                outcomes = [
                    await self._outcome(destination, line, _item)
                    async for line in in_turns(lines)
                    if line.strip()
                ]
                room = self._limits.max_stream_items - count
                if len(outcomes) > room:
                    outcomes[room:] = [
                        too_large("lines", self._limits.max_stream_items, count + len(outcomes))
                    ]
                refusal = request.access.refusal(request.client, SEND, destination)
                if refusal is not None:
                    raise refusal
                runs.append((outcomes, self._start(request, outcomes)))
                count += len(outcomes)
                waiting += len(outcomes)
                if waiting >= _RUN:
                    waiting = 0
                    await self._finish(runs, results)
                if count > self._limits.max_stream_items:
                    break
                await self._engine_client.backpressure.wait()
        except Refused as refusal:
            if not count:
                raise
            runs.append(([refusal], None))
        except Departed:
            await self._finish(runs, results)
            raise
        await self._finish(runs, results)
        return Reply(200, NDJSON, b"\n".join(results) + b"\n" if results else b"")

    async def _finish(
        self, runs: list[tuple[list[_Outcome], BatchReply | None]], results: list[bytes]
    ) -> None:
        """Wait for the answers to all runs, and add their results."""
        for outcomes, batch_reply in runs:
            answers = await self._answers(batch_reply)
            of_run = self._results(outcomes, answers, len(results))
            results += [result async for result in in_turns(of_run)]
        runs.clear()

    # ------------------------------------------------------------------ items

    async def _outcome(
        self,
        destination: Destination,
        item: Item | bytes | msgspec.Raw,
        read: Callable[[bytes], Item],
        idempotency: Idempotency | None = None,
        number: int = 0,
    ) -> _Outcome:
        """Envelope and body of an item, or why there are none. `read` reads one that came as it is."""
        try:
            if not isinstance(item, Item):
                line = bytes(item)
                item = await in_thread_if_large(len(line), partial(read, line))
            if idempotency is not None and item.dedup_id is None:
                item.dedup_id = idempotency.dedup_id(number)
            envelope = self._envelopes.of_item(destination.address, item)
            return envelope, await in_thread_if_large(item.size, item.content)
        except Refused as refusal:
            return refusal


def _is_refusal(answer: _Answer) -> bool:
    return isinstance(answer, Refused)


def _size(messages: Sequence[tuple[Envelope, bytes]]) -> int:
    """About how much memory they take while they wait to be published."""
    return sum(len(body) for _, body in messages) + COMMAND_BYTES * len(messages)


def _check_headers(request: Request) -> None:
    for name, _ in request.headers:
        if name.startswith(b"mom-"):
            shown = name.decode("latin-1")
            raise invalid(f"header/{shown}", "in a batch, set this in the fields of its items")


def _item(line: bytes) -> Item:
    """An item, as JSON. Raises Refused."""
    return decode(line, Item)


def _items(body: bytes, most: int) -> Sequence[Item | msgspec.Raw]:
    """The items of a JSON array; as they came when one of them has another shape."""
    try:
        body.decode()  # msgspec does not look into the text of raw fields
        items = _ITEMS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # a ValidationError is one
        return elements(body, most)
    if len(items) > most:
        raise too_large("items of the batch", most, len(items))
    return items


def _errors_of(refused: Refused) -> list[dict[str, object]]:
    """The errors of one item, each with its JSON pointer."""
    unnamed = [{"pointer": "", "detail": refused.detail}]
    errors: list[dict[str, object]] = body_of(refused).get("errors", unnamed)
    return errors
