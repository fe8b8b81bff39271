"""Orders about the whole broker over HTTP: who may give them, and to which broker."""

from __future__ import annotations

import pytest

from tests.rest.conftest import Rest

ORDERS = ("broker/quiesce", "broker/unquiesce", "broker/pause", "broker/resume", "broker/restart", "shutdown")


async def test_an_administrator_shuts_down_the_broker_that_is_named(bridged: Rest) -> None:
    reply = await bridged.alice.post("/shutdown", json={"name": "mom", "reason": "new kernel"})
    assert (reply.status_code, reply.json()) == (202, {"name": "mom"})
    assert bridged.shut_downs == [False]
    (action,) = bridged.actions.take()
    assert (action.action, action.key, action.operator.user) == ("shut down", "mom", "alice")
    assert (await bridged.alice.get("/broker")).json()["state"] == "SHUTDOWN_STARTED"


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
