"""Services over HTTP."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from broker_app.core.destination import QUEUE, TOPIC, Destination
from broker_app.features.services.registry import ServiceRegistry
from broker_app.net.auth.login import Identity
from broker_app.reflex.registration import CALLBACKS, Registration, RegistrationVerdict
from tests.rest.conftest import Rest
from tests.rest.test_connections import make_admin


async def register(rest: Rest, name: str = "stock", **members: Any) -> dict[str, Any]:
    reply = await rest.alice.post("/services", json={"name": name, **members})
    assert reply.status_code == 201, reply.text
    service: dict[str, Any] = reply.json()
    assert reply.headers["location"] == f"/api/v1/services/{service['id']}"
    return service


async def test_a_service_is_registered_shown_and_deregistered(rest: Rest) -> None:
    service = await register(rest, machine="h1", type="shop", events=["sold"])
    await rest.publish("stock", "1", "2")
    (shown,) = (await rest.bob.get("/services")).json()["items"]
    assert (shown["name"], shown["user"], shown["machine"], shown["pending"]) == ("stock", "alice", "h1", 2)
    assert (shown["events"], shown["active"], shown["callbacks"]) == (["sold"], True, False)
    assert (await rest.alice.get(f"/services/{service['id']}")).json()["id"] == service["id"]
    assert (await rest.bob.delete(f"/services/{service['id']}")).status_code == 403
    assert (await rest.alice.delete(f"/services/{service['id']}")).status_code == 204
    assert (await rest.alice.get(f"/services/{service['id']}")).status_code == 404


async def test_properties_change_while_a_service_runs(rest: Rest) -> None:
    service = await register(rest)
    reply = await rest.alice.patch(
        f"/services/{service['id']}",
        json={"type": "bank", "events": ["paid"], "active": False, "lease_s": 600},
    )
    changed = reply.json()
    assert (changed["type"], changed["events"], changed["active"]) == ("bank", ["paid"], False)
    assert changed["lease_until"] > service["lease_until"]
    assert [one["id"] for one in (await rest.alice.get("/services?active=false")).json()["items"]] == [
        service["id"]
    ]


async def test_what_an_operator_does_to_services_is_recorded(rest: Rest) -> None:
    first = await register(rest)
    await rest.alice.patch(f"/services/{first['id']}", json={"active": False})
    await rest.alice.delete(f"/services/{first['id']}")
    assert rest.actions.take() == [], "programs come and go by themselves"
    service = await rest.services.register(Registration("bank", "bob"))
    make_admin(rest, "alice")
    for active in (False, True):
        changed = await rest.alice.patch(f"/services/{service.id}", json={"active": active})
        assert changed.status_code == 200, changed.text
    await rest.alice.delete(f"/services/{service.id}", headers={"mom-reason": "sold"})
    actions = rest.actions.take()
    assert [(one.action, one.kind, one.key) for one in actions] == [
        ("deactivated", "services", "bank"),
        ("activated", "services", "bank"),
        ("deregistered", "services", "bank"),
    ]
    assert actions[-1].operator.reason == "sold"
    assert actions[-1].facts == {"id": service.id, "user": "bob"}


async def test_a_broker_that_is_no_callback_broker_has_no_origins(rest: Rest) -> None:
    make_admin(rest, "alice")
    assert (await rest.alice.get("/origins")).json() == {"callback_broker": False, "items": []}
    refused = await rest.bob.get("/origins")
    assert (refused.status_code, refused.json()["right"]) == (403, "administer")


async def test_a_service_ends_with_its_lease() -> None:
    registry = ServiceRegistry()
    ended: list[str] = []
    registry.listeners.add(lambda event, service: ended.append(f"{event} {service.id}"))
    service = await registry.register(Registration("stock"), lease_s=0.0)
    task = registry.run()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.7):
            await task
    assert ended == [f"registered {service.id}", f"deregistered {service.id}"]
    assert registry.named("stock") == []


async def test_a_reflex_can_refuse_a_service_or_mark_it(rest: Rest) -> None:
    async def admit(registration: Registration) -> RegistrationVerdict:
        if registration.name == "stock":
            return RegistrationVerdict(True, registration.with_marks(frozenset((CALLBACKS,))))
        return RegistrationVerdict(False, registration, "closed", "the shop is closed")

    rest.services.admit = admit
    assert (await register(rest))["callbacks"] is True
    reply = await rest.alice.post("/services", json={"name": "other"})
    problem = reply.json()
    assert (reply.status_code, problem["type"]) == (403, "/docs/problems/registration-refused")
    assert (problem["reflex"], problem["detail"]) == ("closed", "the shop is closed")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"name": ""}, 400),
        ({"name": "a", "lease_s": 1}, 400),
        ({"name": " a"}, 400),
        ({"nam": "a"}, 400),
    ],
)
async def test_wrong_registrations_are_refused(rest: Rest, body: dict[str, Any], status: int) -> None:
    assert (await rest.alice.post("/services", json=body)).status_code == status


async def test_several_programs_may_share_a_name() -> None:
    registry = ServiceRegistry()
    first = await registry.register(Registration("stock", machine="h1"))
    second = await registry.register(Registration("stock", machine="h2"))
    assert registry.named("stock") == [first, second]
    registry.deregister(first)
    registry.deregister(first)
    assert registry.named("stock") == [second]
    registry.change(second, machine="h3")
    assert second.registration == replace(Registration("stock"), machine="h3")


async def test_live_subscribers_are_listed_to_their_user_and_to_administrators(rest: Rest) -> None:
    queue, prices = Destination(QUEUE, "stock"), Destination(TOPIC, "prices")
    mine = rest.live.add(Identity("alice"), "127.0.0.1", "sse", "notify", queue)
    mine.count(1)
    rest.live.add(Identity("bob"), "127.0.0.1", "websocket", "deliver", prices, "c1")
    await rest.publish("stock", "1")
    (shown,) = (await rest.alice.get("/subscribers")).json()["items"]
    assert (shown["source"], shown["mode"], shown["transport"]) == ("/queue/stock", "notify", "sse")
    assert (shown["events"], shown["pending"]) == (1, 1)
    assert shown["last_at"] is not None
    (other,) = (await rest.bob.get("/subscribers")).json()["items"]
    assert (other["source"], other["connection"], other["pending"]) == ("/topic/prices", "c1", None)
    rest.live.remove(mine)
    assert (await rest.alice.get("/subscribers")).json()["items"] == []
