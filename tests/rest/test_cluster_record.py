"""The change record over REST: listed, backed up, restored and compacted; and the keeper is changed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_app.core.durability.records import Terms
from broker_app.features.cluster.record.change_record import DESTINATION, SUBSCRIPTION, Change
from broker_app.features.cluster.record.destination_applier import NoConfiguration
from broker_app.features.cluster.record.replicated_record import KeeperSettings, ReplicatedRecord
from tests.rest.conftest import Rest
from tests.rest.test_journal import administered
from tests.support.awaiting import until

NO_KEEPER = KeeperSettings()
TERMS = Terms("/topic/prices", "", shared=False, owner="alice")._asdict()


def a_record(rest: Rest, data: Path, keeper: KeeperSettings = NO_KEEPER) -> ReplicatedRecord:
    return ReplicatedRecord(
        *("b1", data, keeper, rest.engine, NoConfiguration()),
        *(lambda broker, message: None, lambda event, name, **facts: None),
    )


@pytest.fixture
async def admin(rest: Rest, tmp_path: Path) -> AsyncIterator[Rest]:
    """A broker of a cluster, with one subscription in its record."""
    record = rest.record = a_record(rest, tmp_path)
    await record.start(0, {})
    await record.enter([Change(SUBSCRIPTION, "audit", TERMS)])
    yield administered(rest)
    await record.stop()


async def test_a_broker_in_no_cluster_has_no_record(rest: Rest) -> None:
    administered(rest)
    reply = await rest.alice.get("/cluster/record")
    assert (reply.status_code, "mom up --name b1" in reply.json()["detail"]) == (404, True)


async def test_the_record_is_for_administrators(admin: Rest) -> None:
    for method, path in (
        ("GET", "/cluster/record"),
        ("GET", "/cluster/record/backup"),
        ("POST", "/cluster/record/restore"),
        ("POST", "/cluster/record/compact"),
        ("PUT", "/cluster/keeper"),
    ):
        reply = await admin.bob.request(method, path)
        assert (reply.status_code, reply.json()["right"]) == (403, "administer"), path


async def test_what_other_brokers_have_created_is_there_and_what_clients_create_is_entered(
    admin: Rest,
) -> None:
    await until(lambda: "/topic-subscription/audit" in admin.engine.broker.destinations.named)
    assert (await admin.alice.delete("/subscriptions/audit")).status_code == 204
    record = admin.record
    assert record is not None
    await until(lambda: record.record.value(SUBSCRIPTION, "audit") is None)
    (entry,) = (await admin.alice.get("/cluster/record")).json()["items"]
    assert entry == {
        "kind": "subscription",
        "name": "audit",
        "version": 2,
        "broker": "b1",
        "origin": "b1",
        "deleted": True,
        "value": None,
    }


async def test_a_backup_brings_back_what_was_deleted(admin: Rest) -> None:
    backup = (await admin.alice.get("/cluster/record/backup")).content
    assert backup.startswith(b'{"format":1}\n{"entry":{"kind":"subscription","name":"audit"')
    record = admin.record
    assert record is not None
    await record.enter([Change(SUBSCRIPTION, "audit", None), Change(DESTINATION, "/queue/new", {})])
    reply = await admin.alice.post(
        "/cluster/record/restore", content=backup, headers={"content-type": "application/x-ndjson"}
    )
    assert reply.json() == {"changes": 1}
    assert record.record.value(SUBSCRIPTION, "audit") == TERMS
    assert record.record.value(DESTINATION, "/queue/new") == {}, "what the backup does not have stays"
    await until(lambda: "/topic-subscription/audit" in admin.engine.broker.destinations.named)
    wrong = await admin.alice.post("/cluster/record/restore", content=b"my notes\n")
    assert (wrong.status_code, "no change record" in wrong.json()["detail"]) == (400, True)


async def test_a_compacted_file_has_each_entry_once(admin: Rest) -> None:
    record = admin.record
    assert record is not None
    for number in range(5):
        await record.enter([Change(DESTINATION, "/queue/a", {"max_messages": number})])
    assert record.writer.lines > 6
    reply = await admin.alice.post("/cluster/record/compact")
    assert reply.json() == {"entries": 2, "lines": 3}


async def test_a_keeper_that_cannot_be_changed_is_refused_with_its_result(rest: Rest, tmp_path: Path) -> None:
    admin = administered(rest)
    rest.record = a_record(rest, tmp_path, KeeperSettings("b1host:7676", is_here=True, may_change=True))
    for broker, result in (("b2", "UNAVAILABLE"), ("", "BAD_REQUEST")):
        reply = await admin.alice.put("/cluster/keeper", json={"broker": broker})
        assert (reply.status_code, reply.json()["result"]) == (409, result)
        assert reply.json()["detail"].startswith(result)
    reply = await admin.alice.put("/cluster/keeper", json={"broker": "b1"})
    assert reply.json() == {"result": "OK", "keeper": "b1"}
