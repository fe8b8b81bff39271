"""The bridge of another broker on the wire: flows, answers, refusals and rights."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest

from broker_app.core import commands as c
from broker_app.core.model import InnerReceiver, Peer
from broker_app.core.remote.sync_queue import SYNC_ADDRESS
from broker_app.net.policy.policy import UserFacts
from broker_app.rules.rule import DENY, Rule
from broker_app.rules.ruleset import Rules
from tests.support.small_broker import PASSWORD, RawClient, SmallBroker, small_broker

SOURCE = "storeAndForward:b/queue/t"


@pytest.fixture
async def broker() -> AsyncIterator[SmallBroker]:
    async with small_broker() as running:
        yield running


Connect = Callable[..., Awaitable[RawClient]]


@pytest.fixture
async def bridge(broker: SmallBroker) -> AsyncIterator[Connect]:
    """Connects as a bridge, unless headers say otherwise."""
    clients: list[RawClient] = []

    async def connect(**headers: str) -> RawClient:
        clients.append(await broker.client(**{"mom-bridge": "home~7f", "mom-soft-errors": "true"} | headers))
        return clients[-1]

    yield connect
    for client in clients:
        await client.close()


def begin(id: str = "f", *, source: str = SOURCE, target: str = "/queue/t") -> bytes:
    facts = f"destination:{SYNC_ADDRESS}\nid:{id}\nmom-source:{source}\nmom-target:{target}\nreceipt:b-{id}"
    return f"SUBSCRIBE\n{facts}\n\n\0".encode()


def message(
    position: object, body: str = "", *, flow: str = "f", target: str = "/queue/t", **more: str
) -> bytes:
    lines = "".join(f"{name}:{value}\n" for name, value in more.items())
    return f"SEND\ndestination:{target}\nmom-flow:{flow}\n{lines}receipt:{position}\n\n{body}\0".encode()


def receipt(position: object) -> bytes:
    return b"RECEIPT\nreceipt-id:%b\n\n" % str(position).encode()


async def begun(client: RawClient, id: str = "f", **facts: str) -> tuple[str, str]:
    """Begin a flow; what its message has in `accepted` and `count`."""
    assert await client.ask(begin(id, **facts)) == receipt(f"b-{id}")
    lines = dict(line.split(":", 1) for line in (await client.frame()).decode().split("\n")[1:] if line)
    assert lines["subscription"] == id
    assert lines["destination"] == SYNC_ADDRESS
    return lines["accepted"], lines["count"]


async def refusal(client: RawClient) -> tuple[str, str | None, dict[str, object]]:
    """The code, receipt-id and problem of the next soft refusal."""
    head, _, body = (await client.frame()).partition(b"\n\n")
    lines = dict(line.split(":", 1) for line in head.decode().split("\n")[1:])
    problem = json.loads(body)
    return problem["type"].rsplit("/", 1)[1], lines.get("receipt-id"), problem


def bodies(broker: SmallBroker, address: str = "/queue/t") -> list[bytes]:
    queue = broker.engine.broker.destinations.queues[address]
    return [waiting.body for lane in queue.lanes for waiting in lane.in_memory()]


async def test_a_flow_is_begun_answered_repeated_and_restarted(broker: SmallBroker, bridge: Connect) -> None:
    client = await bridge()
    assert await begun(client) == ("0", "0")
    client.send(message(5, "a") + message(9, "b"))
    assert [await client.frame(), await client.frame()] == [receipt(5), receipt(9)]
    assert await client.ask(message(9, "b")) == receipt(9)
    assert bodies(broker) == [b"a", b"b"]
    assert await begun(client) == ("9", "2")
    again = await bridge()
    assert await begun(again, "other") == ("9", "2")
    assert await again.ask(message(10, "c", flow="other")) == receipt(10)
    client.send(message(10, "c"))
    assert (await refusal(client))[:2] == ("flow-broken", "10")
    assert bodies(broker) == [b"a", b"b", b"c"]


async def test_connected_announces_support_for_flows_to_a_bridge(
    broker: SmallBroker, bridge: Connect
) -> None:
    login = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:anna\npasscode:secret\n"
    for more, told in ((b"", False), (b"mom-bridge:home~7f\n", True)):
        client = await broker.stranger()
        assert (b"\nmom-bridge:1\n" in await client.ask(login + more + b"\n\0")) == told
        assert await client.ask(b"BEGIN\ntransaction:t\nreceipt:1\n\n\0") == receipt(1)
        assert (SYNC_ADDRESS in broker.engine.broker.destinations.queues) == told
        await client.close()


async def test_messages_of_several_flows_and_plain_ones_may_come_mixed(
    broker: SmallBroker, bridge: Connect
) -> None:
    client = await bridge()
    await begun(client, "f")
    await begun(client, "g", source="storeAndForward:b/queue/u", target="/queue/u")
    client.send(
        message(1, "t1")
        + b"SEND\ndestination:/queue/p\nreceipt:p\n\nplain\0"
        + message(1, "u1", flow="g", target="/queue/u")
        + message(2, "t2")
        + b"SEND\ndestination:/queue/p\n\nlast\0"
    )
    answers = [await client.frame() for _ in range(4)]
    assert sorted(answers) == sorted([receipt(1), receipt("p"), receipt(1), receipt(2)])
    found = [bodies(broker, address) for address in ("/queue/t", "/queue/u", "/queue/p")]
    assert found == [[b"t1", b"t2"], [b"u1"], [b"plain", b"last"]]


async def test_headers_travel_but_not_those_of_the_flow(broker: SmallBroker, bridge: Connect) -> None:
    client = await bridge()
    await begun(client)
    assert await client.ask(message(1, priority="7", persistent="false", colour="red")) == receipt(1)
    (lane,) = broker.engine.broker.destinations.queues["/queue/t"].lanes
    (found,) = lane.in_memory()
    assert (found.envelope.priority, found.envelope.persistent) == (7, False)
    assert found.envelope.block == b"priority:7\npersistent:false\ncolour:red\n"


@pytest.mark.parametrize(
    ("frames", "code", "what"),
    [
        (message("x", "2"), "invalid", "receipt is 0"),
        (b"SEND\ndestination:/queue/t\nmom-flow:f\n\n2\0", "invalid", "receipt is 0"),
        (message(2, transaction="t"), "invalid", "cannot be part of a transaction"),
        (message(2, priority="11"), "invalid", "priority"),
        (message(2, target="/queue/u"), "invalid", "goes to /queue/t"),
        (message(2, target="/queue/"), "bad-destination", "no name"),
    ],
)
async def test_every_refusal_breaks_the_flow_in_its_turn(
    broker: SmallBroker, bridge: Connect, frames: bytes, code: str, what: str
) -> None:
    client = await bridge()
    await begun(client)
    client.send(b"BEGIN\ntransaction:t\n\n\0" + message(1, "1") + frames + message(3, "3"))
    assert await client.frame() == receipt(1)
    found, _, problem = await refusal(client)
    assert found == code
    assert what in str(problem["detail"])
    found, id, problem = await refusal(client)
    assert (found, id, problem["because"]) == ("flow-broken", "3", code)
    assert bodies(broker) == [b"1"]
    assert await begun(client) == ("1", "1")
    assert await client.ask(message(3, "3")) == receipt(3)


async def test_only_bridges_have_flows(broker: SmallBroker, bridge: Connect) -> None:
    client = await bridge(**{"mom-bridge": ""})
    client.send(begin() + message(1))
    for _ in range(2):
        code, _, problem = await refusal(client)
        assert code == "invalid"
        assert "CONNECT with mom-bridge" in str(problem["detail"])
    client = await bridge()
    client.send(begin().replace(SYNC_ADDRESS.encode(), b"/queue/other"))
    assert "a flow begins at" in str((await refusal(client))[2]["detail"])
    client.send(message(1, flow=""))
    assert "mom-flow is empty" in str((await refusal(client))[2]["detail"])


async def test_a_bridge_without_soft_errors_gets_an_error(broker: SmallBroker, bridge: Connect) -> None:
    client = await bridge(**{"mom-soft-errors": "false"})
    await begun(client)
    answer = await client.ask(message("x"))
    assert answer.startswith(b"ERROR\nreceipt-id:x\n")


# ---------------------------------------------------------------------- rights

TO_TARGET = Rule("sends", conditions="(/event/queue == t) && (/event/method == POST)", users=("anna",))
TO_SYNC = Rule("syncs", conditions="(/event/queue == storeAndForwardSyncQueue)", users=("anna",))


async def rule(broker: SmallBroker, *rules: Rule) -> None:
    """Let these rules hold, and be obeyed by all sessions."""
    logins = broker.registry.access._logins
    users = {name: replace(facts, admin=False) for name, facts in logins.policy.users.items()}
    logins.reload(replace(logins.policy, users=users, rules=Rules(rules)))
    broker.registry.policy_changed()
    await broker.registry.recheck_permissions()


@pytest.mark.parametrize(
    ("rules", "right", "destination"),
    [
        ([TO_TARGET], "receive", "queue:storeAndForwardSyncQueue"),
        (
            [TO_TARGET, Rule("reads", conditions=f"{TO_SYNC.conditions} && (/event/method == GET)")],
            "send",
            "queue:storeAndForwardSyncQueue",
        ),
        ([TO_SYNC], "send", "queue:t"),
    ],
)
async def test_a_flow_needs_three_rights_and_its_refusal_names_the_one_that_is_missing(
    broker: SmallBroker, bridge: Connect, rules: list[Rule], right: str, destination: str
) -> None:
    await rule(broker, *rules)
    client = await bridge()
    client.send(begin())
    code, id, problem = await refusal(client)
    assert (code, id) == ("not-allowed", "b-f")
    assert (problem["right"], problem["destination"]) == (right, destination)
    await rule(broker, TO_TARGET, TO_SYNC)
    assert await begun(client) == ("0", "0")
    assert await client.ask(message(1, "1")) == receipt(1)


@pytest.mark.parametrize(
    ("kept", "lost"), [(TO_TARGET, "queue:storeAndForwardSyncQueue"), (TO_SYNC, "queue:t")]
)
async def test_a_revoked_right_breaks_the_flow_and_a_restored_one_lets_it_restart(
    broker: SmallBroker, bridge: Connect, kept: Rule, lost: str
) -> None:
    await rule(broker, TO_TARGET, TO_SYNC)
    client = await bridge()
    await begun(client)
    assert await client.ask(message(1, "1")) == receipt(1)
    await rule(broker, kept)
    code, id, problem = await refusal(client)
    assert (code, id, problem["destination"], problem["subscription"]) == ("not-allowed", None, lost, "f")
    client.send(message(2, "2"))
    code, id, problem = await refusal(client)
    assert (code, id, problem["destination"]) == ("not-allowed", "2", lost)
    await rule(broker, TO_TARGET, TO_SYNC)
    client.send(message(2, "2"))
    assert (await refusal(client))[:2] == ("flow-broken", "2")
    assert await begun(client) == ("1", "1")
    assert await client.ask(message(2, "2")) == receipt(2)
    assert bodies(broker) == [b"1", b"2"]


async def test_another_user_cannot_advance_the_offset_of_a_disconnected_sender(
    broker: SmallBroker, bridge: Connect
) -> None:
    logins = broker.registry.logins
    users = {name: UserFacts(name, PASSWORD) for name in ("anna", "mallory")}
    logins.reload(replace(logins.policy, version=logins.policy.version + 1, users=users))
    client = await bridge()
    await begun(client)
    assert await client.ask(message(1, "1")) == receipt(1)
    await client.close()
    stranger = await bridge(login="mallory")
    stranger.send(begin() + message(500, "x"))
    code, id, problem = await refusal(stranger)
    assert (code, id) == ("conflict", "b-f")
    assert "as the user anna, and mallory cannot" in str(problem["detail"])
    assert (await refusal(stranger))[:2] == ("flow-broken", "500")
    assert await begun(await bridge()) == ("1", "1")
    # The mark of another queue has no consumer yet.
    assert await begun(stranger, source="another") == ("0", "0")


async def test_after_its_offset_was_deleted_a_flow_begins_at_zero(
    broker: SmallBroker, bridge: Connect
) -> None:
    client = await bridge()
    await begun(client)
    assert await client.ask(message(9, "9")) == receipt(9)
    assert await client.ask(b"UNSUBSCRIBE\nid:f\nreceipt:u\n\n\0") == receipt("u")
    operator = Peer(InnerReceiver())
    broker.engine.submit(c.DeleteOffset(operator, "home~7f", SOURCE))
    assert await begun(client) == ("0", "0")
    assert await client.ask(message(9, "9")) == receipt(9)
    assert bodies(broker) == [b"9", b"9"]


async def test_a_change_of_policy_that_leaves_the_rights_leaves_the_flow(
    broker: SmallBroker, bridge: Connect
) -> None:
    await rule(broker, TO_TARGET, TO_SYNC)
    client = await bridge()
    await begun(client)
    await rule(broker, TO_TARGET, TO_SYNC, Rule("no-john", DENY, users=("john",)))
    assert await client.ask(message(1, "1")) == receipt(1)


async def test_a_revoked_right_ends_the_connection_with_the_setting_close() -> None:
    async with small_broker(revoked="close") as broker:
        await rule(broker, TO_TARGET, TO_SYNC)
        client = await broker.client(**{"mom-bridge": "home~7f", "mom-soft-errors": "true"})
        await begun(client)
        await rule(broker, TO_SYNC)
        answer = await client.frame()
        assert answer.startswith(b"ERROR\n")
        assert b"flow f is broken" in answer
        assert await client.ended() == b""
        await client.close()
