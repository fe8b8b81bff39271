"""A callback broker: notified by a remote broker, it hands its clients the originals, and settles there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

import mom_client
from broker_app.base.settings.roles import CALLBACK
from broker_app.config import Config
from broker_app.core.commands import Command, Publish
from broker_app.features.callback_broker.origin_connection import OriginConnection
from broker_app.features.callback_broker.pending_queue import PendingQueue
from broker_app.features.callback_broker.remote_broker import RemoteBroker
from broker_app.features.services.origin import Origin
from broker_app.reflex.registration import CALLBACKS, Registration, RegistrationVerdict
from tests.support.authority import Authority
from tests.support.awaiting import until
from tests.support.patience import patient
from tests.support.small_node import SmallNode, policy_of, small_node
from tests.support.web import serving

POLICY = policy_of(users={"anna": [], "bert": [], "otto": []}, admins=["anna", "bert"])


async def enable_callbacks(registration: Registration) -> RegistrationVerdict:
    """The decision of the shipped reflex REenableCallbacks."""
    return RegistrationVerdict(True, registration.with_marks(frozenset((CALLBACKS,))))


@dataclass
class Host:
    """A remote broker, and the callback broker of a machine."""

    remote: SmallNode
    local: SmallNode
    url: str

    async def register(self, name: str = "stock", **origin: Any) -> httpx.Response:
        body = {"name": name, "machine": "h1", "origin": {"urls": [self.url], "token": "mom_anna", **origin}}
        async with self.local.rest("anna") as rest:
            return await rest.post("/services", json=body)

    async def send(self, *bodies: str, name: str = "stock", **options: Any) -> None:
        async with self.remote.stomp("anna") as mom:
            for body in bodies:
                await mom.send(f"/queue/{name}", body, **options)

    async def receive(self, **body: Any) -> list[dict[str, Any]]:
        async with self.local.rest("anna") as rest:
            reply = await rest.post("/queues/stock/receive", json=body)
            assert reply.status_code == 200, reply.text
            return reply.json()["items"]  # type: ignore[no-any-return]

    async def pending(self, count: int) -> list[dict[str, Any]]:
        """The messages that wait at the origin, once there are so many."""
        async with self.local.rest("anna") as rest:
            service = (await rest.get("/services")).json()["items"][0]

            async def listed() -> list[dict[str, Any]] | None:
                items = (await rest.get(f"/services/{service['id']}/pending")).json()["items"]
                return items if len(items) == count else None

            async with asyncio.timeout(patient(10)):
                while (found := await listed()) is None:
                    await asyncio.sleep(0.01)
            return found


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with contextlib.AsyncExitStack() as stack:
        remote = await stack.enter_async_context(small_node(tmp_path / "remote", POLICY))
        remote.node.features.services.registry.admit = enable_callbacks
        local = await stack.enter_async_context(
            small_node(tmp_path / "local", POLICY, name="REcallback", role=CALLBACK, max_attempts=10**9)
        )
        port = await stack.enter_async_context(serving(remote.node, Config(data=tmp_path)))
        yield Host(remote, local, f"ws://127.0.0.1:{port}/ws")


async def test_clients_receive_the_originals_in_order_and_settle_at_the_origin(host: Host) -> None:
    assert (await host.register()).status_code == 201
    await host.send("1", "2", "3", headers={"colour": "red"})
    assert [one["state"] for one in await host.pending(3)] == ["waiting"] * 3
    for body in ("1", "2", "3"):
        (item,) = await host.receive(wait_s=5)
        assert (item["body"], item["headers"]["colour"], item["redelivered"]) == (body, "red", False)
        async with host.local.rest("anna") as rest:
            settled = await rest.delete(f"/leases/{item['receipt']}")
        assert settled.status_code == 204, settled.text
    assert host.remote.depth("stock") == 0
    await host.pending(0)
    assert await host.receive() == []


async def test_the_remote_broker_counts_no_polls_and_one_fetch_for_each_message(host: Host) -> None:
    await host.register()
    await host.send("1", "2", "3")
    await host.pending(3)
    for _ in range(5):
        await host.receive(ack="auto")
    async with host.remote.rest("anna") as rest:
        facts = (await rest.get("/queues/stock")).json()
    assert (facts["polls"], facts["fetched"], facts["depth"]) == (0, 3, 0)


async def test_the_origins_show_links_services_fetches_and_the_polls_that_were_spared(host: Host) -> None:
    await host.register()
    await host.register()
    await host.send("1", "2", "3")
    await host.pending(3)
    await host.receive(ack="auto")
    await host.receive(max=1)
    async with host.local.rest("otto") as rest:
        assert (await rest.get("/origins")).status_code == 403
    async with host.local.rest("anna") as rest:
        found = (await rest.get("/origins")).json()
        (origin,) = found["items"]
        assert found["callback_broker"]
        assert (origin["url"], origin["state"], origin["error"]) == (host.url, "connected", None)
        assert (origin["login"], origin["services"]) == ("token", 2)
        assert "mom_anna" not in str(found)
        counts = {name: origin[name] for name in ("pending", "held", "fetched", "gone", "polls")}
        assert counts == {"pending": 1, "held": 1, "fetched": 2, "gone": 0, "polls": 2}
        (queue,) = origin["queues"]
        assert queue == counts | {"name": "stock", "more": False}
        for service in (await rest.get("/services")).json()["items"]:
            await rest.delete(f"/services/{service['id']}")
        assert (await rest.get("/origins")).json()["items"] == []


async def test_a_poll_without_waiting_gets_what_is_pending(host: Host) -> None:
    await host.register()
    await host.send("1")
    await host.pending(1)
    (item,) = await host.receive(ack="auto")
    assert item["body"] == "1"
    assert await host.receive() == []
    assert host.remote.node.broker.destinations.queues["/queue/stock"].unsettled == 0


async def test_what_waited_before_the_registration_is_pending_too(host: Host) -> None:
    await host.send(*map(str, range(250)))
    assert (await host.register()).status_code == 201
    assert len(await host.pending(250)) == 250
    async with host.local.stomp("anna") as mom, mom.subscribe("/queue/stock", ack="auto") as messages:
        assert [(await messages.get(5)).text for _ in range(250)] == [str(number) for number in range(250)]
    await until(lambda: host.remote.depth("stock") == 0)
    await host.pending(0)


async def test_a_message_that_is_returned_comes_again_and_counts_at_the_origin(host: Host) -> None:
    await host.register()
    await host.send("1")
    async with host.local.stomp("anna") as mom, mom.subscribe("/queue/stock") as messages:
        await (await messages.get(5)).nack()
        again = await messages.get(5)
        assert (again.text, again.redelivered) == ("1", True)
        await again.ack()
    await until(lambda: host.remote.depth("stock") == 0)


async def test_a_client_that_disconnects_returns_its_messages_to_the_origin(host: Host) -> None:
    await host.register()
    await host.send("1")
    async with host.local.stomp("anna") as mom, mom.subscribe("/queue/stock") as messages:
        await messages.get(5)
        assert host.remote.depth("stock") == 0
    await until(lambda: host.remote.depth("stock") == 1)
    (item,) = await host.receive(wait_s=5)
    assert (item["body"], item["redelivered"]) == ("1", True)


async def test_dead_letters_are_made_at_the_origin(host: Host) -> None:
    await host.register()
    await host.send("1")
    (item,) = await host.receive(wait_s=5)
    async with host.local.rest("anna") as rest:
        body = {"dead": True, "reason": "broken"}
        assert (await rest.post(f"/leases/{item['receipt']}/nack", json=body)).status_code == 204
    await until(lambda: host.remote.depth("stock.dead") == 1)
    assert host.local.depth("stock.dead") == 0
    await host.pending(0)


async def test_an_original_that_was_taken_elsewhere_is_no_message(host: Host) -> None:
    await host.register()
    await host.send("1")
    await host.pending(1)
    async with host.remote.rest("anna") as rest:
        taken = await rest.post("/queues/stock/receive", json={"ack": "auto"})
        assert len(taken.json()["items"]) == 1
    assert await host.receive(wait_s=0.5) == []
    await host.pending(0)
    assert host.local.depth("stock") == 0


async def test_an_origin_without_the_reflex_refuses_the_service(host: Host) -> None:
    async def accept(registration: Registration) -> RegistrationVerdict:
        return RegistrationVerdict(True, registration)

    host.remote.node.features.services.registry.admit = accept
    refused = await host.register()
    assert (refused.status_code, refused.json()["type"]) == (403, "/docs/problems/callbacks-off")
    assert not len(host.remote.node.features.services.registry)


@pytest.mark.parametrize(
    ("origin", "status", "problem"),
    [
        ({"token": "mom_nobody"}, 401, "not-authenticated"),
        ({"urls": ["ws://127.0.0.1:9/ws"]}, 503, "origin-unreachable"),
        ({"urls": ["stomp://127.0.0.1:61613"]}, 400, "invalid"),
    ],
)
async def test_an_origin_that_cannot_be_used_is_named(
    host: Host, origin: dict[str, Any], status: int, problem: str
) -> None:
    refused = await host.register(**origin)
    assert (refused.status_code, refused.json()["type"]) == (status, f"/docs/problems/{problem}")
    async with host.local.rest("anna") as rest:
        assert (await rest.get("/services")).json()["items"] == []


async def test_an_ordinary_broker_takes_no_origin(host: Host) -> None:
    body = {"name": "stock", "origin": {"urls": [host.url]}}
    async with host.remote.rest("anna") as rest:
        refused = await rest.post("/services", json=body)
    assert refused.status_code == 422
    assert "no callback broker" in refused.json()["detail"]


async def test_an_origin_that_restarts_delivers_again_what_was_not_settled(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        local = await stack.enter_async_context(
            small_node(tmp_path / "local", POLICY, name="REcallback", role=CALLBACK, max_attempts=10**9)
        )
        first = contextlib.AsyncExitStack()
        remote = await first.enter_async_context(small_node(tmp_path / "remote", POLICY))
        remote.node.features.services.registry.admit = enable_callbacks
        port = await first.enter_async_context(serving(remote.node, Config(data=tmp_path)))
        host = Host(remote, local, f"ws://127.0.0.1:{port}/ws")
        await host.register()
        await host.send("1", "2")
        (item,) = await host.receive(wait_s=5)
        await first.aclose()

        async with local.rest("anna") as rest:
            lost = await rest.delete(f"/leases/{item['receipt']}")
        assert (lost.status_code, lost.json()["type"]) == (409, "/docs/problems/lease-lost")

        remote = host.remote = await stack.enter_async_context(small_node(tmp_path / "remote", POLICY))
        remote.node.features.services.registry.admit = enable_callbacks
        await stack.enter_async_context(serving(remote.node, Config(data=tmp_path), port=port))
        bodies = set()
        for _ in range(2):
            (item,) = await host.receive(wait_s=20)
            bodies.add(item["body"])
            async with local.rest("anna") as rest:
                assert (await rest.delete(f"/leases/{item['receipt']}")).status_code == 204
        assert bodies == {"1", "2"}
        assert remote.depth("stock") == 0


async def test_messages_of_a_group_come_one_after_the_other(host: Host) -> None:
    await host.register()
    async with host.remote.stomp("anna") as mom:
        for body in ("a1", "a2", "b1"):
            await mom.send("/queue/stock", body, headers={"JMSXGroupID": body[0]})
    async with host.local.stomp("anna") as mom, mom.subscribe("/queue/stock") as messages:
        seen = []
        for _ in range(3):
            message = await messages.get(10)
            seen.append(message.text)
            await message.ack(confirm=True)
        assert [body for body in seen if body[0] == "a"] == ["a1", "a2"]
    await until(lambda: host.remote.depth("stock") == 0)


async def test_originals_cannot_be_settled_in_a_transaction(host: Host) -> None:
    await host.register()
    await host.send("1")
    async with host.local.stomp("anna") as mom, mom.subscribe("/queue/stock") as messages:
        message = await messages.get(10)
        with pytest.raises(mom_client.Refused, match="cannot be settled in a transaction"):
            async with mom.transaction() as transaction:
                transaction.ack(message)
        await message.ack(confirm=True)


async def test_a_selector_is_refused_for_a_service_with_an_origin(host: Host) -> None:
    await host.register()
    async with host.local.stomp("anna") as mom:
        with pytest.raises(mom_client.Refused, match="no headers to select by"):
            async with mom.subscribe("/queue/stock", selector="a = 1"):
                pass


async def test_cumulative_acknowledgements_settle_all_before_them(host: Host) -> None:
    await host.register()
    await host.send("1", "2", "3")
    async with host.local.stomp("anna") as mom, mom.subscribe("/queue/stock", ack="client") as messages:
        received = [await messages.get(10) for _ in range(3)]
        await received[1].ack(confirm=True)
    await until(lambda: host.remote.depth("stock") == 1)


async def test_services_of_one_name_share_a_connection_and_end_one_by_one(host: Host) -> None:
    first, second = (await host.register()).json(), (await host.register()).json()
    assert len(host.remote.node.features.services.registry) == 2
    assert len(host.remote.node.json.sessions) == 1
    async with host.local.rest("anna") as rest:
        await rest.delete(f"/services/{first['id']}")
        await host.send("1")
        assert len(await host.receive(wait_s=5)) == 1
        await rest.delete(f"/services/{second['id']}")
    await until(lambda: not host.remote.node.json.sessions)
    await until(lambda: host.remote.depth("stock") == 1)
    assert host.local.depth("stock") == 0


async def test_a_large_message_comes_whole(host: Host) -> None:
    await host.register()
    body = "x" * (12 * 1024 * 1024)
    await host.send(body, body, "last")
    async with host.local.stomp("anna") as mom, mom.subscribe("/queue/stock") as messages:
        for expected in (body, body, "last"):
            message = await messages.get(30)
            assert message.text == expected
            await message.ack()
    await until(lambda: host.remote.depth("stock") == 0)


async def test_a_notification_is_answered_by_reflexes_of_the_callback_broker(host: Host) -> None:
    seen: list[str] = []
    host.local.node.engine.intercept(
        (*host.local.node.engine.command_interceptors, Alert(seen)),
        host.local.node.engine.delivery_interceptors,
    )
    await host.register()
    await host.send("1")
    await until(lambda: seen == ["/queue/stock"])


class Alert:
    """A reflex that alerts programs of the machine to what arrives."""

    def __init__(self, seen: list[str]) -> None:
        self._seen = seen

    def takes(self, command: Command, size: int) -> bool:
        if isinstance(command, Publish):
            self._seen += [envelope.address for envelope, _, _ in command.entries]
        return False


async def pending_of(local: SmallNode) -> list[int]:
    """The number of pending messages of each service, as `mom service ls` shows it."""
    async with local.rest("anna") as rest:
        return [one["pending"] for one in (await rest.get("/services")).json()["items"]]


def remote_connections(node: SmallNode) -> list[str]:
    return sorted(session.user for session in node.node.json.sessions)


async def test_two_logins_of_a_service_list_each_message_once(host: Host) -> None:
    assert (await host.register()).status_code == 201
    assert (await host.register(token="mom_bert")).status_code == 201
    assert remote_connections(host.remote) == ["anna", "bert"]
    await host.send("1", "2", "3")
    await host.pending(3)
    await until(lambda: host.local.depth("stock") == 3)
    assert await pending_of(host.local) == [3, 3]
    async with host.local.rest("anna") as rest:
        origins = (await rest.get("/origins")).json()["items"]
        assert sum(one["pending"] for one in origins) == 3
        for service in (await rest.get("/services")).json()["items"]:
            found = (await rest.get(f"/services/{service['id']}/pending")).json()["items"]
            assert len(found) == 3
    assert [(await host.receive(ack="auto"))[0]["body"] for _ in range(3)] == ["1", "2", "3"]
    assert await host.receive() == []


async def test_the_messages_of_a_login_that_ends_come_by_another_login_of_the_service(host: Host) -> None:
    first = (await host.register()).json()
    await host.register(token="mom_bert")
    await host.send("1", "2")
    await host.pending(2)
    async with host.local.rest("anna") as rest:
        assert (await rest.delete(f"/services/{first['id']}")).status_code == 204
    await host.pending(2)
    assert remote_connections(host.remote) == ["bert"]
    assert [(await host.receive(ack="auto", wait_s=5))[0]["body"] for _ in range(2)] == ["1", "2"]
    await until(lambda: host.local.depth("stock") == 0)


async def test_the_messages_of_a_login_that_is_withdrawn_come_by_another_login_of_the_service(
    host: Host,
) -> None:
    await host.register()
    await host.register(token="mom_bert")
    without_anna = policy_of(users={"bert": []}, admins=["bert"])
    await host.remote.change(users=without_anna.users, tokens=without_anna.tokens)
    await until(lambda: remote_connections(host.remote) == ["bert"])
    async with host.remote.stomp("bert") as mom:
        await mom.send("/queue/stock", "1")
    (item,) = await host.receive(ack="auto", wait_s=10)
    assert item["body"] == "1"


async def test_a_service_of_another_broker_under_the_same_name_is_refused(host: Host, tmp_path: Path) -> None:
    async with small_node(tmp_path / "other", POLICY) as other:
        other.node.features.services.registry.admit = enable_callbacks
        async with serving(other.node, Config(data=tmp_path)) as port:
            await host.register()
            url = f"ws://127.0.0.1:{port}/ws"
            refused = await host.register(urls=[url])
            assert (refused.status_code, refused.json()["type"]) == (409, "/docs/problems/conflict")
            detail = refused.json()["detail"]
            assert f"service stock has the origin {host.url} here" in detail
            assert f"receive from {url} directly" in detail
            assert not len(other.node.features.services.registry)
            assert (await host.register("sold", urls=[url])).status_code == 201
            async with host.local.rest("anna") as rest:
                for service in (await rest.get("/services")).json()["items"]:
                    await rest.delete(f"/services/{service['id']}")
            assert (await host.register(urls=[url])).status_code == 201


async def test_programs_that_know_other_addresses_of_a_broker_share_its_connection(host: Host) -> None:
    dead = "ws://127.0.0.1:9/ws"
    await host.register(urls=[dead, host.url])
    assert (await host.register(urls=[dead])).status_code == 201
    assert (await host.register()).status_code == 201
    assert remote_connections(host.remote) == ["anna"]
    await host.send("1")
    assert len(await host.pending(1)) == 1


async def test_addresses_that_a_program_knows_are_tried_before_those_that_were_known() -> None:
    def make_queue(connection: OriginConnection, name: str) -> PendingQueue:
        raise AssertionError("no service has registered")

    origin = Origin(("ws://old/ws", "ws://older/ws"), "anna")
    connection = OriginConnection(origin, RemoteBroker(), make_queue, lambda unused: None, 10**6)
    connection.extend(("ws://new/ws", "ws://older/ws"))
    assert connection.urls == ("ws://new/ws", "ws://older/ws", "ws://old/ws")


async def test_a_wrong_login_is_named_at_once_though_another_address_is_dead(host: Host) -> None:
    async with asyncio.timeout(patient(5)):
        refused = await host.register(urls=[host.url, "ws://127.0.0.1:9/ws"], token="mom_nobody")
    assert (refused.status_code, refused.json()["type"]) == (401, "/docs/problems/not-authenticated")


async def test_a_file_of_authorities_that_cannot_be_read_is_an_error_of_the_origin_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    ca_file = tmp_path / "authorities.pem"
    monkeypatch.setenv("MOM_CA_FILE", str(ca_file))
    config = Config(data=tmp_path, **authority.server())
    async with contextlib.AsyncExitStack() as stack:
        remote = await stack.enter_async_context(small_node(tmp_path / "remote", POLICY))
        remote.node.features.services.registry.admit = enable_callbacks
        local = await stack.enter_async_context(
            small_node(tmp_path / "local", POLICY, name="REcallback", role=CALLBACK, max_attempts=10**9)
        )
        port = await stack.enter_async_context(serving(remote.node, config))
        host = Host(remote, local, f"wss://127.0.0.1:{port}/ws")
        refused = await host.register()
        assert (refused.status_code, refused.json()["type"]) == (503, "/docs/problems/origin-unreachable")
        assert f"{ca_file} cannot be used for TLS" in refused.json()["detail"]
        ca_file.write_bytes(authority.ca_file.read_bytes())
        assert (await host.register()).status_code == 201
