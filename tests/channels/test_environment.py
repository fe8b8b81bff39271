"""Environments and channels of the client library, between three real sites (CH-T01 to T10)."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import mom_client
import mom_client.blocking
from mom_client import MASTER
from mom_client import channels as ch
from tests.cluster.conftest import Brokers
from tests.support.awaiting import becomes, until
from tests.support.broker_process import ROOT
from tests.support.node_process import NodeProcess, nodes_in
from tests.support.patience import patient

ECHO: list[bytes] = [b"a", b"", b"c" * 3]


@pytest.fixture(scope="module")
def sites(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Three sites; b1 is the master."""
    with nodes_in(tmp_path_factory.mktemp("sites")) as nodes:
        brokers = Brokers(nodes, 3, keeper=0, cluster_dynamic_keeper=True)
        brokers.start()
        asyncio.run(_linked(brokers))
        yield brokers


async def _linked(brokers: Brokers) -> None:
    for node in brokers:

        async def up(node: NodeProcess = node) -> int:
            async with node.rest() as http:
                links = (await http.get("/cluster")).json()["links"]
            return sum(link["state"] == "up" for link in links)

        await becomes(up, 2)


@asynccontextmanager
async def at(node: NodeProcess, handler: Any = None) -> AsyncIterator[ch.Environment]:
    """An environment at a site, with a handler."""
    env = await mom_client.environment(
        f"stomp://127.0.0.1:{node.stomp_port}", site=node.name, login=node.user, passcode=node.password
    )
    if handler is not None:
        await env.repmgr_msg_dispatch(handler)
    await env.repmgr_start()
    async with env:
        yield env


class Echo:
    """Answers each request with one part: all that came, with commas between."""

    def __init__(self) -> None:
        self.got: list[tuple[str, list[bytes], bool]] = []

    async def __call__(self, channel: ch.ResponseChannel, parts: list[bytes], need_response: bool) -> None:
        self.got.append((channel.site, parts, need_response))
        if need_response:
            await channel.send_msg([b",".join(parts)])


async def test_a_request_of_several_parts_is_answered_by_the_master(sites: Brokers) -> None:
    b1, b2, _ = sites
    echo = Echo()
    async with at(b1, echo.__call__), at(b2) as env:
        channel = await env.repmgr_channel(MASTER)
        assert await channel.send_request(ECHO) == b"a,,ccc"
        assert echo.got == [("b2", ECHO, True)]


async def test_a_message_is_handed_over_without_an_answer(sites: Brokers) -> None:
    _, b2, b3 = sites
    echo = Echo()
    async with at(b3, echo.__call__), at(b2) as env:
        channel = await env.repmgr_channel("b3")
        await channel.send_msg([b"1"])
        await channel.send_msg([b"2", b"3"])
        await until(lambda: len(echo.got) == 2)
        assert echo.got == [("b2", [b"1"], False), ("b2", [b"2", b"3"], False)]


async def test_the_master_itself_gets_what_it_sends_to_the_master(sites: Brokers) -> None:
    b1, _, _ = sites
    echo = Echo()
    async with at(b1, echo.__call__) as env:
        channel = await env.repmgr_channel(MASTER)
        assert await channel.send_request([b"to", b"myself"]) == b"to,myself"
        await channel.send_msg([b"async"])
        await until(lambda: len(echo.got) == 2)


async def test_a_late_answer_is_a_timeout_and_reaches_no_later_request(sites: Brokers) -> None:
    _, b2, b3 = sites
    first = asyncio.Event()

    async def handler(channel: ch.ResponseChannel, parts: list[bytes], _: bool) -> None:
        if parts == [b"slow"]:
            await first.wait()
        await channel.send_msg(parts)

    async with at(b3, handler), at(b2) as env:
        channel = await env.repmgr_channel("b3")
        channel.set_timeout(0.5)
        began = time.monotonic()
        with pytest.raises(ch.DB_TIMEOUT):
            await channel.send_request([b"slow"])
        assert 0.5 <= time.monotonic() - began < patient(1.5)
        later = asyncio.create_task(channel.send_request([b"later"], 5))
        first.set()
        assert await later == b"later"


