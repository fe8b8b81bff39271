"""Statistics of decisions: counts of a day, hits of rules, the last denials; all bounded."""

import pytest

from broker_app.net.policy.decisions import Decisions, Hourly
from broker_app.rules.event import Event
from broker_app.rules.rule import Rule
from broker_app.rules.ruleset import Rules
from tests.support.clock import Clock

RULES = Rules([Rule("orders", conditions="/event/queue == orders"), Rule("no", "deny", users=("mary",))])
HOUR = 3600.0


@pytest.fixture
def clock() -> Clock:
    return Clock(1_800_000_000.0 // HOUR * HOUR)


@pytest.fixture
def decisions(clock: Clock) -> Decisions:
    return Decisions(clock)


def happens(decisions: Decisions, user: str, queue: str) -> Event:
    event = Event(user, method="POST", queue=queue)
    decisions.note(event, RULES.decide(event))
    return event


def test_equal_events_are_counted_together_with_how_they_were_decided_last(
    decisions: Decisions, clock: Clock
) -> None:
    first = happens(decisions, "john", "orders")
    clock.now += 5
    happens(decisions, "mary", "bills")
    happens(decisions, "john", "orders")
    john, mary = decisions.decided()
    assert (john.event, john.allowed, john.rule, john.times, john.last_s) == (
        first,
        True,
        "orders",
        2,
        clock.now,
    )
    assert (mary.allowed, mary.rule, mary.times) == (False, "no", 1)


def test_rules_are_counted_by_name(decisions: Decisions) -> None:
    for user in ("john", "ann", "mary"):
        happens(decisions, user, "orders")
        happens(decisions, user, "bills")
    assert decisions.hits() == {"orders": 3, "no": 1}


def test_denials_are_kept_with_time_and_reason_the_newest_first(decisions: Decisions, clock: Clock) -> None:
    happens(decisions, "mary", "bills")
    clock.now += 1
    happens(decisions, "john", "bills")
    assert [
        (denial.at_s, denial.event.user, denial.reason, denial.rule) for denial in decisions.denials()
    ] == [
        (clock.now, "john", "no rule allows it", ""),
        (clock.now - 1, "mary", "rule 2 (no)", "no"),
    ]


def test_decisions_older_than_a_day_are_not_counted(decisions: Decisions, clock: Clock) -> None:
    happens(decisions, "john", "orders")
    clock.now += 23 * HOUR
    happens(decisions, "john", "orders")
    assert decisions.decided()[0].times == 2
    clock.now += HOUR
    assert decisions.decided()[0].times == 1
    assert decisions.hits() == {"orders": 1}
    clock.now += 23 * HOUR
    assert decisions.decided() == []
    assert decisions.hits() == {}


def test_a_count_of_hours_forgets_what_a_long_silence_has_passed_over() -> None:
    hourly = Hourly(1_000)
    hourly.add(1_000)
    hourly.add(1_100)
    assert (hourly.total(1_100), hourly.total(1_123), hourly.total(1_124)) == (1, 1, 0)


def test_a_clock_that_is_set_back_loses_nothing() -> None:
    hourly = Hourly(1_000)
    hourly.add(1_000)
    hourly.add(990)
    assert (hourly.total(990), hourly.total(1_000), hourly.total(1_024)) == (2, 2, 0)


def test_the_least_recent_event_is_evicted_first_and_counted(
    monkeypatch: pytest.MonkeyPatch, decisions: Decisions
) -> None:
    monkeypatch.setattr(Decisions, "MAX_EVENTS", 3)
    for queue in ("a", "b", "c", "a", "d"):
        happens(decisions, "john", queue)
    assert [row.event.queue for row in decisions.decided()] == ["d", "a", "c"]
    assert decisions.forgotten == 1


def test_rules_and_denials_do_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setattr(Decisions, "MAX_RULES", 2)
    monkeypatch.setattr(Decisions, "MAX_DENIALS", 5)
    decisions = Decisions(clock)
    for number in range(20):
        rules = Rules([Rule(f"rule-{number}", "deny")])
        event = Event("john", method="GET", queue=f"q{number}")
        decisions.note(event, rules.decide(event))
    assert decisions.hits() == {"rule-18": 1, "rule-19": 1}
    assert [denial.rule for denial in decisions.denials()] == [
        f"rule-{number}" for number in (19, 18, 17, 16, 15)
    ]
