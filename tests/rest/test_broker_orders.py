"""Orders about the whole broker over HTTP: who may give them, and to which broker."""

from __future__ import annotations

import asyncio

import pytest

from tests.rest.conftest import Rest
from tests.support.awaiting import until

ORDERS = ("broker/quiesce", "broker/unquiesce", "broker/pause", "broker/resume", "broker/restart", "shutdown")


async def test_an_administrator_shuts_down_the_broker_that_is_named(bridged: Rest) -> None:
    reply = await bridged.alice.post("/shutdown", json={"name": "mom", "reason": "new kernel"})
    assert (reply.status_code, reply.json()) == (202, {"name": "mom"})
    assert bridged.shut_downs == [False]
    (action,) = bridged.actions.take()
    assert (action.action, action.key, action.operator.user) == ("shut down", "mom", "alice")
    assert (await bridged.alice.get("/broker")).json()["state"] == "SHUTDOWN_STARTED"


async def test_a_shutdown_that_is_planned_quiesces_the_broker_and_is_called_off_or_replaced(
    bridged: Rest,
) -> None:
    order = {"name": "mom", "reason": "new kernel", "delay_s": 3600}
    reply = await bridged.alice.post("/shutdown", json=order)
    found = (await bridged.alice.get("/broker")).json()
    assert (reply.status_code, reply.json()) == (202, {"name": "mom", "due": found["shutdown"]["due"]})
    assert (found["state"], found["quiesced"]["reason"]) == ("QUIESCE_COMPLETE", "new kernel")
    assert 3500 < found["shutdown"]["left_s"] <= 3600
    assert (found["shutdown"]["by"], found["shutdown"]["reason"]) == ("alice", "new kernel")
    (action,) = bridged.actions.take()
    assert (action.action, action.facts) == ("shut down", {"reason": "new kernel", "delay_s": 3600.0})

    assert (await bridged.alice.post("/broker/unquiesce", json={"name": "mom"})).status_code == 200
    found = (await bridged.alice.get("/broker")).json()
    assert (found["state"], found["quiesced"], found["shutdown"]) == ("OPERATING", None, None)

    for delay_s in (1, 3600):  # the second one takes the place of the first
        await bridged.alice.post("/shutdown", json={"name": "mom", "delay_s": delay_s})
    await asyncio.sleep(1.1)  # the loop has come to the time of the first
    assert not bridged.shut_downs
    await bridged.alice.post("/shutdown", json={"name": "mom", "delay_s": 0.01})
    await until(lambda: bridged.shut_downs == [False])
    found = (await bridged.alice.get("/broker")).json()
    assert (found["state"], found["shutdown"]) == ("SHUTDOWN_STARTED", None)
    late = await bridged.alice.post("/shutdown", json={"name": "mom", "delay_s": 1})
    assert (late.status_code, "stops already" in late.json()["detail"]) == (409, True)


@pytest.mark.parametrize("delay_s", [-1, 86_401])
async def test_a_shutdown_is_planned_for_a_day_at_most(bridged: Rest, delay_s: float) -> None:
    refused = await bridged.alice.post("/shutdown", json={"name": "mom", "delay_s": delay_s})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (400, "/delay_s")
    assert (await bridged.alice.get("/broker")).json()["state"] == "OPERATING"


@pytest.mark.parametrize("order", ORDERS)
async def test_an_order_is_for_the_broker_that_it_names_and_from_an_administrator(
    bridged: Rest, order: str
) -> None:
    other = await bridged.alice.post(f"/{order}", json={"name": "B2"})
    assert (other.status_code, other.json()["errors"][0]["detail"]) == (400, "this is broker mom")
    refused = await bridged.bob.post(f"/{order}", json={"name": "mom"})
    assert (refused.status_code, refused.json()["right"]) == (403, "administer")
    assert (await bridged.bob.get("/broker")).status_code == 403
    found = (await bridged.alice.get("/broker")).json()
    assert (found["state"], found["quiesced"], found["paused"]) == ("OPERATING", None, None)
    assert not bridged.shut_downs
    assert not bridged.actions.take()


async def test_a_broker_that_cannot_start_itself_again_is_not_restarted(bridged: Rest) -> None:
    refused = await bridged.alice.post("/broker/restart", json={"name": "mom"})
    assert (refused.status_code, refused.json()["detail"]) == (409, "it cannot")
    assert (await bridged.alice.get("/broker")).json()["restart_refusal"] == "it cannot"
    assert not bridged.shut_downs
