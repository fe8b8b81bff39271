"""Reflexes over REST: bulk publishing, status and trials. Others are in `tests/reflex`."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from broker_app.net.policy.policy import UserFacts
from broker_app.reflex.declaration import ARRIVAL, DELIVERY, REGISTRATION, SERVICE, Declaration
from tests.rest.conftest import Rest
from tests.rest.test_bulk import commit, stage, staged
from tests.support.staged_rows import rows, stage_id, to

ODD_TYPES = Declaration("no-fast", ARRIVAL, "mom", "limit_rate", "a", options={"rate": 0.001, "burst": 1})
STAMP = Declaration(
    "stamp", ARRIVAL, "mom", "set_headers", "a", options={"set": {"sent-by": "${@user}", "priority": "9"}}
)


@pytest.fixture
def admin(rest: Rest) -> Rest:
    users = {**rest.logins.policy.users, "alice": UserFacts("alice", "alice", admin=True)}
    rest.logins.reload(replace(rest.logins.policy, users=MappingProxyType(users)))
    return rest


async def test_rows_are_filtered_when_they_are_staged(rest: Rest) -> None:
    rest.reflexes.reload([ODD_TYPES])
    reply = await stage(rest.alice, stage_id(), to("/queue/a", b"1", b"2"))
    problem = reply.json()
    assert (reply.status_code, problem["title"]) == (403, "Filtered")
    assert problem["detail"].startswith("1 of 2 rows were refused, and none is staged. Row 1 to /queue/a: ")
    assert "the row was refused by reflex no-fast" in problem["detail"]
    assert rest.depth("a") == 0


async def test_filtered_rows_become_dead_letters_if_they_may(rest: Rest) -> None:
    rest.reflexes.reload([ODD_TYPES, STAMP])
    content = rows(
        [{"destination": "/queue/a"}, {"destination": "/queue/b"}], [(0, b"1"), (0, b"2"), (1, b"3")]
    )
    one = await staged(rest, content, on_error="dead_letter")
    assert (await commit(rest.alice, 0, one)).status_code == 200
    (item,) = await rest.receive("a", max=10)
    assert (item["body"], item["priority"], item["headers"]["sent-by"]) == ("1", 9, "alice")
    (dead,) = await rest.receive("a.dead", max=10)
    assert dead["headers"]["dead-reason"] == "FILTERED"
    assert dead["headers"]["dead-detail"].startswith("the row was refused by reflex no-fast: more than 0.001")
    assert len(await rest.receive("b", max=10)) == 1


async def test_rows_cannot_have_further_messages(rest: Rest) -> None:
    copy = Declaration("copy", ARRIVAL, "mom", "copy_to_broker", "a", options={"broker": "b2"})
    rest.reflexes.reload([copy])
    reply = await stage(rest.alice, stage_id(), to("/queue/a", b"1"))
    assert "it publishes further messages, which bulk publishing has not" in reply.json()["detail"]


async def test_the_time_to_wait_is_a_header(rest: Rest) -> None:
    rest.reflexes.reload([ODD_TYPES])
    await rest.publish("a", "1")
    reply = await rest.alice.post("/queues/a/messages", content="2")
    assert reply.status_code == 403
    assert 990 <= int(reply.headers["retry-after"]) <= 1_000
    assert reply.json()["reflex"] == "no-fast"


async def test_administrators_see_state_and_statistics(admin: Rest) -> None:
    admin.reflexes.reload(
        [
            ODD_TYPES,
            Declaration("off", DELIVERY, "mom", "audit", "b", enabled=False),
            Declaration("bad", ARRIVAL, "mom", "nothing", "b"),
            Declaration("deletes", SERVICE, "mom", "delete_copies", "RE_deleteCopy"),
        ]
    )
    await admin.publish("a", "1")
    await admin.alice.post("/queues/a/messages", content="2")
    status = (await admin.alice.get("/reflex-status")).json()
    items = {item["name"]: item for item in status["items"]}
    assert (items["no-fast"]["calls"], items["no-fast"]["refusals"]) == (2, 1)
    assert items["no-fast"]["p99_ms"] is not None
    assert [items[name]["state"] for name in items] == ["running", "disabled", "unusable", "running"]
    assert items["bad"]["error"].startswith("function: library mom has no function nothing; it has audit")
    assert status["libraries"] == []
    of_b = (await admin.alice.get("/reflex-status", params={"destination": "/queue/b"})).json()["items"]
    assert [item["name"] for item in of_b] == ["bad"]


async def test_others_see_nothing(rest: Rest) -> None:
    for method, path in (("GET", "/reflex-status"), ("POST", "/reflex-test")):
        reply = await rest.alice.request(method, path, json={"service": "a"})
        assert (reply.status_code, reply.json()["right"]) == (403, "administer")


async def test_a_trial_shows_each_step_and_changes_nothing(admin: Rest) -> None:
    never = Declaration("never", ARRIVAL, "mom", "audit", "a")
    admin.reflexes.reload([STAMP, ODD_TYPES, never])
    body = {"service": "a", "headers": {"x": "y"}, "body": "1", "user": "bob"}
    for _ in range(2):
        found = (await admin.alice.post("/reflex-test", json=body)).json()
        assert found["accepted"]
        assert found["headers"] == {"x": "y", "sent-by": "bob", "priority": "9"}
    await admin.publish("a", "1")
    found = (await admin.alice.post("/reflex-test", json=body)).json()
    assert (found["accepted"], found["reflex"]) == (False, "no-fast")
    assert [step["result"] for step in found["steps"]] == ["accepted", "refused", "not asked"]
    assert (admin.depth("a"), admin.reflexes.report()[0]["calls"]) == (1, 1)


async def test_a_trial_of_a_registration_shows_its_marks(admin: Rest) -> None:
    callbacks = Declaration("cb", REGISTRATION, "RE_LocalService.dll", "REenableCallbacks")
    admin.reflexes.reload([callbacks])
    reply = await admin.alice.post("/reflex-test", json={"service": "stock", "kind": "registration"})
    assert reply.json()["steps"][0]["marks"] == ["callbacks"]


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"service": "a", "kind": "service"}, "must be one of arrival, delivery, registration"),
        ({"service": "a", "body": "1", "body_base64": "MQ=="}, "cannot be given together with body_base64"),
        ({"service": "a", "body_base64": "?"}, "is not base64"),
        ({"service": "/nowhere"}, "has no known prefix"),
        ({"service": "a", "headers": {"priority": "10"}}, "it must be a number from 0 to 9"),
    ],
)
async def test_a_wrong_trial_is_refused(admin: Rest, body: dict[str, Any], detail: str) -> None:
    reply = await admin.alice.post("/reflex-test", json=body)
    assert reply.status_code == 400
    assert detail in reply.text


async def test_only_libraries_with_a_process_can_be_restarted(admin: Rest) -> None:
    reply = await admin.alice.post("/reflex-libraries/mom/restart")
    assert (reply.status_code, reply.json()["detail"]) == (404, "there is no library with a process 'mom'")
