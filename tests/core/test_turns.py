"""What a turn may cost: commands are linear in their number, and a turn stops at its deadline."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from broker_app.core import commands as c
from tests.core.stage import Client, Stage

#: how much more six times as many commands may cost; it is 36 where each costs the number of all
LINEAR = 12


def cost_s(client: Client, run: Sequence[c.Command]) -> float:
    began = time.process_time()
    client.stage.decide(*run)
    return time.process_time() - began


def costs_s(address: str, many: int, *, by_disconnect: bool = False) -> tuple[float, float]:
    """The processor time to subscribe so many times, and to end these subscriptions; the least of two."""
    found = []
    for _ in range(2):
        client = Stage().client()
        begin = [c.Subscribe(client.peer, str(id), address, render_key=id) for id in range(many)]
        end = [c.Unsubscribe(client.peer, str(id)) for id in range(many)]
        begun = cost_s(client, begin)
        assert len(client.peer.subscriptions) == many
        found.append((begun, cost_s(client, [c.Disconnect(client.peer)] if by_disconnect else end)))
        assert not client.peer.subscriptions
    return min(begun for begun, _ in found), min(ended for _, ended in found)


@pytest.mark.parametrize("by_disconnect", [False, True])
def test_a_subscription_costs_the_same_however_many_the_topic_has(by_disconnect: bool) -> None:
    few, many = (costs_s("/topic/a", number, by_disconnect=by_disconnect) for number in (500, 3_000))
    assert many[0] < LINEAR * few[0]
    assert many[1] < LINEAR * few[1]
