"""SUBSCRIBE with `browser:true`: what waits in a queue is shown, and nothing is taken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_app.core.limits import Limits
from broker_app.features.masks.mask import Mask
from broker_app.net.auth.login import Identity
from broker_app.net.stomp.transports import local
from broker_app.rules.rule import DENY, Rule
from tests.support.awaiting import until
from tests.support.patience import patient
from tests.support.small_broker import RawClient, SmallBroker, small_broker
from tests.support.small_node import policy_of, small_node

QUEUE = "/queue/a"
BROWSE = b"SUBSCRIBE\nid:b\ndestination:/queue/a\nbrowser:true\n%breceipt:s\n\n\0"
#: bytes of a large body, and how many of them do not fit into the buffers of a connection
LARGE, MANY = 256 * 1024, 96


@pytest.fixture
async def broker() -> AsyncIterator[SmallBroker]:
    # Most bodies have to be read back.
    async with small_broker(limits=Limits(window=4), memory_bytes=4 * 1024 * 1024) as running:
        yield running


async def filled(broker: SmallBroker, *bodies: bytes, headers: bytes = b"") -> None:
    client = await broker.client()
    for body in bodies:
        client.send(b"SEND\ndestination:/queue/a\n%breceipt:s\n\n%b\0" % (headers, body))
    await client.frames(len(bodies))


async def shown(client: RawClient) -> list[bytes]:
    """The frames up to the end of a browser, without the receipt of SUBSCRIBE."""
    frames = [await client.frame()]
    while b"\nbrowser:end\n" not in frames[-1]:
        frames.append(await client.frame())
    return [frame for frame in frames if not frame.startswith(b"RECEIPT")]


def body_of(frame: bytes) -> bytes:
    return frame.partition(b"\n\n")[2]


async def test_a_browser_shows_all_messages_and_takes_none(broker: SmallBroker) -> None:
    numbers = [b"%d" % number for number in range(500)]
    await filled(broker, *numbers)
    client = await broker.client()
    client.send(BROWSE % b"")
    *messages, end = await shown(client)
    assert [body_of(message) for message in messages] == numbers
    assert all(b"\nsubscription:b\n" in message and b"\nack:" not in message for message in messages)
    assert end.startswith(b"MESSAGE\nsubscription:b\nmessage-id:0\ndestination:/queue/a\nbrowser:end\n")
    queue = broker.engine.broker.destinations.queues[QUEUE]
    assert (queue.depth, queue.unsettled, len(queue.consumers), queue.counters.delivered) == (500, 0, 0, 0)


def acknowledgement(command: bytes, shown: bytes, version: str, more: bytes = b"") -> bytes:
    """An ACK or NACK of a message that a browser has shown, as a client of this version makes it."""
    named = [(b"id", b"ack")] if version == "1.2" else [(b"message-id",) * 2, (b"subscription",) * 2]
    lines = [b"%b:%b\n" % (name, header(shown, of)) for name, of in named]
    return b"%b\n%b%breceipt:a\n\n\0" % (command, b"".join(lines[: 1 if version == "1.0" else 2]), more)


def header(frame: bytes, name: bytes) -> bytes:
    return frame.partition(b"\n%b:" % name)[2].partition(b"\n")[0]


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("mode", [b"client", b"client-individual"])
async def test_what_is_acknowledged_to_a_browser_is_not_taken(
    broker: SmallBroker, version: str, mode: bytes
) -> None:
    await filled(broker, b"1", b"2", b"3")
    client = await broker.client(version)
    await client.ask(b"BEGIN\ntransaction:t\nreceipt:b\n\n\0")
    client.send(BROWSE % (b"ack:%b\n" % mode))
    *messages, _ = await shown(client)
    one, two, three = (
        acknowledgement(*asked, version) for asked in zip((b"ACK", b"NACK", b"ACK"), messages, strict=True)
    )
    for frame in (one, one, two.replace(b"receipt:", b"requeue:false\nreceipt:")):
        assert await client.ask(frame) == b"RECEIPT\nreceipt-id:a\n\n"
    client.send(three.replace(b"receipt:", b"transaction:t\nreceipt:"))
    client.send(b"COMMIT\ntransaction:t\nreceipt:c\n\n\0")
    assert b"ERROR" not in b"".join(await client.frames(2))
    await client.ask(b"UNSUBSCRIBE\nid:b\nreceipt:u\n\n\0")
    assert await client.ask(one) == b"RECEIPT\nreceipt-id:a\n\n", "a thread had it still in work"
    queue = broker.engine.broker.destinations.queues[QUEUE]
    assert (queue.depth, queue.unsettled, queue.counters.delivered) == (3, 0, 0)
    assert list(broker.engine.broker.destinations.queues) == [QUEUE], "no dead letter"


async def test_what_is_acknowledged_to_a_browser_settles_nothing_that_its_client_holds(
    broker: SmallBroker,
) -> None:
    await filled(broker, b"1", b"2")
    client = await broker.client(**{"mom-soft-errors": "true"})
    client.send(b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\n\n\0")
    held = await client.frames(2)
    client.send(BROWSE % b"ack:client\n")
    *messages, _ = await shown(client)
    assert header(messages[1], b"message-id") == header(held[1], b"message-id")
    await client.ask(acknowledgement(b"ACK", messages[1], "1.2"))
    assert broker.engine.broker.destinations.queues[QUEUE].unsettled == 2
    await client.ask(acknowledgement(b"ACK", held[1], "1.2"))
    assert not broker.engine.broker.destinations.queues[QUEUE].depth
    assert b"/unknown-delivery" in await client.ask(acknowledgement(b"ACK", held[1], "1.2"))


async def test_its_id_is_in_use_until_unsubscribe(broker: SmallBroker) -> None:
    client = await broker.client(**{"mom-soft-errors": "true"})
    client.send(BROWSE % b"")
    await shown(client)
    for more in (b"browser:true\n", b""):
        answer = await client.ask(b"SUBSCRIBE\nid:b\ndestination:/queue/a\n%breceipt:2\n\n\0" % more)
        assert b"/conflict" in answer
    assert await client.ask(b"UNSUBSCRIBE\nid:b\nreceipt:u\n\n\0") == b"RECEIPT\nreceipt-id:u\n\n"
    await client.ask(b"SUBSCRIBE\nid:b\ndestination:/queue/a\nreceipt:s\n\n\0")
    assert b"/conflict" in await client.ask(BROWSE % b""), "a consumer has it"


async def test_of_a_queue_without_messages_it_shows_the_end_and_makes_none(broker: SmallBroker) -> None:
    client = await broker.client(version="1.0")
    client.send(b"SUBSCRIBE\ndestination:/queue/none\nbrowser:true\n\n\0")
    (end,) = await shown(client)
    assert b"\nsubscription:" not in end, "it has no id"
    assert not broker.engine.broker.destinations.queues
    assert b"RECEIPT" in await client.ask(b"UNSUBSCRIBE\ndestination:/queue/none\nreceipt:u\n\n\0")


async def test_it_shows_what_its_selector_matches_and_what_others_hold(broker: SmallBroker) -> None:
    await filled(broker, b"1", b"2", headers=b"colour:red\n")
    await filled(broker, b"3")
    consumer, client = await broker.client(), await broker.client()
    await consumer.ask(b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\ncredit:1\n\n\0")
    client.send(BROWSE % b"selector:colour = 'red'\n")
    assert [body_of(frame) for frame in await shown(client)] == [b"1", b"2", b""]


async def test_a_client_that_does_not_read_holds_no_more_than_a_page(broker: SmallBroker) -> None:
    bodies = [b"%03d" % number + b"x" * LARGE for number in range(MANY)]
    for body in bodies:
        await filled(broker, body)
    client = await broker.client()
    (session,) = [one for one in broker.registry.sessions if one.number == broker.registry.opened_total]
    transport = client.writer.transport
    assert isinstance(transport, asyncio.Transport)
    transport.pause_reading()
    client.send(BROWSE % b"")
    await until(lambda: session._flow_control.stuck_since)
    for _ in range(2 * MANY):  # turns in which all would be written
        await broker.registry.requests.inspect(lambda: None)
    assert session.conversation.bytes_out < MANY * LARGE / 2
    transport.resume_reading()
    *messages, _ = await shown(client)
    assert [body_of(message)[:3] for message in messages] == [body[:3] for body in bodies]


async def test_a_client_that_leaves_ends_it(broker: SmallBroker) -> None:
    for number in range(MANY):
        await filled(broker, b"%03d" % number + b"x" * LARGE)
    client = await broker.client()
    client.send(BROWSE % b"")
    await until(lambda: broker.registry.tasks)
    await client.close()
    await until(lambda: not broker.registry.tasks)


async def test_it_needs_the_rights_to_browse_and_to_read(tmp_path: Path) -> None:
    async with small_node(tmp_path, policy_of(users={"john": ()})) as node:
        for method in ("BROWSE", "READ"):
            await node.rule(Rule("no", DENY, conditions=f"/event/method == {method}"), Rule("all"))
            pipe = local.LocalPipe(node.node.registry, Identity("john", None))
            async with asyncio.timeout(patient(10)):
                await pipe.send(b"CONNECT\naccept-version:1.2\nhost:/\n\n\0")
                assert (await pipe.receive()).startswith(b"CONNECTED")
                await pipe.send(BROWSE % b"")
                answer = await pipe.receive()
            assert b"/not-allowed" in answer and method.lower().encode() in answer


async def test_it_shows_no_values_that_a_mask_hides_and_finds_none_by_them(tmp_path: Path) -> None:
    async with small_node(tmp_path, policy_of(users={"john": (), "ann": ("fraud",)})) as node:
        await node.change(masks=(Mask("pins", "/queue/a", ("pin",), ("/card",), ("fraud",)),))
        async with node.stomp("ann") as mom:
            await mom.send(QUEUE, '{"card": 4711}', headers={"pin": "0815"})
        seen: dict[str, list[bytes]] = {}
        for user in ("john", "ann"):
            for selector in (b"", b"selector:pin='0815'\n"):
                pipe = local.LocalPipe(node.node.registry, Identity(user, None))
                async with asyncio.timeout(patient(10)):
                    await pipe.send(b"CONNECT\naccept-version:1.2\nhost:/\n\n\0" + BROWSE % selector)
                    answers = b""
                    while b"\nbrowser:end\n" not in answers:
                        answers += await pipe.receive()
                seen.setdefault(user, []).append(answers)
        whole, by_pin = seen["john"]
        assert b"\npin:********\n" in whole and b'{"card":"********"}' in whole
        assert b"4711" not in whole and b"\npin:" not in by_pin
        assert all(b"\npin:0815\n" in answers and b'{"card": 4711}' in answers for answers in seen["ann"])
