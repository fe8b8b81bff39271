"""The reasons why a message is where it is: one test each."""

from __future__ import annotations

from typing import Any

from broker_app.core import commands as c
from broker_app.core.inspection.why import Reason, why
from broker_app.core.message import DeliveryOptions, Message
from broker_app.core.model import Queue
from broker_app.core.policy import CONSUMERS, DestinationPolicy, Policies
from tests.core.stage import Stage

A = "/queue/a"


def ask(stage: Stage, message: Message, address: str = A) -> list[Reason]:
    return why(stage.broker, address, message, stage.now_ms)


def codes(reasons: list[Reason]) -> list[str]:
    return [reason.code for reason in reasons]


def publish(stage: Stage, **facts: Any) -> Message:
    return stage.client().publish(A, b"x", **facts)


def test_a_queue_without_consumers() -> None:
    stage = Stage()
    message = publish(stage)
    assert ask(stage, message) == [Reason("no-consumer", "/queue/a has no consumers", {})]


def test_consumers_that_hold_as_much_as_they_may() -> None:
    stage = Stage()
    publish(stage)
    message = publish(stage)
    stage.client("anna").subscribe(A, credit=1)
    (reason,) = ask(stage, message)
    assert reason.code == "no-credit"
    assert reason.sentence == "subscription '1' of anna has 1 unsettled deliveries, its maximum"
    assert reason.facts == {
        "user": "anna",
        "subscription": "1",
        "unsettled": 1,
        "credit": 1,
        "since_ms": stage.now_ms,
    }


def test_a_consumer_that_does_not_read() -> None:
    stage = Stage()
    client = stage.client("anna")
    client.subscribe(A)
    client.pause()
    assert codes(ask(stage, publish(stage))) == ["not-reading"]


def test_a_selector_that_does_not_match() -> None:
    stage = Stage()
    stage.client("anna").subscribe(A, selector="price > 10 AND tenant = 'acme'")
    message = publish(stage, block=b"price:7\ntenant:acme\nother:1\n")
    (reason,) = ask(stage, message)
    assert reason.code == "selector"
    assert reason.sentence == (
        "subscription '1' of anna receives only price > 10 AND tenant = 'acme'; "
        "of this message price is '7', tenant is 'acme'"
    )
    assert reason.facts["headers"] == {"price": "7", "tenant": "acme"}
    assert ask(stage, publish(stage))[0].sentence.endswith("of this message none of these headers exists")


def test_a_group_that_belongs_to_another_consumer() -> None:
    stage = Stage()
    grouped = {"options": DeliveryOptions(group="g"), "block": b"group:g\n"}
    stage.client("anna").subscribe(A, credit=1)
    publish(stage, **grouped)
    stage.client("bert").subscribe(A, credit=1)
    reasons = ask(stage, publish(stage, **grouped))
    assert codes(reasons) == ["no-credit", "group"]
    assert reasons[1].sentence == "the group 'g' belongs to subscription '1' of anna"


def test_consumers_behind_an_exclusive_one() -> None:
    stage = Stage()
    stage.client("anna").subscribe(A, credit=1, exclusive=True)
    stage.client("bert").subscribe(A)
    publish(stage)
    reasons = ask(stage, publish(stage))
    assert codes(reasons) == ["no-credit", "standby"]
    assert reasons[1].sentence == (
        "subscription '1' of bert is on standby while subscription '1' of anna is the exclusive consumer"
    )


def test_a_consumer_that_waits_for_those_of_a_higher_priority() -> None:
    stage = Stage()
    high = stage.client("anna")
    high.subscribe(A, credit=1, priority=7)
    stage.client("bert").subscribe(A, credit=1)
    stage.decide(c.Reconfigure(Policies(exact={A: DestinationPolicy(paused=CONSUMERS)})))
    message = publish(stage)
    assert codes(ask(stage, message)) == ["paused", "ready", "lower-priority"]
    reason = ask(stage, message)[2]
    assert reason.sentence == (
        "subscription '1' of bert has priority 0 and waits while subscription '1' of anna, with 7, has credit"
    )
    assert (reason.facts["priority"], reason.facts["served_first"]) == (0, 7)
    high.pause()
    assert codes(ask(stage, message)) == ["paused", "not-reading", "ready"]


