"""A broker without a cluster is one site, and its own master: messages and requests come back to it."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator

import pytest

from broker_app.features.channels.handlers import MOST_CALLS
from tests.channels.frames import ANSWER, SUBSCRIBE, Received, answer, received, request, send
from tests.support.small_broker import RawClient, SmallBroker, small_broker

ASKS = {"reply_to": "/temp-queue/q", "correlation_id": "1"}
SOFT = {"mom-soft-errors": "true"}


@pytest.fixture
async def broker() -> AsyncIterator[SmallBroker]:
    async with small_broker(name="b1") as running:
        yield running


async def handler(broker: SmallBroker) -> RawClient:
    """A client that has a handler."""
    client = await broker.client(**SOFT)
    assert await client.ask(SUBSCRIBE) == b"RECEIPT\nreceipt-id:s\n\n"
    return client


async def call(client: RawClient) -> Received:
    return received(await client.frame())


async def refusal(client: RawClient, frame: bytes) -> str:
    """The code with which a SEND is refused."""
    found = received(await client.ask(frame))
    assert found.headers["receipt-id"], found
    return code_of(found)


def code_of(refused: Received) -> str:
    """The code of a refusal."""
    return str(json.loads(refused.body)["type"]).rsplit("/", 1)[-1]


async def test_a_request_to_the_master_is_answered_by_the_handler_of_the_own_site(
    broker: SmallBroker,
) -> None:
    asking, answering = await broker.client(), await handler(broker)
    for site in ("b1", "$master"):
        asking.send(request(f"/channel/{site}", b"abcde", id=f"to {site}", parts="3,0,2"))
        came = await call(answering)
        assert came.body == b"abcde"
        shown = {name: came.headers[name] for name in ("channel-from", "need-response", "parts")}
        assert shown == {"channel-from": "b1", "need-response": "true", "parts": "3,0,2"}
        assert (await answering.ask(answer(came, b"yes", "r"))).startswith(b"RECEIPT")
        reply = await call(asking)
        assert (reply.headers["correlation-id"], reply.headers["channel-status"]) == (f"to {site}", "ok")
        assert (reply.body, reply.headers.get("parts")) == (b"yes", None)


async def test_a_message_is_confirmed_in_order_and_handed_to_one_handler_after_the_other(
    broker: SmallBroker,
) -> None:
    asking, one, other = await broker.client(), await handler(broker), await handler(broker)
    for number in range(4):
        asking.send(send("/channel/b1", b"%d" % number, receipt=str(number)))
    assert [received(frame).headers["receipt-id"] for frame in await asking.frames(4)] == list("0123")
    first, second = await one.frames(2), await other.frames(2)
    assert [received(frame).body for frame in first] == [b"0", b"2"]
    assert [received(frame).body for frame in second] == [b"1", b"3"]
    assert {received(frame).headers["need-response"] for frame in first} == {"false"}


async def test_requests_that_differ_in_their_ids_alone_are_each_checked_and_answered(
    broker: SmallBroker,
) -> None:
    asking, answering = await broker.client(**SOFT), await handler(broker)
    asking.send(b"".join(request("/channel/b1", b"?", id=id) for id in ("one", "two")))
    calls = [received(frame) for frame in await answering.frames(2)]
    refused = [await refusal(asking, request("/channel/b1", b"?", id="", receipt="r"))]
    answering.send(b"".join(answer(call, call.headers["channel-call"].encode()) for call in calls))
    replies = [received(frame) for frame in await asking.frames(2)]
    assert [reply.headers["correlation-id"] for reply in replies] == ["one", "two"]
    assert [reply.body.decode() for reply in replies] == [call.headers["channel-call"] for call in calls]
    refused.append(await refusal(answering, send(ANSWER, b"", "r", channel_call="")))
    assert refused == ["invalid", "invalid"]


async def test_an_empty_answer_and_one_without_parts_succeed(broker: SmallBroker) -> None:
    asking, answering = await broker.client(), await handler(broker)
    for given, headers in (({}, None), ({"parts": ""}, "")):
        asking.send(request("/channel/b1", b"?"))
        answering.send(answer(await call(answering), b"", **given))
        reply = await call(asking)
        assert (reply.headers["channel-status"], reply.body) == ("ok", b"")
        assert reply.headers.get("parts") == headers


async def test_without_a_handler_a_request_fails_and_a_message_is_counted_as_dropped(
    broker: SmallBroker,
) -> None:
    asking = await broker.client(**SOFT)
    asking.send(request("/channel/b1", b"?"))
    reply = await call(asking)
    assert (reply.headers["channel-status"], reply.body) == ("noserver", b"")
    assert "has no handler" in reply.headers["reason"]
    assert (await asking.ask(send("/channel/b1", b"!", "r"))).startswith(b"RECEIPT")
    (site,) = broker.registry.channels.report().sites
    assert (site.name, site.handlers, site.dropped) == ("b1", 0, {"noserver": 1})


async def test_a_handler_answers_once_and_only_what_it_was_asked(broker: SmallBroker) -> None:
    asking, answering, other = await broker.client(), await handler(broker), await broker.client(**SOFT)
    asking.send(request("/channel/b1", b"?"))
    came = await call(answering)
    assert await refusal(other, answer(came, b"not mine", "r")) == "invalid"
    answering.send(answer(came, b"first"))
    assert (await call(asking)).body == b"first"
    assert await refusal(answering, answer(came, b"second", "r")) == "invalid"
    assert await refusal(answering, send(ANSWER, b"", "r", channel_call="of another start.1")) == "invalid"
    asking.send(request("/channel/b1", b"?"))
    answering.send(answer(await call(answering), channel_status="keyempty"))
    assert (await call(asking)).headers["channel-status"] == "keyempty"


async def test_an_answer_of_several_parts_needs_a_request_for_several(broker: SmallBroker) -> None:
    asking, answering = await broker.client(), await handler(broker)
    asking.send(request("/channel/b1", b"?"))
    assert await refusal(answering, answer(await call(answering), b"ab", "r", parts="1,1")) == "invalid"
    assert (await call(asking)).headers["channel-status"] == "buffer-small"
    asking.send(request("/channel/b1", b"?", multiple="true"))
    answering.send(answer(await call(answering), b"ab", parts="1,1"))
    reply = await call(asking)
    assert (reply.headers["channel-status"], reply.headers["parts"]) == ("ok", "1,1")


async def test_a_request_has_its_time_and_a_later_answer_is_dropped(broker: SmallBroker) -> None:
    asking, answering = await broker.client(), await handler(broker)
    began = time.monotonic()
    asking.send(request("/channel/b1", b"?", id="long", timeout_ms="400"))
    asking.send(request("/channel/b1", b"?", id="short", timeout_ms="100"))
    long, _ = await call(answering), await call(answering)
    first, second = await call(asking), await call(asking)
    assert [reply.headers["correlation-id"] for reply in (first, second)] == ["short", "long"]
    assert {reply.headers["channel-status"] for reply in (first, second)} == {"timeout"}
    assert time.monotonic() - began >= 0.4
    assert (await answering.ask(answer(long, b"late", "r"))).startswith(b"RECEIPT")
    asking.send(request("/channel/b1", b"?", id="next"))
    answering.send(answer(await call(answering), b"in time"))
    assert (await call(asking)).body == b"in time"
    assert broker.registry.channels.report().sites[0].dropped == {"late": 1}


async def test_a_handler_whose_connection_ends_leaves_the_outcome_of_its_calls_unknown(
    broker: SmallBroker,
) -> None:
    asking, answering = await broker.client(), await handler(broker)
    asking.send(request("/channel/b1", b"?"))
    await call(answering)
    await answering.close()
    reply = await call(asking)
    assert reply.headers["channel-status"] == "rep-unavail"
    assert "outcome is unknown" in reply.headers["reason"]


async def test_a_handler_is_given_a_bounded_number_of_calls(broker: SmallBroker) -> None:
    asking, answering = await broker.client(), await handler(broker)
    for number in range(MOST_CALLS + 1):
        asking.send(request("/channel/b1", b"?", id=str(number)))
    reply = await call(asking)
    assert (reply.headers["correlation-id"], reply.headers["channel-status"]) == (
        str(MOST_CALLS),
        "rep-unavail",
    )
    assert "busy" in reply.headers["reason"]
    answering.send(answer(received((await answering.frames(MOST_CALLS))[0])))
    assert (await call(asking)).headers["correlation-id"] == "0"
    asking.send(request("/channel/b1", b"?", id="again"))
    assert (await call(answering)).headers["need-response"] == "true"


@pytest.mark.parametrize(
    ("site", "headers", "code", "told"),
    [
        ("1732", {}, "invalid", "site"),
        ("", {}, "invalid", "site"),
        ("*", {}, "invalid", "site"),
        ("b1", {"parts": "2,2"}, "invalid", "parts"),
        ("b1", {"parts": "-1,4"}, "invalid", "parts"),
        ("b1", {"parts": "3,x"}, "invalid", "parts"),
        ("b1", {"parts": "3" + ",0" * 1000}, "invalid", "1,000"),
        ("b1", {"transaction": "t"}, "unsupported", "transaction"),
        ("b1", {"reply_to": "/queue/q", "correlation_id": "1"}, "invalid", "reply-to"),
        ("b1", {"reply_to": "/temp-queue/q"}, "invalid", "correlation-id"),
        ("b1", {**ASKS, "timeout_ms": "x"}, "invalid", "timeout-ms"),
        ("b1", {**ASKS, "timeout_ms": "99999999999"}, "invalid", "timeout-ms"),
        ("b1", {**ASKS, "multiple": "maybe"}, "invalid", "multiple"),
        ("$answer", {}, "invalid", "channel-call"),
        ("1732", {"channel_open": "true"}, "invalid", "site"),
    ],
)
async def test_what_is_no_message_is_refused_with_a_reason(
    broker: SmallBroker, site: str, headers: dict[str, str], code: str, told: str
) -> None:
    client = await broker.client(**SOFT)
    found = received(await client.ask(send(f"/channel/{site}", b"abc", "r", **headers)))
    assert (code_of(found), found.headers.get("receipt-id")) == (code, "r"), found
    assert told in json.loads(found.body)["detail"]


async def test_a_refused_request_is_named_by_its_correlation_id(broker: SmallBroker) -> None:
    client = await broker.client(**SOFT)
    found = received(await client.ask(request("/channel/b1", id="7", timeout_ms="x")))
    assert (code_of(found), found.headers.get("correlation-id")) == ("invalid", "7")


async def test_a_channel_to_the_own_site_can_be_opened_without_sending_anything(
    broker: SmallBroker,
) -> None:
    asking, answering = await broker.client(), await handler(broker)
    for site in ("b1", "$master"):
        opened = await asking.ask(send(f"/channel/{site}", b"", "o", channel_open="true"))
        assert opened.startswith(b"RECEIPT")
    asking.send(send("/channel/b1", b"the first"))
    assert (await call(answering)).body == b"the first"


async def test_a_refused_message_keeps_the_order_of_the_answers(broker: SmallBroker) -> None:
    """What was sent before it is confirmed all the same; the session goes on."""
    client = await broker.client(**SOFT)
    client.send(send("/queue/q", b"1", "before") + send("/channel/1732", b"2", "refused"))
    client.send(send("/queue/q", b"3", "after"))
    answers = [received(frame).headers["receipt-id"] for frame in await client.frames(3)]
    assert sorted(answers) == ["after", "before", "refused"]


async def test_a_handler_that_unsubscribes_leaves_no_call_behind(broker: SmallBroker) -> None:
    asking, answering = await broker.client(), await handler(broker)
    asking.send(request("/channel/b1", b"?", timeout_ms="60000"))
    await call(answering)
    assert broker.registry.channels.report().sites[0].in_flight == 1
    answering.send(b"UNSUBSCRIBE\nid:h\n\n\0")
    assert (await call(asking)).headers["channel-status"] == "rep-unavail"
    assert broker.registry.channels.report().sites[0].in_flight == 0


async def test_a_handler_that_reads_nothing_is_ended_and_holds_up_no_other(broker: SmallBroker) -> None:
    asking, stuck = await broker.client(), await handler(broker)
    stuck.writer.transport.pause_reading()  # type: ignore[attr-defined]
    large = send("/channel/b1", bytes(1_000_000), "r")

    def dropped() -> dict[str, int]:
        return broker.registry.channels.report().sites[0].dropped

    for _ in range(300):
        assert (await asking.ask(large)).startswith(b"RECEIPT")
        if dropped():
            break
    assert dropped() == {"noserver": 1}
    assert broker.engine.broker.store.memory_bytes < 100_000_000
    answering = await handler(broker)
    asking.send(request("/channel/b1", b"?"))
    answering.send(answer(await call(answering), b"yes"))
    assert (await call(asking)).body == b"yes"
