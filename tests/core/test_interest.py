"""Interest: what the consumers of a broker want of others, counted together."""

from __future__ import annotations

import time

from broker_app.core import commands as c
from broker_app.core.remote.interest import AUTO_CREDIT, Want
from tests.core.stage import Client, Stage

QUEUE = "/queue/orders"
WANT = Want(QUEUE)


def consumers(stage: Stage, count: int) -> list[Client]:
    clients = [stage.client(f"c{number}") for number in range(count)]
    for client in clients:
        client.subscribe(QUEUE, credit=5)
    return clients


def test_consumers_that_want_the_same_are_one_with_their_number_and_credit() -> None:
    stage = Stage()
    interest = stage.broker.interest
    one, other = consumers(stage, 2)
    stage.client().subscribe(QUEUE, c.AUTO, credit=7)
    assert interest.all() == [WANT]
    assert (interest.consumers(WANT), interest.credit(WANT)) == (3, 10 + AUTO_CREDIT)
    stage.decide(c.SetCredit(one.peer, "1", 50))
    assert interest.credit(WANT) == 55 + AUTO_CREDIT
    other.disconnect()
    assert (interest.consumers(WANT), interest.credit(WANT)) == (2, 50 + AUTO_CREDIT)


def test_nothing_is_left_of_consumers_that_have_gone() -> None:
    stage = Stage()
    interest = stage.broker.interest
    for client in consumers(stage, 3):
        client.disconnect()
    assert interest.all() == []
    assert (interest.consumers(WANT), interest.credit(WANT)) == (0, 0)


def test_a_change_costs_the_same_however_many_consumers_there_are() -> None:
    def cost_s(count: int) -> float:
        """The least time of several to sum up the credit, as each link does after a change."""
        stage = Stage()
        consumers(stage, count)
        credit, took = stage.broker.interest.credit, []
        for _ in range(10):
            began = time.perf_counter()
            for _ in range(100):
                assert credit(WANT) == 5 * count
            took.append(time.perf_counter() - began)
        return min(took)

    assert cost_s(2_000) < 30 * cost_s(10)