def test_a_consumer_does_not_wait_for_one_of_a_higher_priority_that_does_not_take_the_message() -> None:
    stage = Stage()
    stage.client("anna").subscribe(A, priority=7, selector="colour = 'red'")
    stage.client("bert").subscribe(A)
    stage.decide(c.Reconfigure(Policies(exact={A: DestinationPolicy(paused=CONSUMERS)})))
    assert codes(ask(stage, publish(stage))) == ["paused", "selector", "ready"]


def test_a_queue_that_is_paused() -> None:
    stage = Stage()
    stage.client("anna").subscribe(A)
    stage.decide(c.Reconfigure(Policies(exact={A: DestinationPolicy(paused=CONSUMERS)})))
    assert codes(ask(stage, publish(stage))) == ["paused", "ready"]


def test_a_message_that_is_delivered() -> None:
    stage = Stage()
    message = publish(stage)
    client = stage.client("anna")
    client.subscribe(A, lease_ms=30_000)
    stage.now_us += 10_000_000
    (reason,) = ask(stage, message)
    assert reason.code == "unsettled"
    assert reason.sentence.endswith("of anna has received it and has not settled it; its lease ends in 20 s")
    assert reason.facts["lease_until_ms"] == stage.now_ms + 20_000


def test_a_message_that_waits_before_another_attempt() -> None:
    stage = Stage()
    stage.decide(c.Reconfigure(Policies(exact={A: DestinationPolicy(retry_delay_ms=5_000)})))
    message = publish(stage)
    client = stage.client()
    client.subscribe(A)
    client.give_back(1)
    stage.now_us += 2_000_000
    reasons = ask(stage, message)
    assert codes(reasons) == ["retry-later", "redelivered"]
    assert reasons[0].sentence == "it was returned and waits another 3 s for the next attempt"
    assert reasons[0].facts == {"attempt": 2, "until_ms": stage.now_ms + 3_000}


def test_a_message_behind_others() -> None:
    stage = Stage(window=2)
    first = publish(stage)
    for _ in range(4):
        publish(stage)
    last = publish(stage)
    urgent = publish(stage, priority=9)
    assert codes(ask(stage, urgent)) == ["no-consumer"]
    assert ask(stage, first)[-1].facts == {"ahead": 1, "depth": 7}
    assert ask(stage, last)[-1].sentence == "6 messages of /queue/a come before it"


def test_a_message_of_which_memory_holds_only_the_place() -> None:
    stage = Stage(window=1)
    publish(stage)
    paged = publish(stage)
    stage.restart()
    copy = Queue(A, durable=True).reader.message(stage.bodies[paged.position], paged.position)
    assert codes(ask(stage, copy)) == ["no-consumer", "behind"]


def test_a_message_that_came_back() -> None:
    stage = Stage()
    message = publish(stage)
    client = stage.client()
    client.subscribe(A)
    client.disconnect()
    assert ask(stage, message)[-1] == Reason("redelivered", "it was delivered 1 time before", {"attempts": 1})


def test_a_message_that_expires() -> None:
    stage = Stage()
    message = publish(stage, ttl_ms=5_000)
    assert ask(stage, message)[-1].sentence == "it expires in 5 s"
    stage.now_us += 5_000_000
    assert codes(ask(stage, message)) == ["expired", "no-consumer"]


def test_a_message_that_is_not_due() -> None:
    stage = Stage()
    message = publish(stage, options=DeliveryOptions(delay_ms=7_200_000))
    (reason,) = ask(stage, message)
    assert (reason.code, reason.sentence) == ("delayed", "it is due in 2 h")
    assert reason.facts == {"due_ms": stage.now_ms + 7_200_000}


def test_the_first_reason_of_a_dead_letter_is_why_it_died() -> None:
    stage = Stage()
    publish(stage)
    client = stage.client()
    client.subscribe(A)
    client.reject(1, detail="no such customer")
    (message,) = stage.queue(A + ".dead").lanes[0].in_memory()
    reasons = ask(stage, message, A + ".dead")
    assert codes(reasons) == ["dead-letter", "no-consumer"]
    assert reasons[0].sentence == "it was dead-lettered in /queue/a: REJECTED, no such customer"


def test_a_message_that_is_gone_has_no_reasons() -> None:
    stage = Stage()
    message = publish(stage)
    stage.client().purge(A)
    assert ask(stage, message) == []
    assert ask(stage, message, "/queue/nowhere") == []


def test_of_many_consumers_only_some_are_checked() -> None:
    stage = Stage()
    for _ in range(25):
        client = stage.client()
        client.subscribe(A)
        client.pause()
    assert ask(stage, publish(stage))[-1].sentence == "5 more consumers were not checked"
