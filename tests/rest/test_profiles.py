"""Messages to profiles over HTTP and STOMP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime

import pytest

from broker_app.reflex.registration import Registration
from tests.rest.conftest import Rest
from tests.rest.test_connections import Client


@pytest.fixture
async def seeding(rest: Rest) -> AsyncIterator[Rest]:
    """A REST API whose seeds get their copies."""
    task = asyncio.create_task(rest.seeds.run())
    yield rest
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_a_message_to_a_profile_is_copied_to_services_and_shown_as_a_seed(seeding: Rest) -> None:
    await seeding.services.register(Registration("stock", type="shop"))
    reply = await seeding.alice.post(
        "/profiles/messages",
        params={"profile": "type = 'shop'", "max_copies": 3},
        content="hello",
        headers={"content-type": "text/plain", "mom-header-colour": "red"},
    )
    assert reply.status_code == 201, reply.text
    assert reply.json()["stored"] == "synced"
    await seeding.until_later(lambda: seeding.depth("stock") == 1)
    (item,) = await seeding.receive("stock")
    assert (item["body"], item["headers"]) == ("hello", {"colour": "red", "seed-id": reply.json()["id"]})
    (seed,) = (await seeding.alice.get("/seeds")).json()["items"]
    assert (seed["profile"], seed["copies"], seed["max_copies"]) == ("type = 'shop'", 1, 3)
    assert (seed["services"], seed["expires_at"]) == (["stock"], None)
    assert (await seeding.bob.get("/seeds")).json()["items"] == []
    assert (await seeding.bob.delete(f"/seeds/{seed['id']}")).status_code == 404
    assert (await seeding.alice.delete(f"/seeds/{seed['id']}")).status_code == 204
    assert (await seeding.alice.get("/seeds")).json()["items"] == []


async def test_a_seed_shows_when_it_expires(seeding: Rest) -> None:
    before = time.time()
    reply = await seeding.alice.post(
        "/profiles/messages",
        params={"profile": "name = 'none'"},
        content="x",
        headers={"mom-expires-s": "60"},
    )
    assert reply.status_code == 201, reply.text
    await seeding.until_later(lambda: bool(list(seeding.seeds.all())))
    (seed,) = (await seeding.alice.get("/seeds")).json()["items"]
    left_s = datetime.fromisoformat(seed["expires_at"]).timestamp() - before
    assert 59 < left_s < 65


async def test_a_stomp_client_sends_to_a_profile(seeding: Rest) -> None:
    await seeding.services.register(Registration("stock", machine="h1"))
    client = await Client(seeding, "bob").connect()
    answer = await client.ask(
        "SEND\ndestination:/profile/machine = 'h1'\nmax-copies:1\nreceipt:r\na:1\n\nhello\0"
    )
    assert "RECEIPT" in answer
    await seeding.until_later(lambda: seeding.depth("stock") == 1)
    (item,) = await seeding.receive("stock")
    assert (item["body"], item["headers"]["a"]) == ("hello", "1")
    await seeding.until_later(lambda: not list(seeding.seeds.all()))


@pytest.mark.parametrize(
    "query",
    [{}, {"profile": "type ="}, {"profile": "a = 'b'", "max_copies": "0"}, {"profile": "x" * 300}],
)
async def test_a_wrong_profile_is_refused(rest: Rest, query: dict[str, str]) -> None:
    reply = await rest.alice.post("/profiles/messages", params=query, content="hello")
    assert reply.status_code == 400, reply.text


async def test_a_message_to_a_profile_cannot_be_delayed(rest: Rest) -> None:
    reply = await rest.alice.post(
        "/profiles/messages", params={"profile": "a = 'b'"}, content="x", headers={"mom-delay-s": "5"}
    )
    assert (reply.status_code, reply.json()["type"]) == (422, "/docs/problems/unsupported")


async def test_clients_cannot_send_to_the_queue_of_seeds_itself(rest: Rest) -> None:
    assert (await rest.bob.post("/queues/$seeds/messages", content="x")).status_code == 403
