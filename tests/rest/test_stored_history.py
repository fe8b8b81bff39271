"""The history of destinations that the data pipeline has stored, over REST."""

from __future__ import annotations

import time
from typing import Any

import pytest

from broker_app.net.rest.destinations.stored_history import LONGEST_S
from broker_app.telemetry.pipeline_store import COLUMNS, StoredHistory
from tests.rest.conftest import Rest

NOON = 1_795_608_000


def stored(steps: int = 2) -> StoredHistory:
    series: dict[str, list[float | None]] = {name: [1.5] * steps for name in COLUMNS}
    return StoredHistory(NOON, 60, series, NOON, NOON + 3600)


async def test_the_reply_has_columns_and_shows_what_is_stored(rest: Rest) -> None:
    rest.pipeline.stored = stored()
    reply = await rest.alice.get("/queues/orders/history")
    assert reply.status_code == 200, reply.text
    found = reply.json()
    assert (found["name"], found["t0"], found["step_s"]) == ("orders", NOON, 60)
    assert set(found["series"]) == set(COLUMNS)
    assert (found["stored_from"], found["stored_to"]) == (
        "2026-11-25T12:00:00.000Z", "2026-11-25T13:00:00.000Z",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("query", "step_s", "steps"),
    [
        ({}, 60, 1440),
        ({"window_s": 3600, "step_s": 300}, 300, 12),
        ({"window_s": 3601, "step_s": 61}, 120, 31),
        ({"window_s": LONGEST_S}, 5400, 1440),
    ],
)
async def test_steps_are_whole_minutes_and_not_too_many(
    rest: Rest, query: dict[str, Any], step_s: int, steps: int
) -> None:
    before = time.time()
    reply = await rest.alice.get("/topics/news/history", params=query)
    ((broker, address, t0, *asked),) = rest.pipeline.asked
    assert (broker, address, asked) == ("mom", "/topic/news", [step_s, steps])
    assert t0 % step_s == 0 and t0 + (steps - 1) * step_s <= time.time()
    assert before < t0 + steps * step_s
    found = reply.json()
    assert len(found["series"]["in"]) == steps
    assert (set(found["series"]["computed"]), found["stored_from"]) == ({0}, None)


@pytest.mark.parametrize("query", [{"window_s": 59}, {"window_s": LONGEST_S + 1}, {"step_s": 0}, {"a": 1}])
async def test_a_wrong_request_is_refused(rest: Rest, query: dict[str, Any]) -> None:
    assert (await rest.alice.get("/queues/orders/history", params=query)).status_code == 400


async def test_it_needs_the_right_to_browse(bridged: Rest) -> None:
    """Bob may browse what waits for orders, and not what waits for bills."""
    replies = [
        await bridged.bob.get("/queues/history", params={"queue": f"storeAndForward:west/queue/{queue}"})
        for queue in ("orders", "bills", "other")
    ]
    assert [reply.status_code for reply in replies] == [200, 200, 403]
    assert (await bridged.anonymous.get("/queues/orders/history")).status_code == 401
