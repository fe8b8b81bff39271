"""Large calls over a link: messages and heart-beats pass them, and the other broker says how fast."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

import mom_client
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links.outbox import PIECE_BYTES, WINDOW_PIECES
from tests.channels.linked_site import Site
from tests.cluster.conftest import Brokers
from tests.support.node_process import nodes_in
from tests.support.patience import patient

QUEUE = "/queue/beside-calls"
BODY = bytes(range(256)) * 8 * 1024  # four windows
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def broker(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with nodes_in(tmp_path_factory.mktemp("large")) as made:
        brokers = Brokers(made, 1)
        brokers.start()
        yield brokers


@pytest.fixture
async def site(broker: Brokers) -> AsyncIterator[Site]:
    """The site that is linked to the broker."""
    site = await Site.link(broker.ports[0])
    yield site
    await site.close()


async def pieces(site: Site, number: int) -> bytes:
    """The next pieces that a site gets, joined."""
    return b"".join([(await site.next(f.ChannelPiece)).body for _ in range(number)])


async def test_messages_and_heart_beats_pass_a_call_of_which_only_a_window_was_taken(
    broker: Brokers, site: Site
) -> None:
    """Whatever the call's size, a message waits for no more of it than one window."""
    site.send(f.Subscribe(1, QUEUE, 1, 100))
    async with broker[0].stomp() as caller, broker[0].stomp() as producer:
        asked = asyncio.create_task(caller.request("/channel/hostile", BODY))
        begin = await site.next(f.ChannelCall)
        assert (begin.body, begin.size) == (b"", len(BODY))
        came = await pieces(site, WINDOW_PIECES)
        for number in range(10):
            await producer.send(QUEUE, b"%d" % number)
            delivered = await site.next(f.Deliver, f.ChannelPiece)
            assert [one.body for one in delivered.messages] == [b"%d" % number]
        await site.next(f.Ping)
        while len(came) < len(BODY):
            site.send(f.ChannelCredit(1))
            came += await pieces(site, 1)
        assert came == BODY
        site.send(f.ChannelAnswer(begin.number, "ok", None, b"taken"))
        async with asyncio.timeout(patient(10)):
            assert (await asked).body == b"taken"


async def test_calls_stay_in_order_behind_a_large_one_and_answers_do_not_wait(
    broker: Brokers, site: Site
) -> None:
    async with broker[0].stomp() as client, client.subscribe("/topic/$channel.requests", ack="auto") as calls:
        await client.send("/channel/hostile", BODY)
        await client.send("/channel/hostile", b"small")
        await site.next(f.ChannelCall)
        await pieces(site, WINDOW_PIECES)
        site.send(f.ChannelCall(7, 60_000, False, None, b"?"))
        async with asyncio.timeout(patient(10)):
            id = (await anext(calls)).headers["channel-call"]
        await client.send("/channel/$answer", b"!", headers={"channel-call": id})
        answer = await site.next(f.ChannelAnswer, f.ChannelCall)
        assert (answer.number, answer.body) == (7, b"!")
        for _ in range(len(BODY) // PIECE_BYTES - WINDOW_PIECES):
            site.send(f.ChannelCredit(1))
            await pieces(site, 1)
        assert (await site.next(f.ChannelCall)).body == b"small"


async def test_the_pieces_of_a_call_come_together_while_the_broker_answers_others(
    broker: Brokers, site: Site
) -> None:
    async with broker[0].stomp() as client, client.subscribe("/topic/$channel.requests", ack="auto") as calls:
        site.send(f.ChannelCall(0, 0, False, "1,0," + str(len(BODY) - 1), b"", len(BODY)))
        granted = 0
        for start in range(0, len(BODY), PIECE_BYTES):
            site.send(f.Ping(start), f.ChannelPiece(BODY[start : start + PIECE_BYTES]))
            while isinstance(frame := await site.next(f.Pong, f.ChannelCredit), f.ChannelCredit):
                granted += frame.pieces
            assert frame.number == start
        async with asyncio.timeout(patient(10)):
            call = await anext(calls)
        assert (call.body, call.headers["parts"]) == (BODY, f"1,0,{len(BODY) - 1}")
        if granted < len(BODY) // PIECE_BYTES:
            granted += (await site.next(f.ChannelCredit)).pieces
        assert granted == len(BODY) // PIECE_BYTES


async def test_a_site_that_takes_no_pieces_costs_a_bounded_number_of_bytes(
    broker: Brokers, site: Site
) -> None:
    async with broker[0].stomp() as client:
        for _ in range(3):
            await client.send("/channel/hostile", bytes(17 * MIB))
        with pytest.raises(mom_client.Refused, match="busy"):
            await client.send("/channel/hostile", b"one more")
    await pieces(site, WINDOW_PIECES)