async def test_without_a_handler_a_request_is_refused_and_a_message_is_not(sites: Brokers) -> None:
    _, b2, _ = sites
    async with at(b2) as env:
        channel = await env.repmgr_channel("b3")
        with pytest.raises(ch.DB_NOSERVER):
            await channel.send_request([b"x"])
        await channel.send_msg([b"x"])


async def test_handlers_answer_once_with_one_part_or_not_at_all(sites: Brokers) -> None:
    _, b2, b3 = sites
    refused: list[str] = []

    async def handler(channel: ch.ResponseChannel, parts: list[bytes], _: bool) -> None:
        (how,) = parts
        if how == b"empty":
            await channel.send_msg([])
        elif how == b"several":
            try:
                await channel.send_msg([b"1", b"2"])
            except ch.EINVAL:
                refused.append("several")
        elif how == b"twice":
            await channel.send_msg([b"first"])
            with pytest.raises(ch.EINVAL):
                await channel.send_msg([b"second"])
            refused.append("twice")
            for call in (channel.close, lambda: channel.set_timeout(1), lambda: channel.send_request([])):
                with pytest.raises(ch.EINVAL):
                    call()

    async with at(b3, handler), at(b2) as env:
        channel = await env.repmgr_channel("b3")
        with pytest.raises(ch.DB_KEYEMPTY):
            await channel.send_request([b"none"])
        assert await channel.send_request([b"empty"]) == b""
        assert await channel.send_request([b"twice"]) == b"first"
        with pytest.raises(ch.DB_BUFFER_SMALL):
            await channel.send_request([b"several"])
        assert await channel.send_request([b"several"], multiple=True) == [b"1", b"2"]
        await until(lambda: refused == ["twice", "several"])


async def test_a_channel_that_is_closed_fails_what_does_not_end_in_time(sites: Brokers) -> None:
    """CH-A03."""
    _, b2, b3 = sites
    called, released = asyncio.Event(), asyncio.Event()

    async def handler(channel: ch.ResponseChannel, parts: list[bytes], _: bool) -> None:
        called.set()
        await released.wait()

    async with at(b3, handler), at(b2) as env:
        channel = await env.repmgr_channel("b3")
        asked = asyncio.create_task(channel.send_request([b"?"]))
        await called.wait()
        await channel.close(wait_s=0)
        with pytest.raises(ch.ChannelClosed, match="closed meanwhile"):
            await asked
        released.set()


async def test_an_environment_that_closes_waits_for_its_handlers_only_so_long(sites: Brokers) -> None:
    _, b2, b3 = sites
    called, cancelled = asyncio.Event(), asyncio.Event()

    async def handler(channel: ch.ResponseChannel, parts: list[bytes], _: bool) -> None:
        called.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with at(b3, handler) as serving, at(b2) as env:
        channel = await env.repmgr_channel("b3")
        await channel.send_msg([b"message"])
        await called.wait()
        await serving.close(wait_s=0.01)
        assert cancelled.is_set()
        await channel.close()


async def test_a_handler_sends_messages_back_and_requests_to_its_own_site(sites: Brokers) -> None:
    """CH-P11, CH-A08."""
    _, b2, b3 = sites
    echo = Echo()

    async def handler(channel: ch.ResponseChannel, parts: list[bytes], need_response: bool) -> None:
        assert need_response is (parts != [b"message"])
        if parts == [b"outer"]:
            answer = await own.send_request([b"inner"])
            assert isinstance(answer, bytes)
            parts = [answer]
        await channel.send_msg(parts)

    async with at(b3, handler) as env, at(b2, echo.__call__) as other:
        own = await env.repmgr_channel("b3")
        assert await own.send_request([b"outer"]) == b"inner"
        channel = await other.repmgr_channel("b3")
        await channel.send_msg([b"message"])
        await until(lambda: echo.got == [("b3", [b"message"], False)])


