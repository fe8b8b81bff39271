"""Delays, dedup-ids and SIGKILL: what was confirmed comes when it is due, once, whatever happens before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.broker_process import BrokerProcess, StartBroker

COUNT = 300


def publish(broker: BrokerProcess, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    reply = broker.request("POST", "/api/v1/queues/a/messages/batch", json_body=items)
    assert reply.status == 200
    results: list[dict[str, Any]] = reply.json()["results"]
    return results


def receive(broker: BrokerProcess, count: int) -> list[str]:
    """The ids of the next messages, acknowledged."""
    wish = {"max": count, "wait_s": 20, "ack": "auto"}
    reply = broker.request("POST", "/api/v1/queues/a/receive", json_body=wish)
    return [item["id"] for item in reply.json()["items"]]


def test_pending_delays_and_dedup_ids_survive_kills(start_broker: StartBroker) -> None:
    broker = start_broker()
    due = datetime.now(UTC) + timedelta(seconds=8)
    soon = [{"body": f"{n}", "dedup_id": f"{n}", "deliver_at": due.isoformat()} for n in range(COUNT)]
    late = [{"body": "late", "dedup_id": f"late {n}", "delay_s": 86_400} for n in range(COUNT)]
    ids = [result["id"] for result in publish(broker, soon)]
    publish(broker, late)
    for _ in range(2):
        broker.kill()
        broker.start()
    repeats = publish(broker, soon)
    assert all(result["duplicate"] for result in repeats)
    assert [result["id"] for result in repeats] == ids
    came: list[str] = []
    while len(came) < COUNT:
        came += receive(broker, COUNT - len(came)) or ["nothing came"]
    assert sorted(came) == sorted(ids)
    assert datetime.now(UTC) >= due
    broker.kill()
    broker.start()
    facts = broker.request("GET", "/api/v1/queues/a").json()
    assert (facts["depth"], facts["delayed"]) == (0, COUNT)
