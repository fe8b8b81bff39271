"""The ASGI application without a node: pages work, the broker is elsewhere."""

from dataclasses import replace
from typing import Any

import httpx
import pytest
from django.conf import settings

from mom_site.asgi import Site, application

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def client() -> httpx.AsyncClient:
    app: Any = application
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")


async def test_pages_are_served(client: httpx.AsyncClient) -> None:
    assert (await client.get("/login/")).status_code == 200


async def test_an_unknown_host_name_is_refused_and_addresses_are_not(client: httpx.AsyncClient) -> None:
    strange = await client.get("/login/", headers={"Host": "evil.example"})
    assert (strange.status_code, strange.json()["type"]) == (400, "/docs/problems/wrong-host")
    for host in ("192.0.2.7:8000", "[2001:db8::1]", "localhost"):
        assert (await client.get("/login/", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_the_data_plane_answers_that_it_is_served_elsewhere(
    client: httpx.AsyncClient, method: str
) -> None:
    reply = await client.request(method, "/api/v1/queues/a/messages")
    assert (reply.status_code, reply.json()["type"]) == (503, "/docs/problems/not-active")


async def test_a_websocket_is_refused() -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(event: Any) -> None:
        sent.append(event)

    await Site()({"type": "websocket", "path": "/ws", "headers": [], "subprotocols": []}, receive, send)
    assert [event["type"] for event in sent] == ["websocket.close"]


async def test_only_the_client_that_guesses_behind_a_proxy_is_throttled(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def guess(address: str, number: int = 0) -> int:
        forwarded, password = {"X-Forwarded-For": f"203.0.113.9, {address}"}, f"guess {number}"
        return (await client.get("/api/v1/rules", headers=forwarded, auth=("john", password))).status_code

    monkeypatch.setattr(settings, "MOM", replace(settings.MOM, console_url="https://mom.example.org"))
    assert [await guess("192.0.2.7", number) for number in range(6)] == [401] * 5 + [429]
    assert await guess("192.0.2.8") == 401
