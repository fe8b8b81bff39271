"""The destinations of a cluster over REST: what each broker has of each of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest

from broker_app.base.refused import Refused
from broker_app.core.commands import INDIVIDUAL, Reconfigure, Subscribe
from broker_app.core.model import InnerReceiver, Peer
from broker_app.core.policy import CLUSTER, DestinationPolicy, Policies
from broker_app.features.cluster.destination_pages import DestinationsPage, DestinationsQuestion
from broker_app.features.cluster.pages import RemotePages
from broker_app.net.rest import openapi
from tests.rest.conftest import Rest
from tests.rest.test_journal import administered

PATH = "/cluster/destinations"


class Cluster:
    """Brokers b1 and b2 that answer for themselves, and b3 that cannot be asked; `pages` of b1."""

    name = "b1"

    def __init__(self, b1: Rest, b2: Rest) -> None:
        self.b1, self.b2 = b1, b2
        #: whether b2 is linked and answers
        self.is_linked = self.answers = True
        b1.pages = cast(RemotePages, self)

    def others(self) -> list[str]:
        return ["b2", "b3"]

    def linked(self) -> list[str]:
        return ["b2"] if self.is_linked else []

    async def ask_destinations(self, broker: str, question: DestinationsQuestion) -> DestinationsPage:
        if not self.answers:
            raise Refused("timeout", f"broker {broker} has not answered")
        return await self.b2.features.cluster.destinations.own(question)

    async def get(self, **query: object) -> dict[str, Any]:
        """A page, as b1 answers it."""
        reply = await self.b1.alice.get(PATH, params=cast(Any, query))
        assert reply.status_code == 200, reply.text
        found: dict[str, Any] = reply.json()
        return found


@pytest.fixture
async def cluster(rest: Rest, tmp_path: Path) -> AsyncIterator[Cluster]:
    other = Rest(jobs=tmp_path / "b2")
    yield Cluster(administered(rest), other)
    await other.jobs.stop()
    await other.bulk.stop()
    await other.engine.stop()


def subscribe(broker: Rest, address: str, *, remote: bool = False) -> None:
    peer = Peer(InnerReceiver())
    broker.engine.submit(Subscribe(peer, "1", address, INDIVIDUAL, 1, remote=remote))


def places(page: dict[str, Any]) -> list[tuple[str, str]]:
    return [(row["address"], row["broker"]) for row in page["items"]]


async def test_each_broker_has_a_row_for_each_of_its_destinations_with_its_messages_consumers_and_limits(
    cluster: Cluster,
) -> None:
    limits = Policies(
        exact={"/queue/orders": DestinationPolicy(max_messages=100, max_bytes=7, scope=CLUSTER)},
        prefixes={"/topic/": DestinationPolicy(max_producers=3)},
    )
    for broker in (cluster.b1, cluster.b2):
        broker.engine.submit(Reconfigure(limits))
    subscribe(cluster.b1, "/queue/orders", remote=True)
    subscribe(cluster.b2, "/queue/orders")
    subscribe(cluster.b1, "/topic/prices.*")
    await cluster.b1.publish("orders", "1", "2", "3")
    reply = await cluster.b1.alice.post("/topics/prices.eu/messages", content="4")
    assert reply.status_code == 201
    page = await cluster.get()
    shared = {"max_messages": 100, "max_bytes": 7, "max_producers": 0, "scope": "cluster"}
    own = {"max_messages": 0, "max_bytes": 0, "max_producers": 3, "scope": "broker"}
    topic = {"address": "/topic/prices.eu", "broker": "b1"}
    assert page["items"] == [
        {"address": "/queue/orders", "broker": "b1", "depth": 2, "unsettled": 1, "consumers": 0, **shared},
        {"address": "/queue/orders", "broker": "b2", "depth": 0, "unsettled": 0, "consumers": 1, **shared},
        {**topic, "depth": 0, "unsettled": 1, "consumers": 1, **own},
    ]
    assert (page["next"], page["approx_total"], page["not_shown"]) == (None, 2, ["b3"])
    described = openapi.document()["components"]
    whole = {"$ref": "#/components/schemas/ClusterDestinationPage", "components": described}
    jsonschema.validate(page, whole)


async def test_pages_have_all_rows_of_a_destination_and_each_destination_once(cluster: Cluster) -> None:
    for name in ("a", "c", "e", "f"):
        await cluster.b1.publish(name, "1")
    for name in ("b", "c", "d", "f"):
        subscribe(cluster.b2, f"/queue/{name}")
    expected = [
        *(("/queue/a", "b1"), ("/queue/b", "b2"), ("/queue/c", "b1"), ("/queue/c", "b2")),
        *(("/queue/d", "b2"), ("/queue/e", "b1"), ("/queue/f", "b1"), ("/queue/f", "b2")),
    ]
    assert places(await cluster.get()) == expected
    for limit in (1, 2, 3, 5, 6):
        found: list[tuple[str, str]] = []
        after: dict[str, str] = {}
        while True:
            page = await cluster.get(limit=limit, **after)
            assert len({row["address"] for row in page["items"]}) <= limit
            found += places(page)
            if page["next"] is None:
                break
            after = {"after": page["next"]}
        assert found == expected, limit


async def test_destinations_are_found_by_their_words_and_one_by_its_address(cluster: Cluster) -> None:
    await cluster.b1.publish("orders.eu", "1")
    await cluster.b1.publish("orders", "1")
    await cluster.b1.publish("bills", "1")
    subscribe(cluster.b2, "/queue/orders")
    assert places(await cluster.get(q="orders")) == [
        *(("/queue/orders", "b1"), ("/queue/orders", "b2"), ("/queue/orders.eu", "b1")),
    ]
    for name in ("orders", "/queue/orders"):
        assert places(await cluster.get(destination=name)) == [
            ("/queue/orders", "b1"),
            ("/queue/orders", "b2"),
        ]
    assert places(await cluster.get(destination="none")) == []
    wrong = await cluster.b1.alice.get(PATH, params={"destination": "/nowhere/x"})
    assert (wrong.status_code, "/nowhere/x" in wrong.text) == (400, True)
    assert (await cluster.b1.alice.get(PATH, params={"after": "x"})).status_code == 400


async def test_a_broker_that_does_not_answer_is_named(cluster: Cluster) -> None:
    await cluster.b1.publish("orders", "1")
    for fault in ("answers", "is_linked"):
        setattr(cluster, fault, False)
        page = await cluster.get()
        assert (places(page), page["not_shown"]) == ([("/queue/orders", "b1")], ["b2", "b3"]), fault


async def test_destinations_of_the_broker_itself_and_temporary_ones_are_not_shown(cluster: Cluster) -> None:
    for address in ("/queue/$mom.secret", "/temp-queue/x"):
        subscribe(cluster.b1, address)
    assert places(await cluster.get()) == []


async def test_they_are_for_administrators_of_a_cluster(cluster: Cluster) -> None:
    reply = await cluster.b1.bob.get(PATH)
    assert (reply.status_code, reply.json()["right"]) == (403, "administer")
    cluster.b1.pages = None
    reply = await cluster.b1.alice.get(PATH)
    assert reply.status_code == 404 and "mom up --name b1" in reply.json()["detail"]