async def test_channels_are_opened_after_the_start_to_sites_that_exist(sites: Brokers) -> None:
    _, b2, _ = sites
    login = {"login": b2.user, "passcode": b2.password}
    env = await mom_client.environment(f"stomp://127.0.0.1:{b2.stomp_port}", **login)
    with pytest.raises(ch.EINVAL, match="repmgr_start"):
        await env.repmgr_channel("b3")
    await env.repmgr_start()
    assert env.site == "b2"
    with pytest.raises(ch.EINVAL):
        await env.repmgr_channel("1732")
    channel = await env.repmgr_channel("b3")
    with pytest.raises(ch.EINVAL, match="close the channels to b3"):
        await env.close()
    await channel.close()
    with pytest.raises(ch.ChannelClosed):
        await channel.send_msg([b"x"])
    await env.close()
    other = await mom_client.environment(f"stomp://127.0.0.1:{b2.stomp_port}", site="b3", **login)
    with pytest.raises(ch.EINVAL, match="is site 'b2'"):
        await other.repmgr_start()


def test_scripts_without_asyncio_take_part(sites: Brokers) -> None:
    _, b2, b3 = sites

    def handler(channel: Any, parts: list[bytes], need_response: bool) -> None:
        if need_response:
            channel.send_msg([parts[0].upper()])

    def environment(node: NodeProcess) -> mom_client.blocking.Environment:
        url = f"stomp://127.0.0.1:{node.stomp_port}"
        return mom_client.blocking.environment(url, site=node.name, login=node.user, passcode=node.password)

    with environment(b3) as there, environment(b2) as here:
        there.repmgr_msg_dispatch(handler)
        there.repmgr_start()
        here.repmgr_start()
        channel = here.repmgr_channel("b3")
        assert channel.send_request([b"hello"]) == b"HELLO"
        channel.close()


async def test_the_sample_program_keeps_prices_at_every_site(sites: Brokers) -> None:
    """CH-T15."""
    b1, b2, _ = sites
    programs = []
    for node in (b1, b2):
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, str(Path("docs") / "examples" / "ex_rep_chan.py")),
            *("--url", f"stomp://127.0.0.1:{node.stomp_port}", "--site", node.name),
            *("--login", node.user, "--passcode", node.password),
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        programs.append(program)
        assert await ask(program, "unknown") == "unknown command 'unknown'; help shows all"
    try:
        here = programs[1]
        assert await ask(here, "put_sync IBM 3.5 AAPL 2 odd") == "odd has no price, and is ignored"
        assert await ask(here, "get IBM AAPL", 2) == "IBM\t3.5\nAAPL\t2"
        assert await ask(here, "print", 2) == "AAPL\t2\nIBM\t3.5"
        assert await ask(here, "get NONE") == "there is no price of NONE"
        assert await ask(here, "put X", 2) == "X has no price, and is ignored\nput needs a key"
        assert await ask(here, "put" + " K 1" * 16 + " K") == "at most 32 words are allowed after the command"
        assert "show the prices as this site has them" in await ask(here, "help", 6)
    finally:
        for program in programs:
            assert program.stdin is not None
            program.stdin.write(b"quit\n")
            await asyncio.wait_for(program.wait(), patient(20))


async def ask(program: asyncio.subprocess.Process, line: str, answers: int = 1) -> str:
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(f"{line}\n".encode())
    lines = [await asyncio.wait_for(program.stdout.readline(), patient(20)) for _ in range(answers)]
    return b"".join(lines).decode().rstrip()


async def test_a_channel_to_the_master_follows_it_to_another_site(sites: Brokers) -> None:
    b1, b2, b3 = sites
    old, new = Echo(), Echo()
    async with at(b1, old.__call__), at(b3, new.__call__), at(b2) as env:
        channel = await env.repmgr_channel(MASTER)
        assert await channel.send_request([b"1"]) == b"1"
        for keeper, chosen, echo in ((b1, "b3", new), (b3, "b1", old)):
            echo.got.clear()
            async with keeper.rest() as http:
                answer = await http.put("/cluster/keeper", json={"broker": chosen})
            assert answer.status_code == 200, answer.text

            async def answered_by(chosen: str = chosen) -> bool:
                async with b2.rest() as http:
                    found = (await http.get("/sites")).json()["items"]
                return [site["name"] for site in found if site["is_master"]] == [chosen]

            await becomes(answered_by, True)
            assert await channel.send_request([b"2"]) == b"2"
            assert len(echo.got) == 1
        assert len(old.got) == 1
        assert len(new.got) == 1
