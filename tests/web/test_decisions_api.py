"""Decisions of a broker are counted and reported; an edit of rules is previewed with them."""

import base64
from typing import Any

import pytest

import mom_client
from tests.support.broker_process import BrokerProcess, Reply

PASSWORD = "correct horse battery"


@pytest.fixture(scope="module", autouse=True)
def configured(broker: BrokerProcess) -> None:
    for user in ("john", "mary"):
        assert ask(broker, "PUT", f"/users/{user}", {"password": PASSWORD}).status == 201
    said = {"conditions": "(/event/queue == orders)", "users": ["john", "mary"]}
    assert ask(broker, "PUT", "/rules/orders", said).status == 201


def ask(
    broker: BrokerProcess, method: str, path: str, body: Any = None, user: str = "", **headers: str
) -> Reply:
    if user:
        headers["authorization"] = "Basic " + base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()
    return broker.request(method, f"/api/v1{path}", None, json_body=body, **headers)


def publish(broker: BrokerProcess, user: str, queue: str) -> Reply:
    return ask(broker, "POST", f"/queues/{queue}/messages", {"any": "body"}, user)


def test_decisions_are_counted_by_event_and_rule(broker: BrokerProcess) -> None:
    for _ in range(3):
        assert publish(broker, "john", "orders").status == 201
    found = ask(broker, "GET", "/decisions?user=john&destination=queue:orders&allowed=true").json()
    (row,) = found["items"]
    assert (row["right"], row["rule"], row["times"], row["protocol"]) == ("send", "orders", 3, "rest")
    assert row["address"] == "127.0.0.1"
    assert found["rules"]["orders"] >= 3
    assert found["forgotten"] == 0


def test_a_denial_is_listed_and_its_problem_leads_to_its_explanation(broker: BrokerProcess) -> None:
    refused = publish(broker, "mary", "bills")
    assert refused.status == 403
    (denial, *_) = ask(broker, "GET", "/decisions/denials?user=mary").json()["items"]
    assert (denial["destination"], denial["decided_by"], denial["rule"]) == (
        "queue:bills",
        "no rule allows it",
        "",
    )
    address = refused.json()["explain"].removeprefix("/api/v1")
    explained = ask(broker, "GET", address, user="mary").json()
    assert (explained["allowed"], explained["decided_by"]) == (False, "no rule allows it")
    assert explained["steps"][0]["reason"] == "the queue differs: it is bills, the rule wants orders"


def test_rules_do_not_decide_about_administrators(broker: BrokerProcess) -> None:
    assert ask(broker, "POST", "/queues/anything/messages", {}).status == 201
    assert ask(broker, "GET", f"/decisions?user={broker.user}").json()["items"] == []


@pytest.mark.parametrize("path", ["/decisions", "/decisions/denials"])
def test_decisions_are_for_administrators(broker: BrokerProcess, path: str) -> None:
    assert ask(broker, "GET", path, user="john").status == 403
    assert ask(broker, "GET", f"{path}?limit=0").status == 400
    assert ask(broker, "GET", f"{path}?usr=john").status == 400
    assert ask(broker, "POST", path, {}).status == 405


async def test_an_edit_of_rules_is_previewed_with_recent_decisions_and_connected_clients(
    broker: BrokerProcess,
) -> None:
    assert publish(broker, "john", "orders").status == 201
    url = f"stomp://{broker.host}:{broker.stomp_port}"
    async with (
        mom_client.connect(url, login="mary", passcode=PASSWORD) as mary,
        mary.subscribe("/queue/orders"),
    ):
        await mary.send("/queue/orders", "hello")
        narrower = {"conditions": "/event/queue == orders && /event/method == POST", "users": ["john"]}
        reply = ask(broker, "PUT", "/rules/orders?dry_run=true", narrower, if_match="*")
        assert reply.status == 200, reply.body
        impact = reply.json()["impact"]
        denied = {(row["user"], row["right"]) for row in impact["decisions"]["would_be_denied"]}
        assert denied == {("mary", "receive"), ("mary", "send")}
        assert impact["decisions"]["allowed_stay"] >= 1
        (client,) = impact["clients"]
        assert (client["user"], client["protocol"], impact["clients_affected"]) == ("mary", "stomp", 1)
        assert {(loss["right"], loss["destination"]) for loss in client["loses"]} == {
            ("receive", "queue:orders"), ("send", "queue:orders"),
        }  # fmt: skip
        # Nothing has happened.
        await mary.send("/queue/orders", "hello")
    assert ask(broker, "GET", "/rules/orders").json()["users"] == ["john", "mary"]


async def test_an_edit_of_a_user_is_previewed_too(broker: BrokerProcess) -> None:
    assert ask(broker, "PUT", "/groups/staff", {}).status == 201
    assert ask(broker, "PUT", "/users/ann", {"password": PASSWORD, "groups": ["staff"]}).status == 201
    assert ask(broker, "PUT", "/rules/staff", {"groups": ["staff"]}).status == 201
    url = f"stomp://{broker.host}:{broker.stomp_port}"
    async with (
        mom_client.connect(url, login="ann", passcode=PASSWORD) as ann,
        ann.subscribe("/queue/of-staff"),
    ):
        for change, by in (
            ({"groups": []}, "no rule allows it"),
            ({"active": False}, "ann could not log in"),
        ):
            reply = ask(broker, "PATCH", "/users/ann?dry_run=true", change, if_match="*")
            (client,) = reply.json()["impact"]["clients"]
            assert (client["user"], client["loses"][0]["decided_by"]) == ("ann", by)
        reply = ask(broker, "PATCH", "/users/ann?dry_run=true", {"administrator": True}, if_match="*")
        assert reply.json()["impact"]["clients"] == []
