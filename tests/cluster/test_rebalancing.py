"""Clients that a broker has above its share go to another one, by an order; and the preview of that."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import mom_client
from broker_app.cli.base.failures import OK, USAGE
from broker_app.net.rest import openapi
from mom_client.connection.link import Opener
from mom_client.connection.transport import Transport, open_transport
from tests.cli.conftest import CommandLine, Result
from tests.cluster.conftest import Brokers
from tests.cluster.test_failover_of_clients import linked
from tests.cluster.test_messages_across_brokers import consumers, take
from tests.support.awaiting import becomes
from tests.support.node_process import NodeProcess, nodes_in

PATIENT_S = 30.0


@pytest.fixture(scope="module")
def pair(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Two brokers that run, and send clients lists."""
    with nodes_in(tmp_path_factory.mktemp("rebalancing")) as nodes:
        brokers = Brokers(nodes, 2, update_cluster_clients=True)
        brokers.start()
        yield brokers


class Clients:
    """Clients that follow lists, and what became of their connections."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.all: list[mom_client.Client] = []
        #: how often each has changed its broker, by its place in `all`
        self.changes: Counter[int] = Counter()

    async def add(
        self, node: NodeProcess, options: str = "", *, plain: bool = False, opener: Opener | None = None
    ) -> mom_client.Client:
        """Connect one; a `plain` one takes no lists."""
        at = len(self.all)
        url = f"stomp://127.0.0.1:{node.stomp_port}"

        def note(event: mom_client.ConnectionEvent) -> None:
            self.changes[at] += event.kind == "reconnected"

        client = mom_client.connect(
            url if plain else f"failover:({url}){options}",
            login=node.user, passcode=node.password, listener=note, opener=opener,
        )  # fmt: skip
        self.all.append(await self._stack.enter_async_context(client))
        return client

    def at(self, node: NodeProcess) -> list[int]:
        """Those that are connected to a broker."""
        address = f"stomp://127.0.0.1:{node.stomp_port}"
        return [at for at, client in enumerate(self.all) if client.address == address]


async def rebalance(node: NodeProcess, *, post: dict[str, Any] | None = None) -> dict[str, Any]:
    """The report about rebalancing; `post` is an order. It is as it is described."""
    async with node.rest() as http:
        path = "/cluster/rebalance"
        reply = await (http.get(path) if post is None else http.post(path, json=post))
    found: dict[str, Any] = reply.json()
    assert reply.status_code in (200, 202), found
    schema = {"$ref": "#/components/schemas/Rebalance", "components": openapi.document()["components"]}
    jsonschema.validate(found, schema)
    return found


async def clients_of(node: NodeProcess) -> list[dict[str, Any]]:
    """The clients of a broker, in the order in which they came."""
    async with node.rest() as http:
        items: list[dict[str, Any]] = (await http.get("/cluster/clients")).json()["items"]
    return sorted(items, key=lambda one: int(one["address"].rpartition(":")[2]))


async def settled(first: NodeProcess, second: NodeProcess) -> None:
    """Both are linked and know of no client of the other."""
    await becomes(lambda: linked(first), 1)

    async def counts() -> list[int]:
        return [one["clients"] for one in (await rebalance(first))["brokers"]]

    await becomes(counts, [0, 0])


async def test_only_the_surplus_goes_and_who_has_begun_something_goes_when_that_is_done(
    pair: Brokers,
) -> None:
    b1, b2 = pair
    await settled(b1, b2)
    async with AsyncExitStack() as stack:
        clients = Clients(stack)
        first = f"stomp://127.0.0.1:{b1.stomp_port}"
        await clients.add(b1, plain=True)
        await clients.add(b1, f"?priorityBackup=true&priorityURIs={first}")
        begun = await clients.add(b1)
        busy = await clients.add(b1)
        for _ in range(2):
            await clients.add(b1)
        await begun.send("/queue/kept", b"unsettled")
        messages = await stack.enter_async_context(busy.subscribe("/queue/kept"))
        (unsettled,) = await take(messages, 1, ack=False)
        transaction = begun.transaction()
        await transaction.__aenter__()
        await transaction.send("/queue/whole", b"1")

        async def stays() -> dict[str, int]:
            found: dict[str, int] = (await rebalance(b1))["stays"]
            return found

        await becomes(stays, {"deliveries": 1, "no-list": 1, "priority": 1, "transaction": 1})
        preview = await rebalance(b1, post={"dry_run": True})
        assert (preview["share"], preview["moves"], preview["dry_run"]) == (3, 2, True)
        assert preview["brokers"] == [
            {"broker": "b1", "clients": 6, "gets": 0, "surplus": 3},
            {"broker": "b2", "clients": 0, "gets": 3, "surplus": 0},
        ]
        assert (preview["running"], clients.at(b2)) == (None, [])
        assert Counter(one["to"] for one in await clients_of(b1)) == {"": 4, "b2": 2}

        begun_now = await rebalance(b1, post={})
        assert begun_now["running"]["planned"] == {"b2": 3}
        async with b1.rest() as http:
            again = await http.post("/cluster/rebalance", json={})
        assert again.status_code == 409
        assert "rebalanced already" in again.json()["detail"]

        async def moved() -> dict[str, int]:
            found: dict[str, int] = (await rebalance(b1))["running"]["moved"]
            return found

        await becomes(moved, {"b2": 2}, PATIENT_S)
        assert clients.at(b2) == [4, 5], "who has begun nothing"
        await transaction.__aexit__(None, None, None)

        async def history() -> list[dict[str, Any]]:
            return [
                {name: one[name] for name in ("state", "planned", "moved", "declined")}
                for one in (await rebalance(b1))["history"][:1]
            ]

        await becomes(
            history, [{"state": "done", "planned": {"b2": 3}, "moved": {"b2": 3}, "declined": 0}], PATIENT_S
        )
        assert clients.at(b2) == [2, 4, 5], "the transaction has ended"
        assert clients.changes == {2: 1, 4: 1, 5: 1}, "nobody goes twice"
        await unsettled.ack()
        whole = await stack.enter_async_context(clients.all[0].subscribe("/queue/whole"))
        assert [message.body for message in await take(whole, 1)] == [b"1"], "the commit went through"

        nothing = await rebalance(b1, post={})
        assert (nothing["moves"], nothing["running"]) == (0, None), "each has its share"


async def test_what_is_delivered_while_the_new_connection_opens_does_not_come_again(pair: Brokers) -> None:
    b1, b2 = pair
    await settled(b1, b2)
    opens, may_open = asyncio.Event(), asyncio.Event()

    async def opener(address: str) -> Transport:
        if address.endswith(f":{b2.stomp_port}"):
            opens.set()
            await may_open.wait()
        return await open_transport(address)

    async with AsyncExitStack() as stack:
        clients = Clients(stack)
        client = await clients.add(b1, opener=opener)
        await clients.add(b1, plain=True)
        producer = await clients.add(b1, plain=True)
        messages = await stack.enter_async_context(client.subscribe("/queue/moving"))

        async def moves() -> int:
            return int((await rebalance(b1))["moves"])

        await becomes(moves, 1)
        await rebalance(b1, post={})
        await opens.wait()
        await producer.send("/queue/moving", b"delivered meanwhile")
        (message,) = await take(messages, 1, ack=False)
        may_open.set()
        await becomes(lambda: consumers(b1, "moving"), 0)  # it has nothing new delivered
        assert clients.at(b2) == []
        await message.ack()

        async def moved() -> list[int]:
            return clients.at(b2)

        await becomes(moved, [0])
        await producer.send("/queue/moving", b"the next")
        found = await take(messages, 1)
        assert [(one.body, one.redelivered) for one in found] == [(b"the next", False)]


async def test_clients_that_stay_though_they_were_asked_are_replaced_by_others(pair: Brokers) -> None:
    b1, b2 = pair
    await settled(b1, b2)
    async with AsyncExitStack() as stack:
        # A client of STOMP alone listens to the list, and does not obey it.
        stranger = await stack.enter_async_context(b1.stomp())
        await stack.enter_async_context(stranger.subscribe("/topic/$mom.failover", ack="auto"))
        clients = Clients(stack)
        for _ in range(3):
            await clients.add(b1)

        async def moves() -> int:
            return int((await rebalance(b1))["moves"])

        await becomes(moves, 2)
        await rebalance(b1, post={})

        async def ended() -> list[tuple[str, dict[str, int], int]]:
            found = (await rebalance(b1))["history"][:1]
            return [(one["state"], one["moved"], one["declined"]) for one in found]

        await becomes(ended, [("done", {"b2": 2}, 1)], 2 * PATIENT_S)
        assert len(clients.at(b2)) == 2
        assert set(clients.changes.values()) == {1}


async def test_each_client_is_shown_with_the_version_of_its_list(pair: Brokers) -> None:
    b1, b2 = pair
    await settled(b1, b2)
    async with AsyncExitStack() as stack:
        clients = Clients(stack)
        await clients.add(b1)
        b2.terminate()
        other_port = b2.stomp_port
        async with b1.rest() as http:
            before = (await http.get("/cluster/lists")).json()
        assert before["versions"][0]["cause"] == "b2 joined"
        b2.stomp_port = 0  # its clients connect elsewhere
        b2.start()
        assert b2.stomp_port != other_port

        async def versions() -> list[int]:
            return [one["list_version"] for one in await clients_of(b1)]

        await becomes(versions, [before["version"] + 1], PATIENT_S)
        async with b1.rest() as http:
            lists = (await http.get("/cluster/lists")).json()
            assert (lists["version"], lists["behind"], lists["updates"]) == (before["version"] + 1, 0, True)
            assert f"stomp://127.0.0.1:{b2.stomp_port}" in lists["versions"][0]["uris"]
            assert f"stomp://127.0.0.1:{other_port}" in lists["versions"][1]["uris"]


async def test_clients_with_an_older_list_are_counted_and_can_be_found(pair: Brokers, tmp_path: Path) -> None:
    b1, b2 = pair
    await settled(b1, b2)
    command_line = CommandLine(tmp_path)
    command_line.environment["MOM_URL"] = f"http://{b1.user}:{b1.password}@{b1.host}:{b1.port}"
    async with AsyncExitStack() as stack:
        clients = Clients(stack)
        await clients.add(b1)
        await clients.add(b1, plain=True)  # it was sent the list when it logged in, and no later one
        async with b1.rest() as http:
            before = (await http.get("/cluster/lists")).json()
        old, new = before["version"], before["version"] + 1
        assert [(one["version"], one["behind"], one["clients"]) for one in before["held"]] == [
            (old, False, 2)
        ]
        b2.terminate()
        b2.stomp_port = 0
        b2.start()

        async def held() -> list[tuple[int, bool, int]]:
            async with b1.rest() as http:
                found = (await http.get("/cluster/lists")).json()
            schema = {"$ref": "#/components/schemas/ClusterLists"}
            jsonschema.validate(found, {**schema, "components": openapi.document()["components"]})
            assert found["behind"] == sum(one["clients"] for one in found["held"] if one["behind"])
            return sorted((one["version"], one["behind"], one["clients"]) for one in found["held"])

        await becomes(held, [(old, True, 1), (new, False, 1)], PATIENT_S)

        async def ids(**query: Any) -> list[str]:
            async with b1.rest() as http:
                page = (await http.get("/cluster/clients", params=query)).json()
            return [one["id"] for one in page["items"]]

        follower, plain = [one["id"] for one in await clients_of(b1)]
        assert await ids(behind="true") == await ids(list_version=old) == [plain]
        assert await ids(behind="false") == await ids(list_version=new) == [follower]
        assert await ids(sort="-behind") == [plain, follower]
        assert sorted(await ids(q="ADMIN")) == sorted([plain, follower])
        since = {one["version"]: one["since"] for one in before["versions"]}
        for words in (("--behind",), ("--list", str(old)), ("--filter", plain)):
            shown = await asyncio.to_thread(command_line, "cluster", "clients", *words, "-o", "json")
            (row,) = shown.json()
            assert (row["id"], row["list_version"], row["list_since"]) == (plain, old, since[old])
        connection = await asyncio.to_thread(command_line, "conn", "show", plain)
        facts = {("list_version", str(old)), ("list_since", since[old]), ("behind", "yes")}
        assert facts <= set(map(tuple, connection.rows))
        lists = await asyncio.to_thread(command_line, "cluster", "lists")
        assert ": 1 of 2 clients do not have it" in lists.err
        assert [str(old), "", since[old], "1", "yes"] in lists.rows
        assert ["b2", "", "listed"] in lists.rows


async def test_mom_shows_who_would_go_and_has_them_go(pair: Brokers, tmp_path: Path) -> None:
    b1, b2 = pair
    await settled(b1, b2)
    command_line = CommandLine(tmp_path)
    command_line.environment["MOM_URL"] = f"http://{b1.user}:{b1.password}@{b1.host}:{b1.port}"

    async def mom(*words: str) -> Result:
        return await asyncio.to_thread(command_line, "cluster", *words)

    async with AsyncExitStack() as stack:
        clients = Clients(stack)
        for _ in range(3):
            await clients.add(b1)

        async def moves() -> int:
            return int((await rebalance(b1))["moves"])

        await becomes(moves, 1)
        preview = await mom("rebalance", "--dry-run")
        assert preview.rows == [
            ["broker", "clients", "surplus", "gets"], ["b1", "3", "1", "0"], ["b2", "0", "0", "1"]
        ]  # fmt: skip
        assert (
            "1 clients would go; no broker has more than 2 then; the others stay: not-needed 2" in preview.err
        )
        going = (await mom("clients", "--moves")).rows
        assert [row[-2:] for row in going] == [["to", "stays"], ["b2", ""]]
        shown = (await mom("lists")).err
        assert ": 0 of 3 clients do not have it" in shown
        assert f"those of this broker: stomp://127.0.0.1:{b1.stomp_port} ws://127.0.0.1:" in shown
        assert (await mom("clients", "--reason", "laziness")).code == USAGE

        begun = await mom("rebalance")
        assert (begun.code, "to go: b2 1; gone: none (ordered by admin)" in begun.err) == (OK, True)

        async def last() -> list[list[str]]:
            rows = (await mom("rebalance", "--history")).rows[1:2]
            return [row[2:] for row in rows]

        await becomes(last, [["done", "ordered by admin", "b2 1", "b2 1", "0"]], PATIENT_S)
        assert "b1 has no more clients than its share, 2" in (await mom("rebalance")).err
