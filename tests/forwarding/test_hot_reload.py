"""The file of connections changes while bridges run: what did not change keeps its socket."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.forwarding.home import (
    PASSWORD,
    Home,
    add_users,
    client,
    connection,
    depth,
    set_password,
    sockets,
    source,
)
from tests.support.broker_process import BrokerProcess, StartBroker
from tests.support.patience import patient
from tests.support.polling import poll
from tests.support.proxy import proxy


@pytest.fixture(scope="module", autouse=True)
def users(broker: BrokerProcess) -> None:
    """`broker` is the target of all tests here."""
    add_users(broker, "broker1", "other")


async def received(target: BrokerProcess, queue: str, count: int) -> list[str]:
    """The bodies of all that is in a queue, of which there are to be `count`."""
    bodies: list[str] = []
    async with (
        asyncio.timeout(patient(30)),
        client(target, "admin") as there,
        there.subscribe(f"/queue/{queue}") as messages,
    ):
        while len(bodies) < count:
            message = await messages.get()
            bodies.append(message.text)
            await message.ack()
    assert await asyncio.to_thread(depth, target, queue) == 0
    return bodies


async def test_a_new_port_of_one_bridge_leaves_the_other_and_all_clients_connected(
    start_broker: StartBroker, broker: BrokerProcess, tmp_path: Path
) -> None:
    home = Home(tmp_path / "config", start_broker)
    first, second = connection("b1", broker.stomp_port), connection("b2", broker.stomp_port)
    home.change(first + second)
    numbers = [str(number) for number in range(600)]
    async with client(home.broker, "admin") as app, proxy(broker.stomp_port) as other:

        async def feed(part: list[str]) -> None:
            for number in part:
                await asyncio.gather(
                    app.send(source("b1", "reload1"), number), app.send(source("b2", "reload2"), number)
                )

        await feed(numbers[:200])
        await asyncio.to_thread(poll, lambda: depth(broker, "reload1") == depth(broker, "reload2") == 200)
        before = sockets(home.broker, broker.stomp_port)
        assert len(before) == 2
        feeding = asyncio.create_task(feed(numbers[200:]))
        reload = await asyncio.to_thread(home.change, first + connection("b2", other.port))
        assert [thing["key"] for thing in reload["changed"]] == ["b2"]
        assert (reload["added"], reload["removed"]) == ([], [])
        await feeding
        await asyncio.to_thread(poll, lambda: len(sockets(home.broker, other.port)) == 1)
        (kept,) = sockets(home.broker, broker.stomp_port)
        assert kept in before, "the connection of b1 is the same socket"
        assert app.connected
        assert await received(broker, "reload1", 600) == numbers
        assert await received(broker, "reload2", 600) == numbers


async def test_a_syntax_error_in_line_4_changes_nothing_until_the_next_correct_save(
    start_broker: StartBroker, broker: BrokerProcess, tmp_path: Path
) -> None:
    home = Home(tmp_path / "config", start_broker)
    first, second = connection("b1", broker.stomp_port), connection("b2", broker.stomp_port)
    home.change(first + second)
    async with client(home.broker, "admin") as app:
        await app.send(source("b1", "syntax"), "1")
        await asyncio.to_thread(poll, lambda: depth(broker, "syntax") == 1)
        before = sockets(home.broker, broker.stomp_port)
        assert len(before) == 1, "b2 has nothing to send"
        broken = first + second + "\n/config/connection/messaging/b3 {}\n"
        refused = await asyncio.to_thread(home.change, broken)
        assert refused["outcome"] == "refused"
        assert [(error["file"], error["line"]) for error in refused["errors"]] == [("brokers.config", 4)]
        assert "brokers.config:4:" in home.broker.log
        (event, *_) = home.broker.request("GET", "/api/v1/events?kind=files").json()["items"]
        assert (event["event"], event["detail"].split(" ")[0]) == ("refused", "brokers.config:4:33:")
        await app.send(source("b1", "syntax"), "2")
        await asyncio.to_thread(poll, lambda: depth(broker, "syntax") == 2)
        assert sockets(home.broker, broker.stomp_port) == before
        repaired = await asyncio.to_thread(home.change, first + second + connection("b3", broker.stomp_port))
        assert (repaired["outcome"], [thing["key"] for thing in repaired["added"]]) == ("applied", ["b3"])
        await app.send(source("b3", "syntax"), "3")
        await asyncio.to_thread(poll, lambda: depth(broker, "syntax") == 3)
        assert before <= sockets(home.broker, broker.stomp_port)
    files = home.broker.request("GET", "/api/v1/config/files").json()
    assert files["totals"]["refused"] == 1 and files["state"] == "read"
    logged = home.broker.request("GET", "/api/v1/events?kind=files").json()["items"]
    (refusal,) = [event for event in logged if event["event"] == "refused"]
    assert "brokers.config:4:" in refusal["detail"]


async def test_one_of_fifty_bridges_changes_and_the_connections_of_the_others_are_the_same(
    start_broker: StartBroker, broker: BrokerProcess, tmp_path: Path
) -> None:
    home = Home(tmp_path / "config", start_broker)
    port = broker.stomp_port
    lines = [connection(f"b{number:02}", port) for number in range(50)]
    home.change("".join(lines))

    def at_target() -> dict[str, int]:
        """The connections of bridges as the remote broker lists them: session → peer's port."""
        rows = broker.request("GET", "/api/v1/connections?limit=200&user=broker1").json()["items"]
        ours = {local for local, _ in sockets(home.broker, port)}
        found = {row["id"]: int(row["address"].rpartition(":")[2]) for row in rows}
        return {id: peer for id, peer in found.items() if peer in ours}

    async with client(home.broker, "admin") as app:
        for number in range(50):
            await app.send(source(f"b{number:02}", "fifty"), str(number))
        await asyncio.to_thread(poll, lambda: depth(broker, "fifty") == 50)
        before, seen_before = sockets(home.broker, port), at_target()
        assert (len(before), len(seen_before)) == (50, 50)
        lines[17] = connection("b17", port, host="127.0.0.1")
        reload = await asyncio.to_thread(home.change, "".join(lines))
        assert [thing["key"] for thing in reload["changed"]] == ["b17"]
        assert reload["unchanged"] == 49
        await app.send(source("b17", "fifty"), "50")
        await asyncio.to_thread(poll, lambda: depth(broker, "fifty") == 51)
        # The old connection of b17 may have carried the message before it was closed.
        await asyncio.to_thread(poll, lambda: len(before & sockets(home.broker, port)) == 49)
        await asyncio.to_thread(poll, lambda: len(at_target()) == 50)
        after = at_target()
        assert len(after.items() & seen_before.items()) == 49


