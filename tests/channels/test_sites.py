"""Three sites: messages and requests cross the links, and a channel to the master goes to the keeper."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import mom_client
from mom_client.channels import DB_REP_UNAVAIL, EINVAL, ResponseChannel
from tests.cluster.conftest import Brokers
from tests.cluster.conftest import nodes as nodes
from tests.support.awaiting import becomes
from tests.support.node_process import NodeProcess, Nodes, nodes_in
from tests.support.patience import patient

REQUESTS = "/topic/$channel.requests"
ANSWER = "/channel/$answer"


@pytest.fixture(scope="module")
def sites(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """b1, which is the master, b2 and b3."""
    with nodes_in(tmp_path_factory.mktemp("sites")) as made:
        brokers = Brokers(made, 3, keeper=0)
        brokers.start()
        yield brokers


@pytest.fixture
async def clients(sites: Brokers) -> AsyncIterator[list[mom_client.Client]]:
    """A client at each site, once these are linked."""
    for node in sites:
        await becomes(lambda node=node: linked(node), 2)  # type: ignore[misc]
    opened = [node.stomp() for node in sites]
    async with opened[0], opened[1], opened[2]:
        yield opened


async def linked(node: NodeProcess) -> int:
    async with node.rest() as http:
        return sum(one["state"] == "up" for one in (await http.get("/cluster")).json()["links"])


async def of_site(node: NodeProcess, site: str, member: str) -> Any:
    """A member of a site, as a broker sees it."""
    async with node.rest() as http:
        rows = (await http.get("/sites")).json()["items"]
    (found,) = [row[member] for row in rows if row["name"] == site]
    return found


async def soon(messages: mom_client.Subscription) -> mom_client.Message:
    async with asyncio.timeout(patient(10)):
        return await anext(messages)


async def answer(client: mom_client.Client, call: mom_client.Message, body: bytes) -> None:
    await client.send(ANSWER, body, headers={"channel-call": call.headers["channel-call"]})


async def test_a_request_to_the_master_has_its_parts_and_its_answer(
    clients: list[mom_client.Client],
) -> None:
    """CH-T01, CH-T03."""
    b1, b2, _ = clients
    async with b1.subscribe(REQUESTS, ack="auto") as calls:
        for client, site in ((b2, "b2"), (b1, "b1")):
            headers = {"parts": "1,0,3"}
            asked = asyncio.create_task(client.request("/channel/$master", b"abcd", headers=headers))
            call = await soon(calls)
            shown = [call.headers[name] for name in ("channel-from", "need-response", "parts")]
            assert (call.body, shown) == (b"abcd", [site, "true", "1,0,3"])
            await answer(b1, call, b"re: abcd")
            reply = await asked
            assert (reply.body, reply.headers["channel-status"]) == (b"re: abcd", "ok")


async def test_a_message_is_handed_over_once_and_answered_by_nothing(
    clients: list[mom_client.Client],
) -> None:
    """CH-T02."""
    _, b2, b3 = clients
    async with b3.subscribe(REQUESTS, ack="auto") as calls:
        for number in range(20):
            await b2.send("/channel/b3", b"%d" % number)
        came = [await soon(calls) for _ in range(20)]
    assert [call.body for call in came] == [b"%d" % number for number in range(20)]
    assert {call.headers["need-response"] for call in came} == {"false"}


async def test_the_time_limit_is_that_of_the_request_and_a_late_answer_reaches_no_other(
    clients: list[mom_client.Client],
) -> None:
    """CH-T05."""
    _, b2, b3 = clients
    async with b3.subscribe(REQUESTS, ack="auto") as calls:
        began = time.monotonic()
        asked = asyncio.create_task(b2.request("/channel/b3", b"slow", headers={"timeout-ms": "300"}))
        late = await soon(calls)
        reply = await asked
        assert reply.headers["channel-status"] == "timeout"
        assert 0.3 <= time.monotonic() - began < 0.3 + patient(0.5)
        asked = asyncio.create_task(b2.request("/channel/b3", b"quick"))
        next_call = await soon(calls)
        await answer(b3, late, b"late")
        await answer(b3, next_call, b"in time")
        assert (await asked).body == b"in time"


async def test_a_site_without_a_handler_answers_at_once_and_counts_what_it_drops(
    sites: Brokers, clients: list[mom_client.Client]
) -> None:
    """CH-T06."""
    _, b2, _ = clients
    reply = await b2.request("/channel/b3", b"?", headers={"timeout-ms": "60000"}, timeout_s=patient(1))
    assert reply.headers["channel-status"] == "noserver"
    await b2.send("/channel/b3", b"!")
    await becomes(lambda: of_site(sites[2], "b2", "dropped"), {"noserver": 1})
    assert (await of_site(sites[1], "b3", "failed"))["noserver"] == 1
    assert [await of_site(sites[1], site, "is_master") for site in ("b1", "b2", "b3")] == [True, False, False]
    assert await of_site(sites[1], "b3", "handlers") == 0
    async with clients[2].subscribe(REQUESTS, ack="auto"):
        await becomes(lambda: of_site(sites[1], "b3", "handlers"), 1)


async def test_a_handler_answers_once_or_not_at_all(clients: list[mom_client.Client]) -> None:
    """CH-T07, CH-T08."""
    _, b2, b3 = clients
    async with b3.subscribe(REQUESTS, ack="auto") as calls:
        asked = asyncio.create_task(b2.request("/channel/b3", b"?"))
        call = await soon(calls)
        headers = {"channel-call": call.headers["channel-call"], "channel-status": "keyempty"}
        await b3.send(ANSWER, b"", headers=headers)
        assert (await asked).headers["channel-status"] == "keyempty"
        asked = asyncio.create_task(b2.request("/channel/b3", b"?"))
        call = await soon(calls)
        await answer(b3, call, b"")
        with pytest.raises(mom_client.Refused) as refused:
            await answer(b3, call, b"again")
        assert refused.value.code == "invalid"
        reply = await asked
        assert (reply.body, reply.headers["channel-status"]) == (b"", "ok")


async def test_many_requests_at_once_each_get_their_own_answer(clients: list[mom_client.Client]) -> None:
    _, b2, b3 = clients

    async def serve(calls: mom_client.Subscription) -> None:
        async for call in calls:
            await answer(b3, call, b"re: " + call.body)

    async with b3.subscribe(REQUESTS, ack="auto") as one, b3.subscribe(REQUESTS, ack="auto") as other:
        serving = [asyncio.create_task(serve(calls)) for calls in (one, other)]
        bodies = [b"%d" % number for number in range(100)]
        replies = await asyncio.gather(*(b2.request("/channel/b3", body) for body in bodies))
        assert [reply.body for reply in replies] == [b"re: " + body for body in bodies]
        for task in serving:
            task.cancel()


async def test_a_large_message_crosses_while_others_are_answered(clients: list[mom_client.Client]) -> None:
    _, b2, b3 = clients
    large = bytes(range(256)) * 20_000  # 5 MB
    async with b3.subscribe(REQUESTS, ack="auto") as calls:
        asked = asyncio.create_task(b2.request("/channel/b3", large))
        call = await soon(calls)
        assert call.body == large
        await answer(b3, call, large)
        assert (await asked).body == large


async def test_a_handler_that_leaves_and_a_site_that_goes_away_leave_the_outcome_unknown(
    sites: Brokers, clients: list[mom_client.Client]
) -> None:
    """CH-P12, CH-T10: afterwards the site is known, and not linked."""
    _, b2, b3 = clients
    async with b3.subscribe(REQUESTS, ack="auto") as calls:
        asked = asyncio.create_task(b2.request("/channel/b3", b"?"))
        await soon(calls)
    assert (await asked).headers["channel-status"] == "rep-unavail"
    async with b3.subscribe(REQUESTS, ack="auto") as calls:
        asked = asyncio.create_task(b2.request("/channel/b3", b"?"))
        await soon(calls)
        sites[2].kill()
        reply = await asked
        assert reply.headers["channel-status"] == "rep-unavail"
        assert "unknown" in reply.headers["reason"]
    for site, code in (("b3", "rep-unavail"), ("1732", "invalid")):
        with pytest.raises(mom_client.Refused) as refused:
            await b2.send(f"/channel/{site}", b"", headers={"channel-open": "true"})
        assert refused.value.code == code
    sites[2].start()


async def test_applications_use_channels_with_the_names_of_berkeley_db(sites: Brokers) -> None:
    async def handler(channel: ResponseChannel, parts: list[bytes], need_response: bool) -> None:
        assert need_response
        await channel.send_msg([b"re", *parts])

    b1, b2 = (f"stomp://127.0.0.1:{node.stomp_port}" for node in sites.all[:2])
    login = {"login": NodeProcess.user, "passcode": NodeProcess.password}
    async with (
        mom_client.environment(b1, site="b1", **login) as master,
        mom_client.environment(b2, site="b2", **login) as env,
    ):
        await master.repmgr_msg_dispatch(handler)
        await master.repmgr_start()
        await env.repmgr_start()
        channel = await env.repmgr_channel(mom_client.MASTER)
        assert await channel.send_request([b"a", b""], multiple=True) == [b"re", b"a", b""]
        with pytest.raises(EINVAL):
            await env.repmgr_channel("1732")


async def test_a_cluster_without_a_keeper_has_no_master(nodes: Nodes) -> None:
    """CH-T10."""
    (alone,) = brokers = Brokers(nodes, 1)
    brokers.start()
    url = f"stomp://127.0.0.1:{alone.stomp_port}"
    async with mom_client.environment(url, login=alone.user, passcode=alone.password) as env:
        with pytest.raises(EINVAL):
            await env.repmgr_channel(mom_client.MASTER)
        await env.repmgr_start()
        with pytest.raises(DB_REP_UNAVAIL, match="no master"):
            await env.repmgr_channel(mom_client.MASTER)
