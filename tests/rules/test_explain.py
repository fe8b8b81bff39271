"""Explanations of rules: why one decides, and why each one before it does not."""

import pytest

from broker_app.rules.event import Event
from broker_app.rules.rule import Rule
from broker_app.rules.ruleset import Rules

EVENT = Event(
    "john", frozenset({"ops"}), "POST", queue="orders", address="10.1.2.3", protocol="stomp", tls=True
)  # fmt: skip


def why(conditions: str, event: Event = EVENT) -> str:
    (step,) = Rules([Rule("r", conditions=conditions)]).explain(event).steps
    assert not step.matched
    return step.why


def test_rules_up_to_the_deciding_one_are_explained_and_later_ones_counted() -> None:
    rules = Rules(
        [
            Rule("invoices", conditions="/event/queue == invoices"),
            Rule("mary", users=("mary",), groups=("dev",)),
            Rule(
                "ops", conditions="/event/queue == orders", groups=("ops",), source="messaging_rule.config:31"
            ),
            Rule("all"),
            Rule("more"),
        ]
    )
    found = rules.explain(EVENT)
    assert [(step.number, step.rule.name, step.matched, step.why) for step in found.steps] == [
        (1, "invoices", False, "the queue differs: it is orders, the rule wants invoices"),
        (2, "mary", False, "it is about mary, @dev, and john is none of them"),
        (3, "ops", True, "it matches: allow"),
    ]
    assert found.decision.reason == "rule 3 (messaging_rule.config:31)"
    assert found.not_reached == 2


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ("/event/topic == news", "there is no topic"),
        ("/event/queue != orders", "the queue is orders, and the rule wants another"),
        ("/event/queue =~ in.*", "the queue orders does not match in.*"),
        ("/event/method == GET", "the method differs: it is POST, the rule wants GET"),
        ("/event/user == mary", "the user differs: it is john, the rule wants mary"),
        ("/event/group == dev", "john is not in the group dev"),
        ("/event/group != ops", "john is in the group ops"),
        ("/event/group =~ d.*", "no group of john matches d.*"),
        ("/event/address == 192.168.0.0/16", "the address 10.1.2.3 is not in 192.168.0.0/16"),
        ("/event/address != 10.0.0.0/8", "the address 10.1.2.3 is in 10.0.0.0/8"),
        ("/event/address =~ 192.*", "the address 10.1.2.3 does not match 192.*"),
        ("/event/tls == false", "the tls differs: it is true, the rule wants false"),
        ("/event/client == till", "there is no client"),
        (
            "/event/queue == orders && /event/protocol == rest",
            "the protocol differs: it is stomp, the rule wants rest",
        ),
        (
            "/event/queue == a || /event/user == b",
            (
                "the queue differs: it is orders, the rule wants a; "
                "and the user differs: it is john, the rule wants b"
            ),
        ),
        ("!(/event/queue == orders)", "/event/queue == orders holds, and the rule wants that it does not"),
    ],
)
def test_the_false_part_of_a_condition_is_shown(conditions: str, reason: str) -> None:
    assert why(conditions) == reason


def test_of_many_alternatives_the_first_are_shown() -> None:
    text = " || ".join(f"/event/queue == q{number}" for number in range(10))
    assert why(text).endswith("the rule wants q2; and 7 more do not hold either")


def test_of_many_users_the_first_are_shown() -> None:
    rules = Rules([Rule("r", users=tuple(f"u{number}" for number in range(9)))])
    assert rules.explain(EVENT).steps[0].why == (
        "it is about u0, u1, u2, u3, u4 and 4 more, and john is none of them"
    )


def test_uncertain_matches_of_a_subscription_with_wildcards_are_explained() -> None:
    event = Event("john", method="GET", topic="orders.*")
    assert why("/event/topic == orders.new", event) == (
        "it is not certain that /event/topic == orders.new holds for all topics that orders.* stands for"
    )
    assert why("/event/topic == orders.new && /event/user == mary", event) == (
        "the user differs: it is john, the rule wants mary"
    )
    assert why("!(/event/topic == orders.new)", event) == (
        "/event/topic == orders.new may hold, and the rule wants that it does not"
    )


def test_a_wide_rule_is_explained_as_not_naming_a_store_and_forward_queue() -> None:
    assert why("/event/method == GET", Event("john", method="GET", queue="storeAndForward:b/queue/q")) == (
        "it does not name storeAndForward:b/queue/q, as a store-and-forward queue needs"
    )


def test_long_texts_are_shortened() -> None:
    assert len(why(f"/event/queue == {'x' * 5_000}")) < 300
