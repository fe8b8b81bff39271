"""Trials of reflexes with stored messages, over REST."""

from __future__ import annotations

from typing import Any

import pytest

from broker_app.core import commands as c
from broker_app.core.message import Message
from broker_app.core.policy import DestinationPolicy, Policies
from broker_app.net.rest.features import reflex_trials
from broker_app.net.rest.messages.browse import Search
from broker_app.reflex import stored_trials
from broker_app.reflex.declaration import ARRIVAL, DELIVERY, Declaration
from tests.rest.conftest import Rest
from tests.rest.test_reflexes import admin

__all__ = ["admin"]

NUMBERS: dict[str, Any] = {
    "library": "mom-schema", "function": "check_schema", "options": {"schema": {"type": "number"}},
    "service": "a",
}  # fmt: skip
STAMP = Declaration("stamp", ARRIVAL, "mom", "set_headers", "a", "new", options={"set": {"seen": "yes"}})


async def tried(rest: Rest, **asked: Any) -> dict[str, Any]:
    reply = await rest.alice.post("/reflex-test/messages", json={"destination": "a", **asked})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def counts(found: dict[str, Any]) -> tuple[int, ...]:
    return tuple(found[name] for name in ("messages", "refused", "changed", "kept", "not_asked"))


@pytest.mark.process
async def test_a_draft_is_asked_about_the_newest_messages_in_a_process_of_its_own(admin: Rest) -> None:
    ids = await admin.publish("a", "1", "no number", "2", "[]")
    found = await tried(admin, declaration=NUMBERS, limit=3)
    assert counts(found) == (3, 2, 0, 1, 0)
    first = found["first"]["refused"]
    assert [row["id"] for row in first] == [ids[3], ids[1]], "the newest first"
    assert (first[0]["reflex"], "is not of type 'number'" in first[0]["reason"]) == ("draft", True)
    assert [row["id"] for row in found["first"]["kept"]] == [ids[2]]
    assert found["stopped"] is None
    # Nothing was used, counted or delivered, and no process is left.
    assert (admin.reflexes.report(), admin.reflexes.libraries(), admin.depth("a")) == ([], [], 4)
    assert [item["attempt"] for item in await admin.receive("a", max=4)] == [1, 1, 1, 1]


async def test_all_reflexes_of_a_kind_are_asked_about_those_that_they_are_for(admin: Rest) -> None:
    await admin.publish("a", "1", **{"mom-type": "new"})
    await admin.publish("a", "2", **{"mom-type": "old"})
    admin.reflexes.reload([STAMP, Declaration("off", ARRIVAL, "mom", "nothing", "a", enabled=False)])
    found = await tried(admin)
    assert counts(found) == (2, 0, 1, 0, 1)
    assert found["first"]["changed"][0]["headers"] == {"seen": "yes"}
    assert admin.reflexes.report()[0]["calls"] == 0
    (item, _) = await admin.receive("a", max=2)
    assert "seen" not in item["headers"]


async def test_a_function_that_fails_refuses_and_is_counted(admin: Rest) -> None:
    await admin.publish("a", "1")
    bad = Declaration("bad", DELIVERY, "mom", "nothing", "a")
    admin.reflexes.reload([bad, STAMP])
    found = await tried(admin, reflex="bad")
    assert (found["refused"], found["failures"]) == (1, 1)
    assert "has no function nothing" in found["first"]["refused"][0]["failure"]
    assert admin.reflexes.report()[0]["failures"] == 0


@pytest.mark.process
async def test_a_library_that_keeps_failing_ends_the_trial_and_not_the_use_of_it(admin: Rest) -> None:
    await admin.publish("a", "1", "2", "3", "4", "5")
    used = Declaration("used", ARRIVAL, "mom-schema", "check_schema", "a", options=NUMBERS["options"])
    admin.reflexes.reload([used])
    missing = {"library": "no_such_library", "function": "f"}
    found = await tried(admin, declaration=missing)
    assert (found["stopped"], found["messages"]) == ("failures", 1)
    slow = {**NUMBERS, "time_limit_s": 0.01, "options": {"schema": {"pattern": "^" + "(a+)+" * 20 + "$"}}}
    assert (await tried(admin, declaration=slow, limit=1))["messages"] == 1
    assert admin.reflexes.libraries()[0]["failures_in_row"] == 0
    await admin.reflexes.stop()


async def test_bytes_and_time_are_bounded(admin: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflex_trials, "MOST_BYTES", 8)
    await admin.publish("a", "12345", "12345", "12345")
    admin.reflexes.reload([STAMP])
    found = await tried(admin)
    assert (found["messages"], found["stopped"]) == (2, "bytes")
    messages = [(message, b"id") for message in await _messages(admin)]
    chains = admin.reflexes._chains[ARRIVAL]  # the limit of time, without waiting for it
    found_in_none = await stored_trials.try_stored(
        chains, admin.reflexes._blocks, "/queue/a", messages, "u", 0
    )
    assert (found_in_none["messages"] <= 1, found_in_none["stopped"]) == (True, "time")


async def _messages(rest: Rest) -> list[Message]:
    browser = rest.parts.rest.browser
    page, _stopped = await browser.search(Search("/queue/a", 10), None, lambda row: row.message)
    return page.rows


@pytest.mark.process
async def test_the_history_of_a_topic_is_tried(admin: Rest) -> None:
    asked = {"destination": "/topic/t", "declaration": {**NUMBERS, "service": "/topic/t"}}
    reply = await admin.alice.post("/reflex-test/messages", json=asked)
    assert (reply.status_code, "set the retention of the topic" in reply.text) == (404, True)
    policies = Policies(exact={"/topic/t": DestinationPolicy(retention_ms=60_000)})
    admin.engine.submit(c.Reconfigure(policies))
    await admin.engine.wait_idle()
    for body in ("1", "x"):
        await admin.alice.post("/topics/t/messages", content=body)
    found = await tried(admin, **asked)
    assert counts(found) == (2, 1, 0, 1, 0)


@pytest.mark.parametrize(
    ("asked", "status", "detail"),
    [
        ({"limit": 0}, 400, "must be from 1 to 1000"),
        ({"reflex": "stam"}, 404, "did you mean stamp?"),
        ({"reflex": "stamp", "declaration": NUMBERS}, 400, "cannot be given together with reflex"),
        ({"declaration": {**NUMBERS, "kind": "registration"}}, 400, "must be arrival or delivery"),
        ({"declaration": {**NUMBERS, "time_limit_s": 900}}, 400, "must be from 0.01 to 60 seconds"),
        ({"kind": "delivery"}, 409, "no delivery reflex is enabled"),
        ({"destination": "nobody"}, 404, "there is no queue 'nobody'"),
    ],
)
async def test_a_wrong_trial_is_refused(admin: Rest, asked: dict[str, Any], status: int, detail: str) -> None:
    admin.reflexes.reload([STAMP])
    reply = await admin.alice.post("/reflex-test/messages", json={"destination": "a", **asked})
    assert (reply.status_code, detail in reply.text) == (status, True), reply.text


async def test_others_may_not_try(rest: Rest) -> None:
    reply = await rest.bob.post("/reflex-test/messages", json={"destination": "a", "declaration": NUMBERS})
    assert (reply.status_code, reply.json()["right"]) == (403, "administer")
