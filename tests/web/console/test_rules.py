"""Pages of rules: edited, ordered, explained."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from broker_app.models import Rule
from broker_app.rules.event import Event
from broker_app.rules.rule import Rule as Compiled
from broker_app.rules.ruleset import Rules
from broker_app.web import actions
from broker_app.web.actions import SYSTEM, Edit, apply
from broker_app.web.console.base.conditions import conditions_of
from broker_app.web.resource_types import RESOURCE_TYPES
from tests.web.console.forms import a_rule, sent

pytestmark = pytest.mark.django_db


def test_without_rules_all_users_may_do_everything(inside: Client) -> None:
    sentence = "all authenticated users may do everything"
    assert sentence in inside.get("/console/rules/").content.decode()
    apply(SYSTEM, [Edit("rules", "first", {})])
    assert sentence not in inside.get("/console/rules/").content.decode()


def test_a_rule_is_previewed_and_then_saved_with_its_reason(inside: Client) -> None:
    fields = a_rule(name="billing", conditions="/event/queue == orders", users="john\r\n\r\n jane ")
    page = sent(inside, "/console/rules/add", "preview", **fields)
    assert "not saved yet" in page and "john, jane" in page
    assert not Rule.objects.exists()
    page = sent(inside, "/console/rules/add", **fields, reason="they pay")
    assert "Rule billing was created." in page
    assert RESOURCE_TYPES["rules"].read()["billing"]["users"] == ["john", "jane"]
    assert "they pay" in inside.get("/console/rules/edit?name=billing").content.decode()


def test_a_rule_for_an_unknown_user_is_saved_with_a_warning(inside: Client) -> None:
    warning = "there is no user amdin; did you mean admin?"
    fields = a_rule(name="billing", users="amdin")
    assert warning in sent(inside, "/console/rules/add", "preview", **fields)
    page = sent(inside, "/console/rules/add", **fields)
    assert "Rule billing was created." in page and warning in page


def test_an_invalid_condition_is_shown_with_its_position(inside: Client) -> None:
    page = sent(inside, "/console/rules/add", **a_rule(name="x", conditions="/event/queu == a"))
    assert "line 1 column 1" in page and "did you mean /event/queue" in page
    assert not Rule.objects.exists()


def test_a_taken_name_is_reported_at_its_field(inside: Client) -> None:
    apply(SYSTEM, [Edit("rules", "first", {})])
    assert "a rule named first already exists" in sent(inside, "/console/rules/add", **a_rule(name="first"))


def test_a_conflict_shows_its_author_and_both_versions(inside: Client) -> None:
    version = apply(SYSTEM, [Edit("rules", "first", {"comment": "one"})]).version
    apply(
        actions.Actor("mary", actions.API, reason="in a hurry"), [Edit("rules", "first", {"comment": "two"})]
    )
    fields = a_rule(comment="three", version=str(version))
    page = sent(inside, "/console/rules/edit?name=first", **fields)
    assert "mary changed this while you were editing" in page and "in a hurry" in page
    assert "two" in page and "three" in page
    assert RESOURCE_TYPES["rules"].read()["first"]["comment"] == "two"
    newest = actions.version_of("rules", "first")
    assert f'name="version" value="{newest}"' in page
    sent(inside, "/console/rules/edit?name=first", **{**fields, "version": str(newest)})
    assert RESOURCE_TYPES["rules"].read()["first"]["comment"] == "three"


def test_a_rule_of_a_file_is_shown_with_its_position_and_read_only(inside: Client) -> None:
    apply(SYSTEM, [Edit("rules", "filed", {}, origin="zero.config:31")])
    page = inside.get("/console/rules/edit?name=filed").content.decode()
    assert "Managed by zero.config:31" in page and 'value="save"' not in page
    page = sent(inside, "/console/rules/edit?name=filed", **a_rule(version="1", comment="x"))
    assert RESOURCE_TYPES["rules"].read()["filed"]["comment"] == ""
    assert "zero.config:31" in inside.get("/console/rules/remove?name=filed").content.decode()


def test_a_rule_moves_past_its_neighbour_at_any_position(inside: Client) -> None:
    for name, position in (("a", 10), ("b", 10), ("c", 11)):
        apply(SYSTEM, [Edit("rules", name, {"position": position})])
    for name, action, order in (
        ("c", "up", "acb"),
        ("c", "up", "cab"),
        ("c", "up", "cab"),
        ("a", "down", "cba"),
    ):
        sent(inside, f"/console/rules/move?name={name}", action)
        assert "".join(RESOURCE_TYPES["rules"].read()) == order


def test_an_explanation_contains_the_deciding_rule_and_each_earlier_one(inside: Client, john: User) -> None:
    apply(SYSTEM, [Edit("rules", "orders", {"conditions": "/event/queue == orders", "users": ["mary"]})])
    apply(SYSTEM, [Edit("rules", "all-mine", {"users": ["john"]})])
    apply(SYSTEM, [Edit("rules", "never-asked", {})])
    question = {"user": "john", "right": "send", "destination": "queue:orders"}
    page = inside.get("/console/explain", question).content.decode()
    assert "Allowed" in page and "rule 2 (all-mine)" in page
    assert "it is about mary, and john is none of them" in page and "1 later rule is not evaluated" in page
    page = inside.get(
        "/console/explain", {**question, "user": "stranger", "destination": "topic:a"}
    ).content.decode()
    assert "no such user" in page and "never-asked" in page
    page = inside.get("/console/explain", {**question, "user": "admin"}).content.decode()
    assert "admin is an administrator and may do everything" in page
    page = inside.get(
        "/console/explain", {**question, "destination": "nowhere", "address": "12"}
    ).content.decode()
    assert 'id="id_destination_error"' in page and 'id="id_address_error"' in page


def test_users_can_only_check_their_own_access(client: Client, john: User) -> None:
    for place, name in enumerate(("mary", "john")):
        apply(SYSTEM, [Edit("rules", f"{name}s", {"users": [name], "position": place})])
    client.force_login(john)
    question = {"user": "mary", "right": "send", "destination": "storeAndForward:broker2/queue/q"}
    page = client.get("/console/explain", question).content.decode()
    assert "john" in page and "rule 2 (johns)" in page
    assert "only administrators may check other users" in page and "it is about mary" not in page


def test_without_a_node_the_page_of_denials_reports_it(inside: Client) -> None:
    assert "only serves the console" in inside.get("/console/rules/denials").content.decode()


@pytest.mark.parametrize(
    ("name", "quoted"),
    [("orders.new", "orders.new"), ('a "b\\', '"a \\"b\\\\"'), ("a b", '"a b"'), ("(x)", '"(x)"')],
)
def test_conditions_made_from_an_event_match_it(name: str, quoted: str) -> None:
    event = Event("john", method="POST", queue=name)
    conditions = conditions_of(event)
    assert conditions == f"/event/queue == {quoted} && /event/method == POST"
    assert Rules([Compiled("r", conditions=conditions)]).decide(event).allowed
