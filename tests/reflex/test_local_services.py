"""Local services: functions that consume a queue."""

from __future__ import annotations

from typing import Any

import pytest

from broker_app.core import commands as c
from broker_app.core.policy import DestinationPolicy, Policies
from broker_app.reflex import local_services
from broker_app.reflex.declaration import ACCEPT, SERVICE, Declaration
from broker_app.reflex.local_services import selector_of
from tests.reflex.filtering_broker import Client, FilteringBroker, reflex
from tests.support.awaiting import until

SERVICES = """
from broker_app.reflex.api import refuse

def double(message, answer):
    answer.body = str(2 * int(message.body)).encode()
    answer.headers["computed-by"] = message.service

def echo(message):
    return message.text.upper()

def quiet(message, answer, options):
    assert options["a"] == 1

def reject(message):
    return refuse("not today")
"""


@pytest.fixture
def serving(filtering: FilteringBroker, monkeypatch: pytest.MonkeyPatch) -> FilteringBroker:
    monkeypatch.setattr(local_services, "FIRST_RETRY_S", 0.001)
    monkeypatch.setattr(local_services, "LONGEST_RETRY_S", 0.001)
    filtering.library("services", SERVICES)
    return filtering


def service(function: str, **facts: Any) -> Declaration:
    return reflex(SERVICE, function, library="services", service="calc", **facts)


async def test_the_answer_goes_to_reply_to_with_the_correlation_id(serving: FilteringBroker) -> None:
    serving.declare(service("double"))
    client = Client(serving)
    client.subscribe("/queue/answers")
    client.publish("21", to="/queue/calc", **{"reply-to": "/queue/answers", "correlation-id": "x"})
    client.publish("4", to="/queue/calc", **{"reply-to": "/queue/answers"})
    await until(lambda: client.bodies == [b"42", b"8"])
    assert client.headers[0] == b"correlation-id:x\ncomputed-by:calc\n"
    queue = serving.engine.broker.destinations.queues["/queue/calc"]
    await until(lambda: queue.counters.acked == 2)


async def test_what_a_function_returns_is_the_answer_and_nothing_is_none(serving: FilteringBroker) -> None:
    serving.declare(
        service("echo", event="loud"),
        service("quiet", event="soft.>", options={"a": 1}),
    )
    client = Client(serving)
    client.subscribe("/queue/answers")
    for type_ in ("loud", "soft", "soft.er"):
        client.publish("hi", to="/queue/calc", type=type_, **{"reply-to": "/queue/answers"})
    await serving.settled()
    queue = serving.engine.broker.destinations.queues["/queue/calc"]
    await until(lambda: queue.counters.acked == 3)
    await serving.settled()  # the answer is delivered when its batch is committed
    assert client.bodies == [b"HI"]


async def test_messages_of_other_types_wait_for_other_consumers(serving: FilteringBroker) -> None:
    serving.declare(service("echo", event="loud"))
    client = Client(serving)
    client.publish("1", to="/queue/calc", type="loud")
    client.publish("2", to="/queue/calc", type="other")
    await until(lambda: serving.depth("calc") == 1)
    client.subscribe("/queue/calc")
    await until(lambda: client.bodies == [b"2"])


async def test_a_message_whose_function_fails_is_tried_again_and_then_a_dead_letter(
    serving: FilteringBroker,
) -> None:
    serving.declare(service("double"))
    client = Client(serving)
    client.publish("no number", to="/queue/calc")
    client.publish("1", to="/queue/calc", **{"reply-to": "/queue/answers"})
    await until(lambda: serving.depth("calc.dead") == 1 and serving.depth("answers") == 1)
    (row,) = serving.reflexes.report()
    assert (row["failures"], row["calls"]) == (16, 17)


async def test_a_function_may_reject_a_message(serving: FilteringBroker) -> None:
    serving.declare(service("reject"))
    client = Client(serving)
    client.publish("1", to="/queue/calc")
    await until(lambda: serving.depth("calc.dead") == 1)
    client.subscribe("/queue/calc.dead")
    await until(lambda: client.headers)
    assert b"dead-reason:REJECTED\ndead-detail:reflex reject\\c not today\n" in client.headers[0]
    (event,) = serving.events.all()
    assert (event.name, event.code) == ("reject", "REJECTED")
    assert event.detail.startswith("message from") and event.detail.endswith("/queue/calc: not today")


async def test_a_failure_may_be_accepted(serving: FilteringBroker) -> None:
    serving.declare(service("double", on_failure=ACCEPT))
    client = Client(serving)
    client.publish("no number", to="/queue/calc")
    await serving.settled()
    queue = serving.engine.broker.destinations.queues["/queue/calc"]
    await until(lambda: queue.counters.acked == 1)
    assert serving.depth("calc.dead") == 0


async def test_an_answer_that_cannot_be_sent_is_counted(serving: FilteringBroker) -> None:
    serving.declare(service("echo"))
    client = Client(serving)
    client.publish("1", to="/queue/calc", **{"reply-to": "/nowhere/x"})
    await until(lambda: serving.reflexes.report()[0]["unpublished"] == 1)
    assert serving.depth("calc") == 0


async def test_a_service_that_is_taken_back_consumes_nothing_more(serving: FilteringBroker) -> None:
    serving.declare(service("echo"))
    client = Client(serving)
    client.publish("1", to="/queue/calc")
    queue = serving.engine.broker.destinations.queues
    await until(lambda: "/queue/calc" in queue and queue["/queue/calc"].counters.acked == 1)
    serving.declare()
    client.publish("2", to="/queue/calc")
    await serving.settled()
    assert (serving.depth("calc"), len(queue["/queue/calc"].consumers)) == (1, 0)


async def test_a_queue_that_cannot_be_consumed_is_tried_again(
    serving: FilteringBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_services, "SUBSCRIBE_AGAIN_S", 0.01)
    serving.engine.submit(c.Reconfigure(Policies(DestinationPolicy(auto_create=False))))
    serving.declare(service("echo"))
    await serving.settled()
    serving.engine.submit(c.Reconfigure(Policies(DestinationPolicy())))
    queues = serving.engine.broker.destinations.queues
    await until(lambda: "/queue/calc" in queues and queues["/queue/calc"].consumers)


def test_events_become_a_selector() -> None:
    assert selector_of(["a", "*"]) == ""
    assert selector_of(["it's", "a_b.>"]) == (
        "type = 'it''s' OR type = 'a_b' OR type LIKE 'a!_b.%' ESCAPE '!'"
    )
