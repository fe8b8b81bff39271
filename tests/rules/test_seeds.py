"""The rules that the documents of store-and-forward give as examples, word by word."""

import pytest

from broker_app.rules.event import Event
from broker_app.rules.rule import Rule
from broker_app.rules.ruleset import Rules
from tests.zero.support import load

HOME = """@include "security/messaging_rule.config" {
	"conditions" : "(/event/queue == storeAndForward:broker2/queue/queue1) && (/event/method == POST)",
	"users" : ["john"]
}"""
TARGET = """@include "security/messaging_rule.config" {
	"conditions" : "(/event/queue == queue1) && (/event/method == POST)",
	"users" : ["broker1"]
}"""
SYNC = """@include "security/messaging_rule.config" {
	"conditions" : "(/event/queue == storeAndForwardSyncQueue)",
	"users" : ["broker1"]
}"""
FORWARDED = "storeAndForward:broker2/queue/queue1"
METHODS = ("POST", "GET", "BROWSE", "READ", "MANAGE")


def rules(*said: str) -> Rules:
    documents = load("\n".join(said)).documents["rules"].values()
    return Rules(
        [
            Rule(
                f"rule-{number}",
                conditions=document.spec["conditions"],
                users=tuple(document.spec["users"]),
                source=document.source,
            )
            for number, document in enumerate(documents, 1)
        ]
    )


def allowed(rules: Rules, user: str, method: str, queue: str) -> bool:
    return rules.decide(Event(user, method=method, queue=queue)).allowed


def test_only_john_may_send_to_the_store_and_forward_queue() -> None:
    home = rules(HOME)
    assert allowed(home, "john", "POST", FORWARDED)
    assert home.decide(Event("john", method="POST", queue=FORWARDED)).reason == "rule 1 (zero.config:1)"
    assert not allowed(home, "mary", "POST", FORWARDED)
    assert not allowed(home, "John", "POST", FORWARDED)


@pytest.mark.parametrize("method", METHODS[1:])
def test_john_may_do_nothing_else_with_it(method: str) -> None:
    assert not allowed(rules(HOME), "john", method, FORWARDED)


@pytest.mark.parametrize(
    "queue",
    ["queue1", "storeAndForward:broker2/queue/queue2", "storeAndForward:broker2/queue/Queue1",
     "storeAndForward:broker1/queue/queue1", "storeAndForward:broker2"],
)  # fmt: skip
def test_john_may_send_to_no_other_queue(queue: str) -> None:
    assert not allowed(rules(HOME), "john", "POST", queue)


def test_broker1_may_send_to_the_target_queue_and_use_the_synchronization_queue_in_every_way() -> None:
    target = rules(TARGET, SYNC)
    assert allowed(target, "broker1", "POST", "queue1")
    assert not allowed(target, "broker1", "GET", "queue1")
    assert all(allowed(target, "broker1", method, "storeAndForwardSyncQueue") for method in METHODS)
    assert not any(allowed(target, "john", method, "storeAndForwardSyncQueue") for method in METHODS)
    assert not allowed(target, "john", "POST", "queue1")


def test_without_the_second_rule_broker1_may_not_use_the_synchronization_queue() -> None:
    assert not any(
        allowed(rules(TARGET), "broker1", method, "storeAndForwardSyncQueue") for method in METHODS
    )


def test_an_unquoted_value_with_colons_and_slashes_runs_to_the_closing_parenthesis_and_is_trimmed() -> None:
    spaced = Rules([Rule("a", conditions="(/event/queue ==   storeAndForward:b 2/queue/q/r  )")])
    assert allowed(spaced, "john", "POST", "storeAndForward:b 2/queue/q/r")
    assert not allowed(spaced, "john", "POST", "storeAndForward:b 2/queue/q/r  ")


@pytest.mark.parametrize("method", ["GET", "BROWSE", "READ", "MANAGE"])
def test_a_wide_rule_does_not_allow_reading_a_store_and_forward_queue(method: str) -> None:
    wide = Rules(
        [
            Rule("everything"),
            Rule("pattern", conditions="/event/queue =~ storeAndForward:.*"),
            Rule("or", conditions=f"/event/queue == {FORWARDED} || /event/user == john"),
        ]
    )
    assert allowed(wide, "john", method, "orders")
    assert not allowed(wide, "john", method, FORWARDED)
    assert wide.decide(Event("john", method=method, queue=FORWARDED)).reason == (
        "no rule allows it that names this store-and-forward queue"
    )
    assert allowed(wide, "john", "POST", FORWARDED)


def test_a_rule_that_names_the_store_and_forward_queue_lets_it_be_read() -> None:
    named = Rules([Rule("a", conditions=f"(/event/queue == {FORWARDED})", users=("mary",))])
    assert allowed(named, "mary", "GET", FORWARDED)
    assert not allowed(named, "john", "GET", FORWARDED)


def test_a_wide_rule_that_denies_holds_for_a_store_and_forward_queue_too() -> None:
    denied = Rules(
        [Rule("no", "deny", users=("mary",)), Rule("a", conditions=f"/event/queue == {FORWARDED}")]
    )
    assert not allowed(denied, "mary", "GET", FORWARDED)
    assert allowed(denied, "john", "GET", FORWARDED)


def test_without_rules_no_user_reads_a_store_and_forward_queue() -> None:
    assert allowed(Rules(), "john", "POST", FORWARDED)
    assert not allowed(Rules(), "john", "GET", FORWARDED)
