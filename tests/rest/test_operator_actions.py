"""Operators' actions over HTTP are recorded for the audit log; those of programs are not."""

from typing import Any

import pytest

from tests.rest.conftest import Rest
from tests.rest.test_connections import Client

QUEUE = "/queue/actions"


def told(rest: Rest) -> list[tuple[str, str, str, dict[str, Any]]]:
    taken = rest.actions.take(last=True)
    assert all(action.operator.user == "alice" for action in taken)
    return [(action.action, action.kind, action.key, dict(action.facts)) for action in taken]


async def test_sending_receiving_and_settling_by_programs_is_not_recorded(rest: Rest) -> None:
    await rest.publish("actions", "1", "2")
    for item in await rest.receive("actions", max=2):
        await rest.alice.delete(f"/leases/{item['receipt']}")
    await rest.alice.get("/queues")
    await rest.alice.get("/queues/actions")
    assert told(rest) == []


async def test_a_purge_is_recorded_with_the_number_of_messages(rest: Rest) -> None:
    await rest.publish("actions", "1", "2")
    reply = await rest.alice.delete(
        "/queues/actions/messages?all=true",
        headers={"mom-reason": "it%20was%20a%20test", "traceparent": f"00-{'4b' * 16}-{'a1' * 8}-01"},
    )
    assert reply.status_code == 204
    (action,) = rest.actions.take()
    assert (action.action, action.kind, action.key, action.facts) == (
        "purged",
        "queues",
        QUEUE,
        {"messages": 2},
    )
    assert (action.operator.user, action.operator.token, action.operator.via) == ("alice", "test", "api")
    assert (action.operator.address, action.operator.reason, action.operator.trace_id) == (
        "127.0.0.1",
        "it was a test",
        "4b" * 16,
    )


async def test_a_browsers_session_is_the_console(rest: Rest) -> None:
    await rest.publish("actions", "1")
    browser = rest.client(cookie="sessionid=cookie-of-alice")
    await browser.delete("/queues/actions/messages?all=true", headers={"origin": "http://localhost"})
    await browser.aclose()
    (action,) = rest.actions.take()
    assert (action.operator.user, action.operator.token, action.operator.via) == ("alice", None, "console")


async def test_refused_requests_are_not_recorded(rest: Rest) -> None:
    assert (await rest.alice.delete("/queues/actions/messages")).status_code == 400
    assert (await rest.alice.delete("/messages/x?queue=actions")).status_code == 404
    assert (await rest.anonymous.delete("/queues/actions/messages?all=true")).status_code == 401
    assert told(rest) == []


async def test_a_deleted_message_is_recorded(rest: Rest) -> None:
    (message_id,) = await rest.publish("actions", "1")
    assert (await rest.alice.delete(f"/messages/{message_id}?queue=actions")).status_code == 204
    assert told(rest) == [("deleted", "messages", message_id, {"destination": QUEUE})]


@pytest.mark.parametrize(
    ("path", "messages"),
    [
        ("/queues/actions/messages", 3),
        ("/queues/actions/messages?fields=id,body", 3),
        ("/queues/actions/messages?q=1", 1),
        ("/queues/actions/messages?fields=id,headers", 0),
        ("/messages/{id}?queue=actions", 1),
        ("/messages/{id}/body?queue=actions", 1),
        ("/messages/{id}/why?queue=actions", 0),
    ],
)
async def test_reading_bodies_is_recorded(rest: Rest, path: str, messages: int) -> None:
    message_id = (await rest.publish("actions", "1", "2", "3"))[0]
    assert (await rest.alice.get(path.format(id=message_id))).status_code == 200
    assert told(rest) == ([("read", "queues", QUEUE, {"messages": messages})] if messages else [])


async def test_closing_a_connection_is_recorded(rest: Rest) -> None:
    client = Client(rest, "alice")
    await client.connect()
    reply = await rest.alice.request("DELETE", f"/connections/{client.id}", json={"reason": "it is late"})
    assert reply.status_code == 204
    assert told(rest) == [("closed", "connections", client.id, {"user": "alice", "reason": "it is late"})]


async def test_jobs_are_recorded_from_start_to_undo(rest: Rest) -> None:
    await rest.publish("actions", "1", "2")
    wish = {"op": "move", "source": "actions", "target": "elsewhere"}
    planned = (await rest.alice.post("/jobs", json={**wish, "dry_run": True})).json()
    assert told(rest) == [("read", "queues", QUEUE, {"messages": 2})]
    job = (await rest.alice.post("/jobs", json={"plan": planned["plan"]})).json()
    facts = {"op": "move", "source": QUEUE, "target": "/queue/elsewhere", "filter": None, "messages": 2}
    assert told(rest) == [("started", "jobs", job["id"], facts)]
    await rest.until_later(lambda: not rest.jobs.get(job["id"]).open)
    undone = (await rest.alice.post(f"/jobs/{job['id']}/undo")).json()
    assert told(rest) == [("undone", "jobs", job["id"], {"by": undone["id"]})]


async def test_cancelling_a_job_is_recorded(rest: Rest) -> None:
    await rest.publish("actions", *map(str, range(100)))
    wish = {"op": "delete", "source": "actions", "rate_per_s": 1}
    job = (await rest.alice.post("/jobs", json=wish)).json()
    told(rest)
    assert (await rest.alice.post(f"/jobs/{job['id']}/cancel")).status_code == 200
    ((action, kind, key, facts),) = told(rest)
    assert (action, kind, key, facts["op"]) == ("cancelled", "jobs", job["id"], "delete")


async def test_downloads_of_exports_are_recorded(rest: Rest) -> None:
    await rest.publish("actions", "1", "2")
    job = (await rest.alice.post("/jobs", json={"op": "export", "source": "actions"})).json()
    await rest.until_later(lambda: not rest.jobs.get(job["id"]).open)
    told(rest)
    assert (await rest.alice.get(f"/jobs/{job['id']}/export")).status_code == 200
    assert told(rest) == [("read", "jobs", job["id"], {"source": QUEUE, "messages": 2})]
