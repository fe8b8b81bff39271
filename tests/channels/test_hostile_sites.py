"""A site that has the secret of the cluster, and does not keep to the protocol: it costs others nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from broker_app.features.channels.handlers import MOST_CALLS
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links.outbox import PIECE_BYTES
from tests.channels.linked_site import Site
from tests.cluster.conftest import Brokers
from tests.support.node_process import nodes_in
from tests.support.patience import patient

REQUESTS = "/topic/$channel.requests"


@pytest.fixture(scope="module")
def broker(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """The broker b1, whose cluster has the address of no other."""
    with nodes_in(tmp_path_factory.mktemp("hostile")) as made:
        brokers = Brokers(made, 1)
        brokers.start()
        yield brokers


#: the beginning of a call whose body comes in pieces
LARGE = f.ChannelCall(1, 1_000, False, None, b"", 2 * PIECE_BYTES)
PIECE = f.ChannelPiece(b"x" * PIECE_BYTES)


@pytest.mark.parametrize(
    "frames",
    [
        [f.ChannelCall(0, 0, False, "2,2", b"abc")],
        [f.ChannelCall(1, 1_000, False, "-1,4", b"abc")],
        [f.ChannelCall(1, 1_000, False, "0," * 1_000 + "3", b"abc")],
        [f.ChannelCall(1, 1_000, False, "9" * 5_000, b"abc")],
        [f.ChannelCall(1, 1_000, False, None, b"x" * f.MIB)],
        [f.ChannelCall(1, 1_000, False, None, b"", 1 << 40)],
        [f.ChannelCall(1, 1_000, False, None, b"with a body", 2 * PIECE_BYTES)],
        [f.ChannelAnswer(1, "fine", None, b"")],
        [f.ChannelAnswer(1, "ok", "1", b"")],
        [PIECE],
        [LARGE, LARGE],
        [LARGE, f.ChannelPiece(b"")],
        [LARGE, f.ChannelPiece(b"x" * (PIECE_BYTES + 1))],
        [LARGE, PIECE, PIECE, PIECE],
    ],
)
async def test_frames_that_no_broker_sends_end_their_link_alone(
    broker: Brokers, frames: list[f.Frame]
) -> None:
    site = await Site.link(broker.ports[0])
    site.send(*frames)
    refused = await site.next()
    await site.close()
    assert refused.code == "protocol-error"
    async with broker[0].stomp() as client:
        reply = await client.request("/channel/b1", b"?")
        assert reply.headers["channel-status"] == "noserver"


async def test_a_frame_larger_than_any_message_is_refused_before_it_has_come(broker: Brokers) -> None:
    site = await Site.link(broker.ports[0])
    site.send_bytes((1 << 31).to_bytes(4, "big"))
    refused = await site.next()
    await site.close()
    assert (refused.code, "are allowed" in refused.detail) == ("protocol-error", True)


async def test_a_frame_that_never_ends_holds_up_no_application(broker: Brokers) -> None:
    site = await Site.link(broker.ports[0])
    whole = f.encode(f.ChannelCall(1, 1_000, False, None, b"x" * 100_000))
    site.send_bytes(whole[:-1])
    async with broker[0].stomp() as client, client.subscribe(REQUESTS, ack="auto") as calls:
        await client.send("/channel/b1", b"of another site")
        async with asyncio.timeout(patient(10)):
            assert (await anext(calls)).body == b"of another site"
            site.send_bytes(whole[-1:])
            assert len((await anext(calls)).body) == 100_000
    await site.close()


async def test_a_flood_of_requests_and_of_answers_to_none_is_bounded(broker: Brokers) -> None:
    async with broker[0].stomp() as client, client.subscribe(REQUESTS, ack="auto") as calls:
        site = await Site.link(broker.ports[0])
        for number in range(1, 3 * MOST_CALLS):
            site.send(
                f.ChannelCall(number, 1 << 60, False, None, b"?"), f.ChannelAnswer(number, "ok", None, b"!")
            )
        busy = [await site.next(f.ChannelAnswer) for _ in range(2 * MOST_CALLS - 1)]
        assert {(answer.status, answer.number > MOST_CALLS) for answer in busy} == {("rep-unavail", True)}
        async with asyncio.timeout(patient(10)):
            call = await anext(calls)
        await client.send("/channel/$answer", b"yes", headers={"channel-call": call.headers["channel-call"]})
        answer = await site.next(f.ChannelAnswer)
        assert (answer.number, answer.status, answer.body) == (1, "ok", b"yes")
        async with broker[0].rest() as http:
            rows = (await http.get("/sites")).json()["items"]
        (hostile,) = [row for row in rows if row["name"] == "hostile"]
        assert hostile["dropped"] == {"late": 3 * MOST_CALLS - 1}
        await site.close()
