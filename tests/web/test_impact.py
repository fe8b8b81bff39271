"""The preview of an edit of rules."""

import itertools

from broker_app.net.policy.decisions import Decided
from broker_app.node.active_use import ActiveUse
from broker_app.rules.event import Event
from broker_app.rules.rule import Rule
from broker_app.rules.ruleset import Rules
from broker_app.web.impact import MAX_SHOWN, edited, impact

NOW = Rules([Rule("orders", conditions="/event/queue == orders", users=("john", "mary"))])
THEN = Rules(
    [
        Rule("orders", conditions="/event/queue == orders", users=("john",)),
        Rule("bills", conditions="/event/queue == bills", source="zero.config:9"),
    ]
)
FACTS = {"address": "10.0.0.7", "protocol": "stomp", "tls": False, "client": "till"}


def sends(user: str, queue: str) -> Event:
    return Event(user, method="POST", queue=queue, **FACTS)  # type: ignore[arg-type]


def receives(user: str, queue: str) -> Event:
    return Event(user, method="GET", queue=queue, **FACTS)  # type: ignore[arg-type]


def connected(user: str, since_s: float, *events: Event) -> ActiveUse:
    return ActiveUse(f"of-{user}", Event(user, **FACTS), since_s, events)  # type: ignore[arg-type]


def test_unchanged_and_changed_decisions_are_counted_and_the_changed_ones_listed() -> None:
    decided = [
        Decided(sends("john", "orders"), True, "orders", 400, 50.0),
        Decided(sends("mary", "orders"), True, "orders", 3, 60.0),
        Decided(sends("john", "bills"), False, "", 7, 70.0),
        Decided(sends("john", "else"), False, "", 2, 70.0),
    ]
    found = impact(NOW, THEN, decided, [])["decisions"]
    assert [found[name] for name in ("allowed_stay", "denied_stay", "become_denied", "become_allowed")] == [
        400, 2, 3, 7,
    ]  # fmt: skip
    assert found["would_be_denied"] == [
        {
            "user": "mary", "right": "send", "method": "POST", "destination": "queue:orders", **FACTS,
            "times": 3, "decided_by": "no rule allows it", "until_now": "rule 1 (orders)",
        }
    ]  # fmt: skip
    (allowed,) = found["would_be_allowed"]
    assert (allowed["decided_by"], allowed["until_now"]) == ("rule 2 (zero.config:9)", "no rule allows it")


def test_clients_that_would_lose_a_used_right_are_listed() -> None:
    decided = [
        Decided(sends("mary", "orders"), True, "orders", 3, 60.0),
        Decided(sends("john", "orders"), True, "orders", 3, 60.0),
    ]
    mary = connected("mary", 50.0, receives("mary", "orders"), receives("mary", "orders"))
    found = impact(NOW, THEN, decided, [mary, connected("john", 50.0, receives("john", "orders"))])
    assert found["clients_affected"] == 1
    assert found["clients"] == [
        {
            "connection": "of-mary", "user": "mary", **FACTS,
            "loses": [
                {"right": "receive", "destination": "queue:orders", "decided_by": "no rule allows it"},
                {"right": "send", "destination": "queue:orders", "decided_by": "no rule allows it"},
            ],
        }
    ]  # fmt: skip


def test_messages_sent_before_a_connection_are_not_counted_for_it() -> None:
    decided = [Decided(sends("mary", "orders"), True, "orders", 3, 60.0)]
    assert impact(NOW, THEN, decided, [connected("mary", 61.0)])["clients"] == []


def test_the_first_rule_takes_what_all_could_do() -> None:
    decided = [Decided(sends("john", "x"), True, "", 5, 1.0)]
    found = impact(Rules(), THEN, decided, [connected("john", 0.0)])
    assert found["decisions"]["become_denied"] == 5
    assert found["decisions"]["would_be_denied"][0]["until_now"] == "there are no rules"
    assert found["clients_affected"] == 1


def test_lists_have_an_end_and_the_counts_are_of_all() -> None:
    decided = [
        Decided(sends("mary", "orders")._replace(client=f"c{n}"), True, "orders", n, 1.0) for n in range(300)
    ]
    uses = [connected(f"u{n}", 0.0, receives("mary", "orders")) for n in range(300)]
    found = impact(NOW, THEN, decided, uses)
    assert len(found["decisions"]["would_be_denied"]) == len(found["clients"]) == MAX_SHOWN
    assert found["decisions"]["would_be_denied"][0]["times"] == 299
    assert (found["decisions"]["become_denied"], found["clients_affected"]) == (sum(range(300)), 300)


def test_checks_that_take_too_long_are_skipped_and_counted() -> None:
    decided = [
        Decided(sends("mary", "orders")._replace(client=f"c{n}"), True, "orders", 2, 1.0) for n in range(50)
    ]
    uses = [connected("mary", 0.0, receives("mary", "orders"))] * 3
    ticks = itertools.count(step=2.0)
    found = impact(NOW, THEN, decided, uses, clock=lambda: next(ticks))
    assert (found["clients_affected"], found["clients_left_out"]) == (2, 1)
    assert found["decisions"]["left_out"] == 100


def test_edits_are_put_in_their_place() -> None:
    def said(position: int, effect: str = "allow") -> dict[str, object]:
        return {
            "effect": effect,
            "conditions": "",
            "users": [],
            "groups": [],
            "position": position,
            "comment": "",
        }

    before = {"a": said(10), "b": said(20), "c": said(30)}
    rules = edited(before, {"b": None, "c": said(5), "d": said(10, "deny")})
    assert [(rule.name, rule.effect) for rule in rules.rules] == [
        ("c", "allow"),
        ("a", "allow"),
        ("d", "deny"),
    ]
