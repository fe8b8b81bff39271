"""Refusals in the event log."""

from __future__ import annotations

import sys

import pytest

from broker_app.reflex.refusals import QUIET_S
from broker_app.reflex.registration import Registration
from broker_app.reflex.testing import Harness
from tests.reflex.filtering_broker import Client, FilteringBroker, reflex


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def no(subject: object) -> int:
    return 0


def yes(message: object) -> int:
    return 1


def fails(message: object) -> None:
    raise ValueError("no such customer")


def harness(line: str, clock: Clock | None = None) -> Harness:
    """A chain with functions of this module."""
    return Harness(line, libraries={"lib": sys.modules[__name__]}, clock=clock or Clock())


def test_the_first_refusal_is_noted_and_the_following_ones_are_counted() -> None:
    clock = Clock()
    chain = harness("F stock lib * no", clock)
    for _ in range(3):
        chain.arrive("stock", b"1", {"type": "order"}, user="anna")
    (event,) = chain.events.all()
    assert event.shown() | {"at": ""} == {
        "id": "1",
        "at": "",
        "kind": "reflexes",
        "name": "test.cnf:1",
        "event": "refused",
        "code": "FILTERED",
        "detail": "message from anna to /queue/stock: it was refused",
        "facts": {"destination": "/queue/stock", "user": "anna", "type": "order", "refusals": 1},
    }
    clock.now += QUIET_S
    chain.arrive("stock", b"1", user="bob")
    newest, _ = chain.events.all()
    assert newest.detail == "message from bob to /queue/stock: it was refused (2 more since the last entry)"
    assert newest.facts["refusals"] == 3


def test_what_is_accepted_is_not_noted() -> None:
    chain = harness("F stock lib * yes\nF stock lib * fails on-failure=accept")
    assert chain.arrive("stock").accepted
    assert chain.events.all() == []


@pytest.mark.parametrize(
    ("line", "code", "detail"),
    [
        ("F stock lib * fails", "REFLEX_FAILED", "message from anna to /queue/stock: ValueError: no such"),
        ("F stock gone * no", "REFLEX_FAILED", "message from anna to /queue/stock: there is no library gone"),
        ("G stock lib * no", "FILTERED", "message from /queue/stock to anna: it was refused"),
        ("R all lib * no", "REGISTRATION_REFUSED", "service stock of anna: it was refused"),
    ],
)
def test_each_kind_is_noted_with_its_code(line: str, code: str, detail: str) -> None:
    chain = harness(line)
    match line[0]:
        case "F":
            chain.arrive("stock", user="anna")
        case "G":
            chain.deliver("stock", user="anna")
        case _:
            chain.register(Registration("stock", "anna", machine="m1"))
    (event,) = chain.events.all()
    assert (event.code, event.event) == (code, "refused")
    assert event.detail.startswith(detail)


def test_a_deregistration_cannot_be_refused() -> None:
    chain = harness("D bye lib * fails")
    chain.deregister(Registration("stock"))
    assert chain.events.all() == []


async def test_a_broker_notes_refusals_but_not_those_of_trials(filtering: FilteringBroker) -> None:
    filtering.declare(reflex("arrival", "drop_all"))
    await filtering.reflexes.trial("arrival", "/queue/stock", {}, b"1", "anna")
    assert filtering.events.all() == []
    Client(filtering).publish("1")
    await filtering.settled()
    (event,) = filtering.events.all()
    assert (event.name, event.code) == ("drop_all", "FILTERED")