async def test_a_password_is_replaced_at_both_ends_while_messages_flow(
    start_broker: StartBroker, broker: BrokerProcess, tmp_path: Path
) -> None:
    home = Home(tmp_path / "config", start_broker)
    port = broker.stomp_port
    home.change(connection("b1", port))
    secret = "a new and secret one"
    numbers = [str(number) for number in range(900)]
    try:
        async with client(home.broker, "admin") as app:

            async def feed(part: list[str]) -> None:
                for number in part:
                    await app.send(source("b1", "rotated"), number)

            await feed(numbers[:300])
            feeding = asyncio.create_task(feed(numbers[300:]))
            await asyncio.to_thread(set_password, broker, "broker1", secret)
            await asyncio.to_thread(home.change, connection("b1", port, password=secret))
            await feeding
            assert await received(broker, "rotated", 900) == numbers
        assert secret not in home.broker.log
    finally:
        set_password(broker, "broker1", PASSWORD)


async def test_with_one_watched_file_all_bridges_reconnect_as_in_smash(
    start_broker: StartBroker, broker: BrokerProcess, tmp_path: Path
) -> None:
    original = '/config/mom += {"smash_reload": true}\n'
    home = Home(tmp_path / "config", start_broker, original)
    port = broker.stomp_port
    first, second = connection("b1", port), connection("b2", port)
    await asyncio.to_thread(home.change, first + second)
    async with client(home.broker, "admin") as app:
        for bridge in ("b1", "b2"):
            await app.send(source(bridge, "original"), "1")
        await asyncio.to_thread(poll, lambda: depth(broker, "original") == 2)
        before = sockets(home.broker, port)
        assert len(before) == 2
        await asyncio.to_thread(home.change, first + connection("b2", port, idle_s=50))
        await asyncio.to_thread(poll, lambda: not before & sockets(home.broker, port))
        for bridge in ("b1", "b2"):
            await app.send(source(bridge, "original"), "2")
        await asyncio.to_thread(poll, lambda: depth(broker, "original") == 4)
        assert app.connected
    shown = home.broker.request("GET", "/api/v1/config/files").json()
    assert {file["name"]: file["followed"] for file in shown["files"]} == {
        "zero.config": False, "brokers.config": True,
    }  # fmt: skip


async def test_messages_of_a_connection_that_goes_are_kept_until_it_is_back(
    start_broker: StartBroker, broker: BrokerProcess, tmp_path: Path
) -> None:
    home = Home(tmp_path / "config", start_broker)
    line = connection("b1", broker.stomp_port)
    await asyncio.to_thread(home.change, line)
    async with client(home.broker, "admin") as app:
        await app.send(source("b1", "gone"), "1")
        await asyncio.to_thread(poll, lambda: depth(broker, "gone") == 1)
        await asyncio.to_thread(home.change, "# nobody\n")
        await asyncio.to_thread(poll, lambda: not sockets(home.broker, broker.stomp_port))
        await app.send(source("b1", "gone"), "2")
        (orphan,) = home.broker.request("GET", "/api/v1/forwarding").json()["orphans"]
        assert (orphan["bridge"], orphan["queue"], orphan["depth"]) == ("b1", "gone", 1)
        assert "no connection is configured" in str(orphan)
        (home.folder / "brokers.config").unlink()
        await asyncio.to_thread(poll, lambda: home.reloads()[0]["outcome"] == "refused")
        await asyncio.to_thread(home.change, line)
        assert await received(broker, "gone", 2) == ["1", "2"]
