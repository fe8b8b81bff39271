"""Alerts over HTTP."""

from __future__ import annotations

from broker_app.base.events import FILES_APPLIED, FILES_REFUSED
from broker_app.telemetry.alerts import Alert
from tests.rest.conftest import Rest
from tests.rest.test_connections import make_admin


async def with_alert(rest: Rest) -> Alert:
    """The alert of files that were refused, for alice, who administers."""
    make_admin(rest, "alice")
    rest.events.report(FILES_REFUSED, "reload", detail="zero.config:3: no")
    await rest.alerts.evaluate()
    return rest.alerts.all()[0]


async def test_alerts_are_listed_acknowledged_and_silenced_for_a_while(rest: Rest) -> None:
    alert = await with_alert(rest)
    shown = (await rest.alice.get("/alerts")).json()
    assert [(row["subject"], row["state"]) for row in shown["items"]] == [("files", "firing")]
    assert shown["items"][0]["detail"] == "Configuration files were rejected: zero.config:3: no"
    reply = await rest.alice.post(f"/alerts/{alert.id}/acknowledge", json={"reason": "on it"})
    assert (reply.json()["state"], reply.json()["by"], reply.json()["reason"]) == (
        "acknowledged",
        "alice",
        "on it",
    )
    reply = await rest.alice.post(f"/alerts/{alert.id}/silence", json={"for_s": 60, "reason": "later"})
    assert (reply.json()["state"], reply.json()["until"]) == ("silenced", "2025-06-15T15:07:40.000Z")
    assert (await rest.alice.get("/alerts?state=firing,ended")).json()["items"] == []
    reply = await rest.alice.post(f"/alerts/{alert.id}/silence", json={"for_s": 0})
    assert reply.json()["state"] == "firing"
    done = [(action.action, action.key, action.facts["reason"]) for action in rest.actions.take()]
    assert done == [
        ("acknowledged", "configuration/files", "on it"),
        ("silenced", "configuration/files", "later"),
        ("unsilenced", "configuration/files", ""),
    ]


async def test_an_ended_alert_is_listed_and_cannot_be_changed(rest: Rest) -> None:
    alert = await with_alert(rest)
    rest.events.report(FILES_APPLIED, "reload", detail="")
    rest.now += 60
    await rest.alerts.evaluate()
    assert [row["state"] for row in (await rest.alice.get("/alerts")).json()["items"]] == ["ended"]
    reply = await rest.alice.post(f"/alerts/{alert.id}/acknowledge")
    assert (reply.status_code, reply.json()["type"]) == (409, "/docs/problems/conflict")


async def test_targets_of_notifications_are_tested_and_the_audit_log_has_it(rest: Rest) -> None:
    make_admin(rest, "alice")
    asked = {"targets": ["queue:ops", "mailto:ops@example.org"]}
    tested = (await rest.alice.post("/alerts/test", json=asked)).json()["items"]
    assert [(one["target"], one["ok"]) for one in tested] == [
        ("queue:ops", True),
        ("mailto:ops@example.org", False),
    ]
    assert "setting smtp names" in tested[1]["detail"]
    stored = (await rest.alice.get("/queues/ops/messages")).json()["items"]
    assert [message["body"]["event"] for message in stored] == ["test"]
    done = [
        (action.action, action.kind, action.key, action.facts["ok"]) for action in rest.actions.take()[:2]
    ]
    assert done == [
        ("tested", "notifications", "queue:ops", True),
        ("tested", "notifications", "mailto:ops@example.org", False),
    ]


async def test_tests_of_notifications_are_for_administrators_and_bounded(rest: Rest) -> None:
    assert (await rest.bob.post("/alerts/test", json={"targets": ["queue:ops"]})).status_code == 403
    make_admin(rest, "alice")
    for targets in (["ftp://host"], ["queue:ops"] * 11):
        assert (await rest.alice.post("/alerts/test", json={"targets": targets})).status_code == 400
    none = await rest.alice.post("/alerts/test")
    assert (none.status_code, "alert_notify has none" in none.json()["detail"]) == (409, True)


async def test_errors_of_alert_requests_are_reported(rest: Rest) -> None:
    alert = await with_alert(rest)
    silence = f"/alerts/{alert.id}/silence"
    for body in (
        {},
        {"for_s": -1},
        {"for_s": 1e9},
        {"for_s": 5, "reason": "a\nb"},
        {"for_s": 5, "reason": "x" * 501},
    ):
        assert (await rest.alice.post(silence, json=body)).status_code == 400
    assert (await rest.alice.get("/alerts?state=burning")).status_code == 400
    assert (await rest.alice.post("/alerts/none/acknowledge")).status_code == 404
    for path in ("/alerts", silence):
        reply = await (rest.bob.get(path) if path == "/alerts" else rest.bob.post(path, json={"for_s": 1}))
        assert (reply.status_code, reply.json()["right"]) == (403, "administer")
    assert (await rest.anonymous.get("/alerts")).status_code == 401
