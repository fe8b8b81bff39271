"""Explaining over HTTP: which rule decides, and why each one before it does not; who may ask for whom."""

import json
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client

from broker_app.core.destination import parse
from broker_app.net.auth.login import Identity
from broker_app.net.policy.access import Access, ConnectionInfo
from broker_app.net.policy.access import Client as access_client
from broker_app.rules.event import BROWSE, MANAGE, READ, RECEIVE, SEND
from broker_app.web import actions
from broker_app.web.snapshot import make_logins
from tests.support.samples import sample

pytestmark = pytest.mark.django_db


class Answer(NamedTuple):
    status: int
    body: Any

    @property
    def problem(self) -> tuple[int, str]:
        return self.status, self.body["type"].removeprefix("/docs/problems/")

    @property
    def pointer(self) -> str:
        assert self.problem == (400, "invalid")
        (error,) = self.body["errors"]
        return str(error["pointer"])


Ask = Callable[..., Answer]

RULES: dict[str, dict[str, Any]] = {
    "invoices": {"conditions": "/event/queue == invoices"},
    "mary": {"conditions": "/event/queue == orders", "users": ["mary"]},
    "day": {"conditions": "/event/queue == orders && /event/address == 10.0.0.0/8", "groups": ["day"]},
    "no-sending": {"effect": "deny", "conditions": "/event/method == POST"},
    "rest": {},
}


@pytest.fixture(autouse=True)
def configured() -> None:
    cache.clear()
    actions.ensure_admin("administrator")
    edits = [actions.Edit("groups", "day", {}), actions.Edit("users", "john", {"groups": ["day"]})]
    edits += [actions.Edit("users", "mary", {"groups": []})]
    edits += [
        actions.Edit("rules", name, {**said, "position": at}) for at, (name, said) in enumerate(RULES.items())
    ]
    actions.apply(actions.SYSTEM, edits)


def asking(user: str) -> Ask:
    client = Client()
    client.force_login(User.objects.get(username=user))

    def ask(body: Any = None, **query: str) -> Answer:
        if body is None:
            reply = client.get(f"/api/v1/explain?{urlencode(query)}")
        else:
            reply = client.post("/api/v1/explain", json.dumps(body), "application/json")
        return Answer(reply.status_code, json.loads(reply.content))

    return ask


@pytest.fixture
def ask() -> Ask:
    return asking("admin")


def test_the_deciding_rule_is_shown_and_why_each_earlier_one_does_not_match(ask: Ask) -> None:
    status, found = ask(
        user="john", action="receive", destination="queue:orders", address="10.1.2.3", protocol="stomp"
    )
    assert status == 200
    assert (found["allowed"], found["decided_by"]) == (True, "rule 3 (day)")
    assert found["rule"] == {"number": 3, "name": "day", "effect": "allow", "source": ""}
    assert [(step["number"], step["name"], step["matched"], step["reason"]) for step in found["steps"]] == [
        (1, "invoices", False, "the queue differs: it is orders, the rule wants invoices"),
        (2, "mary", False, "it is about mary, and john is none of them"),
        (3, "day", True, "it matches: allow"),
    ]
    assert (found["steps_left_out"], found["not_reached"]) == (0, 2)
    assert found["event"] == {
        "user": "john", "right": "receive", "method": "GET", "destination": "queue:orders",
        "address": "10.1.2.3", "protocol": "stomp", "tls": None, "client": None,
    }  # fmt: skip


def test_an_action_is_a_right_or_a_method_and_a_destination_may_be_an_address(ask: Ask) -> None:
    for action, destination in (("POST", "queue:bills"), ("send", "/queue/bills")):
        found = ask(user="john", action=action, destination=destination).body
        assert (found["allowed"], found["decided_by"]) == (False, "rule 4 (no-sending)")


