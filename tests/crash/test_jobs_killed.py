"""Jobs and SIGKILL: whatever a job was doing when its node was killed, the next node ends it, and every
message is in one place, once."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.support.broker_process import BrokerProcess, StartBroker
from tests.support.polling import poll

MESSAGES = 3_000


def fill(broker: BrokerProcess, queue: str, count: int) -> list[str]:
    """Publish `count` numbered messages; their ids in order."""
    ids: list[str] = []
    for start in range(0, count, 1_000):
        items = [{"body": str(number)} for number in range(start, min(count, start + 1_000))]
        reply = broker.request("POST", f"/api/v1/queues/{queue}/messages/batch", json_body=items)
        assert reply.status == 200
        ids += [result["id"] for result in reply.json()["results"]]
    return ids


def begin(broker: BrokerProcess, **wish: Any) -> dict[str, Any]:
    reply = broker.request("POST", "/api/v1/jobs", json_body=wish)
    assert reply.status in (200, 202), reply.body
    answer: dict[str, Any] = reply.json()
    return answer


def shown(broker: BrokerProcess, job: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = broker.request("GET", f"/api/v1/jobs/{job['id']}").json()
    return answer


def ended(broker: BrokerProcess, job: dict[str, Any]) -> dict[str, Any]:
    poll(lambda: shown(broker, job)["state"] not in ("waiting", "running"), 60)
    return shown(broker, job)


def messages(broker: BrokerProcess, queue: str) -> list[tuple[str, str]]:
    """(id, body) of all that wait, in order."""
    found: list[tuple[str, str]] = []
    after = ""
    while True:
        address = f"/api/v1/queues/{queue}/messages?limit=500&fields=id,body{after}"
        page = broker.request("GET", address).json()
        found += [(item["id"], item["body"]) for item in page.get("items", [])]
        if not page.get("next"):
            return found
        after = f"&after={page['next']}"


def kill_in_the_middle(broker: BrokerProcess, job: dict[str, Any], times: int) -> None:
    """Kill the broker while the job is at work, again and again."""
    processed = 0
    for _ in range(times):
        while shown(broker, job)["processed"] <= processed:
            assert shown(broker, job)["state"] == "running"
        broker.kill()
        broker.start()
        processed = shown(broker, job)["processed"]


@pytest.mark.parametrize("op", ["move", "copy"])
def test_a_killed_move_or_copy_ends_with_every_message_once(start_broker: StartBroker, op: str) -> None:
    broker = start_broker()
    ids = fill(broker, "a", MESSAGES)
    expected = [(message_id, str(number)) for number, message_id in enumerate(ids)]
    job = begin(broker, op=op, source="a", target="b", rate_per_s=2_500)
    kill_in_the_middle(broker, job, 3)
    done = ended(broker, job)
    assert (done["state"], done["processed"], done["done"]) == ("done", MESSAGES, MESSAGES)
    assert messages(broker, "b") == expected
    assert messages(broker, "a") == ([] if op == "move" else expected)
    lines = broker.request("GET", f"/api/v1/jobs/{job['id']}/results").body.splitlines()
    assert [json.loads(line)["id"] for line in lines] == ids


def test_a_killed_import_publishes_every_line_once(start_broker: StartBroker) -> None:
    broker = start_broker()
    lines = b"".join(b'{"body": "%d"}\n' % number for number in range(MESSAGES))
    reply = broker.request("POST", "/api/v1/queues/a/import", lines, content_type="application/x-ndjson")
    job = reply.json()
    assert job["total"] == MESSAGES
    kill_in_the_middle(broker, job, 1) if shown(broker, job)["state"] == "running" else None
    assert ended(broker, job)["done"] == MESSAGES
    assert [body for _, body in messages(broker, "a")] == [str(number) for number in range(MESSAGES)]


def test_400_dead_letters_go_home_after_a_dry_run_and_come_back_again(start_broker: StartBroker) -> None:
    broker = start_broker("--max-attempts", "1")
    for queue, count in (("orders.new", 393), ("orders.eu", 12)):
        fill(broker, queue, count)
        taken = broker.request("POST", f"/api/v1/queues/{queue}/receive", json_body={"max": 1_000}).json()
        nack = [{"receipt": item["receipt"], "dead": True, "reason": "schema"} for item in taken["items"]]
        assert len(nack) == count
        broker.request("POST", "/api/v1/leases/settle", json_body={"nack": nack})
    ended(broker, begin(broker, op="move", source="orders.new.dead", target="orders.dead"))
    ended(broker, begin(broker, op="move", source="orders.eu.dead", target="orders.dead"))
    buried = messages(broker, "orders.dead")
    plan = begin(
        broker, op="retry", source="queue:orders.dead", target="origin", filter={"reason": "schema"},
        limit=400, rate_per_s=400, dry_run=True,
    )  # fmt: skip
    assert plan["by_origin"] == {"orders.new": 393, "orders.eu": 12}
    assert (plan["matches"], plan["count"], len(plan["sample"])) == (405, 400, 5)
    assert messages(broker, "orders.dead") == buried
    job = begin(broker, plan=plan["plan"])
    kill_in_the_middle(broker, job, 1)
    done = ended(broker, job)
    assert (done["state"], done["done"]) == ("done", 400)
    home = messages(broker, "orders.new") + messages(broker, "orders.eu")
    assert Counter(home + messages(broker, "orders.dead")) == Counter(buried)
    assert len(home) == 400
    undo = broker.request("POST", f"/api/v1/jobs/{job['id']}/undo").json()
    assert ended(broker, undo)["done"] == 400
    assert Counter(messages(broker, "orders.dead")) == Counter(buried)
