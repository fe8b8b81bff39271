"""Shutting the broker down over HTTP."""

from __future__ import annotations

from tests.rest.conftest import Rest


async def test_an_administrator_shuts_down_the_broker_that_is_named(bridged: Rest) -> None:
    other = await bridged.alice.post("/shutdown", json={"name": "B2"})
    assert (other.status_code, other.json()["errors"][0]["detail"]) == (400, "this is broker mom")
    assert not bridged.shut_downs
    reply = await bridged.alice.post("/shutdown", json={"name": "mom", "reason": "new kernel"})
    assert (reply.status_code, reply.json()) == (202, {"name": "mom"})
    assert len(bridged.shut_downs) == 1
    (action,) = bridged.actions.take()
    assert (action.action, action.key, action.operator.user) == ("shut down", "mom", "alice")


async def test_no_other_user_shuts_it_down(bridged: Rest) -> None:
    refused = await bridged.bob.post("/shutdown", json={"name": "mom"})
    assert (refused.status_code, refused.json()["right"]) == (403, "administer")
    assert not bridged.shut_downs