def test_an_omitted_fact_is_unknown(ask: Ask) -> None:
    found = ask(user="john", action="GET", destination="queue:orders").body
    assert found["steps"][2]["reason"] == "there is no address"
    assert found["decided_by"] == "rule 5 (rest)"


def test_an_administrator_may_do_all_but_what_is_the_brokers_own(ask: Ask) -> None:
    found = ask(user="admin", action="POST", destination="queue:orders").body
    assert (found["allowed"], found["decided_by"]) == (
        True,
        "admin is an administrator, who may do everything",
    )
    assert (found["steps"], found["rule"], found["not_reached"]) == ([], None, 5)
    found = ask(user="admin", action="POST", destination="topic:$mom.events").body
    assert (found["allowed"], found["decided_by"]) == (False, "the broker")


def test_a_token_with_fewer_grants_decides_first(ask: Ask) -> None:
    grants = [{"rights": ["receive"], "destinations": ["/queue/invoices"]}]
    actions.create_token(actions.SYSTEM, User.objects.get(username="john"), "ci", grants=grants)
    found = ask(user="john", token="ci", action="GET", destination="queue:orders").body
    assert (found["allowed"], found["decided_by"], found["steps"]) == (False, "token ci", [])
    found = ask(user="john", token="ci", action="GET", destination="queue:invoices").body
    assert found["decided_by"] == "rule 1 (invoices)"
    assert ask(user="john", token="cd", action="GET", destination="queue:orders").problem == (
        404,
        "not-found",
    )


DESTINATIONS = [
    "/queue/orders",
    "/queue/storeAndForward:west/queue/orders",
    "/queue/$topic-subscription/news/john.office.dead",
    "/queue/$mom.own",
    "/topic/news",
    "/topic/$mom.failover",
    "/temp-queue/answers",
]


@pytest.mark.parametrize("destination", sample(DESTINATIONS, 2))
def test_the_explanation_is_what_the_broker_decides(ask: Ask, destination: str) -> None:
    edits = [actions.Edit("rules", "news", {"conditions": "/event/topic == news", "position": 0})]
    actions.apply(actions.SYSTEM, edits)
    grants = [{"rights": ["receive", "manage"], "destinations": ["/topic/news"]}]
    actions.create_token(actions.SYSTEM, User.objects.get(username="john"), "ci", grants=grants)
    access = Access(make_logins(anonymous=False))
    clients = (("john", None), ("mary", None), ("admin", None), ("john", "ci"))
    for (user, token), right in product(clients, (SEND, RECEIVE, BROWSE, READ, MANAGE)):
        refusal = access.refusal(
            access_client(Identity(user, token), ConnectionInfo("rest")), right, parse(destination)
        )
        asked = {"user": user, "action": right, "destination": destination, "protocol": "rest"}
        found = ask(**asked, **({"token": token} if token else {})).body
        assert found["allowed"] == (refusal is None), (user, token, right)
        if refusal is not None:
            assert found["decided_by"] == refusal.facts["decided_by"], (user, token, right)


def test_users_may_check_themselves_and_see_no_rules_about_others() -> None:
    found = asking("john")(action="GET", destination="queue:orders").body
    assert found["event"]["user"] == "john"
    assert [step["name"] for step in found["steps"]] == ["invoices", "day", "no-sending", "rest"]
    assert found["steps_left_out"] == 1
    assert "mary" not in json.dumps(found)


def test_only_administrators_check_the_access_of_others() -> None:
    john = asking("john")
    assert john(user="mary", action="GET", destination="queue:orders").problem == (403, "not-allowed")
    assert john({"rules": [], "action": "GET", "destination": "queue:a"}).problem == (403, "not-allowed")


def test_an_explanation_requires_a_login() -> None:
    assert Client().get("/api/v1/explain?action=GET&destination=queue:a").status_code == 401


