"""Errors for invalid input, word for word; other clients are not affected."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncIterator

import pytest

from broker_app.net.auth.login import Identity
from broker_app.net.stomp.session import StompSession
from broker_app.net.stomp.transports.tcp import TcpConnection
from tests.support.awaiting import until
from tests.support.patience import patient
from tests.support.small_broker import PASSWORD, RawClient, SmallBroker, small_broker

CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:anna\npasscode:secret\n\n\0"


@pytest.fixture
async def broker() -> AsyncIterator[SmallBroker]:
    async with small_broker(max_body_bytes=100_000) as running:
        yield running


def problem(frame: bytes) -> dict[str, object]:
    """The problem in the body of an ERROR frame."""
    assert frame.startswith(b"ERROR\n"), frame
    return dict(json.loads(frame.split(b"\n\n", 1)[1]))


async def refusal(client: RawClient, data: bytes) -> tuple[str, str]:
    """The code and the detail of the ERROR that `data` leads to; the connection must end behind it."""
    found = problem(await client.ask(data))
    assert (await client.ended()).strip(b"\n") == b""
    return str(found["type"]).rsplit("/", 1)[1], str(found["detail"])


BEFORE_LOGIN = {
    "a frame before CONNECT": (b"SEND\ndestination:/queue/a\n\nx\0", "not-connected", "SEND came before CONNECT"),
    "an unsupported version": (b"CONNECT\naccept-version:3.0\nhost:/\n\n\0", "unsupported-version", "1.0, 1.1 and 1.2"),
    "an unknown virtual host": (b"CONNECT\naccept-version:1.2\nhost:elsewhere\n\n\0", "wrong-host", "'elsewhere'"),
    "heart-beats that are no numbers": (
        b"CONNECT\naccept-version:1.2\nhost:/\nheart-beat:a,b\n\n\0", "malformed-frame", "heart-beat is 'a,b'",
    ),
    "heart-beats in digits that are no decimals": (
        "CONNECT\naccept-version:1.2\nhost:/\nheart-beat:²,0\n\n\0".encode(), "malformed-frame", "heart-beat is '²,0'",
    ),
    "a client-id that is too long": (
        b"CONNECT\naccept-version:1.2\nhost:/\nclient-id:" + b"x" * 256 + b"\n\n\0", "invalid", "256 characters; at most 255",
    ),
    "a long frame before CONNECT, before it is whole": (
        b"SEND\ndestination:/queue/a\ncontent-length:90000\n\n" + b"x" * 20_000, "not-connected", "SEND came before CONNECT",
    ),
    "no login": (b"CONNECT\naccept-version:1.2\nhost:/\n\n\0", "not-authenticated", "CONNECT has no login"),
    "a wrong passcode": (
        b"CONNECT\naccept-version:1.2\nhost:/\nlogin:anna\npasscode:no\n\n\0", "not-authenticated", "user 'anna'",
    ),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01", "tls-on-stomp-port", "looks like TLS"),
    "something else altogether": (b"HELO example.org\r\n", "unknown-command", "HELO example.org"),
}  # fmt: skip

AFTER_LOGIN = {
    "an unknown command": (b"GIVE\n\n\0", "unknown-command", "GIVE"),
    "a second CONNECT": (CONNECT, "malformed-frame", "CONNECT came twice"),
    "a header without a colon": (b"SEND\ndestination\n\nx\0", "malformed-frame", "not of the form name:value"),
    "an illegal escape": (b"SEND\ndestination:/queue/a\nx:a\\tb\n\nx\0", "bad-escape", r"\t"),
    "a header that is not UTF-8": (b"SEND\ndestination:/queue/a\nx:\xff\n\nx\0", "not-utf8", "not valid UTF-8"),
    "a length that is no number": (
        b"SEND\ndestination:/queue/a\ncontent-length:ten\n\nx\0", "bad-content-length", "'ten' is not a number",
    ),
    "a negative length": (
        b"SEND\ndestination:/queue/a\ncontent-length:-1\n\nx\0", "bad-content-length", "'-1' is not a number",
    ),
    "a length that is too short": (
        b"SEND\ndestination:/queue/a\ncontent-length:1\n\nxy\0", "missing-nul", "after the 1 bytes",
    ),
    "a body over the limit": (
        b"SEND\ndestination:/queue/a\ncontent-length:100001\n\n", "too-large", "100001 bytes, allowed are 100000",
    ),
    "a body over the limit that does not say so": (
        b"SEND\ndestination:/queue/a\n\n" + b"x" * 100_002, "too-large", "allowed are 100000",
    ),
    "headers over the limit": (
        b"SEND\n" + b"h:" + b"x" * 70_000, "too-large", "longer than the 65536 bytes",
    ),
    "too many headers": (
        b"SEND\n" + b"".join(b"h%d:x\n" % n for n in range(130)) + b"\n\0", "too-many-headers", "130 headers, allowed are 128",
    ),
    "a body where none belongs": (b"BEGIN\ntransaction:a\n\nbody\0", "malformed-frame", "must not have a body"),
    "no destination": (b"SEND\n\nx\0", "bad-destination", "no destination header"),
    "an unknown prefix": (b"SEND\ndestination:/foo/x\n\nx\0", "bad-destination", "'/foo/x' has no known prefix"),
    "no name": (b"SEND\ndestination:/queue/\n\nx\0", "bad-destination", "no name"),
    "a name that is too long": (
        b"SEND\ndestination:/queue/" + b"n" * 256 + b"\n\nx\0", "bad-destination", "256 characters; at most 255",
    ),
    "a name with white space around": (b"SEND\ndestination:/queue/a \n\nx\0", "bad-destination", "white space"),
    "a name with a control character": (b"SEND\ndestination:/queue/a\x07b\n\nx\0", "bad-destination", "control"),
    "a SEND to the broker's own topic": (b"SEND\ndestination:/topic/$mom.stats\n\nx\0", "not-allowed", "begin with $"),
    "a SEND with a wildcard": (b"SEND\ndestination:/topic/a.*\n\nx\0", "bad-destination", "wildcard"),
    "a priority out of bounds": (
        b"SEND\ndestination:/queue/a\npriority:11\n\nx\0", "invalid", "priority is '11'; it must be a number from 0 to 9",
    ),
    "a delay that is no number": (b"SEND\ndestination:/queue/a\ndelay-s:soon\n\nx\0", "invalid", "ten years"),
    "a delay of eleven years": (b"SEND\ndestination:/queue/a\nx-delay:346896000000\n\nx\0", "invalid", "milliseconds"),
    "a time that is no number": (
        b"SEND\ndestination:/queue/a\nAMQ_SCHEDULED_TIME:foo\n\nx\0", "invalid", "milliseconds",
    ),
    "a schedule that repeats": (
        b"SEND\ndestination:/queue/a\nAMQ_SCHEDULED_CRON:* * * * *\n\nx\0", "unsupported", "repeated delivery",
    ),
    "an empty dedup-id": (b"SEND\ndestination:/queue/a\ndedup-id:\n\nx\0", "invalid", "1 to 1024"),
    "SUBSCRIBE without id": (b"SUBSCRIBE\ndestination:/queue/a\n\n\0", "malformed-frame", "needs an id header"),
    "an unknown ack mode": (
        b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:maybe\n\n\0", "invalid", "auto, client, client-individual",
    ),
    "no credit": (b"SUBSCRIBE\nid:1\ndestination:/queue/a\ncredit:0\n\n\0", "invalid", "from 1 to 100000"),
    "a selector that is none": (
        b"SUBSCRIBE\nid:1\ndestination:/queue/a\nselector:a = = 1\n\n\0", "invalid-selector", "line 1 column 5",
    ),
    "a selector that is too long": (
        b"SUBSCRIBE\nid:1\ndestination:/queue/a\nselector:a = 1%b\n\n\0" % (b" " * 1_020), "invalid-selector",
        "1,025 characters; at most 1,024",
    ),
    "a subscription to a topic that wants to be exclusive": (
        b"SUBSCRIBE\nid:1\ndestination:/topic/a\nexclusive:true\n\n\0", "invalid", "a topic serves all its subscribers",
    ),
    "a browser that goes on": (
        b"SUBSCRIBE\nid:1\ndestination:/queue/a\nbrowser:true\nbrowser-end:false\n\n\0", "unsupported", "go on",
    ),
    "a subscription that wants to browse a topic": (
        b"SUBSCRIBE\nid:1\ndestination:/topic/a\nbrowser:true\n\n\0", "unsupported", "only queues can be browsed",
    ),
    "a queue without the own messages": (
        b"SUBSCRIBE\nid:1\ndestination:/queue/a\nno-local:true\n\n\0", "unsupported", "no-local is for topics",
    ),
    "a priority of a consumer that is none": (
        b"SUBSCRIBE\nid:1\ndestination:/queue/a\nx-priority:high\n\n\0", "invalid", "must be a number from -2147483647",
    ),
    "a start that is none": (
        b"SUBSCRIBE\nid:1\ndestination:/topic/a\nx-stream-offset:soon\n\n\0", "invalid", "first, last, next",
    ),
    "a group with a long name": (
        b"SEND\ndestination:/queue/a\ngroup:%b\n\nx\0" % (b"g" * 256), "invalid", "255 are allowed",
    ),
    "a subscription id used twice": (
        b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0SUBSCRIBE\nid:1\ndestination:/queue/b\n\n\0",
        "conflict", "'1' is already in use",
    ),
    "UNSUBSCRIBE of nothing": (b"UNSUBSCRIBE\nid:9\n\n\0", "not-found", "no subscription '9'"),
    "another's temporary queue": (
        b"SUBSCRIBE\nid:1\ndestination:/temp-queue/t-0123456789abcdef.r\n\n\0", "not-allowed", "another connection",
    ),
    "ACK of nothing": (b"ACK\nid:77\n\n\0", "unknown-delivery", "no unsettled delivery 77"),
    "ACK with an id of another make": (b"ACK\nid:abc\n\n\0", "unknown-delivery", "'abc'"),
    "ACK without id": (b"ACK\nmessage-id:1\n\n\0", "malformed-frame", "need an id header"),
    "NACK of nothing": (b"NACK\nid:77\n\n\0", "unknown-delivery", "no unsettled delivery 77"),
    "COMMIT of nothing": (b"COMMIT\ntransaction:t\n\n\0", "not-found", "no open transaction 't'"),
    "BEGIN without a name": (b"BEGIN\n\n\0", "malformed-frame", "BEGIN needs a transaction header"),
    "BEGIN twice": (b"BEGIN\ntransaction:t\n\n\0BEGIN\ntransaction:t\n\n\0", "conflict", "already begun"),
    "SEND in a transaction that is not open": (
        b"SEND\ndestination:/queue/a\ntransaction:t\n\nx\0", "not-found", "no open transaction 't'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BEFORE_LOGIN)
async def test_before_login_a_client_gets_the_error_of(broker: SmallBroker, name: str) -> None:
    data, code, words = BEFORE_LOGIN[name]
    client = await broker.stranger()
    found, detail = await refusal(client, data)
    assert (found, words in detail) == (code, True), detail
    await client.close()


async def test_a_refusal_is_logged_with_the_user_if_there_is_one(
    broker: SmallBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "broker_app.net.stomp.session_registry")
    stranger, client = await broker.stranger(), await broker.client()
    await refusal(stranger, BEFORE_LOGIN["no login"][0])
    await refusal(client, AFTER_LOGIN["BEGIN twice"][0])
    first, second = (record.getMessage() for record in caplog.records)
    assert re.fullmatch(r"tcp \S+ refused: not-authenticated: .*", first)
    assert re.fullmatch(r"tcp \S+ anna refused: conflict: .*", second)
    await stranger.close()
    await client.close()


@pytest.mark.parametrize("name", AFTER_LOGIN)
async def test_a_client_gets_the_error_of(broker: SmallBroker, name: str) -> None:
    data, code, words = AFTER_LOGIN[name]
    client = await broker.client()
    found, detail = await refusal(client, data)
    assert (found, words in detail) == (code, True), detail
    await client.close()


async def test_http_on_the_stomp_port_is_answered_in_http(broker: SmallBroker) -> None:
    client = await broker.stranger()
    client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = await client.ended()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"This port speaks STOMP" in answer
    await client.close()


async def test_the_answer_to_an_unsupported_version_lists_the_supported_ones(broker: SmallBroker) -> None:
    client = await broker.stranger()
    answer = await client.ask(b"CONNECT\naccept-version:9.9\nhost:/\n\n\0")
    assert b"\nversion:1.0,1.1,1.2\n" in answer
    await client.close()


async def test_an_error_names_the_receipt_of_the_frame_it_refuses(broker: SmallBroker) -> None:
    client = await broker.client()
    answer = await client.ask(b"ACK\nid:5\nreceipt:r\\c1\n\n\0")
    assert b"\nreceipt-id:r\\c1\n" in answer
    await client.close()


@pytest.mark.parametrize(
    "frame", [b"content-length:100001\n\n", b"content-length:1\n\nxy\0", b"\n" + b"x" * 100_002]
)
async def test_so_does_the_error_of_a_frame_that_cannot_be_read(broker: SmallBroker, frame: bytes) -> None:
    client = await broker.client()
    answer = await client.ask(b"SEND\ndestination:/queue/a\nreceipt:r\\c1\n" + frame)
    assert b"\nreceipt-id:r\\c1\n" in answer
    await client.close()


async def test_with_soft_errors_a_refused_frame_leaves_the_connection_open(broker: SmallBroker) -> None:
    client = await broker.client(**{"mom-soft-errors": "true"})
    answer = await client.ask(b"SEND\ndestination:/foo\nreceipt:7\n\nx\0")
    assert answer.startswith(b"MESSAGE\nreceipt-id:7\n")
    assert b"\ndestination:/user/$mom.refused\n" in answer
    assert json.loads(answer.split(b"\n\n", 1)[1])["type"].endswith("/bad-destination")
    assert await client.ask(b"SEND\ndestination:/queue/a\nreceipt:8\n\nx\0") == b"RECEIPT\nreceipt-id:8\n\n"
    await client.close()


async def test_with_soft_errors_an_unknown_ack_among_others_is_refused_alone(broker: SmallBroker) -> None:
    client = await broker.client(**{"mom-soft-errors": "true"})
    client.send(b"SUBSCRIBE\nid:s\ndestination:/queue/soft\nack:client-individual\n\n\0")
    client.send(b"SEND\ndestination:/queue/soft\n\n1\0SEND\ndestination:/queue/soft\n\n2\0")
    tags = [re.search(rb"\nack:(\d+)\n", frame) for frame in await client.frames(2)]
    first, second = [tag[1] for tag in tags if tag]
    refused = await client.ask(b"".join(b"ACK\nid:%b\n\n\0" % id for id in (first, b"999", second)))
    assert b"unknown-delivery" in refused
    await broker.engine.wait_idle()
    assert broker.engine.broker.destinations.queues["/queue/soft"].counters.acked == 2
    await client.close()


async def test_a_refused_frame_aborts_its_transaction(broker: SmallBroker) -> None:
    client = await broker.client(**{"mom-soft-errors": "true"})
    client.send(b"BEGIN\ntransaction:t\n\n\0SEND\ndestination:/queue/t\ntransaction:t\n\nx\0")
    refused = await client.ask(b"SEND\ndestination:/foo\ntransaction:t\nreceipt:1\n\nx\0")
    assert b"receipt-id:1" in refused
    late = await client.ask(b"COMMIT\ntransaction:t\nreceipt:2\n\n\0")
    assert b"no open transaction 't'" in late
    assert "/queue/t" not in broker.engine.broker.destinations.queues
    await client.close()


async def test_messages_before_a_refused_frame_are_kept(broker: SmallBroker) -> None:
    client = await broker.client()
    client.send(b"SEND\ndestination:/queue/kept\n\none\0SEND\ndestination:/queue/kept\n\ntwo\0GIVE\n\n\0")
    await client.ended()
    await broker.engine.wait_idle()
    assert broker.engine.broker.destinations.queues["/queue/kept"].depth == 2
    await client.close()


async def test_a_client_that_never_logs_in_is_disconnected() -> None:
    async with small_broker(connect_timeout=0.2) as broker:
        client = await broker.stranger()
        client.send(b"CONNECT\naccept-ver")
        answer = await client.ended()
        assert problem(answer.rstrip(b"\0\n"))["type"] == "/docs/problems/login-timeout"
        await client.close()


async def test_a_client_without_its_agreed_heart_beats_is_disconnected() -> None:
    async with small_broker(heartbeat_ms=100) as broker:
        client = await broker.client(**{"heart-beat": "100,0"})
        answer = await client.ended()
        assert problem(answer.rstrip(b"\0\n"))["type"] == "/docs/problems/heart-beat-lost"
        await client.close()


async def test_the_broker_sends_the_heart_beats_it_promised() -> None:
    async with small_broker(heartbeat_ms=100) as broker:
        client = await broker.client(**{"heart-beat": "0,100"})
        assert await client.reader.readexactly(3) == b"\n\n\n"
        await client.close()


async def test_a_connection_above_the_limit_gets_an_error() -> None:
    async with small_broker(max_connections=1) as broker:
        first = await broker.client()
        second = await broker.stranger()
        assert problem((await second.ended()).rstrip(b"\0\n"))["type"] == "/docs/problems/too-many"
        assert (
            await first.ask(b"SEND\ndestination:/queue/a\nreceipt:1\n\nx\0") == b"RECEIPT\nreceipt-id:1\n\n"
        )
        await first.close()
        await second.close()


async def test_one_user_has_half_of_the_connections_and_gets_an_error_beyond() -> None:
    async with small_broker(max_connections=4) as broker:
        first, second = await broker.client(), await broker.client()
        third = await broker.stranger()
        third.send(f"CONNECT\naccept-version:1.2\nhost:/\nlogin:anna\npasscode:{PASSWORD}\n\n\0".encode())
        refused = problem((await third.ended()).rstrip(b"\0\n"))
        assert refused["type"] == "/docs/problems/too-many"
        assert "anna has 2 connections already; the share of one user is 2 of 4" in str(refused["detail"])
        await second.close()
        await until(lambda: len(broker.registry.sessions) == 1)
        again = await broker.client()
        for client in (first, third, again):
            await client.close()


async def test_malformed_frames_do_not_affect_other_clients(broker: SmallBroker) -> None:
    good = await broker.client()
    for data, _, _ in AFTER_LOGIN.values():
        bad = await broker.client()
        bad.send(data)
        await bad.ended()
        await bad.close()
    answer = await good.ask(b"SEND\ndestination:/queue/good\nreceipt:ok\n\nx\0")
    assert answer == b"RECEIPT\nreceipt-id:ok\n\n"
    assert broker.engine.ended is None
    await good.close()


def is_paused(session: StompSession) -> bool:
    connection = session.conversation.transport
    assert isinstance(connection, TcpConnection)
    return not connection._transport.is_reading()


async def test_nothing_is_read_while_a_login_is_checked(broker: SmallBroker) -> None:
    checked = asyncio.Event()

    async def authenticate(login: str, passcode: str, address: str = "") -> Identity:
        await checked.wait()
        return Identity(login)

    broker.registry.logins.authenticate = authenticate  # type: ignore[method-assign]
    client = await broker.stranger()
    client.send(CONNECT)
    async with asyncio.timeout(patient(10)):
        while not any(is_paused(session) for session in broker.registry.sessions):
            await asyncio.sleep(0)
    client.send(b"SEND\ndestination:/queue/a\nreceipt:1\n\nx\0")
    checked.set()
    assert (await client.frame()).startswith(b"CONNECTED\n")
    assert (await client.frame()).startswith(b"RECEIPT\nreceipt-id:1\n")
    await client.close()


async def test_an_old_client_acknowledges_by_the_message_alone_also_after_it_moved(
    broker: SmallBroker,
) -> None:
    client = await broker.client("1.0")
    client.send(b"SUBSCRIBE\nid:first\ndestination:/queue/moved\nack:client\n\n\0")
    once = await client.ask(b"SEND\ndestination:/queue/moved\n\nx\0")
    client.send(b"SUBSCRIBE\nid:second\ndestination:/queue/moved\nack:client\n\n\0")
    again = await client.ask(b"UNSUBSCRIBE\nid:first\n\n\0")
    assert b"subscription:second\n" in again
    id_line = next(line for line in once.split(b"\n") if line.startswith(b"message-id:"))
    assert id_line in again
    answer = await client.ask(b"ACK\n" + id_line + b"\nreceipt:1\n\n\0")
    assert answer.startswith(b"RECEIPT\nreceipt-id:1\n")
    await client.close()


async def test_unsettled_messages_of_a_stuck_client_return(broker: SmallBroker) -> None:
    client = await broker.client()
    got = await client.ask(
        b"SUBSCRIBE\nid:1\ndestination:/queue/held\nack:client\n\n\0SEND\ndestination:/queue/held\n\nx\0"
    )
    assert got.endswith(b"x")
    (session,) = broker.registry.sessions
    session.congested()
    session.tick(time.monotonic() + broker.registry.STUCK_S + 1, 1.0)
    assert session not in broker.registry.sessions
    await broker.engine.wait_idle()
    assert broker.engine.broker.destinations.queues["/queue/held"].depth == 1
    assert (await client.ended()).strip(b"\n") == b""
    await client.close()
