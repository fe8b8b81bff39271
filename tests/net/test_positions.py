"""Positions of another journal, below the end of this one: they are reported, and never taken for its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from broker_app.core import commands as c
from broker_app.core.policy import DestinationPolicy, Policies
from broker_app.net.rest.messages.chosen import NEVER_GIVEN
from tests.net.test_json_session import opened, publish
from tests.support.small_broker import SmallBroker, small_broker

TOPIC = "/topic/a"


@pytest.fixture
async def broker() -> AsyncIterator[SmallBroker]:
    async with small_broker() as running:
        running.engine.submit(c.Reconfigure(Policies(DestinationPolicy(retention_ms=60_000))))
        await running.engine.wait_idle()
        yield running


def tags(broker: SmallBroker) -> tuple[str, str]:
    """The tag of the broker's journal, and that of another one."""
    own = broker.engine.broker.turn.ids.journal
    return own, f"{own}0"


async def test_a_client_of_stomp_learns_the_tag_when_it_logs_in(broker: SmallBroker) -> None:
    stranger = await broker.stranger()
    login = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:anna\npasscode:secret\n\n\0"
    assert f"\nmom-journal:{tags(broker)[0]}\n".encode() in await stranger.ask(login)


async def test_a_replay_from_a_position_of_another_journal_begins_at_the_oldest_message_and_says_so(
    broker: SmallBroker,
) -> None:
    own, foreign = tags(broker)
    await publish(broker, b"1", b"2", b"3", address=TOPIC)
    for tag, bodies, is_reported in ((own, b"23", False), (foreign, b"123", True)):
        client = await broker.client()
        client.send(f"SUBSCRIBE\nid:1\ndestination:{TOPIC}\nfrom:seq:{tag}-2\nreceipt:r\n\n\0".encode())
        receipt, *messages = await client.frames(1 + len(bodies))
        assert receipt.startswith(b"RECEIPT\nreceipt-id:r\n")
        assert (b"\nunknown-position:true\n" in receipt) == is_reported
        assert b"".join(message[-1:] for message in messages) == bodies
        await client.close()


async def test_a_replay_with_json_does_so_too(broker: SmallBroker) -> None:
    own, foreign = tags(broker)
    await publish(broker, b"1", b"2", b"3", address=TOPIC)
    for tag, bodies in ((own, ["2", "3"]), (foreign, ["1", "2", "3"])):
        client = await opened(broker)
        done = await client.ask("subscribe", id="1", topic="a", **{"from": f"seq:{tag}-2"})
        assert (done["op"], done.get("unknown_position")) == ("done", True if tag == foreign else None)
        assert await client.bodies(len(bodies)) == bodies
        await client.conversation.leave()


async def test_a_message_is_not_received_by_a_position_of_another_journal(broker: SmallBroker) -> None:
    own, foreign = tags(broker)
    await publish(broker, b"1", b"2")
    client = await opened(broker)
    received = await client.ask("receive", queue="a", seqs=[f"{foreign}-1", f"{own}-2", f"{own}-999"])
    assert [item["body"] for item in received["items"]] == ["2"]
    assert [(one["seq"], one["status"], one["detail"]) for one in received["missing"]] == [
        (f"{foreign}-1", "gone", NEVER_GIVEN),
        (f"{own}-999", "gone", NEVER_GIVEN),
    ]
    refused = await client.ask("receive", queue="a", seqs=[1, "yesterday"])
    assert (refused["op"], refused["errors"][0]["pointer"]) == ("problem", "/seqs/1")
    await client.conversation.leave()


async def test_a_list_behind_a_position_of_another_journal_has_all_that_waits_and_says_so(
    broker: SmallBroker,
) -> None:
    own, foreign = tags(broker)
    await publish(broker, b"1", b"2")
    client = await opened(broker)
    await client.ask("subscribe", id="n", queue="a", mode="notify")
    found = await client.event("arrived")
    assert (found["journal"], found["event_id"]) == (own, f"{own}-{found['seq']}")
    first, second = found["seqs"]
    listed = await client.ask("pending", id="n", after=f"{own}-{first}")
    assert (listed["seqs"], listed["journal"], "unknown_position" in listed) == ([second], own, False)
    listed = await client.ask("pending", id="n", after=f"{foreign}-{first}")
    assert (listed["seqs"], listed["unknown_position"]) == ([first, second], True)
    await client.conversation.leave()