def test_rules_that_are_not_saved_are_asked_in_their_order(ask: Ask) -> None:
    rules = [
        {"name": "new", "effect": "deny", "users": ["someone"]},
        {"conditions": "/event/queue == orders"},
    ]
    found = ask({"user": "someone", "action": "GET", "destination": "queue:orders", "rules": rules}).body
    assert (found["allowed"], found["decided_by"]) == (False, "rule 1 (new)")
    found = ask({"user": "else", "action": "GET", "destination": "queue:orders", "rules": rules}).body
    assert (found["allowed"], found["decided_by"]) == (True, "rule 2 (rule-2)")
    found = ask({"user": "john", "action": "GET", "destination": "queue:orders", "rules": []}).body
    assert (found["allowed"], found["decided_by"]) == (True, "there are no rules")


def test_a_post_without_rules_asks_those_that_are_saved(ask: Ask) -> None:
    found = ask(
        {"user": "john", "action": "POST", "destination": "queue:a", "tls": True, "client": "till"}
    ).body
    assert (found["decided_by"], found["event"]["tls"], found["event"]["client"]) == (
        "rule 4 (no-sending)",
        True,
        "till",
    )


INVALID_QUERIES: list[tuple[dict[str, str], str]] = [
    ({"destination": "queue:a"}, "query/action"),
    ({"action": "GET"}, "query/destination"),
    ({"action": "get", "destination": "queue:a"}, "query/action"),
    ({"action": "GET", "destination": "queue:a", "protocol": "amqp"}, "query/protocol"),
    ({"action": "GET", "destination": "queue:a", "address": "here"}, "query/address"),
    ({"action": "GET", "destination": "queue:a", "tls": "yes"}, "query/tls"),
    ({"action": "GET", "destination": "queue:a", "user": ""}, "query/user"),
    ({"action": "GET", "destination": "queue:a", "usr": "john"}, "query/usr"),
]


def test_an_invalid_query_is_reported_with_its_position(ask: Ask) -> None:
    for query, pointer in INVALID_QUERIES:
        assert ask(**query).pointer == pointer, query


def test_an_unknown_action_destination_or_user_is_refused(ask: Ask) -> None:
    wrong = ask(action="recieve", destination="queue:a")
    assert "did you mean receive?" in wrong.body["detail"]
    assert ask(action="GET", destination="orders").problem == (400, "bad-destination")
    assert ask(user="nobody", action="GET", destination="queue:a").problem == (404, "not-found")


INVALID_RULES: list[tuple[Any, str]] = [
    ({}, "/rules"),
    ([1], "/rules/0"),
    ([{}, {"conditions": "/event/quue == a"}], "/rules/1/conditions"),
    ([{"effect": "permit"}], "/rules/0/effect"),
    ([{"users": "john"}], "/rules/0/users"),
    ([{"name": "a"}, {"name": "a"}], "/rules/1/name"),
    ([{"name": "a b"}], "/rules/0/name"),
    ([{"condition": "x"}], "/rules/0/condition"),
]


def test_invalid_rules_are_reported_with_their_position(ask: Ask) -> None:
    for rules, pointer in INVALID_RULES:
        assert ask({"action": "GET", "destination": "queue:a", "rules": rules}).pointer == pointer, rules


@pytest.mark.parametrize("name", ["user", "destination", "client", "token", "action"])
def test_texts_that_are_none_are_refused(ask: Ask, name: str) -> None:
    values: tuple[Any, ...] = (1, None, [], "\ud800", "a\0b", "x" * 2_000)
    for value in values:
        status = ask({"action": "GET", "destination": "queue:a", name: value}).status
        assert status in (400, 404), value


def test_a_dry_run_of_rules_shows_its_impact(ask: Ask) -> None:
    client = Client()
    client.force_login(User.objects.get(username="admin"))
    reply = client.put("/api/v1/rules/more?dry_run=true", json.dumps({"effect": "deny"}), "application/json")
    assert reply.json()["impact"]["decisions"]["become_denied"] == 0
    assert "impact" not in client.put("/api/v1/groups/g?dry_run=true", "{}", "application/json").json()
